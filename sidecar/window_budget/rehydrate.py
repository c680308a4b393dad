"""Giving back the files that a condense dropped, as they are now, inside a budget.

A file that was edited after it was read is never restored from the transcript: that text is history. A file
that is gone is reported, not restored. This module reads no file: what is on disk or in a buffer comes from
the caller. Seed 001, fact W22; failure B-W8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Literal, TypeAlias

from sidecar.window_budget.budget.estimate import chars_in, estimate_message_tokens
from sidecar.window_budget.marks import RESTORED_FILE_PREFIX, is_cleared, is_restored
from sidecar.window_budget.message import Message, ToolResultMessage, UserMessage, text_of
from sidecar.window_budget.paths import path_key
from sidecar.window_budget.summarize.actions import FileRange, ReadRecord
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.text import cut_end
from sidecar.window_budget.transcript import Transcript

__all__ = [
    "RESTORED_FILE_PREFIX",
    "Candidate",
    "FileRange",
    "FreshFile",
    "FreshFiles",
    "FreshText",
    "GoneFile",
    "RehydrateOpts",
    "Resolve",
    "RestoredFile",
    "cut_marker",
    "fresh_files",
    "rehydrate_recent_reads",
    "restore_files",
    "select_candidates",
]

LOOK_BACK = 500
"""How many of the newest reads and writes are looked through for files worth restoring."""

MIN_FILE_TOKENS = 120
"""Less than this of a file is not worth restoring."""

Resolve: TypeAlias = Callable[[str], str]
"""Maps any spelling of a path to one. Contract: pure, never raises."""


@dataclass(frozen=True, slots=True)
class RehydrateOpts:
    """How much is restored of what *read_tool_name* read: *max_files* files and *token_budget* tokens."""

    max_files: int = 5
    token_budget: int = 8000
    read_tool_name: str = "read"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file range whose read was dropped, *tokens* as it was read; *is_stale* when it was changed since."""

    file: FileRange
    index: int
    tokens: int
    is_stale: bool


@dataclass(frozen=True, slots=True)
class FreshText:
    """A file range as it is now; *hash* identifies the bytes, *source* says where they are."""

    text: str
    hash: str = ""
    source: Literal["buffer", "disk", "transcript"] = "disk"


@dataclass(frozen=True, slots=True)
class GoneFile:
    """A file that cannot be restored, and why: ``deleted``, ``unreadable``, ..."""

    reason: str


FreshFile: TypeAlias = FreshText | GoneFile

FreshFiles: TypeAlias = Mapping[FileRange, FreshFile]
"""Files as they are now; of a range that is missing the transcript's own text is used."""


@dataclass(frozen=True, slots=True)
class RestoredFile:
    """A file range put back into the transcript: *message* is what the model sees."""

    file: FileRange
    hash: str
    source: str
    tokens: int
    message: UserMessage


def rehydrate_recent_reads(
    dropped: Sequence[Message], kept: Sequence[Message], opts: RehydrateOpts | None = None
) -> tuple[Message, ...]:
    """Return the freshest reads in *dropped*, as synthetic user messages, oldest first.

    A file that *kept* still shows, or that was changed after the read, is left out. At most ``max_files``
    files, stopping before ``token_budget`` is passed; the single freshest is restored even above it.

    >>> rehydrate_recent_reads([UserMessage("hi")], [])
    ()
    """
    opts = opts or RehydrateOpts()
    transcript = Transcript.of((*dropped, *kept))
    cleared = (index for index in range(len(dropped), len(transcript)) if not _shows_body(transcript[index]))
    found = select_candidates(transcript, len(dropped), opts, blanked=frozenset(cleared))
    restored: list[UserMessage] = []
    left = opts.token_budget
    for candidate in found:
        if candidate.is_stale:
            continue
        message = _message(candidate.file, _body(dropped[candidate.index]))
        left -= estimate_message_tokens(message)
        if left < 0 and restored:
            break
        restored.append(message)
    return tuple(reversed(restored))


def select_candidates(
    transcript: Transcript,
    cut: int,
    opts: RehydrateOpts,
    resolve: Resolve | None = None,
    blanked: frozenset[int] = frozenset(),
) -> tuple[Candidate, ...]:
    """Return the file ranges read before *cut* that what is kept no longer shows, newest first.

    Args:
        transcript: all messages.
        cut: where the kept tail begins.
        opts: limits *max_files* files; several ranges of one file count once.
        resolve: makes spellings of a path one; lexical rules apply either way.
        blanked: indices of kept results that show nothing any more.
    """
    key_of = _keyed(resolve)
    shown = _shown_from(cut, transcript.ledger, key_of, opts, blanked)
    oldest_first = reversed(list(islice(transcript.ledger.writes(len(transcript)), LOOK_BACK)))
    changed = {key_of(write.path): write.index for write in oldest_first}
    found: dict[str, list[Candidate]] = {}
    for read in _reads(transcript.ledger, cut, opts):
        if shown.covers(read.file) or not _shows_body(message := transcript[read.index]):
            continue
        key = key_of(read.file.path)
        if key not in found and len(found) >= opts.max_files:
            break
        shown.add(read.file)
        tokens = estimate_message_tokens(_message(read.file, _body(message)))
        candidate = Candidate(read.file, read.index, tokens, changed.get(key, -1) > read.index)
        found.setdefault(key, []).append(candidate)
    chosen = [candidate for ranges in found.values() for candidate in _without_parts(ranges)]
    return tuple(sorted(chosen, key=lambda candidate: -candidate.index))


