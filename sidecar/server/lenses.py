"""Code lenses: above a file, that the model has it in its context, at what cost, and a way to drop it.

Computed when an editor asks; whoever asked is told to ask again once that may have changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from lsprotocol import types

from sidecar._internal.errors import SidecarError
from sidecar.conductor.events import Event, FileFresh, FileStale
from sidecar.server.attention import RefreshRequester
from sidecar.server.commands import COMMANDS
from sidecar.server.views import SessionViews, is_change
from sidecar.workspace.files import real_path
from sidecar.workspace.uris import uri_to_path

__all__ = ["Ask", "ContextLenses", "lens_title"]

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Calls a method of the service and returns its result. Raises SidecarError."""

_TOP: Final = types.Range(types.Position(0, 0), types.Position(0, 0))


class ContextLenses:
    """The lenses of one client; a ``SessionView``. *attention* is None where it cannot be told to look."""

    def __init__(self, views: SessionViews, ask: Ask, attention: RefreshRequester | None) -> None:
        self._views = views
        self._ask = ask
        self._attention = attention
        self._files: dict[str, tuple[int, dict[Path, Mapping[str, Any]]]] = {}

    async def of(self, uri: str) -> list[types.CodeLens]:
        """Return the lenses of the document *uri*, some for each session that has it in its context."""
        if self._attention is not None:
            self._attention.looked_at(uri)
        path = uri_to_path(uri)
        if path is None:
            return []
        found = {sid: await self._file(sid, path) for sid in self._views.sids}
        return [
            types.CodeLens(_TOP, command)
            for sid, file in found.items()
            if file is not None and file["inWindow"]
            for command in _commands(sid, file)
        ]

    def saw(self, event: Event) -> None:
        """Let the client ask again if what it was shown may have changed."""
        is_seen = is_change(event) or isinstance(event.data, FileStale | FileFresh)
        if is_seen and self._attention is not None:
            self._attention.all_changed()

    def left(self, sid: str) -> None:
        """Forget session *sid*."""
        self._files.pop(sid, None)
        if self._attention is not None:
            self._attention.all_changed()

    async def _file(self, sid: str, path: Path) -> Mapping[str, Any] | None:
        files = await self._files_of(sid)
        return files.get(path) or files.get(real_path(path))

    async def _files_of(self, sid: str) -> Mapping[Path, Mapping[str, Any]]:
        """Return the files that *sid* has read; kept, for an editor asks for all its documents at once."""
        now = self._views.seq(sid)
        seq, files = self._files.get(sid, (None, {}))
        if now is None or now == seq:
            return files
        try:
            told = await self._ask("sidecar/context/files", {"sid": sid})
        except SidecarError:
            return {}  # the session was closed meanwhile
        files = {path: file for file in told["files"] if (path := uri_to_path(file["uri"])) is not None}
        self._files[sid] = now, files
        return files


def lens_title(file: Mapping[str, Any]) -> str:
    """Return what a lens says of *file*, one of the result of ``sidecar/context/files``.

    >>> lens_title({"tokens": 1234, "turnsAgo": 3, "stale": True})
    'in context, 1.2k tokens, read 3 turns ago, changed since'
    """
    tokens, turns_ago = file["tokens"], file.get("turnsAgo")
    said = ["in context"]
    if tokens:
        said.append(f"{_short(tokens)} tokens")
    if turns_ago is not None:
        said.append(f"read {turns_ago} turn{'s' * (turns_ago > 1)} ago" if turns_ago else "read this turn")
    if file["stale"]:
        said.append("changed since")
    return ", ".join(said)


def _short(tokens: int) -> str:
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 9_950 else f"{round(tokens / 1_000)}k"


def _commands(sid: str, file: Mapping[str, Any]) -> Iterator[types.Command]:
    yield types.Command(lens_title(file), "sidecar.context", arguments=[{"sid": sid}])
    node = file.get("readAtNode")
    if node is not None and "sidecar.drop" in COMMANDS:
        drop = {"sid": sid, "nodeIds": [node], "expectHead": None}
        yield types.Command("drop from context", "sidecar.drop", arguments=[drop])
