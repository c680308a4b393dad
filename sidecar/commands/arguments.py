"""The arguments of every command, and the help texts.

Loaded only for a command line that :mod:`sidecar.cli` does not understand by itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

from sidecar import __version__
from sidecar.commands import help_texts

_IDLE_EXIT_S = 600.0
_IDLE_EXIT_MAX_S = 7 * 24 * 3600

_Argument: TypeAlias = tuple[tuple[str, ...], dict[str, Any]]


def _arg(*names: str, **options: Any) -> _Argument:
    return names, options


class _Command(NamedTuple):
    """One command: its line in the list of commands, its own help, and its arguments."""

    name: str
    summary: str
    description: str
    epilog: str
    arguments: tuple[_Argument, ...] = ()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Leave with *message* and a hint, instead of the whole usage."""
        self.exit(2, f'{self.prog}: {message}\n"{self.prog} --help" lists the arguments\n')


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of one command. Leaves the process with help or with an error message."""
    options, unknown = make_parser().parse_known_args(arguments)
    parser = vars(options).pop("parser")
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command == "serve":
        if options.daemon and not options.shared:
            parser.error("--daemon needs --shared")
        if options.join is not None and (options.daemon or not options.shared):
            parser.error("--join needs --shared, without --daemon")
        if options.listen and not options.daemon:
            parser.error("--listen needs --shared --daemon: a daemon that is running cannot be changed")
    if options.command == "run" and options.json and options.stream_json:
        parser.error("give --json or --stream-json, not both")
    if options.command == "run" and options.ephemeral and options.resume:
        parser.error("give --ephemeral or --resume, not both")
    if options.command == "sessions":
        given = [
            name for name in ("rename", "delete", "search", "export", "import_file") if getattr(options, name)
        ]
        if len(given) > 1:
            parser.error("give one of --rename, --delete, --search, --export and --import")
        moves = options.query in ("push", "pull")
        if moves != (options.host is not None):
            parser.error(
                f"to move a session: sidecar sessions {options.query if moves else 'push'} HOST [SESSION]"
            )
        if (options.query == "copy") != (options.to is not None):
            parser.error("to copy the sessions: sidecar sessions copy --to postgresql://..., or --to files")
    return options


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Of its results ``command`` is the name of a command, and ``parser`` the parser of its arguments.
    """
    parser = _Parser(
        prog="sidecar",
        description="A daemon beside the editor that hosts agent conversations.",
        epilog=help_texts.MAIN,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sidecar {__version__}")
    # With its name given, argparse does not load the module that measures the terminal.
    parsers = parser.add_subparsers(prog="sidecar", dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        added = parsers.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for names, options in command.arguments:
            added.add_argument(*names, **options)
        added.set_defaults(parser=added)
    return parser


def parse_seconds(text: str) -> float:
    """Return *text* as a time. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _IDLE_EXIT_MAX_S:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 to {_IDLE_EXIT_MAX_S}")
    return seconds


def parse_tokens(text: str) -> int:
    """Return *text* as a number of tokens. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1_000 <= int(text) <= 100_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number of tokens from 1000 to 100000000")
    return int(text)


def parse_count(text: str) -> int:
    """Return *text* as a number from 1 on. Raises ArgumentTypeError."""
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 1000000")
    return int(text)


_CLIENT = _arg(
    "--clientProcessId",
    dest="client_process_id",
    type=int,
    metavar="PID",
    help="end when this process ends",
)
_LOG = _arg(
    "--log",
    metavar="LEVEL",
    type=str.lower,
    choices=("debug", "info", "warning", "error"),
    default="warning",
    help="the least level for stderr: debug, info, warning or error (warning)",
)
_MODES = ("ask", "allowEdits", "plan", "allowAll")
_SESSION = (
    _arg("--cwd", default=".", metavar="FOLDER", help="the folder to work in (the current one)"),
    _arg("--model", metavar="NAME", help="the model that answers (offline-1)"),
    _arg("--engine", metavar="NAME", help="the engine that compacts (windowBudget)"),
    _arg("--permissions", metavar="MODE", choices=_MODES, help=f"when to ask: {', '.join(_MODES)} (ask)"),
)
_COMMANDS = (
    _Command(
        name="demo",
        summary="a demonstration on a folder",
        description="Show the main features on the files of a folder, each step checked: unsaved text\n"
        "is seen first, a compaction restores files as they are now, undo, and kill -9\nloses nothing.",
        epilog=help_texts.DEMO,
        arguments=(_arg("folder", nargs="?", default=".", help="the folder to use (the current one)"),),
    ),
    _Command(
        name="chat",
        summary="a conversation in the terminal, the default there",
        description="Hold a conversation in the terminal.",
        epilog=help_texts.CHAT,
        arguments=(
            *_SESSION,
            _arg(
                "--resume",
                metavar="SESSION",
                nargs="?",
                const="last",
                help="continue a stored session: the start of its id, or nothing for the folder's newest one",
            ),
            _arg(
                "--plain", action="store_true", help="line by line, as for screen readers and dumb terminals"
            ),
        ),
    ),
    _Command(
        name="panel",
        summary="a conversation in the browser",
        description="Serve the panel to this machine alone, and open it in the browser.",
        epilog=help_texts.PANEL,
        arguments=(
            _arg(
                "session", nargs="?", default="", help='the start of its id, or "last" (choose in the panel)'
            ),
            _SESSION[0],
            _arg("--no-open", action="store_true", help="print the address and open no browser"),
        ),
    ),
    _Command(
        name="run",
        summary="one prompt, the answer on stdout",
        description="Answer one prompt.",
        epilog=help_texts.RUN,
        arguments=(
            _arg("prompt", nargs="*", help='the prompt; "-", or none at all, stands for the piped input'),
            *_SESSION,
            _arg(
                "--resume",
                metavar="SESSION",
                help='continue a stored session: the start of its id, or "last"',
            ),
            _arg("--json", action="store_true", help="print the result as one JSON object"),
            _arg("--stream-json", action="store_true", help="print every event as JSON, then the result"),
            _arg(
                "--output-schema",
                metavar="FILE",
                help="a JSON Schema, or a file with one: the answer is JSON that matches it",
            ),
            _arg("--max-turns", metavar="N", type=parse_count, help="end it when the model needs more calls"),
            _arg(
                "--budget",
                metavar="AMOUNT",
                help="end it before a call that costs more: 0.50usd, 200k (tokens), 5usd per day",
            ),
            _arg(
                "--allow",
                metavar="RULE",
                action="append",
                default=[],
                help="allow such actions of tools, as in 'npm run *'; may be repeated",
            ),
            _arg("--yes", action="store_true", help="allow every request of a tool"),
            _arg("--require-model", action="store_true", help="fail where only offline-1 would answer"),
            _arg("--ephemeral", action="store_true", help="do not store the conversation"),
        ),
    ),
    _Command(
        name="sessions",
        summary="list, search, rename, move and delete the stored sessions",
        description="List or search the stored sessions, the newest first; or rename, delete,\n"
        "export, import, copy or move some.",
        epilog=help_texts.SESSIONS,
        arguments=(
            _arg("query", nargs="?", help="only sessions whose title has these words; or push, pull, copy"),
            _arg("host", nargs="?", help='with "push" and "pull": the other machine, as "ssh" takes it'),
            _arg("session", nargs="?", help="the session to move: the start of its id (the one used last)"),
            _arg("--cwd", metavar="FOLDER", help="only sessions of this folder"),
            _arg("--children", action="store_true", help="list sub-agents, too, below their sessions"),
            _arg("--json", action="store_true", help="print one line of JSON for each session"),
            _arg("--watch", action="store_true", help="show live which of them work and which wait for you"),
            _arg("--rename", nargs=2, metavar=("SESSION", "TITLE"), help="give a session a title"),
            _arg("--delete", metavar="SESSION", help="remove a session for good, after a question"),
            _arg("--yes", action="store_true", help="with --delete: do not ask"),
            _arg("--search", metavar="WORDS", help="only sessions whose conversation has these words"),
            _arg("--export", metavar="SESSION", help='write a session as Markdown, as "sidecar export" does'),
            _arg(
                "--import",
                dest="import_file",
                metavar="FILE",
                help='import a session of another agent, as "sidecar import" does',
            ),
            _arg(
                "--sidecar",
                metavar="COMMAND",
                default="sidecar",
                help='with "push" and "pull": the program on the other machine (sidecar)',
            ),
            _arg("--to", metavar="PLACE", help='with "copy": an address postgresql://..., or "files"'),
            _arg(
                "--from",
                dest="source",
                metavar="PLACE",
                help='with "copy": where they are (in use)',
            ),
        ),
    ),
    _Command(
        name="database",
        summary="make the tables of a database for sessions",
        description="Make the tables for sessions in a PostgreSQL database, bring them up to\n"
        "date, and give the roles of daemons their rights.",
        epilog=help_texts.DATABASE,
        arguments=(
            _arg("action", choices=("init",), help="make what is missing"),
            _arg("address", help="postgresql://..., with the role of an administrator"),
            _arg(
                "--role",
                metavar="ROLE",
                action="append",
                default=[],
                help="a role that daemons connect with; may be repeated",
            ),
        ),
    ),
    _Command(
        name="permissions",
        summary="what runs without a question, and why",
        description="List the permission rules, or say whether one command runs, asks or is refused.",
        epilog=help_texts.PERMISSIONS,
        arguments=(
            _arg(
                "action", nargs="?", choices=("test",), help="judge one command; without it, list the rules"
            ),
            _arg("line", nargs="?", help='the command, or "edit: PATH" for a change of a file'),
            _arg("--cwd", default=".", metavar="FOLDER", help="the folder of the session (the current one)"),
            _arg("--mode", choices=_MODES, default="ask", help="the mode of the session (ask)"),
        ),
    ),
    _Command(
        name="import",
        summary="continue a session of another agent",
        description="List the sessions of other agents on this machine, or import one of them.",
        epilog=help_texts.IMPORT,
        arguments=(
            _arg("source", nargs="?", metavar="FILE|SESSION", help="a file, or the start of a listed id"),
            _arg("--id", metavar="ID", help="the session inside a file that holds several"),
            _arg("--format", metavar="NAME", help="the agent that wrote it (recognised)"),
            _arg("--title", metavar="TEXT", help="the title of the new session (the recorded one)"),
            _arg("--cwd", metavar="FOLDER", help="the folder to work in (the recorded one)"),
            *_SESSION[1:],
            _arg("--json", action="store_true", help="print JSON: a line for each session, or the report"),
        ),
    ),
    _Command(
        name="export",
        summary="write a session as text or for another agent",
        description="Write a stored session as text, as JSON, or in the form of another agent.",
        epilog=help_texts.EXPORT,
        arguments=(
            _arg("session", help='the start of its id, or "last" for the newest of this folder'),
            _arg(
                "--format",
                choices=("markdown", "jsonl", "json", "claude-code", "codex"),
                default="markdown",
                help="the form (markdown)",
            ),
            _arg(
                "--all", action="store_true", help="also what was compacted away, not only the present view"
            ),
            _arg("--out", metavar="FILE", help="a new file to write (standard output)"),
        ),
    ),
    _Command(
        name="compact",
        summary="condense a conversation in a file",
        description="Compact a stored session (.jsonl), chat messages, or a session of another\n"
        "agent as sessions are compacted: with the same engines, preview and loss\n"
        "report. The compacted turns go to stdout, one JSON object on each line; the file\n"
        "is not changed.",
        epilog=help_texts.COMPACT,
        arguments=(
            _arg("file", help="the file"),
            _arg(
                "--window",
                type=parse_tokens,
                metavar="TOKENS",
                help="the window that the result must fit (32000, or that of --model)",
            ),
            _arg("--engine", metavar="NAME", help="the engine that compacts (windowBudget)"),
            _arg("--model", metavar="NAME", help="a model that writes a summary above the rest (none)"),
            _arg("--preview", action="store_true", help="only show the effect"),
        ),
    ),
    _Command(
        name="doctor",
        summary="a report about this machine and its settings",
        description="Report about this machine and its settings: versions, the state directory,\n"
        "models and keys, a shared daemon, and whether a daemon starts and answers.",
        epilog=help_texts.DOCTOR,
        arguments=(
            _arg(
                "--live",
                action="store_true",
                help="ask each configured model one question: what it says, how long it takes, what it costs",
            ),
            _arg("--fix", action="store_true", help="offer to install what a key needs, or to log in"),
        ),
    ),
    _Command(
        name="login",
        summary="set up a model of a provider",
        description="Store the key of a provider, install what it needs, and ask a model once.",
        epilog=help_texts.LOGIN,
        arguments=(
            _arg("provider", nargs="?", help="the provider (choose one of a list)"),
            _arg("--remove", action="store_true", help="remove its key instead"),
        ),
    ),
    _Command(
        name="schema",
        summary="print the protocol",
        description="Print the protocol, or write it into a folder, in all its forms or in one.",
        epilog=help_texts.SCHEMA,
        arguments=(
            _arg(
                "--format",
                choices=("jsonschema", "ts", "markdown"),
                help="the form (jsonschema; with --out all of them)",
            ),
            _arg("--out", metavar="DIR", help="the folder to write files into"),
        ),
    ),
    _Command(
        name="serve",
        summary="run the daemon, as an editor does; the default in a pipe",
        description="Run the daemon on stdin and stdout until its client leaves. The client's first\nmessage "
        "selects the Language Server Protocol or the Agent Client Protocol.",
        epilog=help_texts.SERVE,
        arguments=(
            _arg("--stdio", action="store_true", help="speak on stdin and stdout; the default"),
            _CLIENT,
            _arg(
                "--shared",
                action="store_true",
                help="share one daemon with other editors; it is started when it is not running",
            ),
            _arg("--daemon", action="store_true", help="with --shared: be that daemon, in the foreground"),
            _arg(
                "--join",
                type=int,
                metavar="PID",
                help="with --shared: the daemon of this process, which has a session open, instead",
            ),
            _arg(
                "--idle-exit",
                type=parse_seconds,
                default=_IDLE_EXIT_S,
                metavar="SECONDS",
                help="with --shared: how long a new daemon stays without clients and work (600)",
            ),
            _arg(
                "--listen",
                metavar="HOST:PORT",
                help="with --daemon: a loopback address too, for clients with the token",
            ),
            _LOG,
        ),
    ),
    _Command(
        name="shim",
        summary="join the shared daemon of this machine, for a client here or over SSH",
        description="Join stdin and stdout to the shared daemon, which is started when it is not running;\n"
        'the same as "serve --shared". A client on another machine runs it by SSH.',
        epilog=help_texts.SHIM,
        arguments=(
            _arg(
                "--join",
                type=int,
                metavar="PID",
                help="the daemon of this process, which has a session open, instead",
            ),
            _arg(
                "--idle-exit",
                type=parse_seconds,
                default=_IDLE_EXIT_S,
                metavar="SECONDS",
                help="how long a new daemon stays without clients and work (600)",
            ),
            _CLIENT,
            _LOG,
        ),
    ),
    _Command(
        name="acp",
        summary="run the daemon for Agent Client Protocol panels",
        description="Run the daemon as an agent of the Agent Client Protocol on stdin and stdout, one\nJSON "
        "object on each line, until its client closes its end.",
        epilog=help_texts.ACP,
        arguments=(_LOG,),
    ),
)
