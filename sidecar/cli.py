"""The command line: arguments in, exit code out. Each command's own module is loaded when it is called.

An editor waits for a daemon to start: the ways in which editors start one are understood here, and the parser
of everything else is not even loaded for them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main"]

_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
"""What shells report of a program that wrote to a reader who had left."""

_CLIENT: Final = "--clientProcessId="
_PLAIN: Final[dict[str, dict[str, object]]] = {
    "acp": {"command": "acp", "log": "warning"},
    "serve": {
        "command": "serve",
        "stdio": False,
        "client_process_id": None,
        "shared": False,
        "daemon": False,
        "idle_exit": 600.0,
        "listen": None,
        "log": "warning",
    },
}
"""What the parser makes of these commands alone; a test compares them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. Whatever happens, the user sees words and no stack trace."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except RuntimeError as error:
        if "home directory" not in str(error):  # how pathlib says that ~somebody is nobody
            raise
        sys.stderr.write("sidecar: ~ leads nowhere; name a whole path, in INDUSAGI_HOME or as an argument\n")
        return 2
    except BrokenPipeError:
        _let_go_of_stdout()
        return _BROKEN_PIPE
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        sys.stderr.write(f"sidecar: the system refused{where}: {error.strerror or error}\n")
        sys.stderr.flush()
        _let_go_of_stdout()
        return 1


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] == "--stdio" or arguments[0].startswith("--clientProcessId"):
        arguments.insert(0, "serve")
    options = plain_options(arguments) or _parsed(arguments)
    command = import_module(f"sidecar.commands.{_module_of(options)}")
    code = int(command.run(options))
    if sys.stdout is not None:
        sys.stdout.flush()  # here, where a reader who has left is not a stack trace
    return code


def plain_options(arguments: Sequence[str]) -> Namespace | None:
    """Return the options of a start as editors make it, None for any other.

    >>> plain_options(["serve", "--stdio", "--clientProcessId=7"]).client_process_id
    7
    >>> plain_options(["serve", "--listen", "127.0.0.1:0"]) is None
    True
    """
    command, *flags = arguments
    if command not in _PLAIN or (flags and command != "serve"):
        return None
    options: Namespace = SimpleNamespace(**_PLAIN[command])  # type: ignore[assignment]  # the part of one
    for flag in flags:
        if flag in ("--stdio", "--shared"):
            setattr(options, flag[2:], True)
        elif flag.startswith(_CLIENT) and flag[len(_CLIENT) :].isdecimal():
            options.client_process_id = int(flag[len(_CLIENT) :])
        else:
            return None
    return options


def _parsed(arguments: Sequence[str]) -> Namespace:
    from sidecar.commands.arguments import parse

    return parse(arguments)


def _module_of(options: Namespace) -> str:
    """Return the module that runs the command; a shim must not even load what a daemon needs."""
    if options.command != "serve" or not options.shared:
        return str(options.command)
    return "shared" if options.daemon else "shim"


def _let_go_of_stdout() -> None:
    """Write what is still to be written nowhere, so that the interpreter does not fail at it in the end."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
