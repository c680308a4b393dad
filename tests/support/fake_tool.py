"""A tool that answers as a test chooses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.llmgateway.contract import ToolDescriptor
from sidecar.text.calls import ToolEffects, ToolKind, effects_of_kind


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
