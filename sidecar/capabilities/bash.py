"""The bash tool: one command in a shell, with leave, in bounds, and gone when it is over.

What the command leaves running is ended with it. Its environment is the daemon's without what looks like a
secret; it has no standard input. Where a client lends its terminal it runs there, before its user's eyes.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import shutil
from pathlib import Path
from typing import Annotated

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.env import inherited
from sidecar.capabilities.access import permit, readable_path, shown
from sidecar.capabilities.contract import PermissionAsk, TerminalCommand, ToolContext, ToolReply
from sidecar.capabilities.effects import RUNS_COMMAND
from sidecar.capabilities.output import HeadTail
from sidecar.capabilities.processes import ChildEnd, ChildSpec, run_child, with_lifeline
from sidecar.capabilities.typed_tool import TypedTool, error_reply

__all__ = ["BASH", "BashArguments", "child_environment", "permission_scope"]

_PROGRESS_EVERY_S = 0.1
_PROGRESS_CAP = 8192
_NOTES_CHARS = 200
_TERMINAL_BYTES = 1024 * 1024
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_COMPOUND = re.compile(r"[;&|`$<>(){}\n\\]")
_RUNS_ANYTHING = frozenset(
    {"sudo", "doas", "env", "sh", "bash", "zsh", "eval", "exec", "xargs", "nohup", "time"}
)


class BashArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the bash tool takes."""

    command: Annotated[str, msgspec.Meta(min_length=1, description="The command line.")]
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600, description="Seconds it may take.")] = 120
    cwd: Annotated[str, msgspec.Meta(description="The folder to run in.")] = "."


async def _bash(arguments: BashArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    cwd = await readable_path(context, arguments.cwd, "bash")
    await permit(context, _ask(arguments, context))
    shown_to_user = await _in_terminal(arguments, cwd, context, cancel)
    if shown_to_user is not None:
        return shown_to_user
    output = HeadTail(context.max_output_chars - _NOTES_CHARS)
    progress = _Progress(context)

    def hear(data: bytes) -> None:
        output.add(data)
        progress.add(data)

    spec = ChildSpec(
        with_lifeline(_shell(arguments.command)), cwd, child_environment(inherited()), arguments.timeout_s
    )
    try:
        end = await run_child(
            spec,
            on_output=hear,
            on_start=lambda pid: context.child_started(pid, f"bash: {arguments.command[:60]}"),
            cancel=cancel,
        )
    except (OSError, ValueError) as error:  # no such folder, or a command that is no text
        reason = error.strerror if isinstance(error, OSError) else error
        return error_reply(f"bash: cannot run this in {shown(cwd, context.cwd)}: {reason}")
    finally:
        progress.close()
    return _reply(output, end, arguments)


async def _in_terminal(
    arguments: BashArguments, cwd: Path, context: ToolContext, cancel: CancelToken
) -> ToolReply | None:
    """Run the command where the client's user sees it; None where the client lends no terminal."""
    if context.terminal is None:
        return None
    inherits = inherited()
    environment = child_environment(inherits)
    # The client has what the daemon has, and a terminal's environment can be added to and not taken from.
    hidden = dict.fromkeys(inherits.keys() - environment.keys(), "")
    own = {name: value for name, value in environment.items() if inherits.get(name) != value}
    command = TerminalCommand(
        context.call_id,
        tuple(_shell(arguments.command)),
        cwd,
        own | hidden,
        arguments.timeout_s,
        _TERMINAL_BYTES,
    )
    end = await context.terminal(command, cancel)
    if end is None:
        return None
    output = HeadTail(context.max_output_chars - _NOTES_CHARS)
    output.add(end.output.encode())
    return _reply(output, ChildEnd(end.exit_code, end.reason), arguments)


def _reply(output: HeadTail, end: ChildEnd, arguments: BashArguments) -> ToolReply:
    said = _with_end(output.text(), end, arguments.timeout_s)
    return ToolReply(said, is_error=end != ChildEnd(0, "exited"))


def permission_scope(command: str) -> str:
    """Return what one "always" answer to *command* covers.

    That is every command with the same first word, but only the very same command where the first word says
    little: several commands in one line, or one that runs another.

    >>> permission_scope("git status"), permission_scope("git status && rm -rf /")
    ('bash:git', 'bash:git status && rm -rf /')
    """
    words = command.split()
    if not words or _COMPOUND.search(command) or "=" in words[0] or words[0] in _RUNS_ANYTHING:
        return f"bash:{command}"
    return f"bash:{words[0]}"


def child_environment(variables: dict[str, str]) -> dict[str, str]:
    """Return *variables* without what looks like a secret, and with Python children writing UTF-8.

    >>> child_environment({"PATH": "/bin", "GITHUB_TOKEN": "x", "my_password": "y"})
    {'PATH': '/bin', 'PYTHONIOENCODING': 'utf-8'}
    """
    kept = {name: value for name, value in variables.items() if not _SECRET.search(name)}
    return kept | {"PYTHONIOENCODING": "utf-8"}


def _ask(arguments: BashArguments, context: ToolContext) -> PermissionAsk:
    return PermissionAsk(
        call_id=context.call_id,
        tool="bash",
        title=_title(arguments),
        subject="command",
        detail=arguments.command,
        scope=permission_scope(arguments.command),
    )


def _title(arguments: BashArguments) -> str:
    return f"Run {arguments.command.strip().partition(chr(10))[0]}"


def _shell(command: str) -> list[str]:
    bash = shutil.which("bash")
    if bash is None and os.name == "nt":
        return ["cmd.exe", "/d", "/s", "/c", command]
    return [bash or "/bin/sh", "-c", command]


def _with_end(output: str, end: ChildEnd, timeout_s: float) -> str:
    last = {
        "timeout": f"[timed out after {timeout_s:g} s and was ended]",
        "cancelled": "[cancelled]",
        "exited": f"[exit {end.exit_code}]",
    }[end.reason]
    separator = "\n" if output and not output.endswith("\n") else ""
    return f"{output}{separator}{last}"


class _Progress:
    """Tells the client what came out, a few times a second and never much at once."""

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
        """Tell the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        if self._pending:
            pending, self._pending = self._pending, ""
            self._context.progress(pending)


BASH = TypedTool(
    name="bash",
    description=(
        "Run a command in a shell and return its output and exit code. It has no standard input, and what it "
        "starts in the background is ended with it."
    ),
    kind="execute",
    effects=RUNS_COMMAND,
    arguments=BashArguments,
    describe=_title,
    perform=_bash,
)
