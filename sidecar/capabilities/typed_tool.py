"""A tool made of functions: its arguments as a struct, its title, its work.

Turns bad arguments and expected failures into error replies; everything else it lets through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.capabilities.arguments import arguments_schema, parse_arguments
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.effects import ToolEffects, ToolKind
from sidecar.llmgateway.contract import ToolDescriptor

__all__ = ["TypedTool", "error_reply"]

A = TypeVar("A", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class TypedTool(Generic[A]):
    """One tool of our own.

    *describe* returns the title; *perform* does the work, and a ``SidecarError`` it raises becomes an error
    reply.
    """

    name: str
    description: str
    kind: ToolKind
    effects: ToolEffects
    arguments: type[A]
    describe: Callable[[A], str]
    perform: Callable[[A, ToolContext, CancelToken], Awaitable[ToolReply]]

    @property
    def descriptor(self) -> ToolDescriptor:
        """What the model is shown."""
        return ToolDescriptor(self.name, self.description, arguments_schema(self.arguments))

    def title(self, arguments: Mapping[str, Any]) -> str:
        """Return one short line for clients."""
        try:
            return self.describe(parse_arguments(self.arguments, arguments))
        except InvalidInput:
            return self.name.capitalize()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        """Do it; see ``Tool.run``."""
        try:
            return await self.perform(parse_arguments(self.arguments, arguments), context, cancel)
        except SidecarError as error:
            return error_reply(f"{self.name}: {error.message}", error.hint)


def error_reply(message: str, hint: str | None = None) -> ToolReply:
    """Return the reply of a failure: what happened, and what to do next."""
    return ToolReply(message if hint is None else f"{message}; {hint}", is_error=True)
