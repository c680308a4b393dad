"""A server's tool as one of ours: asked for before each call, bounded in what it says, gone when cancelled.

What a server says of its tools is shown and never trusted: a tool that claims only to read is asked for all
the same, and one "always" for it covers no more than the other tools of its server that claim that too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar.capabilities.access import permit
from sidecar.capabilities.contract import PermissionAsk, ToolContext, ToolReply
from sidecar.capabilities.effects import ToolEffects, ToolKind, effects_of_kind
from sidecar.capabilities.mcp.contract import CallResult, ListedTool, OnProgress
from sidecar.capabilities.output import HeadTail
from sidecar.capabilities.typed_tool import error_reply
from sidecar.llmgateway.contract import ToolDescriptor

__all__ = ["CallServer", "McpTool"]

_DESCRIPTION_CHARS: Final = 4000
_TITLE_CHARS: Final = 80
_DETAIL_CHARS: Final = 2000
_PROGRESS_EVERY_S: Final = 0.1

CallServer: TypeAlias = Callable[[str, Mapping[str, Any], OnProgress, CancelToken], Awaitable[CallResult]]
"""Calls a tool by its server's name for it. Raises ServerFailed, also when the call was cancelled."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of a server. *name* is what the model calls it, *slug* the server's part of that."""

    name: str
    slug: str
    server: str
    listed: ListedTool
    call: CallServer

    @property
    def descriptor(self) -> ToolDescriptor:
        """What the model is shown."""
        said = self.listed.description or self.listed.title or self.listed.name
        return ToolDescriptor(self.name, said[:_DESCRIPTION_CHARS], self.listed.schema)

    @property
    def kind(self) -> ToolKind:
        """What it does, as far as its server says: one that looks out into the world fetches."""
        if not self.listed.is_read_only:
            return "other"
        return "fetch" if self.listed.is_open_world else "read"

    @property
    def effects(self) -> ToolEffects:
        """The effects of a tool of its kind."""
        return effects_of_kind(self.kind)

    def title(self, arguments: Mapping[str, Any]) -> str:
        """Return one short line for clients."""
        return _line(f"{self.server}: {self.listed.title or self.listed.name}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, cancel: CancelToken) -> ToolReply:
        """Do it; see ``Tool.run``."""
        try:
            await permit(context, self._ask(arguments, context))
            result = await self.call(self.listed.name, arguments, _Progress(context), cancel)
        except SidecarError as error:
            return error_reply(f"{self.name}: {error.message}", error.hint)
        output = HeadTail(context.max_output_chars)
        output.add(result.text.encode("utf-8", "replace"))
        return ToolReply(output.text(), is_error=result.is_error)

    def _ask(self, arguments: Mapping[str, Any], context: ToolContext) -> PermissionAsk:
        return PermissionAsk(
            call_id=context.call_id,
            tool=self.name,
            title=self.title(arguments),
            subject="toolCall",
            detail=json.dumps(arguments, ensure_ascii=False, default=str)[:_DETAIL_CHARS],
            scope=f"mcp:{self.slug}" if self.listed.is_read_only else f"mcp:{self.slug}:{self.listed.name}",
        )


class _Progress:
    """Tells the client how far the call is, a few times a second: a later word replaces an earlier one."""

    def __init__(self, context: ToolContext) -> None:
        self._tell = context.progress
        self._loop = asyncio.get_running_loop()
        self._next_s = self._loop.time()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._loop.time() < self._next_s:
            return
        self._next_s = self._loop.time() + _PROGRESS_EVERY_S
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._tell(_line(f"{share} {message or ''}") + "\n")


def _line(text: str) -> str:
    """Return what others wrote as one short line."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:_TITLE_CHARS]
