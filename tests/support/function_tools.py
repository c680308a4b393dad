"""A tool box of plain functions, for tests of agents. It asks for no permission and checks nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.runtime.contract import ToolCall, ToolOutcome, ToolRunner

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
