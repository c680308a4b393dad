"""Ranks the files of a conversation by their use, to give the most used ones back after a compaction.

The problem: after a compaction agents read many files again, and not the newest five. Each touch of a file (a
read, an edit, a write, a search that found it) counts 1, a search less, and half as much for every
:data:`HALF_LIFE_CALLS` calls that followed. A name in one of the last prompts or answers counts as one fresh
touch. A file that was only found by searches was never read, so it does not come back.

For example, a file that was edited two calls ago comes before one that was read five times 20 calls ago
(0.76 against 5 / 16). The figures were fixed on the recorded sessions' own second reads.

A ranking looks at the newest :data:`LOOK_BACK_CALLS` calls of the path as it is, those behind summaries
included, from the newest to the oldest: so the result of a call is known when the call is reached, and the
cost is that of those calls, however long the conversation is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
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


def rank_by_use(
    history: History,
    effects: Mapping[str, ToolEffects],
    *,
    shown: Mapping[str, str],
    first_kept: int,
    key_of: Callable[[str], str],
) -> Sequence[FileUse]:
    """Return the files that a conversation used, the most used first.

    Args:
        history: the conversation.
        effects: the effects of the tools on offer, by name.
        shown: the results that the model will still see, as it sees them, by their calls' ids.
        first_kept: the index of the first entry that it will still see.
        key_of: makes one name of all spellings of a path.
    """
    uses = _Uses(cache(key_of))
    results: dict[str, tuple[ToolResultBlock, Sequence[FileRead]]] = {}
    said: list[Set[str]] = []
    for entry, index in history.newest_first():
        if uses.n_calls >= LOOK_BACK_CALLS:
            break
        is_kept = index is not None and index >= first_kept
        text = join_texts(entry.turn.blocks, "\n")
        if entry.kind in ("user", "assistant") and text and len(said) < MENTION_TEXTS:
            said.append(words_of(text[-MENTION_CHARS:]))
        # Of a file that was given back the calls that used it are counted where they stand.
        if is_kept or entry.kind != "file" or not entry.origin:
            for touch in touches_beside_calls(entry):
                uses.add(touch, text if is_kept else None, is_known=True)
        for block in reversed(entry.turn.blocks):
            if isinstance(block, ToolResultBlock):
                results[block.call_id] = block, entry.reads
            elif isinstance(block, ToolCallBlock):
                uses.n_calls += 1
                if block.id in results:
                    result, reads = results.pop(block.id)
                    declared = effects.get(block.name)
                    is_known = effects_of_call(block.name, block.input, declared).kind == "reads"
                    body = shown.get(block.id) if is_kept else None
                    for touch in touches_of_block(block, result, reads, declared):
                        uses.add(touch, body, is_known=is_known)
    return uses.rank(said)


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
    result: ToolResultBlock,
    known_reads: Iterable[FileRead],
    declared: ToolEffects | None,
) -> Iterable[Touch]:
    """Return the touches of a call, the newest first, with the lines that *known_reads* say it showed."""
    body, is_error = text_or_json(result.output), bool(result.is_error)
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
