"""Having a model write the summary of what a plan drops, in as many calls as its window needs.

The model is the caller's, and is only awaited here, one call at a time (failure B-A12, Z7). A failure is a
value: what the model did not read is digested locally, so that no compaction ever fails for want of a model
(failure B-A7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sidecar._internal.cancel import CancelledByToken
from sidecar.agentcore.budget import Budget
from sidecar.agentcore.estimate import BYTES_PER_TOKEN, prompt_tokens
from sidecar.agentcore.files import FileLists, file_lists, render_sections, split_sections
from sidecar.agentcore.local import local_digest
from sidecar.agentcore.messages import AgentMessage, ChatModel, CompactionSummary, ThinkingLevel, text_message
from sidecar.agentcore.plan import CompactionPlan
from sidecar.agentcore.prompts import (
    HISTORY_INSTRUCTION,
    NO_PRIOR_HISTORY,
    PREFIX_INSTRUCTION,
    PREFIX_UPDATE_INSTRUCTION,
    SPLIT_TURN_HEADER,
    SYSTEM_PROMPT,
    UPDATE_INSTRUCTION,
    build_prompt,
)
from sidecar.agentcore.serialize import serialize_parts
from sidecar.agentcore.text import byte_length, clip_middle, fair_cap

__all__ = ["SummarySource", "WrittenSummary", "split_pieces", "write_summary"]

SummarySource: TypeAlias = Literal["model", "local"]
"""Who wrote a summary: the model, or, in part or in whole, the local digest."""

_INSTRUCTION_TOKENS = 512
_LEAST_WINDOW = 4096
"""No model with a smaller window writes summaries; one that is said to is asked as if it had this much."""
_LEAST_DIGEST = 512


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """The text for a :class:`CompactionSummary`, file sections included, and the files it covers.

    *failed* is True when a model was asked and did not deliver.
    """

    text: str
    files: FileLists
    source: SummarySource
    failed: bool


@dataclass(frozen=True, slots=True)
class _Brief:
    """How one half of a compaction is to be written, and the tokens it may take."""

    fresh: str
    update: str
    room: int
    max_tokens: int
    thinking: ThinkingLevel | None
    window: int
    wishes: str


@dataclass(frozen=True, slots=True)
class _Distilled:
    """What was written, and the parts that no model has read."""

    text: str
    unread: tuple[str, ...] = ()
    failed: bool = False


async def write_summary(
    model: ChatModel | None,
    messages: Sequence[AgentMessage],
    plan: CompactionPlan,
    budget: Budget,
    wishes: str = "",
) -> WrittenSummary:
    """Write the summary of what *plan* drops from *messages*.

    Whole turns and the beginning of a split turn are written apart, one after the other, and joined (fact
    A7). The last earlier summary is updated, and is in the prompt once (failure B-A5); with nothing new to
    add to it, it stays as it is and no call is made. While the same turn is being split again, it is that
    turn's part which is updated.

    Args:
        model: who writes; None makes a local digest without asking.
        messages: the messages *plan* was made for, in their original length.
        plan: what is dropped.
        budget: the window of the model, and how long the answers may be.
        wishes: what the user asked this compaction to heed.

    Raises:
        CancelledByToken: the model's token was cancelled; nothing is written then.
    """
    history = messages[: plan.turn_start] if plan.is_split_turn else messages[: plan.cut]
    last = next((m for m in reversed(history) if isinstance(m, CompactionSummary)), None)
    previous, earlier_prefix = split_sections(last.summary)[0] if last else "", ""
    parts = serialize_parts([m for m in history if m is not last])
    if plan.is_split_turn and not parts:
        previous, _, earlier_prefix = previous.partition(SPLIT_TURN_HEADER)
    # The prompt of a turn that was split before is in its summary already, and still in the view.
    skip_prompt = 1 if earlier_prefix and plan.pinned == plan.turn_start else 0
    prefix = serialize_parts(messages[plan.turn_start + skip_prompt : plan.cut]) if plan.is_split_turn else ()
    history_brief, prefix_brief = _briefs(plan, budget, wishes)
    whole = await _distil(model, parts, previous, history_brief)
    begun = await _distil(None if whole.failed else model, prefix, earlier_prefix, prefix_brief)
    body = [_complete(whole, history_brief) or NO_PRIOR_HISTORY, _complete(begun, prefix_brief)]
    files = file_lists(messages[: plan.cut])
    return WrittenSummary(
        text=_compose(body, files, plan.summary_tokens * BYTES_PER_TOKEN),
        files=files,
        source="local" if whole.unread or begun.unread else "model",
        failed=whole.failed or begun.failed,
    )


def split_pieces(parts: Sequence[str], room: int) -> list[list[str]]:
    """Return *parts* in groups of at most *room* prompt tokens; a part that alone is larger is divided.

    >>> split_pieces(["a" * 16, "b" * 16, "c" * 40], 10)
    [['aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb'], ['cccccccccccccccccccccccccccccccccccccccc']]
    """
    pieces: list[list[str]] = []
    used = room
    for chunk in (chunk for part in parts for chunk in _divide(part, room)):
        size = prompt_tokens(chunk) + 1
        if not pieces or used + size > room:
            pieces.append([])
            used = 0
        pieces[-1].append(chunk)
        used += size
    return pieces


def _divide(part: str, room: int) -> list[str]:
    """Return *part* in slices of at most *room* tokens; wide characters may take one and a half each."""
    if prompt_tokens(part) < room:
        return [part]
    n = room * BYTES_PER_TOKEN if part.isascii() else max(room * 2 // 3, 1)
    return [part[i : i + n] for i in range(0, len(part), n)]


def _briefs(plan: CompactionPlan, budget: Budget, wishes: str) -> tuple[_Brief, _Brief]:
    """Return the briefs for whole turns and for a split turn's beginning, within the room the plan leaves."""
    window = max(budget.window, _LEAST_WINDOW)
    begun = plan.summary_tokens * 5 // 13 if plan.is_split_turn else 0
    whole = plan.summary_tokens - begun
    history_max, prefix_max = min(budget.history_max, whole), min(budget.prefix_max, begun)
    return (
        _Brief(HISTORY_INSTRUCTION, UPDATE_INSTRUCTION, whole, max(history_max, 1), "high", window, wishes),
        _Brief(
            PREFIX_INSTRUCTION, PREFIX_UPDATE_INSTRUCTION, begun, max(prefix_max, 1), None, window, wishes
        ),
    )


