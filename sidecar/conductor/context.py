"""How full the window is: what each part of the next request weighs, anchored on what the provider reported.

The weights of a turn are counted once, when it is new. ``used`` is never a cumulative sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce

import msgspec

from sidecar.agentcore import SUMMARY_MARK as AGENTCORE_MARK
from sidecar.conductor.contract import ContextUsage, EngineView, TokenCounts, UsageBy
from sidecar.conductor.session_ops import turns_to_messages
from sidecar.llmgateway.contract import (
    ImageBlock,
    ModelCard,
    TextBlock,
    ThinkingBlock,
    ToolDescriptor,
    Turn,
    Usage,
)
from sidecar.rooms.memory import SUMMARY_MARK as ROOMS_MARK
from sidecar.window_budget import (
    RESTORED_FILE_PREFIX,
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    estimate_message_tokens,
)

__all__ = ["ContextMeter", "Overhead", "overhead_of", "turn_tokens"]

_NOTHING = UsageBy(0, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_TOKENS = TokenCounts(0, 0)
_SUMMARY_MARKS = (AGENTCORE_MARK, ROOMS_MARK)
"""How the summaries of the engines begin that the window budget does not know."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What every request carries besides its turns, in tokens."""

    system: int
    tool_defs: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.system + self.tool_defs


def overhead_of(system: str, tools: Sequence[ToolDescriptor]) -> Overhead:
    """Weigh the system prompt and the tool schemas as the engine would weigh a message of that text."""
    schemas = msgspec.json.encode([[tool.name, tool.description, tool.parameters] for tool in tools]).decode()
    return Overhead(_text_tokens(system), _text_tokens(schemas) if tools else 0)


@dataclass(frozen=True, slots=True)
class _Weight:
    """What one turn weighs, and that turn."""

    turn: Turn
    by: UsageBy
    tokens: int


class ContextMeter:
    """The meter of one session. Pass it the same list while the conversation only grows.

    *session_total* is what the session has used so far, in this process and before; *cost* is what that came
    to in US dollars, as far as it had a price when it was used, None for nothing.
    """

    def __init__(self, session_total: TokenCounts | None = None, cost: float | None = None) -> None:
        self._turns: Sequence[Turn] = ()
        self._weighed = 0
        self._by = _NOTHING
        self._view: list[_Weight] = []
        self._total = 0
        self._anchor: tuple[int, int] | None = None
        self._last_turn: TokenCounts | None = None
        self.session_total = session_total or _NO_TOKENS
        self.cost = cost

    def sync(self, turns: Sequence[Turn]) -> None:
        """Weigh what is new in *turns*; another list is another conversation and is weighed whole."""
        if turns is not self._turns or len(turns) < self._weighed:
            self._turns, self._weighed, self._by, self._total, self._anchor = turns, 0, _NOTHING, 0, None
            self._view = []
        for message in turns_to_messages(turns[self._weighed :]):
            self._by = _add(self._by, _weigh(message))
            self._total += estimate_message_tokens(message)
        self._weighed = len(turns)

    def show(self, turns: Sequence[Turn]) -> None:
        """Weigh *turns*, a view made for one request, instead; turns of the view before it are known.

        The provider's figure for that one stays good: the next differs from it by what the views differ.
        """
        self._turns, self._weighed, self._by = (), 0, _NOTHING
        known = {id(weight.turn): weight for weight in self._view}
        self._view = [known.get(id(turn)) or _weight(turn) for turn in turns]
        self._total = sum(weight.tokens for weight in self._view)

    def count(self, usage: Usage, card: ModelCard | None) -> None:
        """Add the usage of one call of the model of *card*, whose request was everything weighed so far."""
        self._last_turn = TokenCounts(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens or 0,
            usage.cache_write_tokens or 0,
        )
        total, last = self.session_total, self._last_turn
        self.session_total = TokenCounts(
            total.input + last.input,
            total.output + last.output,
            total.cache_read + last.cache_read,
            total.cache_write + last.cache_write,
        )
        if (cost := _cost(card, last)) is not None:
            self.cost = round((self.cost or 0.0) + cost, 6)
        if request := last.input + last.cache_read + last.cache_write:
            self._anchor = (request, self._total)

    def occupancy(self, overhead: Overhead) -> int:
        """Return the tokens of the next request, best known."""
        if self._anchor is None:
            return self._total + overhead.total
        tokens, total_then = self._anchor
        return tokens + self._total - total_then

    @property
    def anchored_tokens(self) -> int:
        """Return the occupancy that rests on the provider's figures, 0 when there are none."""
        return self.occupancy(Overhead(0, 0)) if self._anchor is not None else 0

    def surplus(self, overhead: Overhead) -> int:
        """Return how much more than the estimate the provider counted last, 0 where it counted no more."""
        if self._anchor is None:
            return 0
        tokens, total_then = self._anchor
        return max(0, tokens - total_then - overhead.total)

    def usage(
        self,
        overhead: Overhead,
        *,
        card: ModelCard | None,
        views: Mapping[str, EngineView],
        limit: int,
        node: str | None,
        detail: bool = False,
    ) -> ContextUsage:
        """Return the whole picture; *detail* adds where the tokens come from."""
        window = card.context_window if card else 0
        used = self.occupancy(overhead)
        return ContextUsage(
            used=used,
            window=window,
            limit=limit,
            pct=round(100 * used / window, 1) if window else 0.0,
            source="estimate" if self._anchor is None else "provider",
            as_of_node=node,
            engine_view=views,
            by=self._parts(overhead) if detail else None,
            last_turn=self._last_turn,
            session_total=self.session_total,
            cost=self.cost,
        )

    def _parts(self, overhead: Overhead) -> UsageBy:
        base = UsageBy(overhead.system, overhead.tool_defs, 0, 0, 0, 0, 0, 0, 0)
        return reduce(_add, (weight.by for weight in self._view), _add(base, self._by))


