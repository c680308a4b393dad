"""What a tool is, what it is given and what it answers. No behaviour.

A tool answers the model with text, and the client with a title, locations and diffs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.effects import ToolEffects, ToolKind
from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.workspace.contract import ReadLedgerPort, WorkspacePort

PlanStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


@dataclass(frozen=True, slots=True)
class Location:
    """A place a tool looks at or changes; *line* counts from 1."""

    path: Path
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """A change of a whole file; *old_text* is None for a new file."""

    path: Path
    old_text: str | None
    new_text: str


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One item of the todo list; priority is ``high``, ``medium`` or ``low``."""

    content: str
    status: PlanStatus = "pending"
    priority: str = "medium"


@dataclass(frozen=True, slots=True)
class PermissionAsk:
    """What a tool wants to do and must ask for first.

    *subject* is ``toolCall``, ``command`` or ``path``; *detail* the command line or path in question;
    *scope* groups asks that one "always" answer covers, such as ``edit`` or ``bash:git``.
    """

    call_id: str
    tool: str
    title: str
    subject: str
    detail: str
    scope: str
    diffs: tuple[Diff, ...] = ()


Ask: TypeAlias = Callable[[PermissionAsk], Awaitable[bool]]
"""Asks the user. Contract: never raises but for cancellation; no answer means False."""


@dataclass(frozen=True, slots=True)
class TerminalCommand:
    """A command for a terminal of the client's.

    *environment* is set besides what the client's own holds; of longer output the end is enough.
    """

    call_id: str
    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float
    max_output_bytes: int


@dataclass(frozen=True, slots=True)
class TerminalEnd:
    """How it ended: all it put out, its exit code, None for a signal, and what ended it."""

    output: str
    exit_code: int | None
    reason: Literal["exited", "timeout", "cancelled"]


RunInTerminal: TypeAlias = Callable[[TerminalCommand, CancelToken], Awaitable[TerminalEnd | None]]
"""Runs a command where the client's user sees it; None when the client does not do it after all.

Contract: never raises but for cancellation; what was started has ended when it returns.
"""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool came to; *output* is text for the model, already bounded."""

    output: Any
    is_error: bool = False
    title: str | None = None
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What one call of a tool is given.

    *cwd* is where relative paths start; *roots* are the resolved trees a path must lie in; *child_started*
    hears of every process started (pid, what) and returns what to call when it is gone; *terminal* runs
    commands in the client's, where it lends one.
    """

    session_id: str
    call_id: str
    cwd: Path
    roots: tuple[Path, ...]
    workspace: WorkspacePort
    reads: ReadLedgerPort
    ask: Ask
    progress: Callable[[str], None]
    plan: Callable[[], tuple[PlanEntry, ...]]
    set_plan: Callable[[tuple[PlanEntry, ...]], None]
    child_started: Callable[[int, str], Callable[[], None]]
    max_output_chars: int
    terminal: RunInTerminal | None = None


class Tool(Protocol):
    """One tool."""

    @property
    def descriptor(self) -> ToolDescriptor:
        """What the model is shown."""
        ...

    @property
    def kind(self) -> ToolKind:
        """What it does, for clients."""
        ...

    @property
    def effects(self) -> ToolEffects:
        """The effects of its calls, for whoever orders, summarises or shows them."""
        ...

    def title(self, arguments: Mapping[str, Any]) -> str:
        """Return one short line for clients, such as ``Read sidecar/cli.py``; tolerant of bad arguments."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        """Do it.

        Contract: bad arguments and expected failures are error replies, not exceptions; *cancel* ends it
        within 100 ms, children included; nothing blocks the event loop.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """What a client is told of one call: *phase* is ``started``, ``progress`` or ``finished``."""

    phase: Literal["started", "progress", "finished"]
    call_id: str
    name: str
    title: str
    kind: ToolKind
    input: Any = None
    output: Any = None
    is_error: bool = False
    locations: tuple[Location, ...] = ()
    diffs: tuple[Diff, ...] = ()


ToolObserver: TypeAlias = Callable[[ToolActivity], None]
"""Hears of every call. Contract: returns soon, never raises."""
