"""Open buffers, as an editor tells of them: what is open here is the truth before what is on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

__all__ = ["Documents", "FileChange", "uri_of"]

FileChange: TypeAlias = Literal["created", "changed", "deleted"]
_CHANGE_NUMBERS: Final[dict[FileChange, int]] = {"created": 1, "changed": 2, "deleted": 3}


def uri_of(file: str | Path) -> str:
    """Return the URI of *file*: a Path is made absolute, a string is one already.

    >>> uri_of("file:///project/a.py")
    'file:///project/a.py'
    """
    return file if isinstance(file, str) else file.absolute().as_uri()


class Documents:
    """LSP's text synchronisation; versions are counted here."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}

    async def notify(self, method: str, params: Any) -> None:
        """Send one notification."""
        raise NotImplementedError

    async def did_open(self, file: str | Path, text: str, language_id: str = "plaintext") -> None:
        """Open a buffer with *text*."""
        uri = uri_of(file)
        self._versions[uri] = 1
        document = {"uri": uri, "languageId": language_id, "version": 1, "text": text}
        await self.notify("textDocument/didOpen", {"textDocument": document})

    async def did_change(self, file: str | Path, change: str | Sequence[Mapping[str, Any]]) -> None:
        """Change a buffer: to the whole new text, or by LSP's ``contentChanges``."""
        uri = uri_of(file)
        version = self._versions[uri] = self._versions.get(uri, 0) + 1
        changes = [{"text": change}] if isinstance(change, str) else list(change)
        document = {"uri": uri, "version": version}
        await self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    async def did_save(self, file: str | Path) -> None:
        """Say that the buffer is on disk now."""
        await self.notify("textDocument/didSave", {"textDocument": {"uri": uri_of(file)}})

    async def did_close(self, file: str | Path) -> None:
        """Close a buffer; from now on the disk is the truth."""
        uri = uri_of(file)
        self._versions.pop(uri, None)
        await self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    async def did_change_watched_files(self, changes: Iterable[tuple[str | Path, FileChange]]) -> None:
        """Tell what happened to files on disk."""
        listed = [{"uri": uri_of(file), "type": _CHANGE_NUMBERS[what]} for file, what in changes]
        await self.notify("workspace/didChangeWatchedFiles", {"changes": listed})
