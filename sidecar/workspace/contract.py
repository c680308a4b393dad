"""What the other rooms may ask of the workspace: values, errors and the port itself. No behaviour.

A *view* is one file at one moment. The buffer of an editor wins over the disk, always.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from sidecar._internal.errors import SidecarError

__all__ = [
    "BufferOutOfSync",
    "Dispose",
    "EditApplier",
    "EditorPort",
    "FileOracle",
    "FileProblem",
    "FileSource",
    "FileView",
    "PositionEncoding",
    "ReadLedgerPort",
    "ReadRecord",
    "StaleFile",
    "TextChange",
    "TextRange",
    "WatchStatus",
    "WorkspacePort",
]

FileSource: TypeAlias = Literal["buffer", "disk"]
PositionEncoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
Dispose: TypeAlias = Callable[[], None]
"""Ends what returned it; may be called any number of times."""


class FileProblem(SidecarError):
    """A file cannot be read or written; *problem* says why.

    Problems: ``notFound``, ``isDirectory``, ``binary``, ``tooLarge``, ``unreadable``, ``unwritable``,
    ``outsideRoots``, ``changedSinceRead``, ``notReadYet``, ``diskFull``.
    """

    kind: ClassVar[str] = "fileProblem"

    def __init__(self, problem: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, problem=problem)
        self.problem = problem


class BufferOutOfSync(SidecarError):
    """An edit arrived for a buffer that is not open; the client must open it again."""

    kind: ClassVar[str] = "bufferOutOfSync"


@dataclass(frozen=True, slots=True)
class FileView:
    """One text file at one moment.

    *hash* is ``sha256:`` and 64 hex digits over the UTF-8 bytes of *text* as they stand, line ends included.
    A byte order mark is no part of the text, for editors hide it: so a saved buffer and its file have the
    same hash. *version* is the buffer's, None on disk and where a :class:`FileOracle` told the text.
    *unsaved* tells a buffer that differs from its file from one that is merely open; *size_bytes* is the
    file's on disk, the text's in a buffer.
    """

    path: Path
    uri: str
    text: str
    hash: str
    source: FileSource
    version: int | None
    size_bytes: int
    unsaved: bool = False


@dataclass(frozen=True, slots=True)
class TextRange:
    """A range of an editor's: zero-based lines, characters in the negotiated encoding's units."""

    start_line: int
    start_character: int
    end_line: int
    end_character: int


@dataclass(frozen=True, slots=True)
class TextChange:
    """One change of a buffer; *range* None replaces the whole text."""

    text: str
    range: TextRange | None = None


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """What the model has read of one file, last time it looked.

    *call_id* is the tool call that read it. *ranges* are (first line, line count), first line from 1,
    a count of None reaching the end; an empty tuple means the whole file.
    """

    path: Path
    uri: str
    hash: str
    source: FileSource
    version: int | None
    call_id: str
    ranges: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class StaleFile:
    """A file that is no longer what the model read; *now_hash* is None when it is gone or no text."""

    path: Path
    uri: str
    read_hash: str
    now_hash: str | None
    source: FileSource


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """Who watches the disk: ``client``, ``watchfiles``, ``client+watchfiles`` or ``none``.

    *roots* are the trees under watch, *dropped* counts the gaps in which notifications may have been lost,
    and *notes* say in words which tree is not watched as it should be.
    """

    backend: str
    roots: tuple[Path, ...]
    dropped: int
    notes: tuple[str, ...] = ()


EditApplier: TypeAlias = Callable[[FileView, str], Awaitable[bool]]
"""``async (before, new_text) -> bool``: lands an edit in an editor's open buffer, which is *before* now.

Contract: returns False when the editor refused (another version, or the user said no); never raises.
"""


@dataclass(frozen=True, slots=True)
class FileOracle:
    """How to ask one client for the text of a file as its editor has it, and to write through the editor.

    Contract: neither raises but for cancellation, and both return soon. *read* returns None when the client
    has nothing to say, *write* returns False when it did not take the text. Either may be missing.
    """

    read: Callable[[Path], Awaitable[str | None]] | None = None
    write: Callable[[Path, str], Awaitable[bool]] | None = None


class ReadLedgerPort(Protocol):
    """What one session's model has read. Paths are resolved: spellings of one file are one file."""

    def record(
        self, view: FileView, *, call_id: str, first_line: int = 1, line_count: int | None = None
    ) -> None:
        """Remember that the model has seen (this range of) *view*; a newer hash replaces older ranges."""
        ...

    def get(self, path: Path) -> ReadRecord | None:
        """Return the record of *path*, or None when it was not read."""
        ...

    def files(self) -> Sequence[ReadRecord]:
        """Return every record, least recently read first."""
        ...

    def is_stale(self, path: Path) -> bool:
        """Whether the resolved *path*, as a record has it, was read and is known to have changed since."""
        ...

    def forget(self, paths: Iterable[Path]) -> None:
        """Drop the records of *paths*."""
        ...

    def dump(self) -> list[dict[str, Any]]:
        """Return the records as JSON values, for a store that has none of them."""
        ...

    def take_news(self) -> list[dict[str, Any]]:
        """Return as JSON values what was recorded and forgotten since the last call, or since the load."""
        ...

    def load(self, records: Iterable[Any]) -> None:
        """Replace the records by those of :meth:`dump` and the news after it; malformed ones are left out."""
        ...


