"""Ranks the files of a conversation by their use, to give the most used ones back after a compaction.

The problem: after a compaction agents read many files again, and not the newest five. Each touch of a file (a
read, an edit, a write, a search that found it) counts 1, a search less, and half as much for every
:data:`HALF_LIFE_CALLS` calls that followed. A name in one of the last prompts or answers counts as one fresh
touch. A file that was only found by searches was never read, so it does not come back.

For example, a file that was edited two calls ago comes before one that was read five times 20 calls ago
(0.76 against 5 / 16). The figures were fixed on the recorded sessions' own second reads.

A ranking looks at the newest :data:`LOOK_BACK_CALLS` calls of the path as it is, those behind summaries
included, so after an undo or a rewind it is right by construction. From one ranking to the next only the
touches of the same calls are kept, which are most of the work and cannot change (:class:`KnownTouches`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, Final

from msgspec import Struct, field

from sidecar.capabilities.effects import ToolEffects, effects_of_name
from sidecar.capabilities.shell_touches import Touch
from sidecar.capabilities.touches import touches_of_call
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock
from sidecar.window_budget.text import compact_json

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
        self.said: list[Set[str]] = []
        self.n_calls = 0
        self._key_of = key_of
        self._moved: dict[str, tuple[str, str]] = {}
        self._gone: set[str] = set()

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
        if body is not None:
            use.shown.append((touch, body))

    def rank(self) -> list[FileUse]:
        """Return the files that were more than found, the most used first."""
        for use in self.files.values():
            name = words_of_name(use.path)
            mentions = [said for said in self.said if name <= said] if name else ()
            use.score += min(len(mentions), MOST_MENTIONS)
        used = [use for use in self.files.values() if any(touch.kind != "search" for touch in use.touches)]
        return sorted(used, key=lambda use: -use.score)


class KnownTouches:
    """The touches of the calls that the last ranking came upon."""

    __slots__ = ("_found", "_last")

    def __init__(self) -> None:
        self._last: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self._found: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def of(
        self, call: ToolCallBlock, body: str, results: Entry, declared: ToolEffects | None
    ) -> Iterable[Touch]:
        """Return :func:`touches_of_block` of the arguments, found once for the same objects."""
        given = (call, body, results.reads, declared)
        key = tuple(map(id, given))
        # It holds on to the objects, so that no other ones have their ids.
        known = self._last.get(key) or (given, tuple(touches_of_block(call, body, results, declared)))
        self._found[key] = known
        touches: tuple[Touch, ...] = known[1]
        return touches

    def forget_others(self) -> None:
        """Forget the calls that were not asked for since the last time."""
        self._last, self._found = self._found, {}


def rank_by_use(
    history: History,
    shown: Mapping[str, str],
    first_kept: int,
    effects: Mapping[str, ToolEffects],
    key_of: Callable[[str], str],
    known: KnownTouches | None = None,
) -> Sequence[FileUse]:
    """Return the files that the conversation used, the most used first.

    Args:
        history: the conversation.
        shown: the results that the model will still see, as it sees them, by their calls' ids.
        first_kept: the index of the first entry that it will still see.
        effects: the effects of the tools on offer, by name.
        key_of: makes one name of all spellings of a path.
        known: keeps the touches of calls for the next ranking; None to keep none.
    """
    known = known or KnownTouches()
    uses, results = _Uses(cache(key_of)), dict[str, tuple[ToolResultBlock, Entry]]()
    for entry, index in history.newest_first():
        if uses.n_calls >= LOOK_BACK_CALLS:
            break
        is_kept = index is not None and index >= first_kept
        if entry.kind == "file" and entry.origin and not is_kept:
            continue  # the file was given back; the calls that used it are counted where they stand
        for touch in touches_beside_calls(entry) if entry.reads else ():
            uses.add(touch, _text_of(entry) if is_kept else None, is_known=True)
        if (
            entry.kind in ("user", "assistant")
            and len(uses.said) < MENTION_TEXTS
            and (text := _text_of(entry))
        ):
            uses.said.append(words_of(text[-MENTION_CHARS:]))
        for block in reversed(entry.turn.blocks):
            if isinstance(block, ToolResultBlock):
                results[block.call_id] = block, entry
            elif isinstance(block, ToolCallBlock):
                uses.n_calls += 1
                result, holder = results.pop(block.id, (None, entry))
                declared = effects.get(block.name) or effects_of_name(block.name)
                is_command = declared is not None and declared.kind == "runs"
                if result is None or (result.is_error and not is_command):
                    continue
                body = result.output if isinstance(result.output, str) else compact_json(result.output)
                for touch in known.of(block, body, holder, declared):
                    if result.is_error and touch.kind in ("move", "remove"):
                        continue  # a command that fails may have done this or stopped before it
                    is_known = declared is not None and declared.kind == "reads"
                    uses.add(touch, shown.get(block.id) if is_kept else None, is_known=is_known)
    known.forget_others()
    return uses.rank()


@lru_cache(maxsize=1_024)
def words_of_name(path: str) -> Set[str]:
    """Return the words of the last name in *path*; most files are used again and again."""
    return words_of(path.replace("\\", "/").rpartition("/")[2])


def words_of(text: str) -> Set[str]:
    """Return the words of *text*; the name of a file without blanks is one.

    >>> sorted(words_of("See src/a.py, and [id].tsx."))
    ['See', 'a.py', 'and', 'id', 'src', 'tsx']
    """
    return {word for each in _WORDS.findall(text) if (word := each.strip(".-"))}


def touches_of_block(
    call: ToolCallBlock, body: str, results: Entry, declared: ToolEffects | None
) -> Iterable[Touch]:
    """Return the touches of a call, with the lines that its entry is known to show."""
    touches = touches_of_call(call.input, body, declared)
    reads = [read for read in results.reads if read.call_id == call.id]
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


def _text_of(entry: Entry) -> str:
    return "\n".join(block.text for block in entry.turn.blocks if isinstance(block, TextBlock))
