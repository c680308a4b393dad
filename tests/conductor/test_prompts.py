"""Prompts that wait, are edited, removed, or steered into the running turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from long_talks import a_long_talk, emitted, open_session
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.content import Content, prompt_text
from sidecar.conductor.contract import QueueItem
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import ItemNotFound, NotSteerableError, QueueFullError
from sidecar.conductor.events import QueueChanged, UserMessage
from sidecar.conductor.record.log import EventLog, count_chars
from sidecar.conductor.record.queue import MAX_WAITING
from sidecar.conductor.session import Session
from sidecar.conductor.turns.prompts import SteerResult
from sidecar.llmgateway.contract import UserTurn
from sidecar.llmgateway.scripted import Hang, Say, WaitFor
from turns import text


def asked(session: Session) -> list[str]:
    return [prompt_text(turn.blocks) for turn in session.record.history.turns if isinstance(turn, UserTurn)]


async def until(stage: Any, seen: Callable[[], bool]) -> None:
    while not seen():
        await stage.settle()


async def at_work(make_stage: Any, *after: Any) -> tuple[Any, Session, Any]:
    """A session whose first turn is streaming and waits to go on."""
    stage, session = await open_session(make_stage, [[Say("on"), WaitFor("go"), Say("e")], *after])
    started = await session.submit(text("1"))
    await until(stage, lambda: any(event.kind == "textDelta" for event in session.record.log.after(0)))
    return stage, session, started


async def test_waiting_prompts_are_listed_edited_and_removed(make_stage: Any) -> None:
    stage, session, first = await at_work(make_stage, [Say("two")])
    second, third = await session.submit(text("2")), await session.submit(text("3"))
    one, two = session.turns.prompts.items()
    assert (one.turn_id, two.turn_id) == (second.turn_id, third.turn_id)
    session.turns.prompts.edit(one.item_id, text("2, but better"))
    session.turns.prompts.remove(two.item_id)
    assert session.turns.prompts.items() == (QueueItem(one.item_id, one.turn_id, text("2, but better")),)
    assert (await third.outcome).stop_reason == "cancelled"
    told = emitted(session, QueueChanged)
    assert told[-1] == QueueChanged(session.turns.prompts.items(), 1)
    stage.model.gate("go").set()
    await first.outcome
    assert (await second.outcome).text == "two"
    assert asked(session) == ["1", "2, but better"]


async def test_a_prompt_leaves_the_queue_when_it_begins(make_stage: Any) -> None:
    stage, session, _ = await at_work(make_stage, [Say("two")])
    second = await session.submit(text("2"))
    (item,) = session.turns.prompts.items()
    stage.model.gate("go").set()
    await second.outcome
    told = [event for event in session.record.log.after(0) if isinstance(event.data, QueueChanged)]
    assert [event.data for event in told] == [QueueChanged((item,), 1), QueueChanged(())]
    assert told[-1].turn_id is None


async def test_a_waiting_prompt_may_become_a_command(make_stage: Any) -> None:
    stage, session, first = await at_work(make_stage)
    second = await session.submit(text("2"))
    session.turns.prompts.edit(session.turns.prompts.items()[0].item_id, text("/engine"))
    stage.model.gate("go").set()
    await first.outcome
    assert (await second.outcome).text.startswith("Compaction engine: windowBudget.")


async def test_a_running_or_ended_prompt_is_not_in_the_queue(make_stage: Any) -> None:
    _, session, _ = await at_work(make_stage)
    with pytest.raises(ItemNotFound, match=r"no prompt .* waits"):
        session.turns.prompts.remove("x")
    with pytest.raises(ItemNotFound, match=r"no prompt .* waits"):
        session.turns.prompts.edit("x", text("y"))


async def test_an_edit_must_be_a_prompt(make_stage: Any) -> None:
    _, session, _ = await at_work(make_stage)
    await session.submit(text("2"))
    before = session.turns.prompts.items()
    with pytest.raises(InvalidInput):
        session.turns.prompts.edit(before[0].item_id, ())
    assert session.turns.prompts.items() == before


def reported(session: Session) -> list[tuple[str, str | None]]:
    """Return the prompts that clients were shown: their text and their node."""
    return [(shown.content[0]["text"], shown.node_id) for shown in emitted(session, UserMessage)]


def stored(session: Session) -> list[tuple[str, str | None]]:
    """Return the prompts of the conversation: their text and their node."""
    prompts = (entry for entry in session.record.history.current if entry.kind == "user")
    return [(prompt_text(entry.turn.blocks), entry.node_id) for entry in prompts]


async def test_a_steered_prompt_is_reported_once_with_its_node_when_it_enters(make_stage: Any) -> None:
    stage, session, first = await at_work(make_stage, [Say("two")])
    session.turns.prompts.steer(text("2"), first.turn_id)
    assert [shown for shown, _ in reported(session)] == ["1"]
    stage.model.gate("go").set()
    await first.outcome
    assert reported(session) == stored(session)
    assert [shown for shown, _ in stored(session)] == ["1", "2"]


async def test_a_steered_prompt_that_an_interrupt_keeps_is_reported_once_in_a_turn_of_its_own(
    make_stage: Any,
) -> None:
    stage, session, first = await at_work(make_stage, [Say("two")])
    session.turns.prompts.steer(text("2"), first.turn_id)
    session.turns.prompts.interrupt(first.turn_id, "keep")
    assert (await first.outcome).stop_reason == "cancelled"
    await until(stage, lambda: not session.is_busy)
    assert reported(session) == stored(session)
    assert [shown for shown, _ in stored(session)] == ["1", "2"]


@pytest.mark.parametrize("queue", ["drop", "return"])
async def test_a_steered_prompt_that_never_entered_is_never_reported(make_stage: Any, queue: Any) -> None:
    stage, session, first = await at_work(make_stage)
    session.turns.prompts.steer(text("2"), first.turn_id)
    session.turns.prompts.interrupt(first.turn_id, queue)
    await first.outcome
    await until(stage, lambda: not session.is_busy)
    assert reported(session) == stored(session)
    assert [shown for shown, _ in stored(session)] == ["1"]


async def test_steering_without_a_turn_id_enters_the_running_turn(make_stage: Any) -> None:
    stage, session, first = await at_work(make_stage, [Say("two")])
    assert session.turns.prompts.steer(text("2"), None) == SteerResult("injected", first.turn_id)
    stage.model.gate("go").set()
    assert (await first.outcome).text == "two"
    with pytest.raises(NotSteerableError, match="no turn is running"):
        session.turns.prompts.steer(text("3"), None)


async def test_steering_a_turn_that_has_ended_begins_another(make_stage: Any) -> None:
    stage, session, first = await at_work(make_stage, [Say("two")])
    stage.model.gate("go").set()
    await first.outcome
    steered = session.turns.prompts.steer(text("2"), first.turn_id)
    assert steered.outcome == "startedNewTurn"
    assert steered.turn_id != first.turn_id
    await until(stage, lambda: not session.is_busy)
    assert asked(session) == ["1", "2"]


async def test_steering_never_enters_a_turn_it_was_not_meant_for(make_stage: Any) -> None:
    stage, session, first = await at_work(make_stage, [Hang()])
    stage.model.gate("go").set()
    await first.outcome
    await session.submit(text("2"))
    with pytest.raises(NotSteerableError):
        session.turns.prompts.steer(text("3"), first.turn_id)
    assert session.turns.prompts.items() == ()


async def test_what_is_sent_while_a_turn_ends_can_be_stopped_at_once(make_stage: Any) -> None:
    """A client has seen the end of the turn before its job is over: then the prompt behind it is current."""
    stage, session, _ = await at_work(make_stage, [Say("two")])
    prompts, seen = session.turns.prompts, asyncio.get_running_loop().create_future()

    def on_event(log: EventLog) -> None:
        if log.after(log.seq - 1)[0].kind == "settled" and not seen.done():
            second = prompts.submit(text("2"))
            seen.set_result((second, prompts.interrupt(None, "drop")))

    stop = session.record.log.follow(on_event)
    prompts.interrupt(None, "keep")
    second, interruption = await seen
    stop()
    assert interruption.accepted
    assert (await second.outcome).stop_reason == "cancelled"
    assert len(stage.model.calls) == 1


@pytest.mark.parametrize("queue", ["keep", "drop", "return"])
async def test_an_interrupt_reaches_the_prompts_behind_a_compaction(make_stage: Any, queue: Any) -> None:
    stage, session = await a_long_talk(make_stage, [Hang()], [Say("four")])
    compacting = session.compact(CompactionRequest())
    await until(stage, lambda: session.record.compactions.running is not None)
    waiting = await session.submit(text("4"))
    stopped = session.turns.prompts.interrupt(None, queue)
    assert stopped.accepted == (queue != "keep")
    assert stopped.returned == ((text("4"),) if queue == "return" else None)
    assert session.cancel_compaction(compacting.compaction_id)
    assert (await waiting.outcome).stop_reason == ("end_turn" if queue == "keep" else "cancelled")


@pytest.mark.parametrize(
    "words", [text("/help"), text("3")], ids=["a command", "a turn that is being stopped"]
)
async def test_a_prompt_that_cannot_enter_the_turn_waits(make_stage: Any, words: Content) -> None:
    stage, session, first = await at_work(make_stage, [Say("two")])
    if words == text("3"):
        session.turns.prompts.interrupt(None, "keep")
    steered = session.turns.prompts.steer(words, first.turn_id)
    assert (steered.outcome, len(session.turns.prompts.items())) == ("queued", 1)
    stage.model.gate("go").set()
    await until(stage, lambda: not session.is_busy)


async def test_steering_a_turn_that_waits_is_queued_behind_it(make_stage: Any) -> None:
    _, session, _ = await at_work(make_stage)
    second = await session.submit(text("2"))
    assert session.turns.prompts.steer(text("3"), second.turn_id).outcome == "queued"
    assert [item.input for item in session.turns.prompts.items()] == [text("2"), text("3")]


async def test_an_idempotency_key_returns_the_same_receipt(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]])
    first = await session.submit(text("1"), idempotency_key="k")
    await first.outcome
    again = await session.submit(text("1"), idempotency_key="k")
    assert (again.turn_id, again.user_node_id) == (first.turn_id, first.user_node_id)
    assert len(stage.model.calls) == 1
    assert first.user_node_id is not None


async def test_a_refused_prompt_does_not_use_up_its_idempotency_key(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Say("one")]])
    with pytest.raises(InvalidInput):
        session.turns.prompts.submit((), idempotency_key="k")
    assert (await session.submit(text("1"), idempotency_key="k")).disposition == "started"


async def test_a_queue_is_bounded_and_so_are_its_events(make_stage: Any) -> None:
    """A client that submits prompts in a loop is told so, and its events do not grow with the queue."""
    _, session, _ = await at_work(make_stage, [Say("next")])
    for number in range(MAX_WAITING):
        await session.submit(text(f"{number} " + "x" * 5_000))
    for refused in (
        lambda: session.turns.prompts.submit(text("more")),
        lambda: session.turns.prompts.submit(text("more"), when_busy="steer"),
        lambda: session.compact(CompactionRequest()),
    ):
        with pytest.raises(QueueFullError, match="128 requests waiting already"):
            refused()
    events = emitted(session, QueueChanged)
    assert (events[-1].total, len(events[-1].items)) == (MAX_WAITING, 16)
    assert max(count_chars(item.input) for event in events for item in event.items) < 1_100
    session.turns.prompts.edit(session.turns.prompts.items()[0].item_id, text("edited"))
    session.turns.prompts.remove(session.turns.prompts.items()[0].item_id)
    await session.submit(text("there is room again"))
    session.turns.prompts.interrupt(None, "drop")


async def test_waiting_prompts_are_bounded_by_their_size_too(make_stage: Any) -> None:
    _, session, _ = await at_work(make_stage, [Say("next")])
    await session.submit(text("x" * 16_000_000))
    with pytest.raises(QueueFullError):
        await session.submit(text("more"))
    with pytest.raises(QueueFullError):
        session.turns.prompts.edit(session.turns.prompts.items()[0].item_id, text("y" * 16_000_000))
    session.turns.prompts.interrupt(None, "drop")


async def test_a_key_of_any_length_is_not_kept(make_stage: Any) -> None:
    _, session = await open_session(make_stage)
    with pytest.raises(InvalidInput, match="at most 1000 characters"):
        session.turns.prompts.submit(text("1"), idempotency_key="k" * 1_001)
