"""Tools of servers as tools of the kernel: named for every provider, permitted, bounded and cancellable.

The description that a server gives of its tools is shown and never trusted: a tool that claims only to read
needs permission all the same, and one "always" for it covers no more than the other tools of its server that
claim that too. Names are ``mcp__server__tool``, at most 64 characters that every provider takes, and unique.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import SidecarError
from sidecar._internal.values import Value
from sidecar.capabilities.contract import PermissionQuestion, ToolContext, ToolReply
from sidecar.capabilities.file_formats import decode_image
from sidecar.capabilities.mcp.contract import CallResult, ListedTool, OnProgress
from sidecar.capabilities.output import HeadTail
from sidecar.capabilities.paths import require_permission
from sidecar.capabilities.typed_tool import error_reply
from sidecar.llmgateway.contract import ImageBlock, ToolDescriptor
from sidecar.permissions.access import ServerToolAccess
from sidecar.text.calls import ToolEffects, ToolKind, effects_of_kind

NAME_CAP: Final = 64
"""Characters of a tool's name that every provider takes."""

_SLUG_CAP: Final = 24
_MARK_CHARS: Final = 6
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_-]")
_UNDERSCORES: Final = re.compile(r"_{2,}")
_DESCRIPTION_CHARS: Final = 4000
_TITLE_CHARS: Final = 80
_PROGRESS_EVERY_S: Final = 0.1

CallServer: TypeAlias = Callable[[str, Mapping[str, Any], OnProgress, CancelToken], Awaitable[CallResult]]
"""Calls a tool by its server's name for it. Raises ServerFailed, also when the call was cancelled."""


class McpTool(Value, kw_only=True):
    """One tool of a server; *name* is the model's name for it, *slug* the server's part of that."""

    name: str
    slug: str
    server: str
    listed: ListedTool
    call: CallServer

    @property
    def descriptor(self) -> ToolDescriptor:
        """The name, description and parameters that a model is given."""
        text = self.listed.description or self.listed.title or self.listed.name
        return ToolDescriptor(self.name, text[:_DESCRIPTION_CHARS], self.listed.schema)

    @property
    def kind(self) -> ToolKind:
        """The kind of its work, as far as its server declares it: a reader of the open world fetches."""
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
        """Run one call; see ``Tool.run``."""
        question = PermissionQuestion(
            call_id=context.call_id,
            tool=self.name,
            title=self.title(arguments),
            subject="toolCall",
            detail=json.dumps(arguments, ensure_ascii=False, default=str),
            access=ServerToolAccess(self.slug, self.listed.name, self.listed.is_read_only),
        )
        try:
            await require_permission(context, question)
            keep_changed = None
            if context.checkpoints is not None and not self.listed.is_read_only:
                keep_changed = await context.checkpoints.watch_command()
            try:
                result = await self.call(self.listed.name, arguments, _Progress(context), cancel)
            finally:
                if keep_changed is not None:
                    await keep_changed()
        except SidecarError as error:
            return error_reply(f"{self.name}: {error.message}", error.hint)
        output = HeadTail(context.max_output_chars)
        output.add(result.text.encode("utf-8", "replace"))
        images, note = await load_images(result.images, context)
        return ToolReply(output.text() + note, is_error=result.is_error, images=images)


async def load_images(images: Sequence[str], context: ToolContext) -> tuple[tuple[ImageBlock, ...], str]:
    """Return the *images* of a result that the model sees, and a note on the others."""
    if not images:
        return (), ""
    if not context.sees_images:
        return (), "\n[the images are not shown: this model sees no images]"
    found = await asyncio.to_thread(lambda: [decode_image(each) for each in images])
    notes = [
        f"\n[image {n} is not shown: {each}]" for n, each in enumerate(found, 1) if isinstance(each, str)
    ]
    return tuple(each for each in found if isinstance(each, ImageBlock)), "".join(notes)


def server_slugs(names: Iterable[str]) -> tuple[str, ...]:
    """Return a short name for each server: all different, and none with two underscores in a row.

    >>> server_slugs(["git hub", "git.hub", "文"])
    ('git_hub', 'git_hub_2', 'server')
    """
    slugs: dict[str, None] = {}
    for name in names:
        clean = _UNDERSCORES.sub("_", _STRANGE.sub("_", name)).strip("_")
        wanted = slug = clean[:_SLUG_CAP].rstrip("_") or "server"
        number = 1
        while slug in slugs:
            number += 1
            slug = f"{wanted}_{number}"
        slugs[slug] = None
    return tuple(slugs)


def tool_names(slug: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the model's name for each tool of a server: all different, at most :data:`NAME_CAP` long.

    A name that had to be cut, or that clashes with an earlier one, gets a hash at its end.

    >>> tool_names("fs", ["read", "a.b", "a/b"])
    ('mcp__fs__read', 'mcp__fs__a_b', 'mcp__fs__a_b_c14cdd')
    """
    prefix = f"mcp__{slug}__"
    taken: dict[str, None] = {}
    for name in names:
        wanted = full = prefix + _STRANGE.sub("_", name)
        salt = name
        while len(full) > NAME_CAP or full in taken or full == prefix:
            mark = hashlib.sha256(salt.encode("utf-8", "replace")).hexdigest()[:_MARK_CHARS]
            full = f"{wanted[: NAME_CAP - _MARK_CHARS - 1]}_{mark}"
            salt += "'"
        taken[full] = None
    return tuple(taken)


class _Progress:
    """Sends the progress of a call to the client, a few times a second; reports in between are dropped."""

    def __init__(self, context: ToolContext) -> None:
        self._send = context.progress
        self._loop = asyncio.get_running_loop()
        self._next_s = self._loop.time()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._loop.time() < self._next_s:
            return
        self._next_s = self._loop.time() + _PROGRESS_EVERY_S
        share = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._send(_line(f"{share} {message or ''}") + "\n")


def _line(text: str) -> str:
    """Return a text of strangers as one short line."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:_TITLE_CHARS]
