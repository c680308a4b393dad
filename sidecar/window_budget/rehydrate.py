"""Rehydrate: giving back the files that a compaction dropped, as they are now, inside a budget.

The problem: a digest replaces the head of a transcript, and with it the text of the files that the model had
read there. The newest of them are worth putting back, unless the model still sees them.

1. Candidates are the file ranges read before the cut, newest first, with a body that is neither empty nor
   blanked. A range that the kept tail still shows, by a read or by a write of the whole text, is none; nor is
   a range of a file that was read as a whole. Several ranges of one file count as one file of ``max_files``.
2. A candidate is stale when the file was changed after the read. Text that is stale is history and is never
   restored; the caller may have the file as it is now, from an open buffer or from disk.
3. Files are put back newest first while the budget lasts, the first one that does not fit in part, with a
   marker that says how to read on; in the transcript they stand oldest first. A file that is gone is reported
   and not restored.

For example, after ``read a.py``, ``edit a.py``, ``read b.py`` the candidates are b.py, and a.py as stale:
b.py comes back from the transcript if need be, a.py only if the caller hands in its text.

Invariant: the same file range is restored once, under any spelling of its path. Cost: at most the 500 newest
reads and writes are looked at. This module reads no file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.text.calls import effects_of_call
from sidecar.text.clip import cut_end
from sidecar.window_budget.contract import RehydrateOpts, ResolvePath
from sidecar.window_budget.estimate import chars_in, estimate_message_tokens
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.message import (
    RESTORED_FILE_PREFIX,
    Message,
    ToolResultMessage,
    UserMessage,
    is_cleared,
    is_restored,
    text_of,
)
from sidecar.window_budget.tail import file_cut_marker
from sidecar.window_budget.tool_use import FileRange, ReadCall
from sidecar.window_budget.transcript import Transcript

LOOK_BACK = 500
"""How many of the newest reads and writes are looked through for files worth restoring."""

_DRIVE = re.compile(r"^/?([A-Za-z]):(?=/|$)")

MIN_FILE_TOKENS = 120
"""Less than this of a file is not worth restoring."""


class FileCandidate(Value):
    """A file range that could be restored: its read at *index* of the fact index was dropped.

    *tokens* is its cost as it was read, 0 where that is not in view any more; *is_stale* when the file was
    changed since.
    """

    file: FileRange
    index: int
    tokens: int
    is_stale: bool


class FreshText(Value):
    """A file range as it is now; *hash* identifies the bytes, *source* says where they are."""

    text: str
    hash: str = ""
    source: Literal["buffer", "disk", "transcript"] = "disk"


class GoneFile(Value):
    """A file that cannot be restored, and why: ``deleted``, ``unreadable``, ..."""

    reason: str


FreshContents: TypeAlias = Mapping[FileRange, FreshText | GoneFile]
"""Files as they are now; of a range that is missing the transcript's own text is used."""


class RestoredRange(Value, kw_only=True):
    """A file range put back into the transcript as *message*."""

    file: FileRange
    hash: str
    source: str
    tokens: int
    message: UserMessage


class RestoredFiles(Value):
    """The files that a compaction puts back, and the ones that are *gone*, with the reason."""

    ranges: tuple[RestoredRange, ...] = ()
    gone: tuple[tuple[FileRange, str], ...] = ()


def rehydrate_recent_reads(
    dropped: Sequence[Message], kept: Sequence[Message], opts: RehydrateOpts | None = None
) -> tuple[Message, ...]:
    """Return the freshest reads in *dropped*, as synthetic user messages, oldest first.

    A file that *kept* still shows, or that was changed after the read, is left out.

    Args:
        dropped: the messages that a digest replaces.
        kept: the messages behind them.
        opts: at most ``max_files`` files, stopping before ``token_budget`` is passed; the single freshest is
            restored even above it.

    >>> rehydrate_recent_reads([UserMessage("hi")], [])
    ()
    """
    opts = opts or RehydrateOpts()
    transcript = Transcript.of((*dropped, *kept))
    cleared = (index for index in range(len(dropped), len(transcript)) if not _has_body(transcript[index]))
    restored: list[UserMessage] = []
    left = opts.token_budget
    for candidate in select_candidates(transcript, len(dropped), opts, blanked=frozenset(cleared)):
        if candidate.is_stale:
            continue
        message = file_message(candidate.file, _body_of(dropped[candidate.index]))
        left -= estimate_message_tokens(message)
        if left < 0 and restored:
            break
        restored.append(message)
    return tuple(reversed(restored))


