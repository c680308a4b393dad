"""The loss report: how the facts behind a compaction stand in the view, read from the chronicle in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from histories import history_of
from long_talks import LONG
from model_cards import card
from properties import cases
from sidecar import boot
from sidecar.chronicle.chronicle import Chronicle
from sidecar.conductor.contract import Compaction, Loss, ReportedFact
from sidecar.conductor.engine import CompactionRequest, CompactionResult
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction.chronicling import SessionChronicle, chronicle_text
from sidecar.conductor.window.compaction.loss import LossReport, count_loss
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock, ToolTurn, Turn
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from talks import FORCED, TALKS, Follower, Talk, turns_of
from turns import assistant, user

ENGINES = [name for name in boot.ENGINES if name != "none"]
NOTE = "# Objective\nGo on.\n# Guardrails\nnone\n# Carryover\nport 7013\nsee src/invented.py"
PLANTED = "The zebra runs on port 7013 of zebra_host_12. Never rename zebra_gate."


def a_round(number: int) -> list[Turn]:
    """A prompt, calls that leave a fact of every kind, and an answer."""
    calls = [
        ("bash", {"command": f"pytest -q tests/test_{number}.py"}, "E ValueError: bad\n[exit 1]", True),
        ("edit", {"path": f"src/m_{number}.py", "old_text": "a", "new_text": "b"}, "edited", False),
        ("read", {"path": f"src/r_{number}.py"}, "def retry():\n    return 1\n", False),
        ("grep", {"pattern": f"retry_limit_{number}"}, "src/a.py:3", False),
    ]
    turns: list[Turn] = [user(f"Fix module {number}.")]
    for index, (name, arguments, output, is_error) in enumerate(calls):
        call_id = f"c{number}.{index}"
        turns.append(assistant(ToolCallBlock(call_id, name, arguments)))
        turns.append(ToolTurn((ToolResultBlock(call_id, output * 20, is_error),)))
    return [*turns, assistant(f"Done. I decided on port {7000 + number} for it. " * 4)]


@pytest.mark.parametrize("name", ENGINES)
async def test_each_fact_of_the_folded_part_is_counted_once(name: str) -> None:
    model = ScriptedModel([[Say("Modules get mended.")]], when_exhausted="repeat")
    follower = Follower(boot.ENGINES[name](), card(32_000), model)
    typed = [Entry(user("$ ls\na.py\n[exit 0]"), "shell", node_id="typed")]
    shown = [Entry(user("a file of the user"), "file", node_id="shown")]
    turns = [turn for number in range(60) for turn in a_round(number)]
    follower.history = History([*typed, *shown, *history_of(turns)])
    before = follower.history
    done = await follower.compact(FORCED)
    assert isinstance(done, CompactionResult)
    loss = (await count_loss(before, done, SessionChronicle())).loss
    assert loss is not None
    folded = before[: done.cut]
    counts = {each.kind: each.kept + each.shortened + (each.line or 0) + each.let_go for each in loss.kinds}
    calls = Counter(
        block.name for entry in folded for block in entry.turn.blocks if isinstance(block, ToolCallBlock)
    )
    assert counts == {
        "request": sum(entry.kind == "user" for entry in folded),
        "outcome": sum(
            isinstance(entry.turn.blocks[0], TextBlock) for entry in folded if entry.kind == "assistant"
        ),
        "modified": calls["edit"],
        "read": calls["read"] + 1,
        "command": calls["bash"] + 1,
        "search": calls["grep"],
        "error": calls["bash"],
    }
    assert loss.let_go == 0, "nothing is without a line where there is a chronicle"
    assert 0 < (loss.share or 0) < 1


@cases(30)
@given(TALKS)
async def test_the_shares_that_are_read_are_those_that_were_written(talk: Talk) -> None:
    chronicle = Chronicle()
    for entry in history_of([turn for exchange in turns_of(talk) for turn in exchange]):
        chronicle.add(entry)
    for room in (100, 1_000, 20_000):
        written = chronicle.write(room, meter=len)
        n_entries, shares = chronicle.read_shares(written.text)
        assert n_entries == (len(chronicle) if written.text else 0)
        assert shares.keys() == written.shares.keys()
        assert {place for place, share in shares.items() if share == 1} == {
            place for place, share in written.shares.items() if share == 1
        }


def test_a_line_that_looks_like_a_place_is_none_where_it_is_out_of_order() -> None:
    chronicle = Chronicle()
    texts = ("see\n#7 of the list", "and", "so on")
    for entry in history_of([user(text) for text in texts]):
        chronicle.add(entry)
    assert chronicle.read_shares(chronicle.write(1_000, meter=len).text) == (3, {1: 1, 2: 1, 3: 1})


async def a_compaction(
    make_stage: Any, engine: str = "agentcore", *after: Any
) -> tuple[Any, Session, Compaction]:
    """A session whose beginning is folded away."""
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(NOTE)], *after], window=16_000)
    session = await stage.session(engine=engine)
    await stage.ask(session, f"{PLANTED} {LONG}")
    await stage.ask(session, "go on")
    done = await session.compact(CompactionRequest()).outcome
    assert done.status == "completed", done
    return stage, session, done


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chronicle has room, so the note is all that is kept."""
    monkeypatch.setattr(SessionChronicle, "room_of", lambda *_: 0)


