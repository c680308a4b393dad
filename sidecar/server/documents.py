"""The files of an editor: its open buffers and changes on disk go to the workspace, and it watches the disk.

The text of a buffer is kept by the workspace, never here. Watching is left to the editor where it can,
because that means one watcher for the machine, with the user's excludes: it is asked to watch the client's
folders, and again when they change. The workspace itself watches everything else, and the files of all other
clients.

An edit of the agent in an open buffer is applied by the editor, where it can be undone. It carries the
version of the buffer it was made for, so that the editor refuses a stale one. It replaces a range for each
place that differs: cursors, marks and folds elsewhere stay as they are.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from sidecar.conductor.contract import EditorRange
from sidecar.server.handshake import ClientProfile, read_params
from sidecar.transport.peer import Peer, PeerGoneError, PeerRefused
from sidecar.workspace.contract import (
    BufferOutOfSyncError,
    Dispose,
    EditApplier,
    FileView,
    PositionEncoding,
    TextChange,
    TextRange,
)
from sidecar.workspace.line_index import count_units, split_lines
from sidecar.workspace.paths import uri_to_path

if TYPE_CHECKING:  # a front end answers its handshake before anything of a session is loaded
    from sidecar.workspace.buffers import Editor
    from sidecar.workspace.workspace import Workspace

_log = logging.getLogger("sidecar.server")

_WATCH_METHOD: Final = "workspace/didChangeWatchedFiles"
_EVERYTHING: Final = "**/*"
_WARNING: Final = 2
"""The number of a warning in ``window/logMessage``."""


class OpenedDocument(Struct, rename="camel"):
    """A document that was opened."""

    uri: str
    language_id: str
    version: int
    text: str


class DocumentName(Struct):
    """The name of a document."""

    uri: str


class VersionedDocument(Struct):
    """The name of a document, and its version after the changes."""

    uri: str
    version: int


class Change(Struct):
    """One edit, in positions of the negotiated unit; one without a range replaces the whole text."""

    text: str
    range: EditorRange | None = None


class DidOpen(Struct, rename="camel"):
    """The params of ``textDocument/didOpen``."""

    text_document: OpenedDocument


class DidChange(Struct, rename="camel"):
    """The params of ``textDocument/didChange``; each change counts in the text that the one before left."""

    text_document: VersionedDocument
    content_changes: list[Change]


class DidSave(Struct, rename="camel"):
    """The params of ``textDocument/didSave``."""

    text_document: DocumentName
    text: str | None = None


class DidClose(Struct, rename="camel"):
    """The params of ``textDocument/didClose``."""

    text_document: DocumentName


BUFFER_MESSAGES: Final[dict[str, type[Struct]]] = {
    "textDocument/didOpen": DidOpen,
    "textDocument/didChange": DidChange,
    "textDocument/didSave": DidSave,
    "textDocument/didClose": DidClose,
}
"""The params of the messages that :meth:`OpenDocuments.take` handles.

