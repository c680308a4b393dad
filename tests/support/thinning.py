"""A baseline for views of a conversation: the older an entry, the less room it has, by one factor for all.

The room of an entry falls with its age, which is the length of the conversation behind it. Three kinds of
entries have a floor: words of the user, words of the agent, and outputs that tell of a failure. The factor is
the largest with which everything fits; where the floors alone do not, they shrink together, the oldest most.
Of a long output the lines stay that have most signs of places, names, numbers and failures, and that stand in
few other outputs; of a long text the beginning and the end. There is no index.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock
from use_of_views import flat

POWER: Final = 1.5
NEAR_CHARS: Final = 8_000
"""An entry that is younger than so many characters has its whole share; that of others falls by the power."""

USER_FLOOR, SAID_FLOOR, FAILED_FLOOR, CALL_FLOOR = 1_200, 200, 240, 80
LINE_CHARS: Final = 240
LEAST_LINE: Final = 8
_FAILS: Final = re.compile(
    r"(?i)error|fail|exception|panic|fatal|denied|cannot|not found|refused|timeout|undefined|traceback"
)
_SIGNS: Final = (
    (re.compile(r"[\w/.-]+\.\w{1,5}:\d+"), 3),
    (_FAILS, 2),
    (re.compile(r"\d"), 1),
    (re.compile(r"[A-Za-z]_[A-Za-z]|[a-z][A-Z]"), 2),
    (re.compile(r"\b(?:def|class|func|fn|function|interface|type|struct|const|export|import)\b"), 1),
)


def thinned_view(entries: Sequence[Entry], max_chars: int) -> str:
    """Return a view of about *max_chars* of the conversation *entries*."""
    return "\n".join(_Thinning(entries).lines(max_chars))


class _Thinning:
    """The texts of a conversation, with their ages and floors."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.kinds = [entry.kind for entry in entries]
        self.texts = [
            "\n".join(
                block.text if isinstance(block, TextBlock) else flat(block.output)
                for block in entry.turn.blocks
                if isinstance(block, TextBlock | ToolResultBlock)
            )
            for entry in entries
        ]
        self.calls = [
            [
                (block.name, flat(block.input))
                for block in entry.turn.blocks
                if isinstance(block, ToolCallBlock)
            ]
            for entry in entries
        ]
        outputs = (text for kind, text in zip(self.kinds, self.texts, strict=True) if kind == "tool")
        self.common = Counter(
            line for text in outputs for line in {each.strip() for each in text.split("\n")}
        )
        self.ages, self.total = [0] * len(entries), 0
        for at in range(len(entries) - 1, -1, -1):
            self.ages[at] = self.total
            self.total += len(self.texts[at]) + sum(len(given) for _, given in self.calls[at])
        self.floors = [self._floor(at) for at in range(len(entries))]

    def _floor(self, at: int) -> int:
        if self.kinds[at] in ("user", "shell"):
            return USER_FLOOR
        if self.kinds[at] == "assistant":
            return SAID_FLOOR
        return FAILED_FLOOR if _FAILS.search(self.texts[at]) else 0

    def rooms(self, factor: float, floors: float) -> Iterator[tuple[int, float, float]]:
        """Yield each place with the characters of its text and of each of its calls."""
        for at, age in enumerate(self.ages):
            share = factor * (NEAR_CHARS / max(age, NEAR_CHARS)) ** POWER
            low = floors if floors >= 1 else floors ** (1 + age / max(1, self.total))
            of_text = share * (2 if self.kinds[at] == "assistant" else 1)
            yield at, max(low * self.floors[at], of_text), max(CALL_FLOOR * low, share)

    def size(self, factor: float, floors: float) -> float:
        return sum(
            min(len(self.texts[at]), room) + sum(min(len(given), call) + 10 for _, given in self.calls[at])
            for at, room, call in self.rooms(factor, floors)
        )

    def lines(self, max_chars: int) -> Iterator[str]:
        floors = largest(lambda each: self.size(1, each) <= max_chars, 1e-3, 1)
        floors = 1.0 if self.size(1, 1) <= max_chars else floors
        factor = largest(lambda each: self.size(each, floors) <= max_chars, 1, 1e6)
        for at, room, call in self.rooms(factor, floors):
            text = self.texts[at]
            if self.kinds[at] == "tool":
                text = self.thin(text, int(room))
            elif len(text) > room:
                text = (
                    f"{text[: int(room * 0.6)]} … {text[len(text) - int(room * 0.4) :]}" if room >= 20 else ""
                )
            yield from filter(
                None, [text, *(f"{name} {self.thin(given, int(call))}" for name, given in self.calls[at])]
            )

    def thin(self, text: str, chars: int) -> str:
        """Return the most telling lines of *text* within *chars*, in their order."""
        if len(text) <= chars or chars < 20:
            return text if len(text) <= chars else ""
        lines, ranked = text.split("\n"), list[tuple[float, int]]()
        for at, line in enumerate(lines):
            plain = line.strip()
            if len(plain) >= LEAST_LINE:
                worth = sum(weight for sign, weight in _SIGNS if sign.search(plain))
                ranked.append((worth / self.common.get(plain, 1) + (at < 2 or at >= len(lines) - 2), at))
        kept = set[int]()
        for _, at in sorted(ranked, reverse=True):
            if min(len(lines[at]), LINE_CHARS) > chars:
                break
            kept.add(at)
            chars -= min(len(lines[at]), LINE_CHARS) + 1
        return "\n".join(lines[at][:LINE_CHARS] for at in sorted(kept))


def largest(fits: Callable[[float], bool], low: float, high: float) -> float:
    """Return about the largest number from *low* to *high* that fits."""
    for _ in range(30):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
