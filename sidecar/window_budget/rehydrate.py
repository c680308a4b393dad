"""Rehydrate: giving back the files that a compaction dropped, inside a budget.

The problem: a digest replaces the head of a transcript, and with it the text of the files that the model had
read there. The newest of them are worth putting back, unless the model still sees them.

1. Candidates are the file ranges read before the cut, newest first, with a body that is neither empty nor
   blanked. A range that the kept tail still shows, by a read or by a write of the whole text, is none; nor is
   a range of a file that was read as a whole. Several ranges of one file count as one file of ``max_files``.
2. A candidate is stale when the file was changed after the read. Text that is stale is history and is never
   restored.
3. Files are put back newest first while the budget lasts, the first one that does not fit in part, with a
   marker that says how to read on; in the transcript they stand oldest first.

For example, after ``read a.py``, ``edit a.py``, ``read b.py`` the candidates are b.py, and a.py as stale:
b.py comes back. In a session the host restores files as they are now instead.

Invariant: the same file range is restored once, under any spelling of its path. Cost: one pass over the
messages; of the reads and writes the 500 newest are looked at. This module reads no file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import ToolCallBlock
from sidecar.text.calls import ToolEffects, effects_of_call, has_failed, touches_named
from sidecar.text.clip import cut_end
from sidecar.window_budget.contract import NO_TOOLS, RehydrateOpts, ResolvePath
from sidecar.window_budget.estimate import chars_in, estimate_message_tokens
from sidecar.window_budget.message import (
    RESTORED_FILE_PREFIX,
    Message,
    ToolResultMessage,
    UserMessage,
    calls_of,
    is_cleared,
    is_restored,
    text_of,
)
from sidecar.window_budget.tail import file_cut_marker

LOOK_BACK = 500
"""How many of the newest reads and writes are looked through for files worth restoring."""

_RESTORED = re.compile(
    re.escape(RESTORED_FILE_PREFIX)
    + r" (.+?)(?: \((?:lines (\d{1,9})-(\d{1,9})(?:, [\d, -]+)?|from line (\d{1,9}))\))?$"
)
_DRIVE = re.compile(r"^/?([A-Za-z]):(?=/|$)")

MIN_FILE_TOKENS = 120
"""Less than this of a file is not worth restoring."""


class FileRange(Value):
    """A part of a file as a read names it: *limit* lines from line *offset*, None for start and end.

    *more* are further ranges behind it, each a first line and a number of lines.
    """

    path: str
    offset: int | None = None
    limit: int | None = None
    more: tuple[tuple[int, int], ...] = ()

    @property
    def ranges(self) -> tuple[tuple[int, int | None], ...]:
        """All its ranges, each a first line and a number of lines, None to the end."""
        return ((self.offset or 1, self.limit), *self.more)

    @property
    def label(self) -> str:
        """The range in words, for a person and a model; empty for the whole file."""
        if self.offset is None and self.limit is None:
            return ""
        if self.limit is None:
            return f" (from line {self.offset})"
        spans = ((first, count or 1) for first, count in self.ranges)
        return f" (lines {', '.join(f'{first}-{first + count - 1}' for first, count in spans)})"


class FileCandidate(Value):
    """A file range that could be restored: its read, with the result at *index*, was dropped.

    *tokens* is its cost as it was read; *is_stale* when the file was changed since.
    """

    file: FileRange
    index: int
    tokens: int
    is_stale: bool


class _Read(Value):
    """A successful read of *file* by *tool*, or a file that was restored (*tool* is empty), at *index*."""

    index: int
    tool: str
    file: FileRange


class _Write(Value):
    """A successful change of the file at *path*; *is_whole* when the call carries all of its new text."""

    index: int
    path: str
    is_whole: bool


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
    messages = (*dropped, *kept)
    cleared = (index for index in range(len(dropped), len(messages)) if not _has_body(messages[index]))
    restored: list[UserMessage] = []
    left = opts.token_budget
    for candidate in select_candidates(messages, len(dropped), opts, blanked=frozenset(cleared)):
        if candidate.is_stale:
            continue
        message = file_message(candidate.file, _body_of(dropped[candidate.index]))
        left -= estimate_message_tokens(message)
        if left < 0 and restored:
            break
        restored.append(message)
    return tuple(reversed(restored))


def select_candidates(
    messages: Sequence[Message],
    cut: int,
    opts: RehydrateOpts,
    resolve: ResolvePath | None = None,
    blanked: frozenset[int] = frozenset(),
    tools: Mapping[str, ToolEffects] = NO_TOOLS,
) -> tuple[FileCandidate, ...]:
    """Return the file ranges read before *cut* that the kept messages no longer show, newest first.

    Args:
        messages: all messages.
        cut: where the kept tail begins.
        opts: limits *max_files* files; several ranges of one file count once.
        resolve: makes spellings of a path one; lexical rules apply either way.
        blanked: indices of kept results that show nothing any more.
        tools: the declared effects of tools, by name.
    """
    if not opts.max_files:
        return ()
    # Each spelling is worked out once: the caller's function may ask the file system.
    key_of = cache(path_key if resolve is None else lambda path: path_key(resolve(path)))
    reads, writes = _list_touches(messages, opts, tools)
    shown = _ShownRanges(key_of)
    for read in reads:
        if read.index >= cut and read.index not in blanked:
            shown.add(read.file)
    for write in writes:
        if write.index >= cut and write.is_whole:
            shown.add(FileRange(write.path))
    changed_at = {key_of(write.path): write.index for write in reversed(writes)}
    found: dict[str, list[FileCandidate]] = {}
    for read in (read for read in reads if read.index < cut):
        message = messages[read.index]
        if shown.covers(read.file) or not _has_body(message):
            continue
        key = key_of(read.file.path)
        if key not in found and len(found) >= opts.max_files:
            break
        shown.add(read.file)
        tokens = estimate_message_tokens(file_message(read.file, _body_of(message)))
        is_stale = changed_at.get(key, -1) > read.index
        found.setdefault(key, []).append(FileCandidate(read.file, read.index, tokens, is_stale))
    chosen: list[FileCandidate] = []
    for ranges in found.values():
        whole = [candidate for candidate in ranges if candidate.file.label == ""]
        chosen += whole[:1] or ranges
    return tuple(sorted(chosen, key=lambda candidate: -candidate.index))


def restore_candidates(
    candidates: Iterable[FileCandidate],
    messages: Sequence[Message],
    token_budget: int,
    max_messages: int,
) -> tuple[UserMessage, ...]:
    """Return as many of *candidates* as fit the budget, as messages, oldest first.

    Args:
        candidates: newest first; stale ones are skipped. A file larger than the rest of the budget is
            restored in part, with a marker that says how to read on.
        messages: the transcript, with the texts as they were read.
        token_budget: the tokens that all together may take.
        max_messages: how many files at most.
    """
    restored: list[UserMessage] = []
    for candidate in candidates:
        if len(restored) >= max_messages or token_budget < MIN_FILE_TOKENS:
            break
        body = "" if candidate.is_stale else _body_of(messages[candidate.index])
        if not body.strip():
            continue
        message, tokens = file_message(candidate.file, body), candidate.tokens
        if tokens > token_budget:
            marker = file_cut_marker(candidate.file.path)
            frame = estimate_message_tokens(file_message(candidate.file, marker)) + 4
            message = file_message(candidate.file, cut_end(body, chars_in(token_budget - frame), marker))
            tokens = estimate_message_tokens(message)
        if tokens <= token_budget:
            token_budget -= tokens
            restored.append(message)
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


def _list_touches(
    messages: Sequence[Message], opts: RehydrateOpts, tools: Mapping[str, ToolEffects]
) -> tuple[list[_Read], list[_Write]]:
    """Return the newest reads by the named tool, files restored from such, and the newest writes.

    Newest first, :data:`LOOK_BACK` of each at most.
    """
    reads, writes = list[_Read](), list[_Write]()
    calls: dict[str, ToolCallBlock] = {}
    for index, message in enumerate(messages):
        calls.update((call.id, call) for call in calls_of(message))
        if isinstance(message, ToolResultMessage):
            if (call := calls.pop(message.tool_call_id, None)) is None:
                continue
            effects, body = effects_of_call(call.name, call.input, tools.get(call.name)), _body_of(message)
            failed = has_failed(effects, body, is_error=bool(message.is_error))
            touches = touches_named(effects, call.input, failed=failed)
            is_whole = effects.kind == "writes"
            writes += (_Write(index, path, is_whole) for touch in touches for path in touch.changed_paths)
            name = opts.read_tool_name
            is_named = effects.kind == "reads" if name is None else call.name == name
            # A tool without a known effect that takes a path counts as a reader under its own name.
            is_read = (
                effects.kind in ("reads", "anything") and touches and touches[0].kind in ("read", "search")
            )
            if is_named and is_read and body.strip() and not message.is_error:
                first, count = touches[0].ranges[0] if touches[0].ranges else (None, None)
                reads.append(_Read(index, call.name, FileRange(touches[0].path, first, count)))
        elif is_restored(message) and (found := _RESTORED.match(_first_line(message))):
            path, first_line, last, start = found.groups()
            offset = int(first_line or start) if first_line or start else None
            limit = int(last) - int(first_line) + 1 if first_line and last else None
            reads.append(_Read(index, "", FileRange(path, offset, limit)))
    return reads[: -LOOK_BACK - 1 : -1], writes[: -LOOK_BACK - 1 : -1]


def _has_body(message: Message) -> bool:
    return not (isinstance(message, ToolResultMessage) and is_cleared(message))


def _first_line(message: Message) -> str:
    return text_of(message.content).partition("\n")[0] if isinstance(message, UserMessage) else ""


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
