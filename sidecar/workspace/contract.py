"""The workspace as other rooms see it: values, errors and ports. No behaviour.

A *view* is one file at one moment. The buffer of an editor wins over the disk, always.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar._internal.values import Value

if TYPE_CHECKING:  # it imports this module
    from sidecar.workspace.paths import ResolvedPath

FileSource: TypeAlias = Literal["buffer", "disk"]
PositionEncoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
QueryKind: TypeAlias = Literal[
    "definition", "references", "documentSymbols", "workspaceSymbols", "hover", "rename", "codeActions"
]
"""A question that the language servers of an editor answer."""

Dispose: TypeAlias = Callable[[], None]
"""Ends the subscription or service that returned it; may be called any number of times."""


RenameListener: TypeAlias = Callable[[Path, Path], Awaitable[None]]
"""``async (old, new)``, both resolved; a folder stands for everything below it."""


class FileAccessError(SidecarError):
    """A file cannot be read or written; *problem* says why.

    Problems: ``notFound``, ``isDirectory``, ``binary``, ``tooLarge``, ``unreadable``, ``unwritable``,
    ``outsideRoots``, ``changedSinceRead``, ``notReadYet``, ``diskFull``.
    """

    kind: ClassVar[str] = "fileProblem"

    def __init__(self, problem: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, problem=problem)
        self.problem = problem


class BufferOutOfSyncError(SidecarError):
    """An edit arrived for a buffer that is not open; the client must open it again."""

    kind: ClassVar[str] = "bufferOutOfSync"


class FileView(Value, kw_only=True):
    """One text file at one moment.

    Attributes:
        text: the content, without a byte order mark: editors hide it, so a saved buffer and its file have the
            same hash.
        hash: ``sha256:`` and 64 hex digits over the UTF-8 bytes of *text*, line ends included.
        version: the version of the buffer; None on disk and for a text from a :class:`ClientFileSource`.
        size_bytes: the size of the file on disk, or of the text in a buffer.
        unsaved: whether a buffer differs from its file.
        codec: how the bytes on disk became *text*, by the name of Python's codec; ``utf-8`` in a buffer.
    """

    path: Path
    uri: str
    text: str
    hash: str
    source: FileSource
    version: int | None
    size_bytes: int
    unsaved: bool = False
    codec: str = "utf-8"


class TextRange(NamedTuple):
    """A range in an editor: zero-based lines, characters in units of the negotiated encoding."""

    start_line: int
    start_character: int
    end_line: int
    end_character: int


class TextChange(NamedTuple):
    """One change of a buffer; *range* None replaces the whole text."""

    text: str
    range: TextRange | None = None


class StaleFile(Value):
    """A file that has changed since the model read it; *now_hash* is None when it is gone or not text."""

    uri: str
    read_hash: str
    now_hash: str | None
    source: FileSource


class WatchStatus(Value):
    """The state of watching the disk.

    Attributes:
        backend: ``client``, ``watchfiles``, ``client+watchfiles`` or ``none``.
        roots: the trees under watch.
        dropped: the number of gaps in which notifications may have been lost.
        notes: a sentence for each tree that is not watched as it should be.
    """

    backend: str
    roots: tuple[Path, ...]
    dropped: int
    notes: tuple[str, ...] = ()


EditApplier: TypeAlias = Callable[[FileView, str], Awaitable[bool]]
"""``async (before, new_text) -> bool``: applies an edit in an editor's open buffer, which is *before* now.

Contract: returns False when the editor refused (another version, or the user refused); never raises.
"""


class ClientFileSource(Value):
    """The files of one client: reads them as its editor has them, and writes through the editor.

    Contract: neither raises but for cancellation, and both return soon. *read* returns None when the client
    has no text for the file, *write* returns False when it did not take the text. Either may be missing.
    """

    read: Callable[[Path], Awaitable[str | None]] | None = None
    write: Callable[[Path, str], Awaitable[bool]] | None = None


class FileBytes(Value):
    """A file on disk: its bytes and its mode, and its text and codec, both None where it is not text."""

    raw: bytes
    mode: int | None
    text: str | None
    codec: str | None


class FileTrackerPort(Protocol):
    """The files of one session that are compared with the content its model knows, by resolved path."""

    @property
    def paths(self) -> Sequence[Path]:
        """The tracked files."""
        ...

    def expect(self, path: Path, uri: str, content_hash: str) -> None:
        """Compare *path* with *content_hash* from now on; the same expectation again changes nothing."""
        ...

    def forget(self, path: Path) -> None:
        """Stop tracking *path*."""
        ...

    def is_stale(self, path: Path) -> bool:
        """Whether the file is known to differ from its expected content."""
        ...

    def hold(self) -> AbstractContextManager[None]:
        """Compare no file until the end of the block, which moves expectations and files together."""
        ...


class EditorPort(Protocol):
    """The open buffers of one editor. Of several editors' buffers of one file the last touched one counts."""

    def open_buffer(self, uri: str, *, version: int, text: str) -> None:
        """Open *uri* (didOpen); opening again replaces the buffer."""
        ...

    def change_buffer(
        self, uri: str, *, version: int, changes: Sequence[TextChange], encoding: PositionEncoding
    ) -> None:
        """Apply changes in order (didChange). Raises BufferOutOfSyncError for an unopened *uri*."""
        ...

    def save_buffer(self, uri: str, *, text: str | None = None) -> None:
        """Record that the editor saved *uri* (didSave)."""
        ...

    def close_buffer(self, uri: str) -> bool:
        """Close *uri* (didClose), so that its file on the disk counts; return whether it was open."""
        ...

    def close(self) -> None:
        """Close all buffers of the editor, unsaved text included."""
        ...


