"""The files of one session that are compared with the content that its model knows.

It compares hashes that others have computed and reads no file itself. Which content the model knows is
decided by the session, from its conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from sidecar.workspace.contract import FileSource, FileView, StaleFile


class _Expected(Struct):
    """The content that a file is expected to have, and whether it was reported to differ."""

    uri: str
    hash: str
    is_stale: bool = False


class FileTracker:
    """The tracked files of one session, by resolved path.

    Args:
        on_stale: called once when a file stops having the expected content.
        on_fresh: called with the URI of a file that was reported stale and is not any more: it has the
            expected content again, another content is expected, or the file is not tracked any more.
        on_expect: called with every path that is newly expected to have some content, so that it is compared.
    """

    def __init__(
        self,
        on_stale: Callable[[StaleFile], None],
        on_fresh: Callable[[str], None],
        *,
        on_expect: Callable[[Path], None],
    ) -> None:
        self.on_stale = on_stale
        self.on_fresh = on_fresh
        self._on_expect = on_expect
        self._files: dict[Path, _Expected] = {}
        self._above: set[Path] = set()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The tracked files."""
        return tuple(self._files)

    def expect(self, path: Path, uri: str, content_hash: str) -> None:
        """Compare *path* with *content_hash* from now on; the same expectation again changes nothing."""
        before = self._files.get(path)
        if before is not None and (before.uri, before.hash) == (uri, content_hash):
            return
        self._files[path] = _Expected(uri, content_hash)
        # Never removed: a folder too many costs a look-up, and nearly all changes are in none of them.
        if path.parent not in self._above:  # else all above it are there as well
            self._above.update(path.parents)
        self._withdraw(before)
        # A change between the read and this call was reported to nobody: compare once more.
        self._on_expect(path)

    def forget(self, path: Path) -> None:
        """Stop tracking *path*."""
        self._withdraw(self._files.pop(path, None))

    def is_stale(self, path: Path) -> bool:
        """Whether the file is known to differ from its expected content."""
        expected = self._files.get(path)
        return expected is not None and expected.is_stale

    def below(self, path: Path) -> tuple[Path, ...]:
        """Return the tracked files at *path* or, where it is a folder, below it."""
        if path in self._files:
            return (path,)
        return tuple(file for file in self._files if path in file.parents) if path in self._above else ()

    def holds(self, path: Path) -> bool:
        """Whether *path* is tracked; any thread may ask."""
        return path in self._files

    def compare(self, path: Path, now: FileView | None) -> None:
        """Compare *path* with its content now; None when it is gone or no readable text."""
        expected = self._files.get(path)
        if expected is None:
            return
        now_hash = None if now is None else now.hash
        was_stale, expected.is_stale = expected.is_stale, now_hash != expected.hash
        if was_stale and not expected.is_stale:
            self.on_fresh(expected.uri)
        elif expected.is_stale and not was_stale:
            source: FileSource = "disk" if now is None else now.source
            self.on_stale(StaleFile(expected.uri, expected.hash, now_hash, source))

    def _withdraw(self, expected: _Expected | None) -> None:
        """Report that nobody needs to know any more that a file was stale."""
        if expected is not None and expected.is_stale:
            self.on_fresh(expected.uri)
