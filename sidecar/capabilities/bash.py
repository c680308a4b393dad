"""The bash tool: one command in a shell, with permission, in bounds, and gone when it is over.

Processes that the command leaves running are ended with it. Its environment is that of the daemon without
variables that look like secrets; it has no standard input. Where a client lends its terminal it runs there,
in sight of the user.

The files that a command line names are kept before it changes them, and noted as read when it shows them.
Only files of the line itself count, inside the session's folders. A file counts as read where its lines stand
in the output as they are: the model has then seen them as the file has them now. A file that the model knew
whole, and that its own command changed by name, stays known: the reply shows the change.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Final

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.env import copy_environment
from sidecar._internal.secrets import is_secret_variable
from sidecar.capabilities.background import DAY_S, commands_of, note_of_move
from sidecar.capabilities.contract import (
    ConfinedCommand,
    PermissionQuestion,
    RunInTerminal,
    TerminalCommand,
    ToolContext,
    ToolReply,
)
from sidecar.capabilities.output import CommandOutput
from sidecar.capabilities.paths import display_path, require_permission, resolve_readable
from sidecar.capabilities.processes import ChildEnd, ChildSpec, run_child
from sidecar.capabilities.typed_tool import TypedTool, error_reply
from sidecar.permissions.access import CommandAccess
from sidecar.text.calls import RUNS_COMMAND
from sidecar.text.results import lines_shown
from sidecar.text.touches import Touch, use_of_line
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.files import require_resolved
from sidecar.workspace.paths import resolve_path

_PROGRESS_EVERY_S = 0.1
_PROGRESS_CAP = 8192
_NOTES_CHARS = 200
_CMD = "cmd.exe"
_TERMINAL_BYTES = 1024 * 1024

MAX_FILES: Final = 20
"""So many files of one line are looked at."""

_DIFF_CHARS: Final = 2_000


class BashArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the bash tool."""

    command: Annotated[str, msgspec.Meta(min_length=1, description="The command line.")]
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600, description="Seconds it may take.")] = 120
    cwd: Annotated[str, msgspec.Meta(description="The folder to run in.")] = "."
    background: Annotated[
        bool, msgspec.Meta(description="Do not wait for its end, such as for a server; see bash_output.")
    ] = False


