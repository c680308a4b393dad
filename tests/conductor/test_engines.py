"""What every engine that compacts promises in a session, whichever it is."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from long_talks import LONG, a_long_talk, compact, emitted, open_session, undoable
from sidecar.agentcore.summaries import LOCAL_HEADING
from sidecar.boot import ENGINES
from sidecar.capabilities.read import READ
from sidecar.conductor.contract import Compaction, NoOp
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import NotUndoableError
from sidecar.conductor.events import Notice
from sidecar.conductor.session import Session
from sidecar.conductor.token_estimate import estimate_turn_tokens
from sidecar.llmgateway.contract import StopEmission, TextBlock
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, ScriptedModel
from turns import check_sound, text, texts, user

CHINESE = "解析器保留一个括号栈，并报告第一个没有关闭的括号。" * 80
NOTES = (
    "# Objective\nThe stack of brackets stays in the parser; the colour was left as it is.\n# Carryover\nnone"
)
COMPACTING = tuple(name for name, make in ENGINES.items() if make().compacts)

every_engine = pytest.mark.parametrize("engine", COMPACTING)
every_summary = pytest.mark.parametrize(
    "engine", [name for name in COMPACTING if ENGINES[name]().marks.summaries]
)
"""The engines that have a model write a summary."""


@every_engine
async def test_an_engine_takes_in_a_conversation_beside_the_loop(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    _, session = await a_long_talk(make_stage, engine="none")
    kind, ran = type(ENGINES[engine]()), list[tuple[str, bool]]()

    def watch(name: str) -> None:
        inner = getattr(kind, name)

        def call(*args: Any) -> Any:
            ran.append((name, threading.current_thread() is threading.main_thread()))
            return inner(*args)

        monkeypatch.setattr(kind, name, call)

    watch("gate")
    watch("plan")
    await session.preview(CompactionRequest(engine=engine))
    assert ran[0] == ("gate", False)
    await session.choose("engine", engine)
    assert await session.judge(CompactionRequest()) is None
    if engine != "windowBudget":  # whose plan costs what is new
        assert {is_on_loop for name, is_on_loop in ran if name == "plan"} == {False}


def all_text(turns: Any) -> str:
    return "\n".join(texts(turns))


@every_engine
async def test_a_preview_calls_no_model_and_changes_nothing(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(make_stage, engine=engine)
    n_calls, head, seq = len(stage.model.calls), session.record.history.head, session.record.log.seq
    plan = await session.preview(CompactionRequest())
    assert (len(stage.model.calls), session.record.history.head, session.record.log.seq) == (
        n_calls,
        head,
        seq,
    )
    assert (plan.engine, plan.noop, plan.expect_head) == (engine, None, head)
    assert plan.cut is not None
    assert plan.dropped is not None
    assert plan.kept is not None
    assert plan.projected is not None
    ids = session.record.history.current.node_ids
    assert plan.cut.node_id == ids[plan.cut.index]
    assert plan.dropped.nodes == tuple(ids[: plan.dropped.count])
    assert plan.dropped.count + plan.kept.count == len(ids)
    assert plan.projected.tokens < plan.gate.tokens


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_parts_of_a_preview_are_those_of_its_compaction(make_stage: Any, engine: str) -> None:
    """Also where the session's meter counts more tokens than the engine does, and after an earlier one."""
    stage, session = await open_session(make_stage, [*[[Say(CHINESE)]] * 3, [Say(NOTES)]] * 2, engine=engine)
    for _ in range(2):
        for prompt in ("one", "two", "three"):
            await stage.ask(session, prompt)
        plan = await session.preview(CompactionRequest())
        parts = session.window.request.usage(detail=True).by
        done = await compact(session, plan_id=plan.plan_id)
        if not ENGINES[engine]().compacts:
            assert plan.noop == NoOp(done.reason or "")
            return
        assert parts is not None
        assert plan.cut is not None
        assert plan.dropped is not None
        assert plan.kept is not None
        assert (done.cut, done.kept_from) == (plan.cut.index, plan.cut.node_id)
        assert (done.dropped_count, done.pre_count) == (
            plan.dropped.count,
            plan.dropped.count + plan.kept.count,
        )
        assert plan.projected is not None
        assert done.post_tokens is not None
        overhead = parts.system + parts.tool_defs + parts.rules
        assert plan.pre_tokens == done.pre_tokens == plan.dropped.tokens + plan.kept.tokens + overhead
        assert plan.kept.tokens + overhead < done.post_tokens
        assert plan.projected.low <= done.post_tokens <= plan.projected.high


