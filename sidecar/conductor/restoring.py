"""Puts files that the model has read before its eyes again, as they are now, without a compaction.

Reads through what it is given and changes nothing; the session appends what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.conductor.contract import RestoredFile
from sidecar.conductor.engines.base import FreshFile, FreshFiles
from sidecar.conductor.session_ops import messages_to_turns
from sidecar.llmgateway.contract import Turn
from sidecar.window_budget import FileRange, FreshText, GoneFile, restore_files
from sidecar.workspace.contract import ReadRecord
from sidecar.workspace.line_index import split_lines

__all__ = ["DEFAULT_BUDGET_TOKENS", "Restoration", "fresh_text", "restore"]

DEFAULT_BUDGET_TOKENS: Final = 8000
_GONE: Final[dict[str, str]] = {
    "notFound": "deleted",
    "binary": "no text any more",
    "tooLarge": "too large now",
}


@dataclass(frozen=True, slots=True)
class Restoration:
    """What is put back: *turns* as the model will see them; *missing* says of each file why it cannot be."""

    turns: tuple[Turn, ...]
    files: tuple[RestoredFile, ...]
    missing: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """What it costs."""
        return sum(file.tokens for file in self.files)


async def restore(
    records: Sequence[tuple[str, ReadRecord]], read: FreshFiles, budget_tokens: int
) -> Restoration:
    """Return what *records*, newest first and each under its shown path, hold now, inside the budget.

    Of a file that was read in parts those parts come back. What does not fit whole is cut, with a marker.
    """
    fresh = await read([path for path, _ in records])
    found = [
        (part, fresh_text(part, fresh[part.path]))
        for path, record in records
        for part in _parts(path, record)
    ]
    restored = restore_files(found, budget_tokens, max_messages=len(found))
    return Restoration(
        turns=messages_to_turns(each.message for each in restored),
        files=tuple(
            RestoredFile(fresh[each.file.path].uri, each.hash, each.source, each.tokens) for each in restored
        ),
        missing=tuple(
            dict.fromkeys(f"{part.path}: {gone.reason}" for part, gone in found if isinstance(gone, GoneFile))
        ),
    )


def fresh_text(file: FileRange, fresh: FreshFile) -> FreshText | GoneFile:
    """Return the lines of *file* as they are now, numbered as the read tool numbers them."""
    if fresh.text is None:
        return GoneFile(_GONE.get(fresh.problem or "", fresh.problem or "unreadable"))
    lines = [line.rstrip("\r\n") for line in split_lines(fresh.text)]
    first = max(1, file.offset or 1)
    last = len(lines) if file.limit is None else min(len(lines), first - 1 + file.limit)
    text = "\n".join(f"{number:>6}\t{lines[number - 1]}" for number in range(first, last + 1))
    return FreshText(text, fresh.hash or "", "buffer" if fresh.source == "buffer" else "disk")


def _parts(path: str, record: ReadRecord) -> Iterator[FileRange]:
    if not record.ranges:
        yield FileRange(path)
    for first, count in record.ranges:
        yield FileRange(path, first, count)
