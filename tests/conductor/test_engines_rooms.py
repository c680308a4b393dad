"""The engines of the rooms in a session: a window of events, and notes on the oldest ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from long_talks import LONG, sent
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import Conversation
from sidecar.llmgateway.scripted import Say, ScriptedModel
from sidecar.rooms.memory.summaries import SUMMARY_MARK
from turns import check_sound


def last_sent(stage: Any) -> Conversation:
    conversation: Conversation = stage.model.calls[-1].conversation
    return conversation


async def talk(stage: Any, engine: str, n_prompts: int, **wanted: Any) -> Session:
    session: Session = await stage.session(engine=engine, **wanted)
    for number in range(n_prompts):
        await stage.ask(session, f"prompt {number}")
    return session


async def test_a_full_window_loses_its_oldest_quarter_at_once(make_stage: Any) -> None:
    stage = await make_stage([[Say(f"answer. {LONG}")]], repeat=True)
    session = await talk(stage, "slidingWindow", 6, policy={"maxEvents": 8})
    done = session.record.compactions.all
    assert [each.status for each in done] == ["completed"]
    shown = sent(stage)
    assert "prompt 0" not in shown
    assert "prompt 5" in shown
    assert "prompt 0" in shown[1], "the chronicle has what went"
    assert len(session.record.history.current) < 12
    check_sound(last_sent(stage))


async def test_the_notes_go_on_from_the_notes_before(make_stage: Any) -> None:
    stage = await make_stage([[Say(f"answer. {LONG}")]], repeat=True, window=9_000)
    notes = ScriptedModel(
        [[Say("# Notes\nthe first notes")], [Say("# Notes\nthe second notes")]], when_exhausted="repeat"
    )
    stage.models.summarizer = lambda model: (notes, stage.models.card(model))
    session = await talk(stage, "summarizing", 36)
    done = [each for each in session.record.compactions.all if each.status == "completed"]
    assert len(done) >= 2
    assert "the first notes" in str(notes.calls[1].conversation.turns)
    assert sent(stage)[0].startswith(SUMMARY_MARK)
    assert len(session.record.history.current) < 72, "the notes are the conversation now"


async def test_a_model_that_reasons_is_asked_without_a_temperature(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]] * 3 + [[Say("the notes")]])
    session = await talk(stage, "summarizing", 3)
    card = stage.models.card("scripted-1")
    stage.models.catalog = {**stage.models.catalog, card.id: replace(card, reasoning=True)}
    await session.compact(CompactionRequest()).outcome
    options = stage.model.calls[-1].options
    assert (options.temperature, options.max_output_tokens) == (None, 1000)


@pytest.mark.parametrize("engine", ["slidingWindow", "summarizing"])
async def test_a_short_conversation_is_sent_as_it_is(make_stage: Any, engine: str) -> None:
    stage = await make_stage([[Say("one")], [Say("two")]])
    session = await talk(stage, engine, 2)
    turns = last_sent(stage).turns
    assert all(a is b for a, b in zip(turns, list(session.record.history.turns), strict=False))
    assert session.window.request.usage().source == "estimate"