@every_summary
async def test_the_next_request_is_strictly_smaller_and_says_why(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(make_stage, [Say(NOTES)], [Say("four")], engine=engine)
    used = session.window.request.usage().used
    done = await compact(session)
    assert [each.status for each in emitted(session, Compaction)] == ["in_progress", "completed"]
    assert emitted(session, Compaction)[-1] == done
    assert (done.engine, done.summary_source) == (engine, "model")
    assert done.post_tokens is not None
    assert done.post_tokens < done.pre_tokens
    assert session.window.request.usage().used < used
    await stage.ask(session, "four")
    sent = stage.model.calls[-1].conversation
    assert NOTES in all_text(sent.turns)
    assert all_text(sent.turns).count(LONG) < 3
    check_sound(sent)


@every_engine
async def test_of_two_compactions_the_newer_is_undone_first(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(
        make_stage, [Say(NOTES)], [Say(LONG)], [Say(LONG)], [Say("second notes")], engine=engine
    )
    first = await compact(session)
    for prompt in ("four", "five"):
        await stage.ask(session, prompt)
    second = await compact(session)
    assert second.status == "completed"
    assert NOTES in all_text(stage.model.calls[-1].conversation.turns), "the first notes are carried on"

    assert undoable(session) == [False, True]
    with pytest.raises(NotUndoableError):
        await session.undo(first.compaction_id, force=False, expect_head=None)
    await session.undo(second.compaction_id, force=False, expect_head=None)
    assert undoable(session) == [True, False]
    await session.undo(first.compaction_id, force=False, expect_head=None)
    assert len(list(session.record.history.turns)) == 10


@every_summary
async def test_a_cancelled_compaction_changes_nothing(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(make_stage, [Hang()], [Say("four")], engine=engine)
    turns, head = list(session.record.history.turns), session.record.history.head
    started = session.compact(CompactionRequest())
    while len(stage.model.calls) < 4:
        await stage.settle()
    assert session.cancel_compaction(started.compaction_id)
    assert (await started.outcome).status == "cancelled"
    assert not session.cancel_compaction(started.compaction_id)
    assert (
        list(session.record.history.turns),
        session.record.history.head,
        session.record.compactions.all,
    ) == (turns, head, ())
    await stage.ask(session, "4")
    assert list(stage.model.calls[-1].conversation.turns[:6]) == turns


@every_summary
async def test_a_failing_summariser_is_told_and_the_talk_goes_on(make_stage: Any, engine: str) -> None:
    """The chronicle needs no model, whichever engine has the cut."""
    stage, session = await a_long_talk(
        make_stage, [Raise(RuntimeError("boom"))], [Say("four")], [Say(NOTES)], engine=engine
    )
    done = await compact(session)
    reason = done.reason
    assert (done.status, done.summary_source) == ("completed", "localFallback")
    assert reason is not None
    assert "boom" not in reason
    assert (await stage.ask(session, "four")).text == "four"
    check_sound(stage.model.calls[-1].conversation)


@every_summary
@pytest.mark.parametrize(
    "reply",
    [
        pytest.param([Say("I cannot help with that.")], id="a refusal"),
        pytest.param([Say("Sure! I have finished the lexer.")], id="an answer to the user"),
        pytest.param([Say(NOTES), StopEmission("max_output")], id="cut off"),
        pytest.param([Say(NOTES), StopEmission("refusal")], id="stopped as a refusal"),
    ],
)
async def test_no_engine_takes_an_answer_that_is_no_summary(
    make_stage: Any, engine: str, reply: list[Any]
) -> None:
    stage, session = await a_long_talk(make_stage, engine=engine)
    notes = ScriptedModel([reply], when_exhausted="repeat")
    stage.models.summarizer = lambda model: (notes, stage.models.card(model))
    done = await compact(session)
    assert len(notes.calls) in (1, 2)
    assert done.summary_source != "model"
    assert (done.status, done.error) != ("failed", None)
    assert "lexer" not in all_text(session.record.history.turns)
    assert NOTES not in all_text(session.record.history.turns)


@every_engine
async def test_a_reloaded_session_sends_what_it_would_have_sent(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(make_stage, [Say(NOTES)], [Say("four")], [Say("five")], engine=engine)
    done = await compact(session)
    await stage.ask(session, "4")
    before = stage.model.calls[-1].conversation.turns
    turns = list(session.record.history.turns)
    await stage.hub.close(session.sid)
    session = (await stage.hub.load(session.sid)).session
    assert (list(session.record.history.turns), session.record.compactions.all) == (turns, (done,))
    assert session.info.last_compaction_at is not None
    await stage.ask(session, "5")
    sent = stage.model.calls[-1].conversation.turns
    assert sent[: len(before)] == before
    assert len(sent) == len(before) + 2


@every_engine
async def test_the_gate_opens_before_a_prompt_that_would_not_fit(make_stage: Any, engine: str) -> None:
    stage = await make_stage([[Say(LONG)]], window=8_000, repeat=True)
    session = await stage.session(engine=engine, policy={"reserveTokens": 3_000, "triggerRatio": 0.8})
    done: list[Compaction] = []
    while not done:
        outcome = await stage.ask(session, f"prompt {len(list(session.record.history.turns))}")
        assert outcome.fault is None
        assert outcome.last.usage.used < 8_000
        done = [each for each in session.record.compactions.all if each.status == "completed"]
    assert (done[0].trigger, done[0].engine) == ("auto", engine)
    seen = outcome.last.usage.engine_view[engine]
    assert seen.used <= seen.limit
    sent = stage.model.calls[-1].conversation
    assert sent.turns[-1] == list(session.record.history.turns)[-2]
    check_sound(sent)


IN_RUN = "leave the colours alone and read them all"


async def a_long_run(make_stage: Any, engine: str, **wanted: Any) -> tuple[Any, Session]:
    """One prompt, answered by many rounds of reading that do not fit the window together."""
    calls = [[Call("read", {"path": f"f{n}.py"})] for n in range(14)]
    stage = await make_stage([*calls, [Say("done")]], tools=[READ], window=12_000, repeat=True)
    notes = ScriptedModel([[Say(NOTES)]], when_exhausted="repeat")
    stage.models.summarizer = lambda model: (notes, stage.models.card(model))
    for number in range(14):
        stage.workspace.put(stage.folder / f"f{number}.py", "x = 1  # a line of a long file\n" * 130)
    session = await stage.session(engine=engine, **wanted)
    await stage.ask(session, IN_RUN)
    return stage, session


@every_engine
async def test_a_long_run_is_kept_within_the_window_by_the_sessions_own_engine(
    make_stage: Any, engine: str
) -> None:
    """Between two model calls, as often as it takes; the prompt that began the run stays in sight.

    Each compaction is stored, and can be undone.
    """
    stage, session = await a_long_run(make_stage, engine)
    made = session.record.compactions.all
    assert len(made) > 1
    assert {(done.engine, done.trigger, done.status) for done in made} == {(engine, "auto", "completed")}
    assert len(made) < 7, "not at every call"
    for call in stage.model.calls:
        check_sound(call.conversation)
        assert IN_RUN in all_text(call.conversation.turns)
    turns = list(session.record.history.turns)
    assert turns[-1].blocks == (TextBlock("done"),)
    await stage.hub.close(session.sid)
    session = (await stage.hub.load(session.sid)).session
    assert list(session.record.history.turns) == turns
    undone = (await session.undo(None, force=True, expect_head=None)).compaction
    assert undone.status == "undone"
    assert len(session.record.history.current) > len(turns)


async def test_engine_none_never_compacts_not_even_in_a_run(make_stage: Any) -> None:
    stage, session = await a_long_run(make_stage, "none")
    assert session.record.compactions.all == ()
    assert len(stage.model.calls[-1].conversation.turns) == 29


@every_engine
async def test_nothing_to_do_is_answered_at_once_with_the_reason(make_stage: Any, engine: str) -> None:
    _, session = await open_session(make_stage, [[Say("one")]], "hi", engine=engine)
    started = session.compact(CompactionRequest(), await session.judge(CompactionRequest()))
    assert (started.disposition, started.reason) == ("noop", "there is nothing to condense")
    assert (await session.preview(CompactionRequest())).noop is not None
    assert (await session.preview(CompactionRequest(force=False))).noop is not None


@pytest.mark.parametrize("engine", ["runtime", "agentcore", "summarizing"])
async def test_a_model_of_which_nothing_is_known_is_never_compacted_for(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(make_stage, engine=engine)
    stage.smaller_window(0)
    started = session.compact(CompactionRequest(), await session.judge(CompactionRequest()))
    assert started.disposition == "noop"
    gate = (await session.preview(CompactionRequest())).gate
    assert (gate.window, gate.over) == (0, False)


@every_summary
async def test_instructions_reach_the_model(make_stage: Any, engine: str) -> None:
    stage, session = await a_long_talk(make_stage, [Say(NOTES)], engine=engine)
    await compact(session, instructions="keep the port numbers")
    asked = stage.model.calls[-1].conversation
    found = "keep the port numbers" in (asked.system or "") + all_text(asked.turns)
    assert found == (engine != "runtime"), "the runtime takes no instructions"


RECORD = {
    "tokensBefore",
    "tokensAfter",
    "messagesBefore",
    "messagesAfter",
    "compactedCount",
    "keptCount",
    "isSplitTurn",
    "isIncremental",
    "summaryLen",
    "durationMs",
}
OF_ITS_OWN = {
    "agentcore": {"summarySource", "readFiles", "modifiedFiles"},
    "summarizing": {"eventsSummarised", "eventsKept"},
}


@every_engine
async def test_the_record_of_a_compaction_is_on_the_event(make_stage: Any, engine: str) -> None:
    """The same fields for each engine, and what it keeps besides."""
    _, session = await a_long_talk(
        make_stage, [Say(NOTES)], [Say(LONG)], [Say(LONG)], [Say(NOTES)], engine=engine
    )
    first = (await compact(session)).info
    for prompt in ("four", "five"):
        await session.turns.prompts.wait_until_entered(session.turns.prompts.submit(text(prompt)))
    second = (await compact(session)).info
    assert first is not None
    assert second is not None
    assert set(first) == RECORD | OF_ITS_OWN.get(engine, set())
    assert first["tokensAfter"] < first["tokensBefore"]
    assert first["compactedCount"] + first["keptCount"] == first["messagesBefore"] == 6
    assert [info["isIncremental"] for info in (first, second)] == [False, True]
    assert [info["isSplitTurn"] for info in (first, second)] == [False, False]


async def test_an_engine_may_be_chosen_for_one_compaction(make_stage: Any) -> None:
    _, session = await a_long_talk(make_stage, [Say(NOTES)], engine="windowBudget")
    assert (await compact(session, engine="agentcore")).engine == "agentcore"
    assert session.info.engine == "windowBudget"


@pytest.mark.parametrize(
    ("n_chars", "source", "reason"),
    [
        pytest.param(4_800, "model", None, id="more than half of what it stands for"),
        pytest.param(9_000, "localFallback", "too long", id="longer than what it stands for"),
    ],
)
async def test_runtime_keeps_a_good_gist_of_a_compaction_by_hand(
    make_stage: Any, n_chars: int, source: str, reason: str | None
) -> None:
    _, session = await a_long_talk(make_stage, [Say("so it is " * (n_chars // 9))], engine="runtime")
    done = await compact(session, policy={"keepRecent": 2})
    assert (done.status, done.summary_source) == ("completed", source)
    assert (done.reason is None) if reason is None else reason in (done.reason or "")
    assert done.post_tokens is not None
    assert done.post_tokens < done.pre_tokens


async def a_broken_model(make_stage: Any, answers: str, **options: Any) -> tuple[Any, Session, ScriptedModel]:
    """A session of agentcore with a model of its own for summaries: it fails (f) or answers (o) in turn."""
    stage = await make_stage([[Say(LONG)]], repeat=True, window=8_000, **options)
    said = Say("# Goal\nWhat came before.")
    script = [[Raise(RuntimeError("down")) if each == "f" else said] for each in answers]
    notes = ScriptedModel(script, when_exhausted="repeat")
    stage.models.summarizer = lambda model: (notes, stage.models.card(model))
    session = await stage.session(engine="agentcore", policy={"reserveTokens": 3_000})
    return stage, session, notes


async def test_agentcore_asks_a_model_that_fails_at_every_fifth_compaction(make_stage: Any) -> None:
    stage, session, notes = await a_broken_model(make_stage, "f")
    made: list[Compaction] = []
    while len(made) < 14:
        await stage.ask(session, "go on")
        made = [done for done in emitted(session, Compaction) if done.status == "completed"]
    assert {done.summary_source for done in made} == {"localFallback"}
    assert len(notes.calls) == 5, "the first three, the eighth and the thirteenth"


@pytest.mark.parametrize("reloads", [pytest.param(False, id="at work"), pytest.param(True, id="reloaded")])
async def test_a_note_of_agentcore_stands_while_its_model_fails(make_stage: Any, reloads: bool) -> None:
    stage, session, notes = await a_broken_model(make_stage, "offo")
    n_prompts, made = 0, list[Compaction]()
    while len(made) < 4:
        if reloads and len(made) == 3:
            await stage.hub.close(session.sid)
            session = (await stage.hub.load(session.sid)).session
        await stage.ask(session, f"prompt {n_prompts} " + "and so on " * 60)
        n_prompts += 1
        made += [
            done for done in emitted(session, Compaction) if done.status == "completed" and done not in made
        ]
    assert [done.summary_source for done in made] == ["model", "localFallback", "localFallback", "model"]
    asked = all_text(notes.calls[-1].conversation.turns)
    assert "What came before." in asked
    assert LOCAL_HEADING not in asked
    kept = all_text(session.record.history.turns)
    assert f"prompt {n_prompts - 1} and" in kept
    assert LOCAL_HEADING not in kept


async def test_agentcore_keeps_the_prompt_of_a_long_tool_loop_and_tracks_its_files(make_stage: Any) -> None:
    reads = [[Call("read", {"path": f"f{n}.py"})] for n in range(6)]
    script = [*reads, [Say("done")], [Say(f"{NOTES}\nf0.py was read.")]]
    stage = await make_stage(script, tools=[READ])
    for number in range(6):
        stage.workspace.put(stage.folder / f"f{number}.py", "x = 1  # a line of a long file\n" * 100)
    session = await stage.session(engine="agentcore")
    await stage.ask(session, "read them all, please")
    done = await compact(session)
    assert done.info is not None
    assert done.info["isSplitTurn"] is True
    assert done.info["readFiles"] == [f"f{n}.py" for n in range(done.dropped_count // 2)]
    entries = [entry for entry in session.record.history.current if entry.kind != "file"]
    assert [entry.kind for entry in entries[:2]] == ["summary", "user"]
    assert all_text([entries[1].turn]) == "read them all, please"
    assert done.dropped_count == done.cut - 1, "the prompt before the cut is not dropped"


async def test_agentcore_names_the_tools_whose_results_it_condenses(make_stage: Any) -> None:
    """The conversation is converted as it grows, so results come apart from their calls."""
    script = [[Call("read", {"path": "a.py"})], [Say(LONG)], [Say(LONG)], [Say(NOTES)]]
    stage = await make_stage(script, tools=[READ])
    stage.workspace.put(stage.folder / "a.py", "x = 1\n")
    session = await stage.session(engine="agentcore")
    for prompt in ("read it", "go on"):
        await stage.ask(session, prompt)
        session.window.request.usage()
    await compact(session)
    assert "[Tool result" in all_text(stage.model.calls[-1].conversation.turns)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "none"])
async def test_a_prompt_larger_than_the_window_is_sent_in_part_and_stored_whole(
    make_stage: Any, engine: str
) -> None:
    stage = await make_stage([[Say("done")]], window=8_000, repeat=True)
    session = await stage.session(engine=engine)
    await stage.ask(session, "first")
    done = await stage.ask(session, "Sum these up: " + "abc def " * 10_000)
    assert (done.fault, done.text) == (None, "done")
    sent = stage.model.calls[-1].conversation.turns
    assert sum(map(estimate_turn_tokens, sent)) <= 8_000
    assert "Sum these up: abc" in str(sent[-1])
    notices = emitted(session, Notice)
    records = emitted(session, Compaction)
    assert notices or [each for each in records if each.status == "completed"]
    stored = [entry.turn for entry in session.record.history.graph.entries.values()]
    assert user("Sum these up: " + "abc def " * 10_000) in stored


@pytest.mark.parametrize("engine", ["windowBudget", "runtime", "agentcore"])
async def test_a_summary_as_long_as_what_it_stands_for_is_replaced_by_a_local_one(
    make_stage: Any, engine: str
) -> None:
    _, session = await a_long_talk(make_stage, *[[Say("blah " * 4_000)]] * 4, engine=engine)
    before = session.window.request.usage(detail=False)
    done = await compact(session)
    assert (done.status, done.summary_source) == ("completed", "localFallback")
    assert session.window.request.usage(detail=False).used < before.used
