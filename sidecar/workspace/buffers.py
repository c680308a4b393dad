"""The open buffers of the editors: by editor and URI, and by the file they stand for.

Several editors may have one file open; none can touch a buffer of another. The disk is never read here, but
for the links in the path of a file when its buffer is opened.

Clients that share no buffers have unsaved text as well, below one folder each. Of several the newest is
asked, and a text that differs in its line ends alone does not count as unsaved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from sidecar.workspace.contract import (
    BufferOutOfSyncError,
    ClientFileSource,
    Dispose,
    EditApplier,
    PositionEncoding,
    TextChange,
)
from sidecar.workspace.files import BOM, real_path
from sidecar.workspace.line_index import LineText
from sidecar.workspace.paths import uri_to_path

T = TypeVar("T")


class Buffer(Struct, eq=False, kw_only=True):
    """One open text document.

    Attributes:
        path: the real path of its file; None for a document that is not a file.
        apply: applies an edit in the editor; None where the editor takes none.
        superseded: set when the file was written beneath a clean buffer: until the editor's next event for
            it, the disk is newer than the buffer.
        n_events: the number of the editor's events for it.
    """

    uri: str
    path: Path | None
    version: int
    content: LineText
    apply: EditApplier | None = None
    superseded: bool = False
    n_events: int = 0


class Buffers:
    """Every open buffer, by editor and URI, the least recently touched first.

    Of several buffers on one file, the one that was touched last stands for it.
    """

    def __init__(self) -> None:
        self.by_key: dict[tuple[Editor, str], Buffer] = {}

    def find(self, path: Path) -> Buffer | None:
        """Return the buffer that stands for the file *path*, or None."""
        return next((b for b in reversed(self.by_key.values()) if b.path == path), None)

    def all(self) -> tuple[Buffer, ...]:
        """Return the open buffers, least recently touched first."""
        return tuple(self.by_key.values())


class Editor:
    """The open buffers of one editor.

    Args:
        buffers: the buffers of all editors.
        apply: applies an edit in the editor; None where it takes none.
        on_event: called with each buffer after an event of the editor for it.
    """

    def __init__(
        self, buffers: Buffers, apply: EditApplier | None, *, on_event: Callable[[Buffer], None]
    ) -> None:
        self._buffers = buffers.by_key
        self._apply = apply
        self._on_event = on_event

    def open_buffer(self, uri: str, *, version: int, text: str) -> None:
        """Open *uri* (didOpen); opening again replaces the buffer."""
        path = uri_to_path(uri)
        # With its links followed, so that all spellings of one file are one file.
        real = None if path is None else real_path(path)
        buffer = Buffer(uri=uri, path=real, version=version, content=LineText(text), apply=self._apply)
        self._buffers.pop((self, uri), None)
        self._buffers[self, uri] = buffer
        self._on_event(buffer)

    def change_buffer(
        self, uri: str, *, version: int, changes: Sequence[TextChange], encoding: PositionEncoding
    ) -> None:
        """Apply the editor's changes in order (didChange).

        Args:
            uri: the document, as the editor opened it.
            version: the version of the document after the changes.
            changes: applied in order.
            encoding: the units of the positions in *changes*.

        Raises:
            BufferOutOfSyncError: the buffer is not open.
        """
        buffer = self._buffers.get((self, uri))
        if buffer is None:
            message = f"cannot apply version {version} to {uri}: no such buffer is open"
            raise BufferOutOfSyncError(message, hint="send didOpen again")
        for change in changes:
            buffer.content.apply(change, encoding)
        buffer.version = version
        self._touch(buffer)

    def save_buffer(self, uri: str, *, text: str | None = None) -> None:
        """Record that the editor saved *uri* (didSave), as *text* where it sent that."""
        buffer = self._buffers.get((self, uri))
        if buffer is None:
            return
        if text is not None and text != buffer.content.text:
            buffer.content = LineText(text)
        self._touch(buffer)

    def close_buffer(self, uri: str) -> bool:
        """Close *uri* (didClose), so that its file on the disk counts; return whether it was open."""
        buffer = self._buffers.pop((self, uri), None)
        if buffer is not None:
            self._on_event(buffer)
        return buffer is not None

    def close(self) -> None:
        """Close all buffers of the editor, unsaved text included."""
        for editor, uri in tuple(self._buffers):
            if editor is self:
                self.close_buffer(uri)

    def _touch(self, buffer: Buffer) -> None:
        buffer.superseded = False
        buffer.n_events += 1
        self._buffers[self, buffer.uri] = self._buffers.pop((self, buffer.uri))
        self._on_event(buffer)


class ClientFileSources:
    """The sources of all clients, each for the files below one folder; of several the newest is used."""

    def __init__(self) -> None:
        self._entries: list[tuple[Path, ClientFileSource]] = []

    def add(self, root: Path, source: ClientFileSource) -> Dispose:
        """Use *source* for the files below *root*, until the returned disposer is called."""
        return add_until_disposed(self._entries, (root, source))

    def cover(self, path: Path) -> bool:
        """Whether there is a source for the resolved *path*."""
        return bool(self._sources_of(path))

    def writer(self, path: Path) -> Callable[[Path, str], Awaitable[bool]] | None:
        """Return the function that writes the resolved *path* through a client, or None."""
        return next((source.write for source in self._sources_of(path) if source.write is not None), None)

    async def find_unsaved(self, path: Path, on_disk: str) -> str | None:
        """Return a client's text of the resolved *path* if it is not the text *on_disk*, else None."""
        for source in self._sources_of(path):
            if source.read is not None:
                received = await source.read(path)
                return None if received is None else text_if_unsaved(received, on_disk)
        return None

    def clear(self) -> None:
        """Forget every source."""
        self._entries.clear()

    def _sources_of(self, path: Path) -> list[ClientFileSource]:
        return [source for root, source in reversed(self._entries) if path.is_relative_to(root)]


def add_until_disposed(entries: list[T], entry: T) -> Dispose:
    """Add *entry* to *entries*, until the returned disposer is called."""
    entries.append(entry)

    def dispose() -> None:
        entries[:] = [kept for kept in entries if kept is not entry]

    return dispose


def text_if_unsaved(received: str, on_disk: str) -> str | None:
    """Return the text *received* from an editor if it differs from the text *on_disk*, else None.

    Some editors send LF for every line end. Where the file has CR LF throughout, a text that differs in
    nothing else is the file itself, and one that does differ gets the line ends of the file.

    >>> text_if_unsaved("a\\nb\\n", "a\\r\\nb\\r\\n") is None
    True
    >>> text_if_unsaved("a\\nc\\n", "a\\r\\nb\\r\\n")
    'a\\r\\nc\\r\\n'
    """
    text = received.removeprefix(BOM)
    n_crlf = on_disk.count("\r\n")
    if "\r" not in text and n_crlf and n_crlf == on_disk.count("\n"):
        text = text.replace("\n", "\r\n")
    return None if text == on_disk else text
