"""Microcompact: blanking stale tool output, at no cost of a model call.

Only the bodies of old results go, of tools with output that can be produced again; messages, order, ids and
pairs stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sidecar.llmgateway.contract import TextBlock
from sidecar.text.calls import ToolEffects
from sidecar.window_budget.contract import NO_TOOLS
from sidecar.window_budget.message import (
    CLEARED_TOOL_RESULT,
    Message,
    ToolResultMessage,
    calls_of,
    is_cleared,
)

DEFAULT_KEEP_RECENT = 6
"""How many of the newest compactable results keep their bodies."""

_CLEARED = (TextBlock(CLEARED_TOOL_RESULT),)


_NAMES = frozenset("read grep find ls glob bash websearch webfetch edit write".split())  # noqa: SIM905 - a list has a line for each


def compactable_tool_names(tools: Mapping[str, ToolEffects] = NO_TOOLS) -> frozenset[str]:
    """Return the names of the tools with output that may be blanked, because it can be had again.

    These are ten names, and of the declared *tools* those with a known effect.

    >>> "read" in compactable_tool_names(), "todo" in compactable_tool_names()
    (True, False)
    """
    declared = (name for name, effects in tools.items() if effects.kind not in ("none", "anything"))
    return (_NAMES - tools.keys()) | {*declared}


def clear_stale_tool_results(
    messages: Sequence[Message], keep_recent: int = DEFAULT_KEEP_RECENT
) -> tuple[Message, ...] | None:
    """Return *messages* with all but the *keep_recent* newest compactable results blanked.

    Args:
        messages: the transcript. The tool of a result is that of its call, found by call id; a result
            without a call is left alone.
        keep_recent: results kept, at least 1. Results that are blank already do not count.

    Returns:
        The new transcript, or None when nothing was cleared.
    """
    return blank_results(messages, keep_recent, may_blank=lambda _result: True)


def blank_results(
    messages: Sequence[Message],
    keep_recent: int,
    *,
    may_blank: Callable[[ToolResultMessage], bool],
    tools: Mapping[str, ToolEffects] = NO_TOOLS,
) -> tuple[Message, ...] | None:
    """Blank stale results as :func:`clear_stale_tool_results` does, with more say for the caller.

    Args:
        messages: the transcript.
        keep_recent: results kept, at least 1.
        may_blank: results for which this is false keep their bodies.
        tools: the effects of the tools.

    Returns:
        The new transcript, or None when nothing was cleared.
    """
    owners: dict[str, str] = {}
    names = compactable_tool_names(tools)
    compactable: list[tuple[int, ToolResultMessage]] = []
    for index, message in enumerate(messages):
        owners.update((call.id, call.name) for call in calls_of(message))
        if not isinstance(message, ToolResultMessage) or is_cleared(message):
            continue
        if owners.get(message.tool_call_id) in names:
            compactable.append((index, message))
    blanked = {
        index: replace(result, content=_CLEARED)
        for index, result in compactable[: -max(1, keep_recent)]
        if may_blank(result)
    }
    if not blanked:
        return None
    return tuple(blanked.get(index, message) for index, message in enumerate(messages))
