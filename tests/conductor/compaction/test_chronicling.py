"""The chronicle in the summaries of a session: what the host keeps, whichever engine has the cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from histories import committed, history_of
from model_cards import card
from sidecar.boot import ENGINES
from sidecar.chronicle import HEADER
from sidecar.conductor.engine import CompactionRequest, CompactionResult
from sidecar.conductor.events import Notice
from sidecar.conductor.token_estimate import estimate_text_tokens
from sidecar.conductor.window.compaction.chronicling import SessionChronicle
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import Turn
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from talks import FORCED, Follower
from turns import assistant, texts, user

COMPACTING = [name for name in ENGINES if name != "none"]


def talk_of(n_exchanges: int, first: int = 0) -> list[Turn]:
    """Exchanges with a value each, and an answer that is much longer than what it tells."""
    turns: list[Turn] = []
    for number in range(first, first + n_exchanges):
        turns.append(user(f"Put service_{number} on port {7000 + number}."))
        lines = [f"step {number}.{line} went well, as it should" for line in range(40)]
        turns.append(assistant("\n".join(lines)))
    return turns


def text_of(history: History) -> str:
    return "\n".join(texts(history.turns))


async def compacted(name: str, model: ScriptedModel, n_exchanges: int = 40) -> Follower:
    follower = Follower(ENGINES[name](), card(32_000), model)
    follower.history = history_of(talk_of(n_exchanges))
    assert isinstance(await follower.compact(FORCED), CompactionResult)
    return follower


@pytest.mark.parametrize("name", COMPACTING)
@pytest.mark.parametrize("answers", [pytest.param(True, id="note"), pytest.param(False, id="no model")])
async def test_every_prompt_stands_after_a_compaction(name: str, answers: bool) -> None:
    """With the note of a model and without one, and after the next compaction as well."""
    answer = [Say("The services get their ports.")] if answers else [Raise(RuntimeError("down"))]
    follower = await compacted(name, ScriptedModel([answer], when_exhausted="repeat"))
    for _ in range(2):
        shown = text_of(follower.history)
        missing = [number for number in range(40) if f"on port {7000 + number}." not in shown]
        assert missing == []
        assert shown.count(HEADER) == 1, "never made of an earlier chronicle"
        follower.say(*talk_of(10, first=40))
        await follower.compact(FORCED)


def test_a_chronicle_follows_an_undo_and_another_branch() -> None:
    chronicle, whole = SessionChronicle(), history_of(talk_of(6))
    before = chronicle.write(whole, 8, 2_000, estimate_text_tokens).text
    assert "on port 7003." in before
    assert "on port 7004." not in before
    other = whole.first(4).extended(history_of([user("Put all on port 1.")]))
    assert "7002" not in chronicle.write(other, 5, 2_000, estimate_text_tokens).text
    assert chronicle.write(whole, 8, 2_000, estimate_text_tokens).text == before


def test_places_count_the_entries_as_they_were_first_stored() -> None:
    whole = history_of(talk_of(3))
    summary = Entry(user("short"), "summary", origin=whole.node_ids[:4])
    short = committed(
        whole,
        CompactionResult(
            entries=(summary, *whole[4:]), cut=4, dropped_count=4, pre_tokens=9, post_tokens=1,
            summary="", summary_source=None,
        ),
    )  # fmt: skip
    for history, cut, n_before in ((whole, 4, 4), (short, 1, 4), (short, 3, 6)):
        chronicle = SessionChronicle()
        chronicle.follow(history)
        assert chronicle.count_before(history, cut) == n_before


@pytest.mark.parametrize("engine", COMPACTING)
async def test_the_chronicle_is_the_summary_where_no_model_writes_one(make_stage: Any, engine: str) -> None:
    """It is so with the built-in model, which only answers: no call is made that could fail."""
    stage = await make_stage([[Say("x " * 4_000)], [Say("y " * 4_000)]], repeat=True)
    session = await stage.session(engine=engine)
    await stage.ask(session, "Which ports are open?")
    await stage.ask(session, "And now?")
    await session.choose("model", "offline-1")
    done = await session.compact(CompactionRequest(force=True)).outcome
    assert (done.status, done.summary_source, done.reason) == ("completed", "localFallback", None)
    assert not [event for event in session.record.log.after(0) if isinstance(event.data, Notice)]
    assert "Which ports are open?" in text_of(session.record.history.current)


class HeavyEngine(WindowBudgetEngine):
    """An engine to which every text is heavier than to the session's meter."""

    def weigh(self, entries: Sequence[Entry]) -> int:
        return 6 * super().weigh(entries) // 5


async def test_a_chronicle_stands_where_the_engine_counts_higher_than_the_meter() -> None:
    model = ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat")
    follower = Follower(HeavyEngine(), card(200_000), model)
    follower.history = history_of(talk_of(120))
    assert isinstance(await follower.compact(FORCED), CompactionResult)
    assert "on port 7000." in text_of(follower.history)
