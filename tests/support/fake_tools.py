"""Tools for tests, of functions or of one reply, and the files that a session's tools have read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.conductor.workbench.files import as_read
from sidecar.conversation import FileRead, merge_reads
from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.runtime.contract import ToolCall, ToolOutcome, ToolRunner
from sidecar.text.calls import ToolEffects, ToolKind, effects_of_kind
from sidecar.workspace.contract import FileView
from sidecar.workspace.workspace import FileTracker


@dataclass(slots=True)
class FakeTool:
    """Answers *reply*, or what *act* makes of the call, and remembers the arguments it was called with."""

    name: str = "fake"
    reply: ToolReply = field(default_factory=lambda: ToolReply("done"))
    act: Callable[[Mapping[str, Any], ToolContext, CancelToken], Awaitable[ToolReply]] | None = None
    kind: ToolKind = "other"
    description: str = ""
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def descriptor(self) -> ToolDescriptor:
        """A descriptor that takes anything."""
        return ToolDescriptor(self.name, self.description or f"Fake {self.name}.", {"type": "object"})

    @property
    def effects(self) -> ToolEffects:
        """The effects of a tool of its kind."""
        return effects_of_kind(self.kind)

    def title(self, arguments: Mapping[str, Any]) -> str:
        """Return the name."""
        return self.name

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        """Remember the call and answer it."""
        self.calls.append(arguments)
        return self.reply if self.act is None else await self.act(arguments, context, cancel)


ToolFunction: TypeAlias = Callable[[ToolCall, CancelToken], Awaitable[object]]
"""One tool: returns its output, or its whole outcome."""


class FunctionTools:
    """Tools by name; the calls they were given are in ``calls``. A name without a function always fails."""

    def __init__(self, **functions: ToolFunction | None) -> None:
        self.calls: list[ToolCall] = []
        self._functions = functions

    def descriptors(self) -> Sequence[ToolDescriptor]:
        """Return one descriptor a name, taking any object."""
        return tuple(ToolDescriptor(name, name, {"type": "object"}) for name in self._functions)

    @property
    def runner(self) -> ToolRunner:
        """The box runs its own tools."""
        return self

    async def run(self, call: ToolCall, cancel: CancelToken) -> ToolOutcome:
        """Call the function of ``call.name``."""
        self.calls.append(call)
        function = self._functions.get(call.name)
        if function is None:
            return ToolOutcome(call.id, f"no tool {call.name!r}", is_error=True)
        output = await function(call, cancel)
        return output if isinstance(output, ToolOutcome) else ToolOutcome(call.id, output, is_error=False)


class RecordedReads:
    """Implements ``capabilities.contract.ReadsPort``; *tracker* compares the files, where one is given."""

    def __init__(self, tracker: FileTracker | None = None) -> None:
        self._tracker = tracker
        self._files: dict[Path, FileRead] = {}

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        """Record a read; ranges of one content are joined."""
        read = as_read(view, call_id=call_id, first_line=first_line, line_count=line_count)
        before = self._files.get(view.path)
        self._files[view.path] = read if before is None else merge_reads(before, read)
        if self._tracker is not None:
            self._tracker.expect(view.path, view.uri, view.hash)

    def get(self, path: Path) -> FileRead | None:
        """Return the newest read of *path*."""
        return self._files.get(path)

    def path_now(self, path: Path) -> Path:
        """Return *path*: the user of these tests renames nothing."""
        return path


def expect(tracker: FileTracker, view: FileView) -> None:
    """Let *tracker* compare the file of *view* with it from now on."""
    tracker.expect(view.path, view.uri, view.hash)