async def facts_of(session: Session, done: Compaction) -> tuple[ReportedFact, ...]:
    return (await session.window.losses.read(done)).facts


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore", "runtime", "summarizing"])
async def test_the_event_has_the_counts_of_the_list(make_stage: Any, engine: str) -> None:
    _, session, done = await a_compaction(make_stage, engine)
    report = await session.window.losses.read(done)
    assert done.loss is not None
    assert done.loss.total == len(report.facts) >= 2
    assert done.loss == report.loss
    request = next(fact for fact in report.facts if fact.kind == "request")
    assert PLANTED in request.text
    assert request.node_id in session.record.history.graph.entries
    states = Counter(fact.state for fact in report.facts)
    assert states == Counter(
        kept=done.loss.kept, shortened=done.loss.shortened, line=done.loss.line or 0, gone=done.loss.let_go
    )


@pytest.mark.usefixtures("no_room")
async def test_without_a_chronicle_all_is_gone_and_the_list_outlives_a_restart(make_stage: Any) -> None:
    stage, session, done = await a_compaction(make_stage)
    facts = await facts_of(session, done)
    assert {fact.state for fact in facts} == {"gone"}
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert loaded.record.compactions.all == (done,)
    assert await facts_of(loaded, done) == facts


async def test_the_list_of_a_compaction_on_another_branch_is_made_of_that_branch(make_stage: Any) -> None:
    stage, session, done = await a_compaction(make_stage, "agentcore", [Say("ok")])
    facts = await facts_of(session, done)
    assert done.before_head is not None
    await session.rewind(
        session.record.history.graph.kept_path(done.before_head)[0].node_id, expect_head=None
    )
    await stage.ask(session, "another way")
    assert await facts_of(session, done) == facts


async def test_what_was_mended_in_a_summary_is_counted(make_stage: Any) -> None:
    _, _, done = await a_compaction(make_stage)
    assert done.loss is not None
    assert done.loss.mended == len((done.info or {}).get("mended", ())) == 1


async def test_nothing_is_lost_once_a_compaction_is_undone(make_stage: Any) -> None:
    stage, session, done = await a_compaction(make_stage, "summarizing")
    assert "Facts of the folded part" in (await stage.ask(session, "/loss")).text
    undone = (await session.undo(done.compaction_id, force=False, expect_head=None)).compaction
    assert await facts_of(session, undone) == ()
    assert "The model sees the whole conversation" in (await stage.ask(session, "/loss")).text


@pytest.mark.usefixtures("no_room")
async def test_slash_compact_tells_the_loss_and_slash_loss_lists_it(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(NOTE)], [Say("ok")]], window=16_000)
    session = await stage.session(engine="agentcore")
    await stage.ask(session, f"{PLANTED} {LONG}")
    await stage.ask(session, "go on")
    told = (await stage.ask(session, "/compact")).text
    assert "Facts of the folded part: " in told
    assert "1 unfounded line of the summary dropped." in told
    assert "/loss lists them." in told
    listed = (await stage.ask(session, "/loss")).text
    assert f" let go, request: {PLANTED}" in listed
    only = (await stage.ask(session, "/loss request")).text
    assert 1 <= only.count("\n- ") < listed.count("\n- ")
    assert "There are no facts of the kind 'zebra'" in (await stage.ask(session, "/loss zebra")).text
    fork = await stage.hub.fork(ForkOf(session.sid))
    assert (await stage.ask(fork, "/loss")).text == listed
    fact_id = next(line for line in listed.splitlines() if PLANTED in line).split()[1]
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
    _, session, done = await a_compaction(make_stage)
    assert await session.window.losses.read(replace(done, before_head=None)) == LossReport()
    assert await session.window.losses.read(replace(done, status="failed")) == LossReport()
    assert LossReport().loss == Loss(0, 0, 0)


async def test_the_chronicle_is_found_in_the_summary_alone(make_stage: Any) -> None:
    _, session, _ = await a_compaction(make_stage)
    view = session.record.history.current
    assert chronicle_text(view).startswith(("What follows", "Index"))
    assert chronicle_text(view[1:]) == ""
