"""One editor's side of the workspace: it opens, changes, saves and closes its buffers here.

Several editors may have one file open; none can touch a buffer of another's. Keeps no text itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sidecar.workspace.buffers import Buffer, Buffers
from sidecar.workspace.contract import EditApplier, PositionEncoding, TextChange
from sidecar.workspace.line_index import LineText
from sidecar.workspace.uris import uri_to_path

__all__ = ["Editor"]


class Editor:
    """The buffers that one editor has in *buffers*; an ``EditorPort``.

    Args:
        apply: lands an edit in the editor; None where it takes none.
        real_path: resolves a path, so that spellings of one file are one file.
        changed: hears of every buffer that the editor said something of.
    """

    def __init__(
        self,
        buffers: Buffers,
        apply: EditApplier | None,
        *,
        real_path: Callable[[Path], Path],
        changed: Callable[[Buffer], None],
    ) -> None:
        self._buffers = buffers
        self._apply = apply
        self._real_path = real_path
        self._changed = changed

    def open_buffer(self, uri: str, *, version: int, text: str) -> None:
        """The editor opened *uri*; opening again replaces the buffer."""
        path = uri_to_path(uri)
        real = None if path is None else self._real_path(path)
        buffer = Buffer(uri, real, version, LineText(text), self._apply)
        self._buffers.open(self, buffer)
        self._changed(buffer)

    def change_buffer(
        self, uri: str, *, version: int, changes: Sequence[TextChange], encoding: PositionEncoding
    ) -> None:
        """Apply the editor's changes in order. Raises BufferOutOfSync for an unopened *uri*."""
        buffer = self._buffers.change(self, uri, version=version, changes=changes, encoding=encoding)
        self._changed(buffer)

    def save_buffer(self, uri: str, *, text: str | None = None) -> None:
        """The editor saved *uri*."""
        buffer = self._buffers.save(self, uri, text)
        if buffer is not None:
            self._changed(buffer)

    def close_buffer(self, uri: str) -> None:
        """The editor closed *uri*; the disk is the truth again."""
        buffer = self._buffers.close(self, uri)
        if buffer is not None:
            self._changed(buffer)

    def close(self) -> None:
        """The editor is gone, and its unsaved text with it."""
        for uri in self._buffers.uris_of(self):
            self.close_buffer(uri)
