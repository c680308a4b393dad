"""Commands in the background: started by ``bash``, read by ``bash_output``, ended by ``bash_kill``.

Each belongs to its session and ends with it, with everything that it has started. When one ends, the model is
told once: behind the next result of a tool, or with the next prompt.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Struct, field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import TakeBack, ToolContext, ToolReply
from sidecar.capabilities.output import CommandOutput, HeadTail
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.processes import ChildEnd, ChildSpec, run_child
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.text.calls import NO_EFFECTS

MOST_RUNNING: Final = 8
DAY_S: Final = 86_400.0
"""The longest time that a command may run in the background."""

_MOST_KEPT: Final = 20
_LEAST_CHARS: Final = 1000


class BackgroundCommand(Struct):
    """One command; *unread* is the output since the model last looked, *output* all of it."""

    id: str
    line: str
    output: CommandOutput
    unread: HeadTail
    cap_chars: int
    started_s: float
    stop: CancelToken = field(default_factory=CancelToken)
    end: ChildEnd | None = None
    problem: str | None = None
    task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """The state of the command in words."""
        if self.problem is not None:
            return f"could not run: {self.problem}"
        if self.end is None:
            return f"running for {time.monotonic() - self.started_s:.0f} s"
        if self.end.reason == "exited":
            return f"exit {self.end.exit_code}"
        return "timed out and was ended" if self.end.reason == "timeout" else "was ended"

    def add(self, data: bytes) -> None:
        """Take output."""
        self.output.add(data)
        self.unread.add(data)


class BackgroundCommands:
    """The commands that run in the background of one session.

    *news* are lines that the model has not seen: the ends of commands, and files that the user took back.
    """

    def __init__(self) -> None:
        self._commands: dict[str, BackgroundCommand] = {}
        self._n_started = 0
        self.news: dict[str, str] = {}

    def start(
        self,
        spec: ChildSpec,
        line: str,
        context: ToolContext,
        *,
        take_back: TakeBack,
    ) -> BackgroundCommand:
        """Start the command *line*. Raises InvalidInput when too many are running.

        Args:
            spec: the process.
            line: the command line, for people.
            context: the surroundings of the call.
            take_back: is called at its end.
        """
        running = [each.id for each in self._commands.values() if each.end is None and each.problem is None]
        if len(running) >= MOST_RUNNING:
            hint = f"end one with bash_kill: {', '.join(running)}"
            raise InvalidInput(f"{len(running)} commands are running in the background", hint=hint)
        for each in [each.id for each in self._commands.values() if each.id not in running][:-_MOST_KEPT]:
            del self._commands[each]
        self._n_started += 1
        command = BackgroundCommand(
            f"bg{self._n_started}",
            line,
            CommandOutput(context.max_output_chars, context.output_folder, context.call_id),
            HeadTail(context.max_output_chars - _LEAST_CHARS),
            context.max_output_chars,
            time.monotonic(),
        )
        self._commands[command.id] = command
        command.task = asyncio.ensure_future(self.run_to_end(command, spec, context, take_back))
        return command

    async def run_to_end(
        self,
        command: BackgroundCommand,
        spec: ChildSpec,
        context: ToolContext,
        take_back: TakeBack,
    ) -> None:
        """Run *command*, and note its end for the model."""
        try:
            command.end = await run_child(
                spec,
                on_output=command.add,
                on_start=lambda pid: context.child_started(pid, f"bash: {command.line[:60]}"),
                cancel=command.stop,
            )
        except (OSError, ValueError) as error:
            command.problem = str(error.strerror if isinstance(error, OSError) else error)
        finally:
            for path in await take_back():
                command.add(f"{note_of_move(path, context.cwd)}\n".encode())
        await asyncio.to_thread(command.output.close)
        self.news[command.id] = (
            f"[the background command {command.id} ({command.line[:80]}) has ended: {command.state}; "
            f"bash_output shows its output]"
        )

    def get(self, command_id: str) -> BackgroundCommand:
        """Return a command. Raises InvalidInput for an unknown id."""
        if command_id not in self._commands:
            known = ", ".join(self._commands) or "none was started"
            raise InvalidInput(f"there is no background command {command_id!r}", hint=f"known are: {known}")
        return self._commands[command_id]

    def take_news(self) -> str:
        """Return a line for each command that has ended and was not looked at since, once."""
        news, self.news = self.news, {}
        return "\n".join(news.values())

    def forget_news(self, command_id: str) -> None:
        """Forget that a command has ended: the model has seen it."""
        self.news.pop(command_id, None)

    async def aclose(self) -> None:
        """End all commands and wait until they are gone."""
        for command in self._commands.values():
            command.stop.cancel("the session is closed")
        tasks = [command.task for command in self._commands.values() if command.task is not None]
        if tasks:
            await asyncio.wait(tasks)


class OutputArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the bash_output tool."""

    id: Annotated[str, msgspec.Meta(description="The id of the background command, such as bg1.")]
    wait_s: Annotated[
        float, msgspec.Meta(ge=0, le=300, description="Seconds to wait for its end, at most.")
    ] = 0


class KillArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the bash_kill tool."""

    id: Annotated[str, msgspec.Meta(description="The id of the background command, such as bg1.")]


def note_of_move(path: Path, cwd: Path) -> str:
    """Return the note about a file that the sandbox has moved to *path*."""
    return f"[made in the sandbox, where programs would obey it, and moved to {display_path(path, cwd)}]"


def commands_of(context: ToolContext) -> BackgroundCommands:
    """Return the background commands of a session. Raises InvalidInput where it can have none."""
    if context.background is None:
        raise InvalidInput("commands cannot run in the background here", hint="run it as any other")
    return context.background


async def show_output(arguments: OutputArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """Answer with the output since the last look, and the state of the command."""
    command = commands_of(context).get(arguments.id)
    if command.task is not None and arguments.wait_s:
        await asyncio.wait((command.task,), timeout=arguments.wait_s)
    return await report_output(context, command)


async def end_command(arguments: KillArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
    """End a command, and answer with the rest of its output."""
    command = commands_of(context).get(arguments.id)
    command.stop.cancel("bash_kill")
    if command.task is not None:
        await asyncio.wait((command.task,))
    return await report_output(context, command)


async def report_output(context: ToolContext, command: BackgroundCommand) -> ToolReply:
    """Return the unread output of *command* as a reply."""
    shown = CommandOutput(command.cap_chars, None, "")
    shown.add(command.unread.text().encode())
    command.unread = HeadTail(command.cap_chars - _LEAST_CHARS)
    is_over = command.end is not None or command.problem is not None
    text = await asyncio.to_thread(shown.text)
    parts = [text.rstrip("\n"), command.output.describe_file(), f"[{command.id}: {command.state}]"]
    if is_over:
        commands_of(context).forget_news(command.id)
    has_failed = is_over and command.end != ChildEnd(0, "exited") and not command.stop.cancelled
    return ToolReply("\n".join(filter(None, parts)), is_error=has_failed)


BASH_OUTPUT = TypedTool(
    name="bash_output",
    description="Show the output of a background command since the last look, and whether it still runs.",
    kind="execute",
    effects=NO_EFFECTS,
    arguments=OutputArguments,
    describe=lambda arguments: f"Look at {arguments.id}",
    perform=show_output,
)

BASH_KILL = TypedTool(
    name="bash_kill",
    description="End a background command with all that it has started, and show the rest of its output.",
    kind="execute",
    effects=NO_EFFECTS,
    arguments=KillArguments,
    describe=lambda arguments: f"End {arguments.id}",
    perform=end_command,
)
