"""The arguments of every command: what may be said, what it means, and the help.

Loaded only where a start is not a plain one (:mod:`sidecar.cli`); decides nothing beyond what was said.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from sidecar import __version__

__all__ = ["parse"]

_IDLE_EXIT_MAX_S = 7 * 24 * 3600

_EPILOG = """\
examples:
  sidecar                          the daemon, as an editor starts it, on stdin and stdout
  sidecar acp                      the same as an agent for panels that speak the Agent Client Protocol
  sidecar demo                     see it work on the folder you are in, in ten seconds
  sidecar chat                     talk to it in the terminal
  sidecar run "where is X parsed"  one question, the answer on stdout
  sidecar sessions                 what is stored, newest first

Without a model configured it uses offline-1, a built-in model that needs no network: it finds and cites, it
does not reason. State lives in ~/.pindusagi; INDUSAGI_HOME names another folder."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of one command. Leaves the process with help or with what is wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "serve":
        _check_serve(parser, options)
    return options


def _check_serve(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.daemon and not options.shared:
        parser.error("--daemon goes with --shared")
    if options.listen and not options.daemon:
        parser.error("--listen goes with --shared --daemon: a daemon that runs already cannot be told")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sidecar",
        description="A daemon beside the editor that hosts agent conversations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sidecar {__version__}")
    # With its name given, argparse does not load what measures the terminal.
    commands = parser.add_subparsers(prog="sidecar", dest="command", required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_acp(commands)
    _add_demo(commands)
    _add_chat(commands)
    _add_run(commands)
    _add_compact(commands)
    _add_sessions(commands)
    _add_doctor(commands)
    _add_schema(commands)
    return parser


if TYPE_CHECKING:
    _Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_serve(commands: _Commands) -> None:
    serve = commands.add_parser(
        "serve",
        help="run the daemon (the default)",
        description="Run the daemon on stdin and stdout, until its client leaves. What the client says first "
        "tells whether it speaks the Language Server Protocol or the Agent Client Protocol.",
    )
    serve.add_argument("--stdio", action="store_true", help="speak on stdin and stdout; the default")
    serve.add_argument(
        "--clientProcessId",
        dest="client_process_id",
        type=int,
        metavar="PID",
        help="leave when this process is gone",
    )
    serve.add_argument(
        "--shared",
        action="store_true",
        help="share one daemon with other editors; started when there is none",
    )
    serve.add_argument(
        "--daemon", action="store_true", help="with --shared: be that daemon, in the foreground"
    )
    serve.add_argument(
        "--idle-exit",
        type=_seconds,
        default=600.0,
        metavar="SECONDS",
        help="with --shared: how long a daemon started by this stays without clients and work (600)",
    )
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="with --daemon: a loopback address too, for clients with its token",
    )
    _add_log(serve)


def _seconds(text: str) -> float:
    """Return *text* as a time. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _IDLE_EXIT_MAX_S:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0 to {_IDLE_EXIT_MAX_S}")
    return seconds


def _add_acp(commands: _Commands) -> None:
    acp = commands.add_parser(
        "acp",
        help="run it as an agent for editors that speak the Agent Client Protocol",
        description="Run the daemon as an agent of the Agent Client Protocol on stdin and stdout, one JSON "
        "object a line, until its client closes its end.",
    )
    _add_log(acp)


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="LEVEL", default="warning", help="what goes to stderr (warning)")


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="see it work on a folder",
        description="Ask, edit, compact, undo, on the real files of a folder; what it changes it puts back. "
        "Exits with 1 when any of it did not truly happen.",
    )
    demo.add_argument("folder", nargs="?", default=".", help="where to work (here)")


def _add_chat(commands: _Commands) -> None:
    chat = commands.add_parser("chat", help="talk to it in the terminal")
    _add_session_choices(chat)
    chat.add_argument("--resume", metavar="SID", help="go on with a stored session")


def _add_run(commands: _Commands) -> None:
    run = commands.add_parser("run", help="one prompt, the answer on stdout")
    run.add_argument("prompt", help='the prompt; "-" reads it from stdin')
    _add_session_choices(run)
    run.add_argument("--json", action="store_true", help="print every event as one JSON object a line")
    run.add_argument("--yes", action="store_true", help="allow whatever the tools ask for")


def _add_session_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", default=".", metavar="FOLDER", help="where to work (here)")
    parser.add_argument("--model", metavar="NAME", help="which model answers (offline-1)")
    parser.add_argument("--engine", metavar="NAME", help="which engine compacts (windowBudget)")


def _add_compact(commands: _Commands) -> None:
    compact = commands.add_parser(
        "compact",
        help="condense a conversation in a file",
        description="Condense a stored session (.jsonl) or a JSON array of chat messages, without a model. "
        "The condensed turns go to stdout, one JSON object a line; the file stays as it is.",
    )
    compact.add_argument("file", help="the file")
    compact.add_argument("--window", type=int, default=32_000, metavar="TOKENS", help="to fit this (32000)")


def _add_sessions(commands: _Commands) -> None:
    sessions = commands.add_parser("sessions", help="list the stored sessions, newest first")
    sessions.add_argument("query", nargs="?", help="only those whose title has these words")
    sessions.add_argument("--cwd", metavar="FOLDER", help="only those of a folder")
    sessions.add_argument("--json", action="store_true", help="one JSON object a line")


def _add_doctor(commands: _Commands) -> None:
    commands.add_parser("doctor", help="say what was found on this machine and what to set")


def _add_schema(commands: _Commands) -> None:
    schema = commands.add_parser(
        "schema",
        help="print the protocol",
        description="Print the protocol, or write it into a folder: all its forms, or one.",
    )
    forms = ("jsonschema", "ts", "markdown")
    schema.add_argument("--format", choices=forms, help="the form (jsonschema; with --out all of them)")
    schema.add_argument("--out", metavar="DIR", help="write files there")
