"""Loss reports of a session: counts in the event, the list on request, the same after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from sidecar.conductor.contract import Compaction
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction import loss_reports
from sidecar.conductor.window.compaction.chronicling import SessionChronicle
from sidecar.conductor.window.compaction.loss import LossReport
from sidecar.llmgateway.scripted import Raise, Say
from sidecar.protocol.messages import ReportedFact

LONG = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 40
POOR = "# Objective\nGo on.\n# Guardrails\nnone\n# Carryover\nport 7013\nsee src/invented.py"
PLANTED = "The zebra runs on port 7013 of zebra_host_12. Never rename zebra_gate."


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chronicle has room, so a poor summary is all that is kept."""
    monkeypatch.setattr(SessionChronicle, "room_of", lambda *_: 0)


async def a_compaction(
    make_stage: Any, engine: str = "agentcore", *after: Any
) -> tuple[Any, Session, Compaction]:
    """A session whose facts a poor summary folds away."""
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(POOR)], *after], window=16_000)
    session = await stage.session(engine=engine)
    await stage.ask(session, f"{PLANTED} {LONG}")
    await stage.ask(session, "go on")
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == "completed", done
    return stage, session, done


async def facts_of(session: Session, done: Compaction) -> list[ReportedFact]:
    return [*session.window.losses.show((await session.window.losses.read(done)).facts)]


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore", "runtime", "summarizing"])
async def test_the_event_has_the_counts_of_the_list(make_stage: Any, engine: str) -> None:
    _, session, done = await a_compaction(make_stage, engine)
    facts = await facts_of(session, done)
    assert done.loss is not None
    assert done.loss.total == len(facts) > 2
    assert done.loss == (await session.window.losses.read(done)).loss
    entries = session.record.history.graph.entries
    assert all(fact.node_id in entries for fact in facts)
    name = next(fact for fact in facts if fact.text == "port 7013")
    assert (name.kind, name.state) == ("name", "kept")


@pytest.mark.usefixtures("no_room")
async def test_the_list_is_the_same_after_a_restart_and_in_a_fork_it_is_not_needed(make_stage: Any) -> None:
    stage, session, done = await a_compaction(make_stage)
    facts = await facts_of(session, done)
    lost = {fact.text: fact.state for fact in facts}
    assert lost["zebra_host_12"] == "gone"
    assert lost["Never rename zebra_gate."] == "kept", "a rule of the session is always sent"
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert loaded.record.compactions.all == (done,)
    assert await facts_of(loaded, done) == facts


async def test_what_was_mended_in_a_summary_is_counted(make_stage: Any) -> None:
    _, _, done = await a_compaction(make_stage)
    assert done.loss is not None
    assert done.loss.mended == len((done.info or {}).get("mended", ())) == 1


async def test_nothing_is_lost_once_a_compaction_is_undone(make_stage: Any) -> None:
    _, session, done = await a_compaction(make_stage)
    undone = (await session.undo(done.compaction_id, force=False, expect_head=None)).compaction
    assert await facts_of(session, undone) == []


