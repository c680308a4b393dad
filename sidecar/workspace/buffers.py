"""The open buffers of the editors, by editor and URI and by the file they stand for.

Never reads the disk; what a buffer's file is called for real is told when it is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.workspace.contract import BufferOutOfSync, EditApplier, PositionEncoding, TextChange
from sidecar.workspace.line_index import LineText

__all__ = ["Buffer", "Buffers"]


@dataclass(slots=True, eq=False)
class Buffer:
    """One open text document; *path* is None for what is no file.

    *apply* lands an edit in it, None where its editor takes none. *n_events* counts what the editor said of
    it. *superseded* is set when the file was written beneath a clean buffer: until the editor speaks of it
    again, the disk is newer than the buffer.
    """

    uri: str
    path: Path | None
    version: int
    content: LineText
    apply: EditApplier | None = None
    superseded: bool = False
    n_events: int = 0


class Buffers:
    """Every open buffer; *editor* is whatever tells one editor from the others.

    Of several buffers on one file, the one that was touched last stands for it.
    """

    def __init__(self) -> None:
        self._by_key: dict[tuple[object, str], Buffer] = {}

    def open(self, editor: object, buffer: Buffer) -> None:
        """Add a buffer; one of the same *editor* and URI is replaced."""
        self._by_key.pop((editor, buffer.uri), None)
        self._by_key[editor, buffer.uri] = buffer

    def change(
        self,
        editor: object,
        uri: str,
        *,
        version: int,
        changes: Sequence[TextChange],
        encoding: PositionEncoding,
    ) -> Buffer:
        """Apply *changes* in order and return the buffer. Raises BufferOutOfSync when it is not open."""
        buffer = self._by_key.get((editor, uri))
        if buffer is None:
            raise BufferOutOfSync(
                f"cannot apply version {version} to {uri}: no such buffer is open", hint="send didOpen again"
            )
        for change in changes:
            buffer.content.apply(change, encoding)
        buffer.version = version
        self._touch(editor, buffer)
        return buffer

    def save(self, editor: object, uri: str, text: str | None) -> Buffer | None:
        """Note that the editor wrote the buffer to disk, as *text* where it says so; None when not open."""
        buffer = self._by_key.get((editor, uri))
        if buffer is None:
            return None
        if text is not None and text != buffer.content.text:
            buffer.content = LineText(text)
        self._touch(editor, buffer)
        return buffer

    def close(self, editor: object, uri: str) -> Buffer | None:
        """Remove a buffer and return it, or None when it was not open."""
        return self._by_key.pop((editor, uri), None)

    def uris_of(self, editor: object) -> tuple[str, ...]:
        """Return what *editor* has open."""
        return tuple(uri for owner, uri in self._by_key if owner is editor)

    def find(self, path: Path) -> Buffer | None:
        """Return the buffer that stands for the file *path*, or None."""
        return next((b for b in reversed(self._by_key.values()) if b.path == path), None)

    def all(self) -> tuple[Buffer, ...]:
        """Return the open buffers, least recently touched first."""
        return tuple(self._by_key.values())

    def clear(self) -> None:
        """Forget every buffer."""
        self._by_key.clear()

    def _touch(self, editor: object, buffer: Buffer) -> None:
        buffer.superseded = False
        buffer.n_events += 1
        self._by_key[editor, buffer.uri] = self._by_key.pop((editor, buffer.uri))