def turn_tokens(turn: Turn) -> int:
    """Weigh one turn."""
    return sum(map(estimate_message_tokens, turns_to_messages((turn,))))


def _weight(turn: Turn) -> _Weight:
    messages = turns_to_messages((turn,))
    by = reduce(_add, map(_weigh, messages), _NOTHING)
    return _Weight(turn, by, sum(map(estimate_message_tokens, messages)))


def _weigh(message: Message) -> UsageBy:
    tokens = estimate_message_tokens(message)
    match message:
        case CompactionSummaryMessage() | BranchSummaryMessage():
            return _only("summary", tokens)
        case ToolResultMessage(content=content):
            return _split(tokens, "tool_results", images=_image_tokens(content))
        case AssistantMessage(content=content):
            thinking = sum(_text_tokens(block.text) for block in content if isinstance(block, ThinkingBlock))
            return _split(tokens, "assistant", thinking=min(thinking, tokens))
        case UserMessage(content=content):
            return _split(tokens, _name_of(_text(content)), images=_image_tokens(content))
    return _only("user", tokens)


def _name_of(text: str) -> str:
    if text.startswith(RESTORED_FILE_PREFIX):
        return "files"
    return "summary" if text.startswith(_SUMMARY_MARKS) else "user"


def _split(tokens: int, rest: str, **parts: int) -> UsageBy:
    return _only(rest, tokens - sum(parts.values()), **parts)


def _only(name: str, tokens: int, **parts: int) -> UsageBy:
    values = {spec.name: 0 for spec in fields(UsageBy)} | parts
    values[name] = tokens
    return UsageBy(**values)


def _add(left: UsageBy, right: UsageBy) -> UsageBy:
    return UsageBy(*(getattr(left, spec.name) + getattr(right, spec.name) for spec in fields(UsageBy)))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, tuple) and content and isinstance(content[0], TextBlock):
        return content[0].text
    return ""


def _image_tokens(content: object) -> int:
    if not isinstance(content, tuple):
        return 0
    images = tuple(block for block in content if isinstance(block, ImageBlock))
    return estimate_message_tokens(UserMessage(images, 0)) if images else 0


def _text_tokens(text: str) -> int:
    return estimate_message_tokens(UserMessage(text, 0)) if text else 0


def _cost(card: ModelCard | None, used: TokenCounts) -> float | None:
    """Return what *used* costs in dollars, None without a price; a cache without one costs as any input."""
    if card is None or not (card.cost.input_per_mtok or card.cost.output_per_mtok):
        return None
    sheet = card.cost
    read, write = (
        sheet.input_per_mtok if price is None else price
        for price in (sheet.cache_read_per_mtok, sheet.cache_write_per_mtok)
    )
    dollars = used.input * sheet.input_per_mtok + used.output * sheet.output_per_mtok
    return (dollars + used.cache_read * read + used.cache_write * write) / 1_000_000
