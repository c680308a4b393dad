"""The editor's files become the workspace's: buffers as they are typed, and what moved on the disk.

Every method takes one typed notification. The text itself is kept by the workspace, never here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from lsprotocol import types

from sidecar.workspace.contract import (
    BufferOutOfSync,
    EditorPort,
    PositionEncoding,
    TextChange,
    TextRange,
    WorkspacePort,
)
from sidecar.workspace.uris import uri_to_path

__all__ = ["Documents"]

_log = logging.getLogger("sidecar.server")


class Documents:
    """The documents of one client.

    *encoding* is the unit of its positions, *editor* its place in *workspace*; *warn* puts a line into its
    log.
    """

    def __init__(
        self,
        workspace: WorkspacePort,
        editor: EditorPort,
        encoding: PositionEncoding,
        warn: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._editor = editor
        self._encoding = encoding
        self._warn = warn
        self._lost: set[str] = set()

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """Take a whole buffer."""
        document = params.text_document
        self._lost.discard(document.uri)
        self._editor.open_buffer(document.uri, version=document.version, text=document.text)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Take an edit; one of a buffer that is not open asks once for the whole of it."""
        uri, version = params.text_document.uri, params.text_document.version
        changes = [_change(change) for change in params.content_changes]
        try:
            self._editor.change_buffer(uri, version=version, changes=changes, encoding=self._encoding)
        except BufferOutOfSync:
            self._ask_again(uri)

    def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """Take note that a buffer is on the disk now."""
        self._editor.save_buffer(params.text_document.uri, text=params.text)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """Let go of a buffer."""
        self._editor.close_buffer(params.text_document.uri)

    def watched(self, params: types.DidChangeWatchedFilesParams) -> None:
        """Take what the client's watcher saw."""
        self._moved(change.uri for change in params.changes)

    def created(self, params: types.CreateFilesParams) -> None:
        """Take new files."""
        self._moved(file.uri for file in params.files)

    def renamed(self, params: types.RenameFilesParams) -> None:
        """Take files and folders under new names; the old ones are gone."""
        self._moved(uri for file in params.files for uri in (file.old_uri, file.new_uri))

    def deleted(self, params: types.DeleteFilesParams) -> None:
        """Take files and folders that are gone."""
        self._moved(file.uri for file in params.files)

    def close_all(self) -> None:
        """Let go of every buffer: the client is gone, and its unsaved text with it."""
        self._editor.close()

    def _moved(self, uris: Iterable[str]) -> None:
        paths: list[Path] = [path for path in map(uri_to_path, uris) if path is not None]
        if paths:
            self._workspace.disk_changed(paths)

    def _ask_again(self, uri: str) -> None:
        # The protocol has no request for a buffer's text: all there is to do is to tell the user, once.
        if uri not in self._lost:
            self._lost.add(uri)
            _log.warning("an edit came for a buffer that is not open")
            self._warn(f"{uri} was edited but never opened here; close and open it again")


def _change(change: types.TextDocumentContentChangeEvent) -> TextChange:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return TextChange(change.text)
    start, end = change.range.start, change.range.end
    return TextChange(change.text, TextRange(start.line, start.character, end.line, end.character))
