"""The summary of a compaction that is written before it is due, and the event that says it is near."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bare_sessions import compaction_settings
from histories import entry_of
from long_talks import emitted, sent
from model_cards import card
from properties import cases
from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engine import CompactionRequest, CompactionResult, EngineDeps, EngineInput
from sidecar.conductor.events import CompactionNear
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction.preparing import NEAR_SHARE
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conversation import History
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    Emission,
    StreamOptions,
    TextEmission,
)
from sidecar.llmgateway.scripted import Hang, Say, ScriptedModel
from talks import AUTO, TALKS, Talk, input_of, turns_of
from turns import text

ANSWER = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 120
PREPARED = (
    "# Objective\nFix the parser in the morning.\n# Guardrails\nnone\n# Status\nnone\n# Rationale\nnone\n"
)
PREPARED += "# Plan\nGo on.\n# Carryover\nnone"
UPDATED = PREPARED.replace("morning", "evening")
WINDOW = 13_100


async def prepared(session: Session) -> None:
    """Return once no preparation is under way; one begins behind the answer of a turn."""
    await session._jobs.wait_idle()
    await session.window.preparer.take("windowBudget")


async def a_talk_near_its_limit(make_stage: Any, *after: Any, **options: Any) -> tuple[Any, Session]:
    """Three turns that fill the gate to three quarters; *after* are the model calls from then on."""
    stage = await make_stage(
        [[Say(ANSWER)]] * 3 + list(after),
        window=WINDOW,
        compaction=compaction_settings(prepare=True),
        **options,
    )
    session = await stage.session()
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    return stage, session


async def test_a_compaction_asks_only_for_the_part_that_is_new(make_stage: Any) -> None:
    stage, session = await a_talk_near_its_limit(
        make_stage, [Say(PREPARED)], [Say(ANSWER)], [Say(UPDATED)], [Say("Done.")]
    )
    await prepared(session)
    assert "» you: one" in str(sent(stage, 3))
    await stage.ask(session, "four")
    await stage.ask(session, "five")
    (done,) = session.record.compactions.all
    assert (done.status, done.summary_source) == ("completed", "model")
    assert "» you: one" not in str(sent(stage, 5))
    assert "in the morning" in str(sent(stage, 5))
    assert "in the evening" in (done.summary or "")


async def test_a_prepared_summary_that_is_up_to_date_needs_no_call(make_stage: Any) -> None:
    stage, session = await a_talk_near_its_limit(make_stage, [Say(PREPARED)], [Say("Done.")])
    await prepared(session)
    await stage.ask(session, "four" * 4_000)
    (done,) = session.record.compactions.all
    assert "in the morning" in (done.summary or "")
    assert len(stage.model.calls) == 5


async def test_clients_are_notified_once_for_each_time_that_the_limit_comes_near(make_stage: Any) -> None:
    stage, session = await a_talk_near_its_limit(make_stage, [Say(PREPARED)], [Say("Fine.")], [Say("Fine.")])
    (event,) = emitted(session, CompactionNear)
    assert NEAR_SHARE <= event.used / event.limit < 1
    assert event.window == WINDOW
    await prepared(session)
    await stage.ask(session, "four")
    assert len(emitted(session, CompactionNear)) == 1
    await session.compact(CompactionRequest()).outcome
    await stage.ask(session, "five")
    assert len(emitted(session, CompactionNear)) == 1


@pytest.mark.parametrize("cause", ["undo", "rewind", "drop", "engine", "close"])
async def test_a_preparation_ends_with_its_cause(make_stage: Any, cause: str) -> None:
    before = asyncio.all_tasks()
    stage, session = await a_talk_near_its_limit(make_stage, [Hang()], [Say(UPDATED)])
    while len(stage.model.calls) < 4:
        await stage.settle()
    assert len(asyncio.all_tasks()) > len(before)
    match cause:
        case "undo":
            await session.compact(CompactionRequest(instructions="Be brief.")).outcome
            await session.undo(None, force=True, expect_head=None)
        case "rewind":
            await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
        case "drop":
            await session.drop([session.record.history.current.node_ids[1]], expect_head=None)
        case "engine":
            await session.choose("engine", "agentcore")
        case _:
            await stage.hub.aclose()
    await session.window.preparer.take("windowBudget")
    assert not session.window.preparer._tasks
    assert await session.window.preparer.take("windowBudget") is None


@cases(60)
@given(TALKS, st.integers(0, 40))
async def test_a_prepared_compaction_keeps_no_less_than_another(talk: Talk, moment: int) -> None:
    turns = [turn for exchange in turns_of(talk) for turn in exchange]
    engine, model = WindowBudgetEngine(), card(talk.window)
    history = History().extended(map(entry_of, turns[:moment]))

    def deps() -> EngineDeps:
        return EngineDeps(ScriptedModel([[Say(PREPARED)]], when_exhausted="repeat"), CancelToken(), 9)

    async def compact(given: EngineInput) -> CompactionResult | NoOp:
        plan = engine.plan(given, AUTO)
        return plan if isinstance(plan, NoOp) else await engine.compact(given, AUTO, plan, deps())

    made = await engine.prepare(input_of(history, model), AUTO, deps())
    history = history.extended(map(entry_of, turns[moment:]))
    results = [await compact(input_of(history, model, prepared=each)) for each in (None, made)]
    plain, ahead = results
    if not isinstance(plain, CompactionResult) or not isinstance(ahead, CompactionResult):
        assert plain == ahead
        return
    assert (plain.cut, plain.dropped_count, plain.restored) == (
        ahead.cut,
        ahead.dropped_count,
        ahead.restored,
    )
    assert ahead.post_tokens < ahead.pre_tokens
    assert list(plain.entries[1:]) == list(ahead.entries[1:])
    assert set(plain.summary.splitlines()) <= set(ahead.summary.splitlines())


def write_in_steps(conversation: Conversation, options: StreamOptions) -> Channel:
    """Write a summary word by word, with a turn of the event loop for everybody else after each."""

    async def emissions() -> AsyncGenerator[Emission, None]:
        for word in PREPARED.split(" "):
            await asyncio.sleep(0)
            yield TextEmission(f"{word} ")

    return channel_of(emissions)


async def a_talk_with_a_slow_summariser(make_stage: Any) -> tuple[Any, Session]:
    stage, session = await a_talk_near_its_limit(make_stage, [Say(PREPARED)])
    await prepared(session)
    session.window.preparer.cancel()
    stage.models.summarizer = lambda model: (write_in_steps, stage.models.card(model))
    return stage, session


async def test_nothing_is_left_behind_wherever_it_is_cancelled(make_stage: Any) -> None:
    stage, session = await a_talk_with_a_slow_summariser(make_stage)
    before, turns = asyncio.all_tasks(), tuple(session.record.history.turns)
    n_steps = 0
    while True:
        session.window.preparer.on_settled()
        token = session.window.preparer._cancel
        for _ in range(n_steps):
            await stage.settle()
        is_done = not session.window.preparer._tasks
        session.window.preparer.cancel()
        await prepared(session)
        assert asyncio.all_tasks() == before
        assert not token._listeners
        assert not token._anchored
        assert tuple(session.record.history.turns) == turns
        assert session.record.compactions.all == ()
        if is_done:
            break
        n_steps += 1
    assert n_steps > len(PREPARED.split(" "))


async def test_nothing_is_left_behind_wherever_a_compaction_is_cancelled(make_stage: Any) -> None:
    stage, session = await a_talk_with_a_slow_summariser(make_stage)
    before, turns, head = (
        asyncio.all_tasks(),
        tuple(session.record.history.turns),
        session.record.history.head,
    )
    records = session.record.compactions._done
    n_steps = 0
    while True:
        receipt = session.compact(CompactionRequest())
        for _ in range(n_steps):
            await stage.settle()
        was_running = session.cancel_compaction(receipt.compaction_id)
        done = await receipt.outcome
        await session._jobs.wait_idle()
        assert asyncio.all_tasks() == before
        if done.status == "completed":
            break
        assert was_running
        assert done.status == "cancelled"
        assert (tuple(session.record.history.turns), session.record.history.head) == (turns, head)
        assert not records
        assert session.record.events.phase == "settled"
        assert not session.window.compactor._cancel._listeners
        n_steps += 1
    assert n_steps > len(PREPARED.split(" "))


async def test_nothing_is_left_behind_wherever_a_turn_is_stopped_that_waits_for_a_compaction(
    make_stage: Any,
) -> None:
    """Whether it waits for a summary that is being prepared or for the rest of it."""
    stage, session = await a_talk_with_a_slow_summariser(make_stage)
    turns, head = tuple(session.record.history.turns), session.record.history.head
    n_steps = 0
    while True:
        session.window.preparer.on_settled()
        receipt = session.turns.prompts.submit(text("four" * 4_000))
        for _ in range(n_steps):
            await stage.settle()
        session.turns.prompts.interrupt(None, "drop")
        outcome = await receipt.outcome
        await session._jobs.wait_idle()
        session.window.preparer.cancel()
        await prepared(session)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not session.window.compactor._cancel._listeners
        assert session.record.compactions.running is None
        if any(done.status == "completed" for done in session.record.compactions.all):
            break
        assert outcome.stop_reason == "cancelled"
        assert (tuple(session.record.history.turns), session.record.history.head) == (turns, head)
        n_steps += 1
    assert n_steps > len(PREPARED.split(" "))


async def test_each_time_that_the_limit_comes_near_is_announced(make_stage: Any) -> None:
    """Also where the turn after a compaction reaches it again."""
    stage, session = await a_talk_near_its_limit(
        make_stage, [Say(PREPARED)], [Say(ANSWER * 2)], [Say(PREPARED)], repeat=True
    )
    await prepared(session)
    await stage.ask(session, "four" * 4_000)
    await session._jobs.wait_idle()
    assert len(emitted(session, CompactionNear)) == 2


@pytest.mark.parametrize("engine", ["runtime", "agentcore", "summarizing"])
async def test_an_engine_that_cannot_go_on_from_a_summary_compacts_ahead(
    make_stage: Any, engine: str
) -> None:
    """The turns since then stay as they are behind it."""
    settings = compaction_settings(prepare=True)
    stage = await make_stage([[Say(ANSWER)]], window=WINDOW, repeat=True, compaction=settings)
    writer = ScriptedModel([[Say(PREPARED)]], when_exhausted="repeat")
    stage.models.summarizer = lambda model: (writer, stage.models.card(model))
    session = await stage.session(engine=engine)
    for number in range(6):
        await stage.ask(session, f"{number}")
        if emitted(session, CompactionNear):
            break
    await session.window.preparer.take(engine)
    n_calls, gate = len(writer.calls), emitted(session, CompactionNear)[0]
    await stage.ask(session, "word" * (gate.limit - gate.used + 500))
    assert 0 < n_calls == len(writer.calls)
    done = session.record.compactions.all[0]
    assert (done.status, done.trigger, done.summary_source) == ("completed", "auto", "model")
    assert "in the morning" in (done.summary or "")
    assert done.post_tokens is not None
    assert done.post_tokens < done.pre_tokens
    assert done.cut < done.pre_count