class WorkspacePort(Protocol):
    """The files as they are now, for every session of the daemon."""

    def editor(self, apply: EditApplier | None = None) -> EditorPort:
        """Add an editor; *apply* applies edits in its open buffers, None where it takes none."""
        ...

    async def view(self, path: Path) -> FileView:
        """Return *path* as it is now, buffer first. Raises FileAccessError."""
        ...

    async def view_spelled(
        self, spelled: str, cwd: Path, roots: Sequence[Path]
    ) -> tuple[ResolvedPath, FileView | FileAccessError | None]:
        """Resolve a path as ``resolve_path`` does, and view the file there, in one thread together.

        Returns:
            Where it leads, and the file as it is now or the reason why it cannot be read. None stands for a
            file outside of *roots*, which nobody has looked at.

        Raises:
            FileAccessError: *spelled* can name no file.
        """
        ...

    async def view_project_file(self, path: Path, roots: Sequence[Path], *, limit_bytes: int) -> FileView:
        """Return a file of the project that nobody asked for, buffer first.

        Raises FileAccessError, ``outsideRoots`` when links lead out of *roots*, the folders of the project.
        """
        ...

    async def find_existing(self, paths: Sequence[Path]) -> Sequence[Path]:
        """Return the existing ones of *paths*, on disk or as an open buffer, in order. Follows no links."""
        ...

    async def open_views(self) -> Sequence[FileView]:
        """Return every open buffer that stands for a file, one view a file."""
        ...

    async def write(
        self, path: Path, text: str, *, expected_hash: str | None, original: FileBytes | None = None
    ) -> FileView:
        """Make *text* the content of *path* and return the new view.

        *expected_hash* is the hash the caller has seen, None for a file that must not exist yet; anything
        else there raises FileAccessError ``changedSinceRead``. An open buffer is edited through the editor
        when it offers that; else a clean buffer's file is written, and an unsaved one is refused with the way
        out. Disk writes are atomic and keep mode and line ends of *text* as given. With *original*, a file
        that was kept, a write to the disk restores its bytes and its mode instead.
        """
        ...

    async def delete(self, path: Path, *, expected_hash: str) -> None:
        """Delete the file *path*.

        Raises FileAccessError ``changedSinceRead`` unless its content has *expected_hash*, and ``unwritable``
        while an editor holds unsaved changes of it.
        """
        ...

    def watch(self, root: Path) -> Dispose:
        """Watch the tree *root*, shared with every other caller of the same tree."""
        ...

    def leave_to_client(self, folders: Iterable[Path]) -> Dispose:
        """Leave the trees below *folders* to a client that watches them, until the disposer is called."""
        ...

    def disk_changed(self, paths: Iterable[Path]) -> None:
        """Record that *paths* changed, appeared or vanished on disk."""
        ...

    async def report_renames(self, paths: Iterable[tuple[Path, Path]]) -> None:
        """Record that the user renamed files or folders, each from its old to its new path."""
        ...

    def on_rename(self, listener: RenameListener) -> Dispose:
        """Call *listener* with the old and the new path of every file and folder that the user renames."""
        ...

    def tracker(
        self,
        session_id: str,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None] = lambda uri: None,
    ) -> FileTrackerPort:
        """Return the file tracker of a session; asking again replaces its callbacks.

        Args:
            session_id: the session.
            on_stale: called once when a tracked file stops having the expected content.
            on_fresh: called with the URI of such a file when that is over.
        """
        ...

    def drop_tracker(self, session_id: str) -> None:
        """Forget a session's tracker."""
        ...

    async def wait_for_checks(self, paths: Iterable[Path]) -> None:
        """Wait for the comparisons of *paths* that are due, for a second at most."""
        ...

    def on_change(self, listener: Callable[[Path], None]) -> Dispose:
        """Call *listener* with the path of every file that may have changed, in a buffer or on disk.

        A folder stands for everything below it.
        """
        ...

    def add_client_files(self, root: Path, source: ClientFileSource) -> Dispose:
        """Use *source* for the files below *root* until the returned disposer is called.

        It comes after the open buffers and before the disk, and is used only for text files that exist on
        disk. Writes below *root* go through it where it takes them. Of several the newest counts.
        """
        ...

    def watch_status(self) -> WatchStatus:
        """Return the state of watching."""
        ...

    async def close(self) -> None:
        """Stop watching and drop all buffers."""
        ...