async def _distil(
    model: ChatModel | None, parts: tuple[str, ...], previous: str, brief: _Brief
) -> _Distilled:
    """Have *model* fold *parts* into *previous*, piece by piece, until it fails or is done."""
    if model is None or not parts:
        return _Distilled(previous, parts)
    text = previous
    pieces = _pieces_for(parts, previous, brief)
    for index, piece in enumerate(pieces):
        reply = await _ask(model, piece, text, brief)
        if not reply:
            unread = tuple(part for rest in pieces[index:] for part in rest)
            return _Distilled(text, unread, failed=True)
        text = reply
    return _Distilled(text)


def _pieces_for(parts: Sequence[str], previous: str, brief: _Brief) -> list[list[str]]:
    """Group *parts* so that each prompt fits the window beside the answer and the summary so far.

    A part of the window stays free for the instruction and for what the meter misses.
    """
    free = brief.window - max(brief.window // 32, _INSTRUCTION_TOKENS) - brief.max_tokens
    carried = prompt_tokens(clip_middle(previous, brief.window))
    least = brief.window // 4
    if sum(prompt_tokens(part) + 1 for part in parts) <= max(free - carried, least):
        return [list(parts)]
    return split_pieces(parts, max(free - max(carried, brief.max_tokens), least))


async def _ask(model: ChatModel, piece: Sequence[str], previous: str, brief: _Brief) -> str:
    """Return one summary, or nothing when the model failed, was cut off, or said nothing."""
    instruction = brief.update if previous else brief.fresh
    # A previous summary takes a quarter of the window at most: as many bytes as the window has tokens.
    earlier = clip_middle(previous, brief.window)
    prompt = build_prompt("\n\n".join(piece), earlier, instruction, brief.wishes)
    asked = (text_message("system", SYSTEM_PROMPT), text_message("user", prompt))
    try:
        reply = await model.generate(asked, max_tokens=brief.max_tokens, thinking=brief.thinking)
    except CancelledByToken:
        raise
    except Exception:
        # Whatever a model raises, the run goes on; callers see it in `source` and `failed`.
        return ""
    refused = reply.stop_reason in ("error", "aborted", "length")
    return "" if refused else split_sections(reply.text_content())[0].strip()


def _complete(distilled: _Distilled, brief: _Brief) -> str:
    if not distilled.unread:
        return distilled.text
    limit = min(max(brief.max_tokens, _LEAST_DIGEST), brief.room)
    return local_digest(distilled.unread, distilled.text, limit * BYTES_PER_TOKEN)


def _compose(body: Sequence[str], files: FileLists, limit: int) -> str:
    """Join the halves and the file sections within *limit* bytes; sections have a quarter of it at most."""
    sections = render_sections(files, limit // 4)
    room = limit - byte_length(sections)
    texts = [text for text in body if text]
    cap = fair_cap(list(map(byte_length, texts)), room - byte_length(SPLIT_TURN_HEADER) * (len(texts) - 1))
    text = SPLIT_TURN_HEADER.join(clip_middle(text, cap) for text in texts) + sections
    return text if byte_length(text) <= limit else clip_middle("\n\n".join(texts), limit)