def fresh_files(
    candidates: Iterable[Candidate], messages: Sequence[Message], fresh: FreshFiles
) -> Iterator[tuple[FileRange, FreshFile]]:
    """Yield what each of *candidates* holds now; one that is stale and not in *fresh* is left out."""
    for candidate in candidates:
        if candidate.file in fresh:
            yield candidate.file, fresh[candidate.file]
        elif not candidate.is_stale:
            yield candidate.file, FreshText(_body(messages[candidate.index]), source="transcript")


def restore_files(
    files: Iterable[tuple[FileRange, FreshFile]], token_budget: int, max_messages: int
) -> tuple[RestoredFile, ...]:
    """Return what of *files*, newest first, fits the budget; the result is oldest first.

    A file larger than what is left of the budget is restored in part, with a marker that says how to read on;
    *max_messages* bounds the number of messages. Gone files are skipped.
    """
    restored: list[RestoredFile] = []
    for file, found in files:
        if len(restored) >= max_messages or token_budget < MIN_FILE_TOKENS:
            break
        if isinstance(found, GoneFile) or not found.text.strip():
            continue
        message = _fitted(file, found.text, token_budget)
        tokens = estimate_message_tokens(message)
        if tokens <= token_budget:
            token_budget -= tokens
            restored.append(RestoredFile(file, found.hash, found.source, tokens, message))
    return tuple(reversed(restored))


def cut_marker(path: str | None, tool_name: str) -> str:
    """Return the marker that stands where a body was cut; ``{}`` is the number of characters.

    >>> cut_marker("a.py", "read")
    '[... {} characters cut; read a.py with offset/limit for the rest ...]'
    """
    if path is not None:
        return f"[... {{}} characters cut; read {path} with offset/limit for the rest ...]"
    tool = tool_name or "the tool"
    return f"[... {{}} characters cut; call {tool} again with a narrower request for the rest ...]"


class _Shown:
    """Which file ranges the model can see; a whole file shows all its ranges."""

    def __init__(self, key_of: Resolve) -> None:
        self._key_of = key_of
        self._ranges = set[FileRange]()

    def add(self, file: FileRange) -> None:
        self._ranges.add(self._normal(file))

    def covers(self, file: FileRange) -> bool:
        normal = self._normal(file)
        return normal in self._ranges or FileRange(normal.path) in self._ranges

    def _normal(self, file: FileRange) -> FileRange:
        starts_at_top = file.offset is None or file.offset <= 1
        return FileRange(self._key_of(file.path), None if starts_at_top else file.offset, file.limit)


def _shown_from(
    cut: int, ledger: FactLedger, key_of: Resolve, opts: RehydrateOpts, blanked: frozenset[int]
) -> _Shown:
    """Return what the messages from *cut* on show: by a read, or by a write of the whole text."""
    shown = _Shown(key_of)
    for read in _reads(ledger, len(ledger), opts):
        if read.index >= cut and read.index not in blanked:
            shown.add(read.file)
    for write in islice(ledger.writes(len(ledger)), LOOK_BACK):
        if write.index >= cut and write.is_whole:
            shown.add(FileRange(write.path))
    return shown


def _without_parts(ranges: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return *ranges* of one file, or only the whole of it where it was read as a whole too."""
    return [candidate for candidate in ranges if candidate.file.label == ""][:1] or ranges


def _keyed(resolve: Resolve | None) -> Resolve:
    """Return the key of a path, worked out once for each spelling."""
    return cache(path_key if resolve is None else lambda path: path_key(resolve(path)))


def _reads(ledger: FactLedger, before: int, opts: RehydrateOpts) -> Iterator[ReadRecord]:
    """Yield the reads of the named tool before *before*, and files restored from such, newest first."""
    newest = islice(ledger.reads(before), LOOK_BACK)
    return (read for read in newest if read.tool in (opts.read_tool_name, ""))


def _shows_body(message: Message) -> bool:
    return not (isinstance(message, ToolResultMessage) and is_cleared(message))


def _body(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return text_of(message.content)
    if isinstance(message, UserMessage) and is_restored(message):
        return text_of(message.content).partition("\n")[2]
    return ""


def _message(file: FileRange, body: str) -> UserMessage:
    return UserMessage(f"{RESTORED_FILE_PREFIX} {file.path}{file.label}\n{body}")


def _fitted(file: FileRange, body: str, token_budget: int) -> UserMessage:
    message = _message(file, body)
    if estimate_message_tokens(message) <= token_budget:
        return message
    marker = cut_marker(file.path, "read")
    frame = estimate_message_tokens(_message(file, marker)) + 4
    return _message(file, cut_end(body, chars_in(token_budget - frame), marker))
