"""Whatever the transcript, clean or broken: what is sent is whole, fits, and stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from chat_model import ScriptedChatModel
from properties import cases
from sidecar.agentcore.memory import (
    CompactionConfig,
    CompactionInfo,
    CompactionSummary,
    HistoryCompactor,
    estimate_total,
    fit_budget,
    new_compaction,
)
from sidecar.agentcore.messages import (
    AgentMessage,
    ContentBlock,
    Image,
    Message,
    Usage,
    call_block,
    compaction_convert_to_llm,
    is_user_prompt,
    repair_message_sequence,
    text_block,
    text_message,
    tool_message,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BUDGET = fit_budget(1000, 200, 100)

SIZES = st.sampled_from([1, 10, 40, 150, 600, 3000])
IDS = st.sampled_from(["1", "2", "3", "4"])
TEXTS = st.builds(lambda size, char: char * size, SIZES, st.sampled_from("x日\n\ud800"))
USAGES = st.none() | st.builds(Usage, st.integers(0, 900), st.integers(0, 50), st.integers(0, 100))


def _asks(ids: list[str], text: str, usage: Usage | None) -> list[AgentMessage]:
    calls = tuple(call_block(i, "read", f'{{"path":"{text[:9]!r}"}}') for i in ids)
    return [Message("assistant", (text_block(text), *calls), usage=usage)]


def _pair(ids: list[str], text: str, size: int) -> list[AgentMessage]:
    return [*_asks(ids, text, None), *(tool_message(i, "r" * size) for i in ids)]


ID_LISTS = st.lists(IDS, min_size=1, max_size=3, unique=True)
CLEAN: st.SearchStrategy[list[AgentMessage]] = st.one_of(
    TEXTS.map(lambda text: [text_message("user", text)]),
    st.builds(lambda text, usage: [Message("assistant", (text_block(text),), usage=usage)], TEXTS, USAGES),
    st.builds(_pair, ID_LISTS, TEXTS, SIZES),
)
BROKEN: st.SearchStrategy[list[AgentMessage]] = st.one_of(
    CLEAN,
    st.builds(_asks, ID_LISTS, TEXTS, USAGES),
    st.builds(lambda call_id, size: [tool_message(call_id, "r" * size, is_error=True)], IDS, SIZES),
    TEXTS.map(lambda text: [Message("assistant", (text_block(text),), stop_reason="aborted")]),
    TEXTS.map(lambda text: [CompactionSummary(text, read_files=("a",))]),
    TEXTS.map(lambda text: [text_message("system", text)]),
    st.just([Message("user", (ContentBlock("image", image=Image("abc")),))]),
    st.just([Message("user")]),
)


def joined(pieces: list[list[AgentMessage]]) -> list[AgentMessage]:
    return [message for piece in pieces for message in piece]


REPLIES = st.lists(st.sampled_from(["ok", "long " * 900, "", RuntimeError("down")]), max_size=4)


def compactor(
    replies: Sequence[str | RuntimeError], infos: list[CompactionInfo] | None = None
) -> HistoryCompactor:
    config = CompactionConfig(
        ScriptedChatModel(list(replies)), 1000, 200, 100, infos.append if infos is not None else None
    )
    return new_compaction(config, clock=lambda: NOW)


def check_whole(view: Sequence[AgentMessage]) -> list[Message]:
    """Every call has its one result behind it, and no result is without its call."""
    sent = repair_message_sequence(compaction_convert_to_llm(view))
    waiting: set[str] = set()
    for message in sent:
        if message.role == "tool":
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = {call.id for call in message.tool_calls()}
    assert not waiting
    return sent


@cases(150)
@given(st.lists(BROKEN, max_size=40).map(joined), REPLIES)
def test_any_history_gives_a_view_that_can_be_sent(
    messages: list[AgentMessage], replies: list[str | RuntimeError]
) -> None:
    infos: list[CompactionInfo] = []
    transform = compactor(replies, infos)
    view = list(asyncio.run(transform(messages)))
    sent = check_whole(view)
    if view != messages and infos:
        assert isinstance(view[0], CompactionSummary)
        assert sent[0].role == "user"
        assert infos[0].tokens_after < infos[0].tokens_before
        assert infos[0].compacted_count + infos[0].kept_count == infos[0].messages_before
    prompts = [m for m in messages if is_user_prompt(m) and estimate_total([m]) <= 400]
    if prompts and prompts[-1] is [m for m in messages if is_user_prompt(m)][-1]:
        assert prompts[-1] in view


@cases(100)
@given(st.lists(CLEAN, min_size=1, max_size=40).map(joined), REPLIES)
def test_a_clean_history_fits_afterwards_and_loses_no_pair(
    messages: list[AgentMessage], replies: list[str | RuntimeError]
) -> None:
    transform = compactor(replies)
    view = list(asyncio.run(transform(messages)))
    assert estimate_total(view) <= BUDGET.threshold + 60
    sent = compaction_convert_to_llm(view)
    assert repair_message_sequence(sent) == sent


@cases(50)
@given(st.lists(CLEAN, min_size=1, max_size=30))
def test_raw_and_view_feeding_agree(steps: list[list[AgentMessage]]) -> None:
    raw_infos: list[CompactionInfo] = []
    view_infos: list[CompactionInfo] = []
    raw, by_view = compactor([], raw_infos), compactor([], view_infos)

    async def drive() -> None:
        history: list[AgentMessage] = []
        view: list[AgentMessage] = []
        for step in steps:
            history.extend(step)
            view = list(await by_view([*view, *step]))
            assert list(await raw(history)) == view

    asyncio.run(drive())
    assert raw_infos == view_infos


@cases(60)
@given(st.lists(BROKEN, max_size=30).map(joined), st.booleans())
def test_force_gives_less_or_nothing(messages: list[AgentMessage], twice: bool) -> None:
    transform = compactor([])
    outcome = asyncio.run(transform.compact_now(messages))
    if outcome is not None:
        view, info = outcome
        assert estimate_total(view) < estimate_total(messages)
        assert info.tokens_after == estimate_total(view)
        check_whole(view)
