"""The workspace as other rooms see it: values and errors. No behaviour.

A *view* is one file at one moment. The buffer of an editor wins over the disk, always.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar._internal.values import Value

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
