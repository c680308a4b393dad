"""The command line: arguments in, exit code out. The module of a command is loaded when it is called.

An editor waits for a daemon to start. So the usual forms of that start are understood here, and the parser of
all other command lines is not loaded for them.
"""

from __future__ import annotations

# The first of all: it looks which process is the parent, as long as there is one.
import sidecar.transport.processes  # noqa: F401  # isort: skip
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
    from argparse import Namespace
    from typing import Final

_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
"""The exit code that shells report for a program that wrote to a closed pipe."""

_CLIENT: Final = "--clientProcessId="
_DEFAULTS: Final[dict[str, dict[str, object]]] = {
    "acp": {"command": "acp", "log": "warning"},
    "serve": {
        "command": "serve",
        "stdio": False,
        "client_process_id": None,
        "shared": False,
        "daemon": False,
        "join": None,
        "idle_exit": 600.0,
        "listen": None,
        "log": "warning",
    },
    "shim": {
        "command": "shim",
        "client_process_id": None,
        "join": None,
        "idle_exit": 600.0,
        "log": "warning",
    },
}
"""The parser's results for these commands without arguments; a test compares the two."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Expected errors are messages, without a stack trace."""
    try:
        arguments = list(sys.argv[1:] if argv is None else argv)
        if not arguments and sys.stdin is not None and sys.stdin.isatty():
            arguments = ["chat"]  # nobody types the protocol
        if not arguments or arguments[0] == "--stdio" or arguments[0].startswith("--clientProcessId"):
            arguments.insert(0, "serve")
        options = plain_options(arguments)
        if options is None:
            from sidecar.commands.arguments import parse

            options = parse(arguments)
        code = int(import_module(f"sidecar.commands.{choose_module(options)}").run(options))
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a closed pipe does not become a stack trace
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except RuntimeError as error:
        if "home directory" not in str(error):  # pathlib's message for a ~ of an unknown user
            raise
        sys.stderr.write("sidecar: ~ has no home folder here; use a whole path in INDUSAGI_HOME\n")
        return 2
    except ImportError as error:
        from sidecar._internal.loading import reinstall_command

        what = f"sidecar: a part of the installation cannot be loaded: {error}"
        sys.stderr.write(f"{what}\ninstall it again with: {reinstall_command()}\n")
        return 1
    except BrokenPipeError:
        _redirect_stdout_to_nothing()
        return _BROKEN_PIPE
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        what = f"{path}{error.strerror or error}"
        try:
            os.getcwd()
        except FileNotFoundError:
            what = "the current folder is gone; use cd first"
        sys.stderr.write(f"sidecar: {what}\n")
        sys.stderr.flush()
        _redirect_stdout_to_nothing()
        return 1


def choose_module(options: Namespace) -> str:
    """Return the module of a command; a shim must not even load the modules of a daemon."""
    if options.command == "serve" and options.shared:
        return "shared" if options.daemon else "shim"
    return "serve" if options.command == "acp" else str(options.command)


def plain_options(arguments: Sequence[str]) -> Namespace | None:
    """Return the options of a start as editors write it, None for any other command line.

    >>> plain_options(["serve", "--stdio", "--clientProcessId=7"]).client_process_id
    7
    >>> plain_options(["serve", "--listen", "127.0.0.1:0"]) is None
    True
    """
    command, *flags = arguments
    if command not in _DEFAULTS or (flags and command != "serve"):
        return None
    options: Namespace = SimpleNamespace(**_DEFAULTS[command])  # type: ignore[assignment]  # has its attributes
    for flag in flags:
        if flag in ("--stdio", "--shared"):
            setattr(options, flag[2:], True)
        elif flag.startswith(_CLIENT) and flag[len(_CLIENT) :].isdecimal():
            options.client_process_id = int(flag[len(_CLIENT) :])
        else:
            return None
    return options


def _redirect_stdout_to_nothing() -> None:
    """Discard the buffered output, so that the interpreter does not fail to write it at its end.

    In a daemon, standard output is standard error and holds the message, which stays.
    """
    if sys.stdout is not None and sys.stdout is not sys.stderr:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
