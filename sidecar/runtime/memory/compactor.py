"""Decide, locate, distill, stitch: the parts of a condensation as seed 000 documents them (M9, M10, M13).

These keep the documented rules to the letter. What a running agent needs on top of them is in ``live``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import ModelCard, ToolResultBlock, Turn
from sidecar.runtime.contract import CompactionPolicy, ModelInvoker
from sidecar.runtime.memory.distill import summarize
from sidecar.runtime.memory.estimate import estimate_context_tokens

__all__ = ["DEFAULT_POLICY", "compact", "find_cut_point", "is_due", "should_compact"]

DEFAULT_POLICY: Final = CompactionPolicy(trigger_ratio=0.8, keep_recent=8)
"""At 80 % of the window, keeping the 8 newest turns."""


def should_compact(messages: Sequence[Turn], model: ModelCard, cfg: CompactionPolicy | None = None) -> bool:
    """Whether the estimate of *messages* reaches the trigger of *cfg* (default policy when None; M9)."""
    return is_due(estimate_context_tokens(messages), model, cfg)


def is_due(tokens: int, model: ModelCard, cfg: CompactionPolicy | None = None) -> bool:
    """Whether *tokens* reach ``trigger_ratio`` of the window; never for a window of 0 or less."""
    ratio = (cfg or DEFAULT_POLICY).trigger_ratio
    return model.context_window > 0 and tokens >= model.context_window * ratio


def find_cut_point(messages: Sequence[Turn], keep_recent: float) -> int:
    """Return the index of the first turn to keep verbatim (M10).

    The tail has ``floor(keep_recent)`` turns, fewer when it would begin with tool results, whose call
    would be cut off.

    Returns:
        0 to condense nothing, ``len(messages)`` to condense everything.

    >>> find_cut_point([], 8)
    0
    """
    n = len(messages)
    if keep_recent >= n:
        return 0
    cut = n - max(0, math.floor(keep_recent))
    while cut < n and any(isinstance(block, ToolResultBlock) for block in messages[cut].blocks):
        cut += 1
    return cut


async def compact(
    messages: Sequence[Turn],
    model: ModelCard | None,
    cfg: CompactionPolicy | None,
    invoke: ModelInvoker,
    *,
    cancel: CancelToken | None = None,
) -> tuple[Turn, ...]:
    """Return ``(summary, *tail)``, or *messages* as they are when there is no prefix to condense (M13).

    *model* is the distiller's card: what it is asked to read fits its window. None sets no such bound.

    Raises:
        CancelledByToken: *cancel* fired while the distiller was at work.
    """
    cut = find_cut_point(messages, (cfg or DEFAULT_POLICY).keep_recent)
    if cut <= 0:
        return tuple(messages)
    summary = await summarize(messages[:cut], invoke, model=model, cancel=cancel)
    return (summary, *messages[cut:])