async def run_command(arguments: BashArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Run the command with permission, and answer with its output and exit code."""
    cwd = await resolve_readable(context, arguments.cwd, "bash")
    confined = ConfinedCommand(shell_argv(arguments.command), allow_all_files)
    if context.confine is not None:
        confined = await context.confine(confined.argv, cwd, context.roots)
    folder = display_path(cwd, context.cwd)
    title = run_title(arguments.command, folder, in_background=arguments.background)
    question = PermissionQuestion(
        call_id=context.call_id,
        tool="bash",
        title=title if context.confine is None else f"{title} (in the sandbox)",
        subject="command",
        detail=arguments.command,
        access=CommandAccess(arguments.command, cwd, is_posix=runs_posix_shell()),
    )
    await require_permission(context, question)
    await asyncio.to_thread(require_resolved, cwd)
    environment = child_environment(copy_environment())
    if arguments.background:
        spec = ChildSpec(confined.argv, cwd, environment, DAY_S)
        command = commands_of(context).start(spec, arguments.command, context, take_back=confined.take_back)
        if context.checkpoints is not None:
            context.checkpoints.leave_uncovered(f"the background command {command.id}")
        return ToolReply(f"[{command.id} has been started in the background; bash_output shows its output]")
    keep_changed, moved = None, tuple[Path, ...]()
    known = await view_known_files(arguments.command, cwd, context)
    if context.checkpoints is not None:
        named = await find_changed_paths(arguments.command, cwd, context)
        keep_changed = await context.checkpoints.watch_command(named)
    try:
        try:
            reply = await run_in_foreground(confined.argv, arguments, cwd, environment, context, cancel)
        finally:
            moved = await confined.take_back()
        await note_files_shown(arguments.command, cwd, reply, context)
        before, newline, last = str(reply.output).rpartition("\n")
        notes = "".join(f"{note_of_move(path, context.cwd)}\n" for path in moved)
        notes += await show_own_changes(known, context)
        return replace(reply, output=f"{before}{newline}{notes}{last}")
    finally:
        if keep_changed is not None:
            await keep_changed()


async def allow_all_files() -> tuple[Path, ...]:
    """Move nothing away: outside of the sandbox the permission of a command covers all its files."""
    return ()


async def run_in_foreground(
    argv: Sequence[str],
    arguments: BashArguments,
    cwd: Path,
    environment: dict[str, str],
    context: ToolContext,
    cancel: CancelToken,
) -> ToolReply:
    """Run a command that was allowed, in the client's terminal or here, and return the reply at its end.

    Args:
        argv: the command of the shell, confined where that is asked for.
        arguments: the arguments of the call.
        cwd: the folder to run it in.
        environment: its variables.
        context: the surroundings of the call.
        cancel: ends it.
    """
    if context.terminal is not None:
        shown_to_user = await _run_in_terminal(context.terminal, argv, arguments, cwd, context, cancel)
        if shown_to_user is not None:
            return shown_to_user
    output = new_output(context)
    progress = _Progress(context)

    def on_output(data: bytes) -> None:
        output.add(data)
        progress.add(data)

    spec = ChildSpec(argv, cwd, environment, arguments.timeout_s)
    try:
        end = await run_child(
            spec,
            on_output=on_output,
            on_start=lambda pid: context.child_started(pid, f"bash: {arguments.command[:60]}"),
            cancel=cancel,
        )
    except (OSError, ValueError) as error:  # no such folder, or a NUL in the command
        reason = error.strerror if isinstance(error, OSError) else error
        return error_reply(f"bash: cannot run this in {display_path(cwd, context.cwd)}: {reason}")
    finally:
        progress.close()
    return await reply_with(output, end, arguments)


async def _run_in_terminal(
    run: RunInTerminal,
    argv: Sequence[str],
    arguments: BashArguments,
    cwd: Path,
    context: ToolContext,
    cancel: CancelToken,
) -> ToolReply | None:
    """Run the command in the client's terminal; None where the client does not run it after all."""
    inherits = copy_environment()
    environment = child_environment(inherits)
    # The client has what the daemon has, and a terminal's environment can be added to and not taken from.
    hidden = dict.fromkeys(inherits.keys() - environment.keys(), "")
    own = {name: value for name, value in environment.items() if inherits.get(name) != value}
    command = TerminalCommand(
        call_id=context.call_id,
        argv=tuple(argv),
        cwd=cwd,
        environment=own | hidden,
        timeout_s=arguments.timeout_s,
        max_output_bytes=_TERMINAL_BYTES,
    )
    end = await run(command, cancel)
    if end is None:
        return None
    output = new_output(context)
    output.add(end.output.encode())
    return await reply_with(output, ChildEnd(end.exit_code, end.reason), arguments)


def new_output(context: ToolContext) -> CommandOutput:
    """Return the output of a call, empty, with a file where it can have one."""
    return CommandOutput(context.max_output_chars - _NOTES_CHARS, context.output_folder, context.call_id)


async def reply_with(output: CommandOutput, end: ChildEnd, arguments: BashArguments) -> ToolReply:
    """Return the reply of a command that has ended."""
    await asyncio.to_thread(output.close)
    text = output.text()
    variables = copy_environment()
    hidden = sorted(variables.keys() - child_environment(variables).keys())
    named = ", ".join(name for name in hidden if name in arguments.command or name in text)
    last = {
        "timeout": f"[timed out after {arguments.timeout_s:g} s and was ended]",
        "cancelled": "[cancelled]",
        "exited": f"[exit {end.exit_code}]",
    }[end.reason]
    if named:
        last = f"[not in the environment of commands, because it looks like a secret: {named}]\n{last}"
    separator = "\n" if text and not text.endswith("\n") else ""
    return ToolReply(f"{text}{separator}{last}", is_error=end != ChildEnd(0, "exited"))


def child_environment(variables: dict[str, str]) -> dict[str, str]:
    """Return *variables* without secrets, and with Python children writing UTF-8.

    Without ``CDPATH`` too, so that ``cd`` leads where its permission was given for.

    >>> child_environment({"PATH": "/bin", "GITHUB_TOKEN": "x", "my_password": "y", "MONKEY": "z"})
    {'PATH': '/bin', 'MONKEY': 'z', 'PYTHONIOENCODING': 'utf-8'}
    """
    kept = {
        name: value
        for name, value in variables.items()
        if not is_secret_variable(name, value) and name != "CDPATH"
    }
    return kept | {"PYTHONIOENCODING": "utf-8"}


def run_title(command: str, folder: str, *, in_background: bool) -> str:
    """Return a title with the folder before the command: the end of a long line may be out of sight.

    >>> run_title("make install", "evil", in_background=True)
    'Run in evil, in the background: make install'
    """
    place = "" if folder in ("", ".") else f"in {shlex.quote(folder)}"
    how = ", ".join(filter(None, (place, "in the background" if in_background else "")))
    line = command.strip().partition("\n")[0]
    return f"Run {how}: {line}" if how else f"Run {line}"


def runs_posix_shell() -> bool:
    """Whether the shell of this system reads lines as POSIX shells do."""
    return shell_argv("")[0] != _CMD


def shell_argv(command: str) -> list[str]:
    """Return the arguments that run *command* in the shell of this system."""
    bash = shutil.which("bash")
    if bash is None and os.name == "nt":
        return [_CMD, "/d", "/s", "/c", command]
    return [bash or "/bin/sh", "-c", command]


class _Progress:
    """Sends the output to the client, a few times a second and never much at once."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Take more output."""
        self._pending += self._decoder.decode(data)
        if len(self._pending) > 2 * _PROGRESS_CAP:
            self._pending = f"[...]\n{self._pending[-_PROGRESS_CAP:]}"
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PROGRESS_EVERY_S, self._flush)

    def close(self) -> None:
        """Send the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            pending, self._pending = self._pending, ""
            self._context.progress(pending)


async def find_changed_paths(command: str, cwd: Path, context: ToolContext) -> tuple[Path, ...]:
    """Return the files in the session's folders that *command* changes by their names."""
    touches = use_of_line(command).touches
    return await resolve_all((path for touch in touches for path in touch.changed_paths), cwd, context)


