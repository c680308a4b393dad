"""How the generations of Claude differ in what a request may say of thinking. Pure data and two functions.

Older models are given a budget; newer ones think as far as they need, and are told how much effort to make.
Some cannot be told not to think, some refuse sampling knobs. A model that is not listed is taken for new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.llmgateway.contract import ThinkingLevel

__all__ = ["takes_sampling", "thinking_of"]

_BUDGETED: Final = (
    "claude-3-7",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
)
_THINKS_ALWAYS: Final = ("claude-fable-5", "claude-mythos", "claude-opus-5-5")
_BETWEEN_TOOLS: Final = "claude-sonnet-5-5"
_SAMPLES: Final = (*_BUDGETED, "claude-3", "claude-opus-4-6", "claude-sonnet-4-6")
_BUDGETS: Final[Mapping[ThinkingLevel, int]] = {"low": 2_048, "medium": 10_000, "high": 16_384, "max": 32_768}
_LEAST_ANSWER: Final = 1_024
_LEAST_BUDGET: Final = 1_024


def thinking_of(model: str, level: ThinkingLevel, max_tokens: int) -> dict[str, Any]:
    """Return the part of a request that asks *model* to think as far as *level*.

    >>> thinking_of("claude-opus-4-6", "max", 8_000)["output_config"]
    {'effort': 'max'}
    >>> thinking_of("claude-sonnet-4-5", "low", 8_000)["thinking"]["budget_tokens"]
    2048
    >>> thinking_of("claude-sonnet-4-5", "off", 8_000)
    {}
    """
    if model.startswith(_BUDGETED) or model in ("claude-opus-4", "claude-sonnet-4"):
        budget = min(_BUDGETS.get(level, 0), max_tokens - _LEAST_ANSWER)
        if budget < _LEAST_BUDGET:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if level == "off":
        if model.startswith(_THINKS_ALWAYS):
            return {}
        return {"thinking": {"type": "between_tools" if model.startswith(_BETWEEN_TOOLS) else "disabled"}}
    return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}}


def takes_sampling(model: str) -> bool:
    """Whether *model* takes a temperature.

    >>> takes_sampling("claude-sonnet-4-5"), takes_sampling("claude-opus-5")
    (True, False)
    """
    return model.startswith(_SAMPLES) or model in ("claude-opus-4", "claude-sonnet-4")
