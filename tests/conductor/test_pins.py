"""Pins: what the user pins stands word for word in every request, whatever becomes of the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from long_talks import LONG, emitted, open_session
from sidecar._internal.errors import InvalidInput
from sidecar.boot import ENGINES
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import NodeNotFound
from sidecar.conductor.events import PinsChanged
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction.chronicling import SessionChronicle
from sidecar.conductor.window.pins import MAX_TOKENS, SHARE
from sidecar.llmgateway.scripted import Say

POOR = "# Objective\nGo on.\n# Guardrails\nnone\n# Carryover\nnothing"
PLANTED = "The zebra runs on port 7013."


def sent(stage: Any) -> str:
    """The system prompt and the turns of the newest request."""
    conversation = stage.model.calls[-1].conversation
    return f"{conversation.system}\n{conversation.turns}"


async def a_loss(make_stage: Any, engine: str) -> tuple[Any, Session]:
    """A session that forgot its port, where the engine forgets at all."""
    script = [[Say(LONG)], [Say(LONG)], [Say(POOR)], [Say("ok")], [Say(POOR)]]
    stage, session = await open_session(
        make_stage, script, f"{PLANTED} {LONG}", "go on", window=16_000, repeat=True, engine=engine
    )
    await session.compact(CompactionRequest()).outcome
    return stage, session


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_pinned_fact_comes_back_and_stays_with_every_engine(make_stage: Any, engine: str) -> None:
    stage, session = await a_loss(make_stage, engine)
    done = next((each for each in session.record.compactions.all if each.status == "completed"), None)
    pin = session.window.pins.of_text(PLANTED)
    if done is not None:
        facts = (await session.window.losses.read(done)).facts
        found = await session.window.pins.find_fact(next(f.fact_id for f in facts if PLANTED in f.text))
        assert found is not None
        assert found.node_id in session.record.history.graph.entries
        pin = found
    await session.window.pins.add(pin)
    for _ in range(2):
        await stage.ask(session, "and now?")
        assert f"\n- {PLANTED}" in stage.model.calls[-1].conversation.system
        await session.compact(CompactionRequest()).outcome
    if done is not None:
        again = (await session.window.losses.read(done)).facts
        assert [fact.pinned for fact in again if fact.fact_id == pin.pin_id] == [True]
    await session.window.pins.remove(pin.pin_id)
    await stage.ask(session, "and now?")
    assert "The user pinned" not in stage.model.calls[-1].conversation.system


async def test_a_fact_of_a_poor_summary_is_lost_until_it_is_pinned(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionChronicle, "room_of", lambda *_: 0)
    stage, session = await a_loss(make_stage, "agentcore")
    await stage.ask(session, "and now?")
    assert "7013" not in sent(stage)
    listed = (await stage.ask(session, "/loss")).text
    line = next(line for line in listed.splitlines() if "7013" in line)
    fact_id = line.split()[1]
    assert "Pinned, from the next request on" in (await stage.ask(session, f"/pin {fact_id}")).text
    await stage.ask(session, "and now?")
    assert "7013" in sent(stage)
    assert f"- {fact_id}: {PLANTED}" in (await stage.ask(session, "/pins")).text
    assert "Unpinned" in (await stage.ask(session, f"/unpin {fact_id}")).text
    assert "no pins" in (await stage.ask(session, "/pins")).text


async def test_pins_survive_a_restart_and_belong_to_forks(make_stage: Any) -> None:
    stage, session = await a_loss(make_stage, "agentcore")
    await stage.ask(session, PLANTED)
    first = list(session.record.history.graph.entries)[-2]
    pin = await session.window.pins.add(session.window.pins.of_node(first))
    assert pin.text == PLANTED
    assert pin.node_id == first
    fork = await stage.hub.fork(ForkOf(session.sid))
    assert fork.window.pins.all == (pin,)
    await fork.window.pins.remove(pin.pin_id)
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert loaded.window.pins.all == (pin,)
    await stage.ask(loaded, "and now?")
    assert PLANTED in stage.model.calls[-1].conversation.system


async def test_a_pin_counts_in_the_meter_and_is_published(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Say("ok")]], "hi", repeat=True)
    before = session.window.request.usage(detail=True).by
    pin = await session.window.pins.add(session.window.pins.of_text("Say it in one line. " * 20))
    after = session.window.request.usage(detail=True).by
    assert before is not None
    assert after is not None
    assert after.system > before.system + session.window.pins.used_tokens // 2
    events = emitted(session, PinsChanged)
    assert events == [PinsChanged((pin,))]


async def test_pins_take_a_share_of_the_window_at_most(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [], window=16_000)
    assert session.window.pins.limit_tokens == 16_000 // SHARE
    with pytest.raises(InvalidInput, match="of the 800 tokens for pins are left"):
        await session.window.pins.add(session.window.pins.of_text("word " * 4_000))
    first = await session.window.pins.add(session.window.pins.of_text("one"))
    assert await session.window.pins.add(session.window.pins.of_text(" one ")) == first
    assert session.window.pins.all == (first,)
    stage.smaller_window(0)
    assert session.window.pins.limit_tokens == MAX_TOKENS


async def test_what_cannot_be_pinned_is_refused_with_the_next_step(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [])
    with pytest.raises(NodeNotFound):
        session.window.pins.of_node("nowhere")
    assert "nothing to pin" in (await stage.ask(session, "/pin")).text
    assert "no fact '0123456789'; take an id from /loss" in (await stage.ask(session, "/pin 0123456789")).text
    assert "no pin 'x'; the pins are: none" in (await stage.ask(session, "/unpin x")).text


async def test_a_pin_of_several_lines_stays_one_item(make_stage: Any) -> None:
    stage, session = await a_loss(make_stage, "agentcore")
    text = session.window.pins.of_text("one\ntwo")
    await session.window.pins.add(text)
    await stage.ask(session, "and now?")
    assert "\n- one\n  two" in stage.model.calls[-1].conversation.system
