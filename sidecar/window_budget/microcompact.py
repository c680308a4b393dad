"""Blanking stale tool output, for free: no model call, and nothing that a tool could not produce again.

Only the bodies of old results of known tools go; messages, order, ids and pairs stay. Seed 001, fact W21.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sidecar.llmgateway.contract import TextBlock
from sidecar.window_budget.marks import CLEARED_TOOL_RESULT, is_cleared
from sidecar.window_budget.message import Message, ToolResultMessage, calls_of

__all__ = [
    "CLEARED_TOOL_RESULT",
    "DEFAULT_KEEP_RECENT",
    "blank_results",
    "clear_stale_tool_results",
    "compactable_tool_names",
]

DEFAULT_KEEP_RECENT = 6
"""How many of the newest compactable results keep their bodies."""

_COMPACTABLE = frozenset(
    {"read", "grep", "find", "ls", "glob", "bash", "websearch", "webfetch", "edit", "write"}
)
_CLEARED = (TextBlock(CLEARED_TOOL_RESULT),)


def compactable_tool_names() -> frozenset[str]:
    """Return the tools whose output may be blanked: it can be had again.

    >>> "read" in compactable_tool_names(), "todo" in compactable_tool_names()
    (True, False)
    """
    return _COMPACTABLE


def clear_stale_tool_results(
    messages: Sequence[Message], keep_recent: int = DEFAULT_KEEP_RECENT
) -> tuple[Message, ...] | None:
    """Return *messages* with all but the *keep_recent* newest compactable results blanked.

    Args:
        messages: the transcript. A result counts as its owner's, found by call id; without one it is let be.
        keep_recent: results kept, at least 1. Results that are blank already do not count.

    Returns:
        The new transcript, or None when nothing was cleared.
    """
    return blank_results(messages, keep_recent, lambda _result: True)


def blank_results(
    messages: Sequence[Message], keep_recent: int, may_blank: Callable[[ToolResultMessage], bool]
) -> tuple[Message, ...] | None:
    """Do as :func:`clear_stale_tool_results`, sparing the results that *may_blank* is false of."""
    stale = dict(_results_of_compactable(messages)[: -max(1, keep_recent)])
    blanked = {
        index: replace(result, content=_CLEARED) for index, result in stale.items() if may_blank(result)
    }
    if not blanked:
        return None
    return tuple(blanked.get(index, message) for index, message in enumerate(messages))


def _results_of_compactable(messages: Sequence[Message]) -> list[tuple[int, ToolResultMessage]]:
    """Return the results that a compactable tool gave and that are not blank yet, with their positions."""
    owners: dict[str, str] = {}
    found = []
    for index, message in enumerate(messages):
        owners.update((call.id, call.name) for call in calls_of(message))
        if not isinstance(message, ToolResultMessage) or is_cleared(message):
            continue
        if owners.get(message.tool_call_id) in _COMPACTABLE:
            found.append((index, message))
    return found
