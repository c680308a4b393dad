"""The tail that a compaction keeps, made to fit: stale results blanked, giants cut, the prompt cut last.

Nothing is dropped here, and nothing is summarised: who calls this decides where the tail begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.window_budget.budget.estimate import estimate_message_tokens, estimate_tokens
from sidecar.window_budget.clip import clip_bodies, clip_prompt
from sidecar.window_budget.marks import CLEARED_TOOL_RESULT
from sidecar.window_budget.message import Message, ToolResultMessage, text_of
from sidecar.window_budget.microcompact import DEFAULT_KEEP_RECENT, blank_results

__all__ = ["TAIL_SHARE", "Tail", "fit_tail"]

TAIL_SHARE = 0.45
"""How much of the room the tail takes at most, the newest prompt not counted."""


@dataclass(frozen=True, slots=True)
class Tail:
    """What is kept, as it will be sent, and what was done to it; *blanked_tokens* is what blanking saved."""

    messages: tuple[Message, ...] = ()
    tokens: int = 0
    blanked_count: int = 0
    blanked_tokens: int = 0
    clipped_count: int = 0


def fit_tail(messages: Sequence[Message], prompt: int | None, room: int | None, reserve: int) -> Tail:
    """Return *messages* made to fit *room*, in the same order and number.

    Args:
        messages: the tail; its newest prompt stands at position *prompt*, or nowhere (None).
        room: what messages may take, in tokens; None for any, then nothing is cut.
        reserve: what of the room is wanted for the digest.

    Returns:
        The tail. Its ``tokens`` exceed ``room - reserve`` where replies and calls alone do.
    """
    lighter = blank_results(messages, DEFAULT_KEEP_RECENT, _is_worth_blanking) or tuple(messages)
    tokens = estimate_tokens(lighter)
    blanked = _differences(messages, lighter)
    saved = estimate_tokens(messages) - tokens if blanked else 0
    if room is None or tokens <= min(int(room * TAIL_SHARE), room - reserve):
        return Tail(lighter, tokens, blanked, saved)
    fitted = _cut_down(lighter, prompt, room, reserve)
    return Tail(fitted, estimate_tokens(fitted), blanked, saved, clipped_count=_differences(lighter, fitted))


def _cut_down(
    messages: tuple[Message, ...], prompt: int | None, room: int, reserve: int
) -> tuple[Message, ...]:
    hard = room - reserve
    asked = 0 if prompt is None else estimate_message_tokens(messages[prompt])
    others = messages if prompt is None else (*messages[:prompt], *messages[prompt + 1 :])
    bodies = clip_bodies(others, min(int(room * TAIL_SHARE), hard - asked))
    if prompt is None:
        return bodies
    question = clip_prompt(messages[prompt], hard - estimate_tokens(bodies))
    return (*bodies[:prompt], question, *bodies[prompt:])


def _is_worth_blanking(result: ToolResultMessage) -> bool:
    """Whether blanking *result* frees anything; an error is kept, it is short and it is evidence."""
    return not result.is_error and len(text_of(result.content)) > len(CLEARED_TOOL_RESULT)


def _differences(before: Sequence[Message], after: Sequence[Message]) -> int:
    return sum(old is not new for old, new in zip(before, after, strict=True))