They come with every keystroke, so they do not go through pygls, whose types cost more than the edit itself.
"""


class OpenDocuments:
    """The open buffers of one client.

    Args:
        workspace: keeps the text, and is notified of changes on disk.
        editor: the client's own part of the workspace.
        encoding: the unit of the client's positions.
        peer: the client.
    """

    def __init__(
        self,
        workspace: Workspace,
        editor: Editor,
        encoding: PositionEncoding,
        peer: Peer,
    ) -> None:
        self._workspace = workspace
        self._editor = editor
        self._encoding = encoding
        self._peer = peer
        self._lost: set[str] = set()

    def take(self, method: str, params: Any) -> bool:
        """Handle one of :data:`BUFFER_MESSAGES`, and return False for any other. Raises InvalidInput.

        For an edit of a buffer that is not open, the user is asked once to open it again.
        """
        kind = BUFFER_MESSAGES.get(method)
        if kind is None:
            return False
        match read_params(method, params, kind):
            case DidChange(text_document=edited, content_changes=edits):
                changes = [to_text_change(edit) for edit in edits]
                try:
                    self._editor.change_buffer(
                        edited.uri, version=edited.version, changes=changes, encoding=self._encoding
                    )
                except BufferOutOfSyncError:
                    _log.warning("an edit came for a buffer that is not open")
                    self._ask_to_reopen(edited.uri, "was edited but is not open here")
            case DidOpen(text_document=opened):
                self._lost.discard(opened.uri)
                self._editor.open_buffer(opened.uri, version=opened.version, text=opened.text)
            case DidSave(text_document=saved, text=text):
                self._editor.save_buffer(saved.uri, text=text)
            case DidClose(text_document=closed):
                self._editor.close_buffer(closed.uri)
        return True

    def drop(self, uri: object) -> None:
        """Remove a buffer after an edit of it that cannot be read: its text is not the editor's any more."""
        if isinstance(uri, str) and self._editor.close_buffer(uri):
            self._ask_to_reopen(uri, "was edited in a way that cannot be read, so that its file counts now")

    def _ask_to_reopen(self, uri: str, why: str) -> None:
        """Ask the user once; the protocol has no request for a buffer's text."""
        if uri not in self._lost:
            self._lost.add(uri)
            message = f"{uri} {why}; close and open it again"
            self._peer.notify("window/logMessage", {"type": _WARNING, "message": message})

    def report_changed(self, uris: Iterable[str]) -> None:
        """Report files and folders that were created, changed, renamed or deleted on disk."""
        if paths := [path for uri in uris if (path := uri_to_path(uri)) is not None]:
            self._workspace.disk_changed(paths)

    def report_renamed(self, uris: Iterable[tuple[str, str]]) -> Awaitable[None]:
        """Report files and folders that the user renamed, each with its old and its new URI."""
        paths = ((uri_to_path(old), uri_to_path(new)) for old, new in uris)
        return self._workspace.report_renames([(old, new) for old, new in paths if old and new])

    def close_all(self) -> None:
        """Remove every buffer: the client is gone, and its unsaved text with it."""
        self._editor.close()


def to_text_change(change: Change) -> TextChange:
    """Return an edit as the workspace takes it; one without a range replaces the whole text."""
    if change.range is None:
        return TextChange(change.text)
    start, end = change.range.start, change.range.end
    return TextChange(change.text, TextRange(start.line, start.character, end.line, end.character))


class ClientWatcher:
    """The file watcher that one client has registered for us, at most one at a time."""

    def __init__(self, peer: Peer, profile: ClientProfile, workspace: Workspace) -> None:
        self._peer = peer
        self._profile = profile
        self._workspace = workspace
        self._numbers = itertools.count(1)
        self._registered: str | None = None
        self._release: Dispose | None = None
        self._one_at_a_time = asyncio.Lock()

    async def cover(self, folder_uris: Sequence[str]) -> None:
        """Let the client watch *folder_uris* and nothing else, if it can.

        The new watcher is registered before the old one is removed, so that no change is missed; for a moment
        a change may be reported twice.
        """
        if not self._profile.registers_watchers:
            return
        async with self._one_at_a_time:
            old, self._registered = self._registered, None
            if folder_uris:
                self._registered = await self._register(folder_uris)
            release, self._release = self._release, None
            if self._registered is not None:
                paths = [path for uri in folder_uris if (path := uri_to_path(uri)) is not None]
                self._release = self._workspace.leave_to_client(paths)
            if release is not None:
                release()
            if old is not None:
                # The misspelt key is the protocol's own.
                await self._request(
                    "unregisterCapability", {"unregisterations": [{"id": old, "method": _WATCH_METHOD}]}
                )

    def close(self) -> None:
        """Watch by ourselves again: the client is gone."""
        self._registered = None
        if self._release is not None:
            self._release()

    async def _register(self, folder_uris: Sequence[str]) -> str | None:
        """Return the name of the new registration, None when the client refuses it."""
        name = f"sidecar-watch-{next(self._numbers)}"
        patterns: list[Any] = [_EVERYTHING]
        if self._profile.watches_relative:
            patterns = [{"baseUri": uri, "pattern": _EVERYTHING} for uri in folder_uris]
        options = {"watchers": [{"globPattern": pattern} for pattern in patterns]}
        registration = {"id": name, "method": _WATCH_METHOD, "registerOptions": options}
        is_registered = await self._request("registerCapability", {"registrations": [registration]})
        return name if is_registered else None

    async def _request(self, verb: str, params: dict[str, Any]) -> bool:
        try:
            await self._peer.request(f"client/{verb}", params)
        except (PeerRefused, PeerGoneError):
            return False
        return True


