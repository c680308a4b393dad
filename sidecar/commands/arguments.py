"""The arguments of every command: what may be said, what it means, and what ``--help`` teaches about it.

Loaded only where a start is not a plain one (:mod:`sidecar.cli`); decides nothing beyond what was said.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from sidecar import __version__

__all__ = ["make_parser", "parse"]

_IDLE_EXIT_S = 600.0
_IDLE_EXIT_MAX_S = 7 * 24 * 3600
_LEVELS = ("debug", "info", "warning", "error")

_MAIN = """\
start here:
  sidecar demo                     see it work on the folder you are in
  sidecar chat                     talk to it in the terminal
  sidecar run "where is X parsed"  one question, the answer on stdout
  sidecar doctor                   what was found here, and what to set

an editor starts one of these:
  sidecar                          the daemon on stdin and stdout
  sidecar acp                      the same for agent panels
  sidecar serve --shared           one daemon for all editors of this user

Without a model configured it uses offline-1, a built-in model that needs
neither key nor network: it finds and cites, it does not reason.

environment:
  INDUSAGI_HOME   where sessions, settings and logs are kept (~/.pindusagi)
  NO_COLOR        set to anything: no colours

exit codes: 0 done, 1 it failed, 2 the command line or a file is wrong,
130 interrupted with Ctrl-C.
"sidecar COMMAND --help" says more of each."""

_SERVE = """\
examples:
  sidecar                                  what an editor starts
  sidecar serve --shared                   one daemon for several windows
  sidecar serve --log debug 2>sidecar.log  see what it does
  sidecar serve --shared --daemon --listen 127.0.0.1:0
                                           a loopback port too, with a token

It ends with its client: end of input, SIGTERM, or the end of the process that
started it. Nothing but the protocol is written to stdout. What it logs goes to
stderr, that of a shared daemon to run/daemon.log in the state directory, where
run/tcp.json has the port and the token (INDUSAGI_HOME, else ~/.pindusagi).

exit codes: 0 the client has asked it to shut down, or SIGTERM; 1 any other end;
2 wrong arguments."""

_ACP = """\
A panel starts it by itself, once it is told the command "sidecar" with the
argument "acp"; editors/zed and editors/jetbrains have such settings. By hand:
  hello='{"jsonrpc":"2.0","id":0,"method":"initialize",'
  echo "$hello"'"params":{"protocolVersion":1}}' | sidecar acp

exit codes: 0 the panel has closed its end, or SIGTERM; 1 any other end."""

_DEMO = """\
examples:
  sidecar demo               on the folder you are in
  sidecar demo ~/my-project  on another

It starts a daemon with a state directory of its own, which it removes. It needs
three text files of 400 to 9,000 bytes. One of them gets a line on disk for a
moment: afterwards its bytes and times are as before, after Ctrl-C too.

exit codes: 0 all of it truly happened, 1 something did not, 2 the folder will
not do, 130 interrupted."""

_CHAT = """\
examples:
  sidecar chat                      a new conversation about this folder
  sidecar chat --resume             go on with the newest of this folder
  sidecar chat --resume 5c98f       go on with any of "sidecar sessions"
  sidecar chat --model ollama:qwen3

Ctrl-C stops the answer that is being given, a second one leaves; so do Ctrl-D
and /quit. /help lists what else there is. Edits, commands and what lies outside
the folder are asked for first.

exit codes: 0 left, 1 the daemon failed, 2 wrong arguments or no such session,
130 left with Ctrl-C."""

_RUN = """\
examples:
  sidecar run "what is in README.md?"
  git diff | sidecar run "what does this change?" -
  sidecar run --json "where is main defined?" | jq .kind
  sidecar run --yes 'run `make test`'

The answer goes to stdout, what is done for it to stderr. The conversation is
stored; "sidecar chat --resume" goes on with it. Ctrl-C stops the turn, a second
one leaves at once.

exit codes: 0 answered, 1 the turn failed, 2 wrong arguments or an empty prompt,
130 stopped with Ctrl-C."""

_COMPACT = """\
examples:
  sidecar compact --preview talk.json        what it would do; writes nothing
  sidecar compact talk.json >shorter.jsonl   condense it
  sidecar compact --window 8000 talk.json    so that it fits a small window

exit codes: 0 condensed, 1 the output could not be written, 2 the file could not
be read, 3 nothing to do."""

_SESSIONS = """\
examples:
  sidecar sessions                 all of them
  sidecar sessions parser          those with "parser" in the title
  sidecar sessions --cwd .         those of this folder
  sidecar sessions --json | jq -r .sid

They are files in sessions/ of the state directory (INDUSAGI_HOME, else
~/.pindusagi), one a session. When piped: session, last used, turns, tokens,
title and folder, with tabs between.

exit codes: 0 listed, also when there are none; 1 the daemon failed; 2 there is
no such folder."""

_DOCTOR = """\
exit codes: 0 all is well, 1 something is not: what, and what to do, is in red."""

_SCHEMA = """\
examples:
  sidecar schema --format markdown | less     the reference, to read
  sidecar schema --out protocol               all three forms as files
  sidecar schema --format ts > protocol.ts

