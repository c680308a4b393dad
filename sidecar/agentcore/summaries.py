"""The writing of a summary by a model, in as many calls as its window needs.

The problem: the dropped messages may be larger than the window of the model that is to read them, and the
model may fail halfway. So the labelled parts of the history are grouped into chunks that fit, and each call
folds one chunk into the summary so far::

    previous --+
               v                  v                  v
    chunk 1 -> summary, chunk 2 -> summary, chunk 3 -> summary

Every part is read by exactly one call. When a call fails, the summary so far stands, and the unread parts
go into a digest that is made without a model, so that no compaction fails for want of one. They are kept with
the summary, and the next model that answers reads them. Where the cut
splits a turn, the turn's beginning is summarised apart, after the turns before it, and the two halves are
joined under a header. While the same turn is being split again, it is that half which is updated.

The model is the caller's and is only awaited here, one call at a time. A failure is a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from sidecar._internal.cancel import CancelledByToken
from sidecar._internal.run_work import RunWork, run_now
from sidecar._internal.values import Value
from sidecar.agentcore.estimate import BYTES_PER_TOKEN, byte_length, clip_middle, fair_cap, prompt_tokens
from sidecar.agentcore.files import (
    OWN_TOOLS,
    EffectsOf,
    FileLists,
    file_lists,
    render_sections,
    split_sections,
)
from sidecar.agentcore.messages import (
    AgentMessage,
    ChatModel,
    CompactionSummary,
    ThinkingLevel,
    Unread,
    text_message,
)
from sidecar.agentcore.plan import Budget, CutPlan
from sidecar.agentcore.prompts import (
    HISTORY_INSTRUCTION,
    NO_PRIOR_HISTORY,
    PREFIX_INSTRUCTION,
    PREFIX_UPDATE_INSTRUCTION,
    SPLIT_TURN_HEADER,
    SYSTEM_PROMPT,
    UPDATE_INSTRUCTION,
    build_prompt,
    local_digest,
    serialize_parts,
)
from sidecar.text.clip import group_pieces

SummarySource: TypeAlias = Literal["model", "local"]
"""The author of a summary: the model, or, in part or in whole, the local digest."""

_INSTRUCTION_TOKENS = 512
_LEAST_WINDOW = 4096
"""No model with a smaller window writes summaries; a smaller figure is taken for this much."""
_LEAST_DIGEST = 512
_UNREAD_WINDOWS = 2
"""Unread parts that fill more windows than that are not read again: it would take too many calls."""


class WrittenSummary(Value):
    """The text for a :class:`CompactionSummary`, file sections included, and the files it covers.

    *failed* is True when a model was asked and did not deliver, *unread* is the part without a model.
    """

    text: str
    files: FileLists
    source: SummarySource
    failed: bool
    unread: Unread | None = None


class _Half(Value, kw_only=True):
    """One half of a compaction: whole turns, or the beginning of a split turn.

    Attributes:
        parts: the labelled parts to be read.
        previous: the summary that they are folded into, or nothing.
        fresh: the instruction for a first summary.
        update: the instruction for an updated one.
        room: tokens that the half may take in the summary.
        max_tokens: the longest answer, in tokens.
        thinking: the level of reasoning to request.
    """

    parts: tuple[str, ...]
    previous: str
    fresh: str
    update: str
    room: int
    max_tokens: int
    thinking: ThinkingLevel | None


class _Result(Value):
    """The text of one half, the text *read* by a model in it, the other parts, and whether a model failed."""

    text: str
    read: str
    unread: tuple[str, ...] = ()
    failed: bool = False


async def write_summary(
    model: ChatModel | None,
    messages: Sequence[AgentMessage],
    plan: CutPlan,
    budget: Budget,
    *,
    wishes: str = "",
    effects_of: EffectsOf = OWN_TOOLS,
    run: RunWork = run_now,
) -> WrittenSummary:
    """Write the summary of the messages that *plan* drops.

    The last earlier summary is updated, and is in the prompt once; with nothing new to add to it, it stays
    as it is and no call is made.

    Args:
        model: the writer; None makes a local digest without a call.
        messages: the messages *plan* was made for, in their original length.
        plan: the messages to drop, and the room for the summary.
        budget: the window of the model, and how long the answers may be.
        wishes: instructions of the user for this compaction.
        effects_of: looks up the effects of a tool.
        run: calls the functions that look at every message.

    Raises:
        CancelledByToken: the model's token was cancelled; nothing is written then.
    """
    whole, begun = await run(_split_halves, messages, plan, budget)
    window = max(budget.window, _LEAST_WINDOW)
    history = await _summarize_half(model, whole, window, wishes, run)
    prefix = await _summarize_half(None if history.failed else model, begun, window, wishes, run)
    files = await run(file_lists, messages[: plan.cut], effects_of)
    texts = [text for text in (history.text or NO_PRIOR_HISTORY, prefix.text) if text]
    limit = plan.summary_tokens * BYTES_PER_TOKEN
    sections = render_sections(files, limit // 4)
    headers = byte_length(SPLIT_TURN_HEADER) * (len(texts) - 1)
    cap = fair_cap(list(map(byte_length, texts)), limit - byte_length(sections) - headers)
    text = SPLIT_TURN_HEADER.join(clip_middle(text, cap) for text in texts) + sections
    unread = (*history.unread, *prefix.unread)
    read = SPLIT_TURN_HEADER.join(filter(None, (history.read, prefix.read)))
    return WrittenSummary(
        text=text if byte_length(text) <= limit else clip_middle("\n\n".join(texts), limit),
        files=files,
        source="local" if unread else "model",
        failed=history.failed or prefix.failed,
        unread=Unread(read, unread) if unread else None,
    )


def _split_halves(messages: Sequence[AgentMessage], plan: CutPlan, budget: Budget) -> tuple[_Half, _Half]:
    """Return the whole turns and the beginning of the split turn, each with its share of the room."""
    history = messages[: plan.turn_start] if plan.is_split_turn else messages[: plan.cut]
    last = next((m for m in reversed(history) if isinstance(m, CompactionSummary)), None)
    previous, earlier_prefix = split_sections(last.summary)[0] if last else "", ""
    parts = serialize_parts([m for m in history if m is not last])
    unread = last.unread if last is not None else None
    if (
        unread
        and sum(map(prompt_tokens, unread.parts)) <= max(budget.window, _LEAST_WINDOW) * _UNREAD_WINDOWS
    ):
        previous, parts = unread.read, (*unread.parts, *parts)
    prefix: tuple[str, ...] = ()
    if plan.is_split_turn:
        if not parts:
            previous, _, earlier_prefix = previous.partition(SPLIT_TURN_HEADER)
        # The prompt of a turn that was split before is in its summary already, and still in the view.
        skip_prompt = 1 if earlier_prefix and plan.pinned == plan.turn_start else 0
        prefix = serialize_parts(messages[plan.turn_start + skip_prompt : plan.cut])
    prefix_room = plan.summary_tokens * 5 // 13 if plan.is_split_turn else 0
    room = plan.summary_tokens - prefix_room
    return (
        _Half(
            parts=parts,
            previous=previous,
            fresh=HISTORY_INSTRUCTION,
            update=UPDATE_INSTRUCTION,
            room=room,
            max_tokens=max(min(budget.history_max, room), 1),
            thinking="high",
        ),
        _Half(
            parts=prefix,
            previous=earlier_prefix,
            fresh=PREFIX_INSTRUCTION,
            update=PREFIX_UPDATE_INSTRUCTION,
            room=prefix_room,
            max_tokens=max(min(budget.prefix_max, prefix_room), 1),
            thinking=None,
        ),
    )


async def _summarize_half(
    model: ChatModel | None, half: _Half, window: int, wishes: str, run: RunWork
) -> _Result:
    """Fold the parts of *half* into its previous summary, chunk by chunk; unread ones become a digest."""
    if not half.parts:
        return _Result(half.previous, half.previous)
    text, unread = half.previous, half.parts
    if model is not None:
        chunks = await run(_chunks_for, half, window)
        for index, chunk in enumerate(chunks):
            reply = await _request_summary(model, half, chunk, text, window, wishes)
            if not reply:
                unread = tuple(part for rest in chunks[index:] for part in rest)
                break
            text = reply
        else:
            return _Result(text, text)
    # Beside what a model wrote, a quarter is left for the unread parts.
    limit = min(max(half.max_tokens, _LEAST_DIGEST, prompt_tokens(text) * 4 // 3), half.room)
    digest = await run(local_digest, unread, text, limit * BYTES_PER_TOKEN)
    return _Result(digest, text, unread, failed=model is not None)


def _chunks_for(half: _Half, window: int) -> list[list[str]]:
    """Group the parts so that each prompt fits the window beside the answer and the summary so far.

    A part of the window stays free for the instruction and for the error of the meter.
    """
    free = window - max(window // 32, _INSTRUCTION_TOKENS) - half.max_tokens
    previous = prompt_tokens(clip_middle(half.previous, window))
    least = window // 4
    if sum(prompt_tokens(part) + 1 for part in half.parts) <= max(free - previous, least):
        return [list(half.parts)]
    return split_chunks(half.parts, max(free - max(previous, half.max_tokens), least))


def split_chunks(parts: Sequence[str], room: int) -> list[list[str]]:
    """Return *parts* in groups of at most *room* prompt tokens; a part that alone is larger is divided.

    >>> split_chunks(["a" * 16, "b" * 16, "c" * 40], 10)
    [['aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb'], ['cccccccccccccccccccccccccccccccccccccccc']]
    """
    pieces: list[str] = []
    for part in parts:
        slices = [part]
        if prompt_tokens(part) >= room:
            # Wide characters may take one and a half tokens each.
            n = room * BYTES_PER_TOKEN if part.isascii() else max(room * 2 // 3, 1)
            slices = [part[i : i + n] for i in range(0, len(part), n)]
        pieces += slices
    return list(group_pieces(pieces, room, lambda piece: prompt_tokens(piece) + 1))


async def _request_summary(
    model: ChatModel, half: _Half, chunk: Sequence[str], previous: str, window: int, wishes: str
) -> str:
    """Return one summary, or nothing when the model failed, was cut off, or gave an empty answer."""
    # A previous summary takes a quarter of the window at most: as many bytes as the window has tokens.
    earlier = clip_middle(previous, window)
    instruction = half.update if previous else half.fresh
    prompt = build_prompt("\n\n".join(chunk), earlier, instruction, wishes)
    request = (text_message("system", SYSTEM_PROMPT), text_message("user", prompt))
    try:
        reply = await model.generate(request, max_tokens=half.max_tokens, thinking=half.thinking)
        refused = reply.stop_reason in ("error", "aborted", "length")
        return "" if refused else split_sections(reply.text_content())[0].strip()
    except CancelledByToken:
        raise
    except Exception:
        # The run goes on without this model; callers see it in `source` and `failed`.
        return ""