_MAX_COMPARED_LINES: Final = 5_000
"""Larger changes replace one range: to compare lines takes time that grows with their square."""


def edit_applier(peer: Peer, profile: ClientProfile) -> EditApplier | None:
    """Return the function that edits the client's open buffers, None when the client takes no edits."""
    if profile.applies_edits:
        method = "workspace/applyEdit"
    elif profile.features is not None and profile.features.applies_edits:
        method = "sidecar/edit/apply"
    else:
        return None

    async def apply(before: FileView, new_text: str) -> bool:
        document = {"uri": before.uri, "version": before.version}
        edits = await asyncio.to_thread(minimal_edits, before.text, new_text, profile.encoding)
        change = {"textDocument": document, "edits": edits}
        try:
            reply = await peer.request(method, {"label": "Agent edit", "edit": {"documentChanges": [change]}})
        except (PeerRefused, PeerGoneError):
            return False
        return isinstance(reply, Mapping) and reply.get("applied") is True

    return apply


def minimal_edits(old: str, new: str, encoding: PositionEncoding) -> list[dict[str, Any]]:
    """Return the text edits that make *new* of *old*, one for each group of lines that differs.

    A group that only adds or only removes lines is compared together with the line before it, so that a last
    line is added as in :func:`minimal_edit`.
    """
    old_lines, new_lines = split_lines(old), split_lines(new)
    if max(len(old_lines), len(new_lines)) > _MAX_COMPARED_LINES:
        return [minimal_edit(old, new, encoding)]
    edits: list[dict[str, Any]] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old_lines, new_lines).get_opcodes():
        if tag == "equal":
            continue
        n_before = min(start, new_start, int(tag != "replace"))
        start, new_start = start - n_before, new_start - n_before
        piece, new_piece = "".join(old_lines[start:end]), "".join(new_lines[new_start:new_end])
        edit = minimal_edit(piece, new_piece, encoding)
        for position in edit["range"].values():
            position["line"] += start
        edits.append(edit)
    return edits or [minimal_edit(old, new, encoding)]


def minimal_edit(old: str, new: str, encoding: PositionEncoding) -> dict[str, Any]:
    """Return the text edit that makes *new* of *old* and replaces as little as one range can.

    Where several ranges do, it is the first one: a line that is added at the end of the file is then added
    after the text of the last line, and not behind the last line end, where Neovim first makes a line of its
    own and removes it with a second change.

    >>> minimal_edit("a\\nb\\n", "a\\nb\\nc\\n", "utf-16")["newText"]
    '\\nc'
    """
    n_same = _common_prefix_length(old[::-1], new[::-1])
    end, new_end = len(old) - n_same, len(new) - n_same
    start = _common_prefix_length(old[:end], new[:new_end])
    # No position in an editor is between CR and LF, nor between the halves of a character.
    if _is_inside_line_end(old, end):
        end, new_end = end + 1, new_end + 1
    if _is_inside_line_end(old, start):
        start -= 1
    return {
        "range": {"start": _position(old, start, encoding), "end": _position(old, end, encoding)},
        "newText": new[start:new_end],
    }


def _common_prefix_length(one: str, other: str) -> int:
    """Return how many first characters are equal; halves the range, for comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_inside_line_end(text: str, index: int) -> bool:
    return text[max(0, index - 1) : index + 1] == "\r\n"


def _position(text: str, index: int, encoding: PositionEncoding) -> dict[str, int]:
    lines = split_lines(text[:index])
    last = lines.pop() if lines and not lines[-1].endswith(("\n", "\r")) else ""
    return {"line": len(lines), "character": count_units(last, encoding)}