@pytest.mark.usefixtures("no_room")
async def test_counts_that_take_too_long_follow_the_outcome(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same compaction is published and stored once more; the list is there at once."""
    monkeypatch.setattr(loss_reports, "MAX_COUNTED", 1)
    stage, session, done = await a_compaction(make_stage)
    assert done.loss is None
    assert await facts_of(session, done)
    await asyncio.gather(*session.window.compactor._counting)
    published = [e.data for e in session.record.log.after(0, limit=10_000) if isinstance(e.data, Compaction)]
    assert [each.status for each in published] == ["in_progress", "completed", "completed"]
    counted = published[-1]
    assert counted.loss is not None
    assert counted.loss.let_go > 0
    assert counted == replace(done, loss=counted.loss)
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert loaded.record.compactions.all == (counted,)


async def test_a_session_closes_while_counts_are_made(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_reports, "MAX_COUNTED", 1)
    stage, session, done = await a_compaction(make_stage)
    await stage.hub.close(session.sid)
    assert not session.window.compactor._counting
    loaded = (await stage.hub.load(session.sid)).session
    assert [each.compaction_id for each in loaded.record.compactions.all] == [done.compaction_id]


async def test_a_report_that_fails_fails_no_compaction(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(entries: object) -> str:
        raise RuntimeError("a text that nobody expected")

    monkeypatch.setattr(loss_reports, "text_shown", fail)
    _, _, done = await a_compaction(make_stage)
    assert (done.status, done.loss) == ("completed", None)


@pytest.mark.usefixtures("no_room")
async def test_slash_compact_tells_the_loss_and_slash_loss_lists_it(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(POOR)]], window=16_000)
    session = await stage.session(engine="agentcore")
    await stage.ask(session, f"{PLANTED} {LONG}")
    await stage.ask(session, "go on")
    told = (await stage.ask(session, "/compact")).text
    assert "Facts of the folded part: " in told
    assert "1 unfounded line of the summary dropped." in told
    assert "/loss lists them." in told
    listed = (await stage.ask(session, "/loss")).text
    assert " let go, name: zebra_host_12" in listed
    only = (await stage.ask(session, "/loss name")).text
    assert 1 <= only.count("\n- ") < listed.count("\n- ")
    assert "There are no facts of the kind 'zebra'" in (await stage.ask(session, "/loss zebra")).text


async def test_slash_loss_without_a_loss_says_so(make_stage: Any) -> None:
    stage = await make_stage([])
    session = await stage.session()
    assert "The model sees the whole conversation" in (await stage.ask(session, "/loss")).text


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("engine", ["windowBudget", "agentcore", "summarizing"])
async def test_a_fork_knows_its_loss_and_can_recall_it(make_stage: Any, engine: str) -> None:
    stage, session, _ = await a_compaction(make_stage, engine, [Say("ok")], [Say("ok")])
    told = (await stage.ask(session, "/loss")).text
    fork = await stage.hub.fork(ForkOf(session.sid))
    if engine != "summarizing":
        assert (await stage.ask(fork, "/loss")).text == told
        await stage.ask(fork, "and now?")
        assert "recall" in [tool.name for tool in stage.model.calls[-1].conversation.tools or ()]
    if engine == "agentcore":
        fact_id = next(line for line in told.splitlines() if line.endswith("name: zebra_host_12")).split()[1]
        assert "Pinned" in (await stage.ask(fork, f"/pin {fact_id}")).text


async def test_a_preview_has_the_counts_of_a_compaction_without_a_model(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Raise(RuntimeError("down"))]], repeat=True)
    session = await stage.session(engine="windowBudget")
    await stage.ask(session, f"{PLANTED} {LONG}")
    await stage.ask(session, "go on")
    calls = len(stage.model.calls)
    plan = await session.preview(CompactionRequest())
    assert len(stage.model.calls) == calls
    assert plan.loss is not None
    assert "Without a model: Facts of the folded part: " in (await stage.ask(session, "/preview")).text
    done = await session.compact(CompactionRequest()).outcome
    assert done.summary_source == "localFallback"
    assert done.loss == plan.loss
    for engine in ("agentcore", "runtime"):
        assert (await session.preview(CompactionRequest(engine=engine))).loss is not None


async def test_a_compaction_that_folded_nothing_has_an_empty_report(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]], repeat=True)
    session = await stage.session()
    assert await session.window.losses.read(replace(NEVER, before_head=None)) == LossReport()
    assert await session.window.losses.read(replace(NEVER, status="failed")) == LossReport()


NEVER = Compaction(
    compaction_id="c",
    engine="runtime",
    trigger="overflow",
    status="completed",
    pre_tokens=1,
    pre_count=1,
    dropped_count=0,
    cut=0,
    microcompacted=0,
    before_head=None,
    undoable=False,
)


async def test_the_list_of_now_follows_notes_that_move_no_head(make_stage: Any) -> None:
    stage, session, done = await a_compaction(make_stage, "summarizing")
    assert "Facts of the folded part" in (await stage.ask(session, "/loss")).text
    await session.undo(done.compaction_id, force=False, expect_head=None)
    assert "The model sees the whole conversation" in (await stage.ask(session, "/loss")).text