async def note_files_shown(command: str, cwd: Path, reply: ToolReply, context: ToolContext) -> None:
    """Record the files that *command* has shown by *reply*, or written with a text of its own."""
    use = use_of_line(command)
    touches = use.touches_after_failure if reply.is_error else use.touches
    last: dict[str, Touch] = {
        touch.path: touch
        for touch in touches
        if touch.kind == "read" or (touch.kind == "write" and touch.text)
    }
    for touch in [*last.values()][:MAX_FILES]:
        for path in await resolve_all([touch.path], cwd, context):
            with suppress(FileAccessError):
                view = await context.workspace.view(path)
                if touch.kind == "write":
                    if view.text == touch.text:
                        context.reads.record(view, call_id=context.call_id)
                    continue
                lines = view.text.removesuffix("\n").split("\n")
                found = await asyncio.to_thread(lines_shown, lines, touch.ranges, str(reply.output))
                if found is not None:
                    first, count = found
                    is_whole = (first, count) == (1, len(lines))
                    context.reads.record(
                        view,
                        call_id=context.call_id,
                        first_line=first,
                        line_count=None if is_whole else count,
                    )


async def view_known_files(command: str, cwd: Path, context: ToolContext) -> list[FileView]:
    """Return the files that *command* changes by their names, as far as the model knows all of them."""
    known: list[FileView] = []
    for path in (await find_changed_paths(command, cwd, context))[:MAX_FILES]:
        record = context.reads.get(path)
        with suppress(FileAccessError):
            if record is not None and not record.ranges:
                view = await context.workspace.view(path)
                known += [view] if view.hash == record.hash else []
    return known


async def show_own_changes(known: Iterable[FileView], context: ToolContext) -> str:
    """Return the changes of *known* files by a command as short diffs, and record these files as read."""
    parts: list[str] = []
    for before in known:
        with suppress(FileAccessError):
            view = await context.workspace.view(before.path)
            record = context.reads.get(before.path)
            if record is not None and record.hash == view.hash:
                continue
            name = display_path(before.path, context.cwd)
            old, new = before.text.splitlines(), view.text.splitlines()
            diff = "\n".join(unified_diff(old, new, name, name, n=1, lineterm=""))
            if 0 < len(diff) <= _DIFF_CHARS:
                context.reads.record(view, call_id=context.call_id)
                parts.append(f"{diff}\n")
    return "".join(parts)


async def resolve_all(spelled: Iterable[str], cwd: Path, context: ToolContext) -> tuple[Path, ...]:
    """Return the paths *spelled* in the folder *cwd*, resolved, as far as the session's folders hold them."""

    def resolve() -> tuple[Path, ...]:
        found: dict[Path, None] = {}
        for each in spelled:
            with suppress(FileAccessError, OSError):
                resolved = resolve_path(each, cwd, context.roots)
                if resolved.inside:
                    found[resolved.path] = None
        return tuple(found)

    return await asyncio.to_thread(resolve)


BASH = TypedTool(
    name="bash",
    description=(
        "Run a command in a shell and return its output and exit code. It has no standard input, and the "
        "processes that it leaves running are ended with it: use background=true for those that shall go on. "
        "Variables that look like secrets are not set."
    ),
    kind="execute",
    effects=RUNS_COMMAND,
    arguments=BashArguments,
    describe=lambda given: run_title(given.command, given.cwd, in_background=given.background),
    perform=run_command,
)
