"""What clients say of files that the disk has too: their unsaved text, for those that share no buffers.

Decides which client is asked and what counts as unsaved. Never reads the disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from sidecar.workspace.contract import Dispose, FileOracle
from sidecar.workspace.files import BOM

__all__ = ["Oracles", "unsaved_text"]


class Oracles:
    """The oracles on offer, each for the files below one folder; of several the newest is asked."""

    def __init__(self) -> None:
        self._offers: list[tuple[Path, FileOracle]] = []

    def add(self, root: Path, oracle: FileOracle) -> Dispose:
        """Ask *oracle* for what lies below *root*, until the returned disposer is called."""
        offer = (root, oracle)
        self._offers.append(offer)

        def dispose() -> None:
            self._offers = [kept for kept in self._offers if kept is not offer]

        return dispose

    def cover(self, path: Path) -> bool:
        """Whether there is anybody to ask about the resolved *path*."""
        return bool(self._asked(path))

    def writer(self, path: Path) -> Callable[[Path, str], Awaitable[bool]] | None:
        """Return how to write the resolved *path* through a client, or None."""
        return next((oracle.write for oracle in self._asked(path) if oracle.write is not None), None)

    async def unsaved(self, path: Path, on_disk: str) -> str | None:
        """Return what a client has for the resolved *path* if it is not the text *on_disk*, else None."""
        for oracle in self._asked(path):
            if oracle.read is not None:
                told = await oracle.read(path)
                return None if told is None else unsaved_text(told, on_disk)
        return None

    def clear(self) -> None:
        """Forget every offer."""
        self._offers.clear()

    def _asked(self, path: Path) -> list[FileOracle]:
        return [oracle for root, oracle in reversed(self._offers) if path.is_relative_to(root)]


def unsaved_text(told: str, on_disk: str) -> str | None:
    """Return the text an editor *told* of a file if it is not what is *on_disk*, else None.

    Some editors tell LF for every line end. Where the file has CR LF throughout, what differs in nothing else
    is the file itself, and what does differ is given back its line ends.

    >>> unsaved_text("a\\nb\\n", "a\\r\\nb\\r\\n") is None
    True
    >>> unsaved_text("a\\nc\\n", "a\\r\\nb\\r\\n")
    'a\\r\\nc\\r\\n'
    """
    text = told.removeprefix(BOM)
    n_crlf = on_disk.count("\r\n")
    if "\r" not in text and n_crlf and n_crlf == on_disk.count("\n"):
        text = text.replace("\n", "\r\n")
    return None if text == on_disk else text