class EditorPort(Protocol):
    """The open buffers of one editor. Of several editors' buffers of one file the last touched one counts."""

    def open_buffer(self, uri: str, *, version: int, text: str) -> None:
        """The editor opened *uri* (didOpen); opening again replaces the buffer."""
        ...

    def change_buffer(
        self, uri: str, *, version: int, changes: Sequence[TextChange], encoding: PositionEncoding
    ) -> None:
        """Apply the editor's changes in order (didChange). Raises BufferOutOfSync for an unopened *uri*."""
        ...

    def save_buffer(self, uri: str, *, text: str | None = None) -> None:
        """The editor saved *uri* (didSave)."""
        ...

    def close_buffer(self, uri: str) -> None:
        """The editor closed *uri* (didClose); the disk is the truth again. Unknown ones are ignored."""
        ...

    def close(self) -> None:
        """The editor is gone, and its unsaved text with it."""
        ...


class WorkspacePort(Protocol):
    """The files as they are now, for every session of the daemon."""

    def editor(self, apply: EditApplier | None = None) -> EditorPort:
        """Add an editor; *apply* lands edits in its open buffers, None where it takes none."""
        ...

    async def view(self, path: Path) -> FileView:
        """Return *path* as it is now, buffer first. Raises FileProblem."""
        ...

    async def view_project_file(self, path: Path, roots: Sequence[Path], *, limit_bytes: int) -> FileView:
        """Return a file of the project that nobody asked for, buffer first.

        Raises FileProblem, ``outsideRoots`` when links lead out of *roots*, the folders of the project.
        """
        ...

    async def open_views(self) -> Sequence[FileView]:
        """Return every open buffer that stands for a file, one view a file."""
        ...

    async def write(self, path: Path, text: str, *, expected_hash: str | None) -> FileView:
        """Make *text* the content of *path* and return the new view.

        *expected_hash* is the hash the caller has seen, None for a file that must not exist yet; anything
        else there raises FileProblem ``changedSinceRead``. An open buffer is edited through the editor when
        it offers that; else a clean buffer's file is written, and an unsaved one is refused with the way out.
        Disk writes are atomic and keep mode and line ends of *text* as given.
        """
        ...

    def watch(self, root: Path) -> Dispose:
        """Watch the tree *root*, shared with every other caller of the same tree."""
        ...

    def watched_by_client(self, folders: Iterable[Path]) -> Dispose:
        """Leave what lies below *folders* to a client that watches it for us, until it is disposed of."""
        ...

    def disk_changed(self, paths: Iterable[Path]) -> None:
        """Somebody saw *paths* change, appear or vanish on disk."""
        ...

    def ledger(
        self,
        session_id: str,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None] = lambda uri: None,
    ) -> ReadLedgerPort:
        """Return the read ledger of a session.

        *on_stale* hears once when a read file stops being what was read, and *on_fresh* the URI of such a
        file when that is over: it is again what was read, was read anew, or counts as not read.
        """
        ...

    def drop_ledger(self, session_id: str) -> None:
        """Forget a session's ledger."""
        ...

    def on_change(self, listener: Callable[[Path], None]) -> Dispose:
        """Tell *listener* of every file whose buffer or disk bytes may have changed.

        A folder stands for everything below it.
        """
        ...

    def offer(self, root: Path, oracle: FileOracle) -> Dispose:
        """Ask *oracle* about the files below *root* until the returned disposer is called.

        It stands behind the open buffers and before the disk, and is asked only for text files that the disk
        has. What is written below *root* goes through it where it takes writes. Of several the newest counts.
        """
        ...

    def watch_status(self) -> WatchStatus:
        """Return who watches what."""
        ...

    async def close(self) -> None:
        """Stop watching and drop all buffers."""
        ...
