"""Files as clients have them: the unsaved text of clients that share no buffers, below one folder each.

Decides which client is asked and which text counts as unsaved. The disk is never read here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from sidecar.workspace.contract import ClientFileSource, Dispose
from sidecar.workspace.files import BOM


class ClientFileSources:
    """The sources of all clients, each for the files below one folder; of several the newest is used."""

    def __init__(self) -> None:
        self._entries: list[tuple[Path, ClientFileSource]] = []

    def add(self, root: Path, source: ClientFileSource) -> Dispose:
        """Use *source* for the files below *root*, until the returned disposer is called."""
        entry = (root, source)
        self._entries.append(entry)

        def dispose() -> None:
            self._entries = [kept for kept in self._entries if kept is not entry]

        return dispose

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