def select_candidates(
    transcript: Transcript,
    cut: int,
    opts: RehydrateOpts,
    resolve: ResolvePath | None = None,
    blanked: frozenset[int] = frozenset(),
) -> tuple[FileCandidate, ...]:
    """Return the file ranges read before *cut* that the kept messages no longer show, newest first.

    Args:
        transcript: all messages.
        cut: where the kept tail begins.
        opts: limits *max_files* files; several ranges of one file count once.
        resolve: makes spellings of a path one; lexical rules apply either way.
        blanked: indices of kept results that show nothing any more.
    """
    if not opts.max_files:
        return ()
    # Each spelling is worked out once: the caller's function may ask the file system.
    key_of = cache(path_key if resolve is None else lambda path: path_key(resolve(path)))
    facts, start = transcript.facts, transcript.position(cut)
    hidden = {transcript.position(index) for index in blanked}
    shown = _ShownRanges(key_of)
    for read in _newest_reads(facts, len(facts), opts):
        if read.index >= start and read.index not in hidden:
            shown.add(read.file)
    newest_writes = list(islice(facts.writes(len(facts)), LOOK_BACK))
    for write in newest_writes:
        if write.index >= start and write.is_whole:
            shown.add(FileRange(write.path))
    changed_at = {key_of(write.path): write.index for write in reversed(newest_writes)}
    found: dict[str, list[FileCandidate]] = {}
    for read in _newest_reads(facts, start, opts):
        index = transcript.index_of(read.index)
        message = None if index is None else transcript[index]
        if shown.covers(read.file) or (message is not None and not _has_body(message)):
            continue
        key = key_of(read.file.path)
        if key not in found and len(found) >= opts.max_files:
            break
        shown.add(read.file)
        body = "" if message is None else _body_of(message)
        tokens = estimate_message_tokens(file_message(read.file, body))
        is_stale = changed_at.get(key, -1) > read.index
        found.setdefault(key, []).append(FileCandidate(read.file, read.index, tokens, is_stale))
    chosen: list[FileCandidate] = []
    for ranges in found.values():
        whole = [candidate for candidate in ranges if candidate.file.label == ""]
        chosen += whole[:1] or ranges
    return tuple(sorted(chosen, key=lambda candidate: -candidate.index))


def fresh_files(
    candidates: Iterable[FileCandidate], transcript: Transcript, fresh: FreshContents
) -> Iterator[tuple[FileRange, FreshText | GoneFile]]:
    """Yield the present text of each of *candidates*, newest first.

    Args:
        candidates: the file ranges to restore.
        transcript: its own text serves a candidate that is neither stale nor in *fresh*.
        fresh: the files as they are now.
    """
    for candidate in candidates:
        if candidate.file in fresh:
            yield candidate.file, fresh[candidate.file]
        elif not candidate.is_stale and (index := transcript.index_of(candidate.index)) is not None:
            yield candidate.file, FreshText(_body_of(transcript[index]), source="transcript")


def restore_files(
    files: Iterable[tuple[FileRange, FreshText | GoneFile]], token_budget: int, max_messages: int
) -> tuple[RestoredRange, ...]:
    """Return as many of *files* as fit the budget, oldest first.

    Args:
        files: newest first. A file larger than the rest of the budget is restored in part, with a marker
            that says how to read on; gone and empty files are skipped.
        token_budget: the tokens that all together may take.
        max_messages: how many files at most.
    """
    restored: list[RestoredRange] = []
    for file, found in files:
        if len(restored) >= max_messages or token_budget < MIN_FILE_TOKENS:
            break
        if isinstance(found, GoneFile) or not found.text.strip():
            continue
        message = file_message(file, found.text)
        if estimate_message_tokens(message) > token_budget:
            marker = file_cut_marker(file.path)
            frame = estimate_message_tokens(file_message(file, marker)) + 4
            message = file_message(file, cut_end(found.text, chars_in(token_budget - frame), marker))
        tokens = estimate_message_tokens(message)
        if tokens <= token_budget:
            token_budget -= tokens
            restored.append(
                RestoredRange(file=file, hash=found.hash, source=found.source, tokens=tokens, message=message)
            )
    return tuple(reversed(restored))


class _ShownRanges:
    """The file ranges that the model can see; a whole file shows all its ranges."""

    def __init__(self, key_of: ResolvePath) -> None:
        self._key_of = key_of
        self._ranges = set[FileRange]()

    def add(self, file: FileRange) -> None:
        self._ranges.add(self._normalize(file))

    def covers(self, file: FileRange) -> bool:
        normal = self._normalize(file)
        return normal in self._ranges or FileRange(normal.path) in self._ranges

    def _normalize(self, file: FileRange) -> FileRange:
        starts_at_top = file.offset is None or file.offset <= 1
        return FileRange(self._key_of(file.path), None if starts_at_top else file.offset, file.limit)


def _newest_reads(facts: FactIndex, before: int, opts: RehydrateOpts) -> Iterator[ReadCall]:
    """Yield the reads of the named tool before *before*, and files restored from such, newest first."""
    name = opts.read_tool_name
    for read in islice(facts.reads(before), LOOK_BACK):
        effects = effects_of_call(read.tool, None, facts.tools.get(read.tool))
        is_named = effects.kind == "reads" if name is None else read.tool == name
        if is_named or not read.tool:
            yield read


def _has_body(message: Message) -> bool:
    return not (isinstance(message, ToolResultMessage) and is_cleared(message))


def _body_of(message: Message) -> str:
    if isinstance(message, ToolResultMessage):
        return text_of(message.content)
    if isinstance(message, UserMessage) and is_restored(message):
        return text_of(message.content).partition("\n")[2]
    return ""


def path_key(path: str) -> str:
    """Return one spelling for all lexical spellings of *path*.

    Links and letter case are left alone: a caller that can resolve those hands in a function of its own.

    >>> {path_key(p) for p in ("./src/a.py", "src//a.py", "src/x/../a.py", "file://src/a.py")}
    {'src/a.py'}
    >>> path_key("C:\\\\src\\\\a.py"), path_key("c:/src/./a.py")
    ('c:/src/a.py', 'c:/src/a.py')
    """
    text = path.strip().removeprefix("file://").replace("\\", "/")
    text = _DRIVE.sub(lambda found: f"{found.group(1).lower()}:", text)
    normal = posixpath.normpath(text)
    return "/" + normal.lstrip("/") if normal.startswith("/") else normal


def file_message(file: FileRange, body: str) -> UserMessage:
    """Return the message that shows *body* as the text of *file*."""
    return UserMessage(f"{RESTORED_FILE_PREFIX} {file.path}{file.label}\n{body}")