exit codes: 0 written, 1 the files could not be written, 2 wrong arguments."""


if TYPE_CHECKING:
    _Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read on, in place of all that could be said."""
        self.exit(2, f'{self.prog}: {message}\n"{self.prog} --help" says what there is\n')


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of one command. Leaves the process with help or with what is wrong."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.command == "serve":
        _check_serve(parser, options)
    return options


def _check_serve(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.daemon and not options.shared:
        parser.error("--daemon goes with --shared")
    if options.listen and not options.daemon:
        parser.error("--listen goes with --shared --daemon: a daemon that runs already cannot be told")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; ``command`` of what it finds is the name of the command."""
    parser = _Parser(
        prog="sidecar",
        description="A daemon beside the editor that hosts agent conversations.",
        epilog=_MAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sidecar {__version__}")
    # With its name given, argparse does not load what measures the terminal.
    commands = parser.add_subparsers(prog="sidecar", dest="command", required=True, metavar="COMMAND")
    for add in (_demo, _chat, _run, _sessions, _compact, _doctor, _schema, _serve, _acp):
        add(commands)
    return parser


def _add(commands: _Commands, name: str, summary: str, description: str, epilog: str) -> _Parser:
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _serve(commands: _Commands) -> None:
    said = "Run the daemon on stdin and stdout until its client leaves. What the client says\nfirst tells "
    said += "whether it speaks the Language Server Protocol or the Agent Client\nProtocol."
    serve = _add(commands, "serve", "run the daemon, as an editor does; the default", said, _SERVE)
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
        default=_IDLE_EXIT_S,
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


def _acp(commands: _Commands) -> None:
    said = "Run the daemon as an agent of the Agent Client Protocol on stdin and stdout, one\nJSON object a "
    said += "line, until its client closes its end."
    _add_log(_add(commands, "acp", "run it for panels that speak the Agent Client Protocol", said, _ACP))


def _add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        metavar="LEVEL",
        type=str.lower,
        choices=_LEVELS,
        default="warning",
        help="what goes to stderr: debug, info, warning or error (warning)",
    )


def _demo(commands: _Commands) -> None:
    said = "Show the main job on the real files of a folder, each step checked: unsaved text\nis seen first, "
    said += "a compaction brings files back as they are now, undo, and kill -9\nloses nothing."
    demo = _add(commands, "demo", "see it work on a folder", said, _DEMO)
    demo.add_argument("folder", nargs="?", default=".", help="where to work (here)")


def _chat(commands: _Commands) -> None:
    chat = _add(commands, "chat", "talk to it in the terminal", "Talk to it in the terminal.", _CHAT)
    _add_session_choices(chat)
    chat.add_argument(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const="last",
        help="go on with a stored session: how its id begins, or nothing for the newest of the folder",
    )


def _run(commands: _Commands) -> None:
    run = _add(commands, "run", "one prompt, the answer on stdout", "Answer one prompt.", _RUN)
    run.add_argument("prompt", nargs="+", help='the prompt; "-" stands for what is piped in')
    _add_session_choices(run)
    run.add_argument("--json", action="store_true", help="print every event as one JSON object a line")
    run.add_argument("--yes", action="store_true", help="allow whatever the tools ask for")


def _add_session_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", default=".", metavar="FOLDER", help="where to work (here)")
    parser.add_argument("--model", metavar="NAME", help="which model answers (offline-1)")
    parser.add_argument("--engine", metavar="NAME", help="which engine compacts (windowBudget)")


def _compact(commands: _Commands) -> None:
    said = "Condense a stored session (.jsonl) or a JSON array of chat messages, without a\nmodel. The "
    said += "condensed turns go to stdout, one JSON object a line; the file stays\nas it is."
    compact = _add(commands, "compact", "condense a conversation in a file", said, _COMPACT)
    compact.add_argument("file", help="the file")
    compact.add_argument(
        "--window", type=_tokens, default=32_000, metavar="TOKENS", help="to fit this (32000)"
    )
    compact.add_argument("--preview", action="store_true", help="only say what it would do")


def _tokens(text: str) -> int:
    """Return *text* as a number of tokens. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1_000 <= int(text) <= 100_000_000:
        raise argparse.ArgumentTypeError(f"{text} is no number of tokens from 1000 to 100000000")
    return int(text)


def _sessions(commands: _Commands) -> None:
    said = "List the stored sessions, the newest first."
    sessions = _add(commands, "sessions", "list the stored sessions, newest first", said, _SESSIONS)
    sessions.add_argument("query", nargs="?", help="only those whose title has these words")
    sessions.add_argument("--cwd", metavar="FOLDER", help="only those of a folder")
    sessions.add_argument("--json", action="store_true", help="one JSON object a line")


def _doctor(commands: _Commands) -> None:
    said = "Say what was found on this machine and what to set: versions, the state\ndirectory, models and "
    said += "keys, a shared daemon,\nand whether a daemon starts and answers."
    _add(commands, "doctor", "say what was found on this machine and what to set", said, _DOCTOR)


def _schema(commands: _Commands) -> None:
    said = "Print the protocol, or write it into a folder: all its forms, or one."
    schema = _add(commands, "schema", "print the protocol", said, _SCHEMA)
    forms = ("jsonschema", "ts", "markdown")
    schema.add_argument("--format", choices=forms, help="the form (jsonschema; with --out all of them)")
    schema.add_argument("--out", metavar="DIR", help="write files there")
