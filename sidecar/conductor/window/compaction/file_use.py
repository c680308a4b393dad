"""Ranks the files of a conversation by their use, to give the most used ones back after a compaction.

The problem: after a compaction agents read many files again, and not the newest five. Each touch of a file (a
read, an edit, a write, a search that found it) counts 1, a search less, and half as much for every
:data:`HALF_LIFE_CALLS` calls that followed. A name in one of the last prompts or answers counts as one fresh
touch. A file that was only found by searches was never read, so it does not come back.

For example, a file that was edited two calls ago comes before one that was read five times 20 calls ago
(0.76 against 5 / 16). The figures were fixed on the recorded sessions' own second reads.

A ranking looks at the newest :data:`LOOK_BACK_CALLS` calls of the path as it is, those behind summaries
included. They are kept from one ranking to the next (:class:`RecentCalls`): a path that grew costs its new
entries, and of a path that moved only calls that were not among them are searched for touches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Final

from msgspec import Struct, field

from sidecar.conversation import Entry, FileRead, History
from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock, join_texts
from sidecar.text.calls import ToolEffects, effects_of_call, touches_of_call
from sidecar.text.clip import text_or_json
from sidecar.text.touches import Touch

LOOK_BACK_CALLS: Final = 250
HALF_LIFE_CALLS: Final = 5
SEARCH_WEIGHT: Final = 0.5
MENTION_TEXTS: Final = 4
MENTION_CHARS: Final = 4_000
MOST_MENTIONS: Final = 3
TOUCHES_KEPT: Final = 24
"""How many touches of one file are kept to choose its lines from."""

_WORDS: Final = re.compile(r"[\w.-]+")


class FileUse(Struct):
    """One file that was used.

    Attributes:
        path: the file as the newest call named it.
        score: how much it is used.
        touches: its newest touches, the newest first.
        shown: the touches that the model still sees, each with the text of its result.
        is_known: whether a tool of the session read it, and not only a command line that names it.
    """

    path: str
    score: float = 0.0
    touches: list[Touch] = field(default_factory=list)
    shown: list[tuple[Touch, str]] = field(default_factory=list)
    is_known: bool = False


class _Uses:
    """The files touched so far, while the calls are looked through from the newest to the oldest."""

    def __init__(self, key_of: Callable[[str], str]) -> None:
        self.files: dict[str, FileUse] = {}
        self.n_calls = 0
        self._key_of = key_of
        self._moved: dict[str, tuple[str, str]] = {}
        self._gone: set[str] = set()
        self._used: set[str] = set()

    def add(self, touch: Touch, body: str | None, *, is_known: bool = False) -> None:
        """Count *touch*; *body* is its result where the model still sees it."""
        named, key = touch.path, self._key_of(touch.path)
        if touch.kind == "move":
            self._moved[key] = self._moved.get(
                self._key_of(touch.target), (self._key_of(touch.target), touch.target)
            )
            return
        key, named = self._moved.get(key, (key, named))
        if touch.kind == "remove" and key not in self.files:
            self._gone.add(key)
        if touch.kind == "remove" or key in self._gone:
            return
        if (use := self.files.get(key)) is None:
            use = self.files[key] = FileUse(named)
        weight = SEARCH_WEIGHT if touch.kind == "search" else 1.0
        use.score += weight * 0.5 ** (self.n_calls / HALF_LIFE_CALLS)
        use.is_known |= is_known
        if len(use.touches) < TOUCHES_KEPT:
            use.touches.append(touch)
            if touch.kind != "search":
                self._used.add(key)
        if body is not None:
            use.shown.append((touch, body))

    def rank(self, said: Sequence[Set[str]]) -> list[FileUse]:
        """Return the files that were more than found, the most used first; *said* are words of texts."""
        all_said = frozenset[str]().union(*said)
        for use in self.files.values():
            name = words_of_name(use.path)
            if name and name <= all_said:
                use.score += min(sum(name <= words for words in said), MOST_MENTIONS)
        used = [use for key, use in self.files.items() if key in self._used]
        return sorted(used, key=lambda use: -use.score)


class CallUse(Struct):
    """A call with the files that it touched, or files that an entry shows without a call.

    Attributes:
        entry: the entry of the call, or the one that shows the files.
        index: the index of that entry in the path, None behind a summary.
        call: the call, None for files without one.
        result: the result of the call, None while it has none.
        reads: the files that the entry of the result is known to show.
        effects: the declared effects of the tool.
        touches: the touches, the newest first.
    """

    entry: Entry
    index: int | None
    call: ToolCallBlock | None
    result: ToolResultBlock | None = None
    reads: Sequence[FileRead] = ()
    effects: ToolEffects | None = None
    touches: Sequence[Touch] = ()

    @property
    def tool(self) -> str:
        """The name of the tool, empty for no call."""
        return "" if self.call is None else self.call.name

    @property
    def is_known(self) -> bool:
        """Whether a tool of the session read the files, and not only a command line that names them."""
        if self.call is None:
            return True
        return effects_of_call(self.call.name, self.call.input, self.effects).kind == "reads"

    def answer(
        self,
        result: ToolResultBlock,
        reads: Sequence[FileRead],
        effects: ToolEffects | None,
        known: CallUse | None,
    ) -> None:
        """Note the result of the call, and find its touches; *known* is the same call as it was before."""
        self.result, self.reads, self.effects = result, reads, effects
        if known is not None and (known.result, known.effects) == (result, effects) and known.reads is reads:
            self.touches = known.touches
        elif self.call is not None:
            body = text_or_json(result.output)
            self.touches = [
                *touches_of_block(self.call, body, reads, effects, is_error=bool(result.is_error))
            ]


class RecentCalls:
    """The newest calls of a conversation, with the files that they touched, and its newest texts."""

    def __init__(self) -> None:
        self._history = History()
        self._effects: Mapping[str, ToolEffects] = {}
        self._uses: list[CallUse] = []
        self._open: dict[str, CallUse] = {}
        self._known: Mapping[int, CallUse] = {}
        self._texts: tuple[tuple[int, str], ...] = ()
        self._n_calls = 0

    def follow(self, history: History, effects: Mapping[str, ToolEffects]) -> RecentCalls:
        """Return the newest calls of *history*; these stay as they are, as a thread may look at them.

        Args:
            history: the conversation.
            effects: the effects of the tools on offer, by name.
        """
        added = history.since(self._history) if effects == self._effects else None
        if added == ():
            return self
        calls = RecentCalls()
        calls._history, calls._effects = history, effects
        if added is None or any(entry.kind == "summary" for entry in added):
            calls._known = {id(use.call): use for use in self._uses}
            newest, n_calls = list[tuple[Entry, int | None]](), 0
            for entry, index in history.newest_first():
                if n_calls >= LOOK_BACK_CALLS:
                    break
                n_calls += sum(isinstance(block, ToolCallBlock) for block in entry.turn.blocks)
                newest.append((entry, index))
            for entry, index in reversed(newest):
                calls._add(entry, index)
            calls._known = {}
        else:
            # The calls without a result get theirs in the longer path alone.
            copies = {id(use): copy(use) for use in self._open.values()}
            calls._uses = [copies.get(id(use), use) for use in self.newest_first()][::-1]
            calls._open = {call_id: copies[id(use)] for call_id, use in self._open.items()}
            calls._texts, calls._n_calls = self._texts, self._n_calls
            for index, entry in enumerate(added, len(history) - len(added)):
                calls._add(entry, index)
        return calls

    def newest_first(self) -> Iterator[CallUse]:
        """Yield the uses, newest first, up to the first of the entry where enough calls have been seen."""
        n_calls, entry = 0, None
        for use in reversed(self._uses):
            if n_calls >= LOOK_BACK_CALLS and use.entry is not entry:
                return
            n_calls, entry = n_calls + (use.call is not None), use.entry
            yield use

    def words_of_texts(self) -> list[Set[str]]:
        """Return the words of the newest prompts and answers that are no older than the calls."""
        return [words_of(text) for at, text in self._texts if self._n_calls - at < LOOK_BACK_CALLS]

    def _add(self, entry: Entry, index: int | None) -> None:
        """Add an entry that is newer than all others."""
        for block in entry.turn.blocks:
            if isinstance(block, ToolCallBlock):
                self._n_calls += 1
                use = self._open[block.id] = CallUse(entry, index, block)
                self._uses.append(use)
            elif isinstance(block, ToolResultBlock) and (asked := self._open.pop(block.call_id, None)):
                effects = self._effects.get(asked.tool)
                asked.answer(block, entry.reads, effects, self._known.get(id(asked.call)))
        if entry.reads and (touches := touches_beside_calls(entry)):
            self._uses.append(CallUse(entry, index, None, touches=touches))
        if entry.kind in ("user", "assistant") and (text := join_texts(entry.turn.blocks, "\n")):
            self._texts = (*self._texts[1 - MENTION_TEXTS :], (self._n_calls, text[-MENTION_CHARS:]))


def rank_by_use(
    calls: RecentCalls, shown: Mapping[str, str], first_kept: int, key_of: Callable[[str], str]
) -> Sequence[FileUse]:
    """Return the files that a conversation used, the most used first.

    Args:
        calls: its newest calls.
        shown: the results that the model will still see, as it sees them, by their calls' ids.
        first_kept: the index of the first entry that it will still see.
        key_of: makes one name of all spellings of a path.
    """
    uses = _Uses(cache(key_of))
    for use in calls.newest_first():
        call, entry = use.call, use.entry
        is_kept = use.index is not None and use.index >= first_kept
        if call is not None:
            uses.n_calls += 1
            body = shown.get(call.id) if is_kept else None
        elif entry.kind == "file" and entry.origin and not is_kept:
            continue  # the file was given back; the calls that used it are counted where they stand
        else:
            body = join_texts(entry.turn.blocks, "\n") if is_kept else None
        is_known = use.is_known
        for touch in use.touches:
            uses.add(touch, body, is_known=is_known)
    return uses.rank(calls.words_of_texts())


def words_of_name(path: str) -> Set[str]:
    """Return the words of the last name in *path*."""
    return words_of(path.replace("\\", "/").rpartition("/")[2])


def words_of(text: str) -> Set[str]:
    """Return the words of *text*; the name of a file without blanks is one.

    >>> sorted(words_of("See src/a.py, and [id].tsx."))
    ['See', 'a.py', 'and', 'id', 'src', 'tsx']
    """
    return {word for each in _WORDS.findall(text) if (word := each.strip(".-"))}


def touches_of_block(
    call: ToolCallBlock,
    body: str,
    known_reads: Iterable[FileRead],
    declared: ToolEffects | None,
    *,
    is_error: bool = False,
) -> Iterable[Touch]:
    """Return the touches of a call, with the lines that its entry is known to show."""
    touches = touches_of_call(call.name, call.input, body, declared, is_error=is_error)
    reads = [read for read in known_reads if read.call_id == call.id]
    if not touches:
        return [Touch(path=read.path, kind="read", ranges=read.ranges) for read in reads]
    if len(touches) == len(reads) == 1 and touches[0].kind == "read":
        return [replace(touches[0], ranges=reads[0].ranges)]
    return reversed(touches)


def touches_beside_calls(entry: Entry) -> list[Touch]:
    """Return the files that *entry* shows without a call: restored ones, and those a prompt holds."""
    return [
        Touch(path=read.path, kind="read", ranges=read.ranges) for read in entry.reads if not read.call_id
    ]
