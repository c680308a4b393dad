"""The dialect of a chat model: the chat format of OpenAI, as one model of one service speaks it. Values.

The table of differences is in ``quirks``, which also finds the dialect of a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import field

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import StopReason, ThinkingLevel, ToolChoice

Efforts: TypeAlias = Mapping[ThinkingLevel, Mapping[str, Any]]
"""The members of a request that set how far a model thinks, by level; a level without any sends nothing."""


class ChatDialect(Value, kw_only=True):
    """The chat format as one model of one service speaks it.

    Attributes:
        efforts: how a request says how far to think; None for OpenAI's own ``reasoning_effort``.
        members: the members that every request has.
        omits: the members that no request has.
        tool_choices: the names of choices that differ; None for one that it does not take.
        takes_back: the fields in which it takes its reasoning back.
        writes_back: how its reasoning goes back in the text of the answer, with ``{}`` for it; None for not.
        needs_reasoning: it refuses an answer with calls that has none of its reasoning.
        keeps_details: its reasoning goes back as the list ``reasoning_details``, as it came.
        has_markup: reasoning and calls may stand in its text, as the template of the model writes them.
        call_id_chars: the only length of the ids of calls that it takes; None for any.
        answers_tools: it refuses a user's message directly behind the result of a tool.
        usage_at: where a chunk has the usage, if not in ``usage``.
        cached_at: the member of the usage with the tokens from the cache, if not in its details.
        cost_at: the member of the usage with the price of the call in US dollars, None for no such member.
        counts_apart: the count of the answer leaves out the tokens of reasoning.
        stops: its own reasons for the end of an answer.
        breaks: the reasons that mean a failure of the service; the call is made again.
    """

    efforts: Efforts | None = None
    members: Mapping[str, Any] = field(default_factory=dict)
    omits: frozenset[str] = frozenset()
    tool_choices: Mapping[ToolChoice, str | None] = field(default_factory=dict)
    takes_back: frozenset[str] = frozenset({"reasoning_content", "reasoning", "content"})
    writes_back: str | None = None
    needs_reasoning: bool = False
    keeps_details: bool = False
    has_markup: bool = False
    call_id_chars: int | None = None
    answers_tools: bool = False
    usage_at: tuple[str | int, ...] = ()
    cached_at: str | None = None
    cost_at: str | None = None
    counts_apart: bool = False
    stops: Mapping[str, StopReason] = field(default_factory=dict)
    breaks: frozenset[str] = frozenset()


class Quirk(Value):
    """One row: *sets* are members of :class:`ChatDialect` for the models that match.

    *service* is the host of the address, or the provider where it has no address; *model* matches the model's
    name from its beginning, behind the vendor. *source* is the page that documents it.
    """

    name: str
    service: str
    model: str
    sets: Mapping[str, Any]
    source: str


def efforts(
    off: str = "low",
    *,
    medium: str = "medium",
    max: str = "high",  # the name of the level
) -> Efforts:
    """Return the levels of thinking as values of ``reasoning_effort``.

    >>> efforts("none")["off"], efforts()["max"]
    ({'reasoning_effort': 'none'}, {'reasoning_effort': 'high'})
    """
    values: dict[ThinkingLevel, str] = {
        "off": off,
        "low": "low",
        "medium": medium,
        "high": "high",
        "max": max,
    }
    return {level: {"reasoning_effort": value} for level, value in values.items()}


def switch_thinking(on: Mapping[str, Any], off: Mapping[str, Any]) -> Efforts:
    """Return the levels of a model that can only be told to think or not."""
    return {"off": off, "low": on, "medium": on, "high": on, "max": on}
