"""Compactions of a session: by hand, by the gate, previewed, cancelled, undone; files as they are now."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bare_sessions import compaction_settings
from fake_tools import FakeTool
from long_talks import DIGEST, LONG, a_long_talk, compact, emitted, open_session
from sidecar.capabilities.contract import ToolReply
from sidecar.capabilities.read import READ
from sidecar.conductor.contract import Compaction, NoOp
from sidecar.conductor.engine import CompactionRequest, CompactionResult
from sidecar.conductor.errors import (
    CompactionNotFound,
    HeadMovedError,
    NotUndoableError,
    SessionBusyError,
    WouldExceedWindowError,
)
from sidecar.conductor.events import Notice, Rehydrated
from sidecar.conductor.session import Session
from sidecar.conductor.window.compaction import compacting
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.head import RequestHead
from sidecar.llmgateway.contract import CostSheet, TextBlock, ToolResultBlock
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, WaitFor
from sidecar.window_budget import DIGEST_HEADER, RESTORED_FILE_PREFIX
from turns import text


def first_text(session: Session) -> str:
    block = session.record.history.turns[0].blocks[0]
    assert isinstance(block, TextBlock)
    return block.text


async def test_compact_replaces_the_head_by_a_digest_and_keeps_the_last_turn(make_stage: Any) -> None:
    _, session = await a_long_talk(make_stage, [Say(DIGEST)])
    before = session.record.history.head
    done = await compact(session)
    assert (done.status, done.trigger, done.summary_source) == ("completed", "manual", "model")
    assert (done.before_head, done.after_head) == (before, session.record.history.head)
    assert done.post_tokens is not None
    assert done.post_tokens < done.pre_tokens
    assert first_text(session).startswith(DIGEST_HEADER)
    assert "Fix the parser." in first_text(session)
    assert [turn.role for turn in session.record.history.turns] == ["user", "user", "assistant"]


@pytest.mark.parametrize(
    ("cost", "note", "instructions", "writes"),
    [
        pytest.param(CostSheet(0, 0), "auto", None, True, id="free"),
        pytest.param(CostSheet(3, 15), "auto", None, False, id="priced, and no cache"),
        pytest.param(CostSheet(3, 15, 0.3), "auto", None, True, id="a cache"),
        pytest.param(CostSheet(3, 15), "auto", "keep the ports", True, id="the user's words"),
        pytest.param(CostSheet(3, 15), "always", None, True, id="by the settings"),
        pytest.param(CostSheet(0, 0), "never", "keep the ports", False, id="never by the settings"),
    ],
)
async def test_a_model_writes_a_note_where_that_is_cheap_or_wanted(
    make_stage: Any, cost: CostSheet, note: str, instructions: str | None, writes: bool
) -> None:
    stage, session = await a_long_talk(
        make_stage, [Say(DIGEST)], compaction=compaction_settings(note=note, view_share=0.2)
    )
    priced = replace(stage.models.card("scripted-1"), cost=cost)
    stage.models.catalog = {**stage.models.catalog, priced.id: priced}
    done = await compact(session, instructions=instructions)
    assert done.status == "completed"
    assert done.summary_source == ("model" if writes else "localFallback")
    assert len(stage.model.calls) == 3 + writes


async def test_undo_brings_back_the_conversation_and_what_came_since(make_stage: Any) -> None:
    writing = [Call("write", {"path": "a.py"})]
    stage, session = await a_long_talk(
        make_stage, [Say(DIGEST)], writing, [Say("four")], tools=[FakeTool("write", kind="edit")]
    )
    full = list(session.record.history.turns)
    await compact(session)
    await stage.ask(session, "after")
    taken_back = await session.undo(None, force=False, expect_head=None)
    undone = taken_back.compaction
    assert taken_back.edited_files == ((stage.folder / "a.py").as_uri(),)
    assert undone.status == "undone"
    assert list(session.record.history.turns)[: len(full)] == full
    later = [turn.role for turn in session.record.history.turns[len(full) :]]
    assert later == ["user", "assistant", "tool", "assistant"]
    with pytest.raises(CompactionNotFound, match="no compaction to undo"):
        await session.undo(None, force=False, expect_head=None)
    with pytest.raises(NotUndoableError, match="its status is 'undone'"):
        await session.undo(undone.compaction_id, force=False, expect_head=None)
    assert (await stage.shelf.graph(session.sid)).leaf == session.record.history.head


async def test_a_plan_is_carried_out_unless_the_talk_went_on(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage, [Say("four")], [Say(DIGEST)])
    stale = (await session.preview(CompactionRequest())).plan_id
    await stage.ask(session, "more")
    with pytest.raises(HeadMovedError):
        session.compact(CompactionRequest(plan_id=stale))
    fresh = (await session.preview(CompactionRequest())).plan_id
    assert (await compact(session, plan_id=fresh)).status == "completed"


async def test_an_engine_that_does_not_compact_says_so(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Say("one")]], "hi", engine="none")
    noop = await session.judge(CompactionRequest())
    assert noop is not None
    assert session.compact(CompactionRequest(), noop).reason == "this session's engine does not compact"


@pytest.mark.parametrize(
    ("step", "accepted", "status"),
    [
        pytest.param("weigh_result", True, "cancelled", id="before it is stored"),
        pytest.param("complete", False, "completed", id="while it is stored"),
    ],
)
async def test_a_cancel_is_accepted_until_the_compaction_is_stored(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch, step: str, accepted: bool, status: str
) -> None:
    _, session = await a_long_talk(make_stage, [Say(DIGEST)])
    before, answers, work = list(session.record.history.turns), [], getattr(compacting, step)

    def cancel_first(*given: Any, **named: Any) -> Any:
        running = session.record.compactions.running
        answers.append(running is not None and session.cancel_compaction(running.compaction_id))
        return work(*given, **named)

    monkeypatch.setattr(compacting, step, cancel_first)
    done = await compact(session)
    assert (answers, done.status) == ([accepted], status)
    assert (list(session.record.history.turns) == before) is accepted


async def test_a_compaction_waits_for_the_turn_and_goes_before_waiting_prompts(make_stage: Any) -> None:
    _, session = await a_long_talk(make_stage, [Say("four")], [Say(DIGEST)], [Say("five")])
    first = await session.submit(text("4"))
    second = await session.submit(text("5"))
    started = session.compact(CompactionRequest())
    assert started.disposition == "queued"
    await second.outcome
    kinds = [event.kind for event in session.record.log.after(0, limit=10_000)]
    assert first.outcome.done()
    assert kinds.index("compaction") < len(kinds) - 1 - kinds[::-1].index("settled")
    assert (await started.outcome).status == "completed"


async def test_a_busy_session_can_be_asked_not_to_wait_with_a_compaction(make_stage: Any) -> None:
    _, session = await a_long_talk(make_stage, [Hang()])
    await session.submit(text("4"))
    with pytest.raises(SessionBusyError):
        session.compact(CompactionRequest(reject_when_busy=True))


async def test_files_come_back_as_they_are_now_buffer_first(make_stage: Any) -> None:
    script = [
        [Call("read", {"path": "a.py"}), Call("read", {"path": "b.py"}), Call("read", {"path": "c.py"})],
        [Say(f"I have read them. {LONG}")],
        [Say(LONG)],
        [Say(DIGEST)],
    ]
    stage = await make_stage(script, tools=[READ])
    folder = stage.folder
    for name in "abc":
        stage.workspace.put(folder / f"{name}.py", f"old_{name} = 1\n")
    session = await stage.session()
    await stage.ask(session, "read them")
    await stage.ask(session, "go on")
    stage.workspace.put(folder / "a.py", "new_on_disk = 2\n")
    uri = (folder / "b.py").as_uri()
    stage.workspace.editor().open_buffer(uri, version=7, text="only_in_the_buffer = 3\n")
    stage.workspace.put(folder / "c.py", None)
    stale = [event.data for event in session.record.log.after(0, limit=1000) if event.kind == "fileStale"]
    assert len(stale) == 3
    done = await compact(session)
    assert done.status == "completed"
    restored = "\n".join(
        block.text
        for turn in session.record.history.turns
        for block in turn.blocks
        if isinstance(block, TextBlock) and block.text.startswith(RESTORED_FILE_PREFIX)
    )
    assert "new_on_disk" in restored
    assert "only_in_the_buffer" in restored
    assert "old_" not in restored
    told = emitted(session, Rehydrated)
    assert {(file.uri, file.source) for file in told[0].files} == {
        ((folder / "a.py").as_uri(), "disk"),
        (uri, "buffer"),
    }
    assert [missing.split(": ")[1] for missing in told[0].missing] == ["deleted"]
    files = {file.uri: file for file in await session.workbench.files.list_in_context()}
    assert not files[uri].stale
    assert files[uri].in_window
    assert files[uri].hash == next(file.hash for file in told[0].files if file.uri == uri)


async def test_spellings_of_one_file_come_back_once_and_its_lines_as_the_read_tool_counts(
    make_stage: Any, tmp_path: Path
) -> None:
    """A form feed and U+2028 end no line, neither when a file is read nor when it is restored."""
    path = tmp_path / "project" / "a.el"
    script = [
        [Call("read", {"path": "a.el"})],
        [Call("read", {"path": str(path)})],
        [Say(f"I have read it twice. {LONG}")],
        [Say(LONG)],
        [Say(DIGEST)],
    ]
    stage = await make_stage(script, tools=[READ])
    stage.workspace.put(path, "one\f\ntwo\u2028three\n")
    session = await stage.session()
    await stage.ask(session, "read it")
    await stage.ask(session, "go on")
    seen = list(session.record.history.turns)[2].blocks[0]
    assert isinstance(seen, ToolResultBlock)
    await compact(session)
    restored = [
        block.text.partition("\n")[2]
        for turn in session.record.history.turns
        for block in turn.blocks
        if isinstance(block, TextBlock) and block.text.startswith(RESTORED_FILE_PREFIX)
    ]
    assert restored == ["one\x0c\ntwo\u2028three"]


async def test_what_a_failure_quotes_is_in_no_log(
    make_stage: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No prompt text in a log above DEBUG, and an exception may hold any of it."""

    async def quote(*_: object) -> NoReturn:
        raise ValueError(LONG)

    caplog.set_level("INFO")
    stage, session = await a_long_talk(make_stage)
    monkeypatch.setattr(WindowBudgetEngine, "compact", quote)
    done = await compact(session)
    assert (done.status, done.error) == ("failed", "the engine failed (ValueError)")
    monkeypatch.setattr(RequestHead, "refresh", quote)
    assert (await stage.ask(session, "go on")).fault is not None
    assert "ValueError" in caplog.text
    assert LONG[:40] not in caplog.text


async def test_an_undo_that_would_not_fit_is_refused_unless_forced(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage, [Say(DIGEST)], window=1_000_000)
    await compact(session)
    stage.smaller_window(2_000)
    with pytest.raises(WouldExceedWindowError):
        await session.undo(None, force=False, expect_head=None)
    assert len(list(session.record.history.turns)) == 3
    refused = (await stage.ask(session, "/undo")).text
    assert refused.endswith("the limit is 2,000; pass force: true, or say /undo force, to undo it anyway.")
    assert "The compaction is undone" in (await stage.ask(session, "/undo force")).text


@pytest.mark.parametrize("is_broken", [pytest.param(True, id="failed"), pytest.param(False, id="noop")])
async def test_three_compactions_in_vain_pause_the_automatic_ones_but_for_every_fifth_occasion(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    stage, session = await a_long_talk(make_stage, *[[Say(DIGEST)]] * 4)
    stage.smaller_window(5_000)

    async def fail(*_: object) -> NoOp:
        if is_broken:
            raise RuntimeError("broken engine")
        return NoOp("there is nothing to condense")

    def ended() -> list[str]:
        records = (
            e.data for e in session.record.log.after(0, limit=10_000) if isinstance(e.data, Compaction)
        )
        return [record.status for record in records if record.status != "in_progress"]

    async def go_on(n_occasions: int) -> str:
        log = ""
        for _ in range(n_occasions):
            n_before = len(ended())
            await session.window.compactor.compact_if_over_limit(
                CompactionRequest(engine="windowBudget", force=False)
            )
            log += "A" if len(ended()) > n_before else "."
        return log

    with monkeypatch.context() as patched:
        patched.setattr(WindowBudgetEngine, "compact", fail)
        assert await go_on(12) == "AAA....A...."
    assert await go_on(1) == "A"
    assert ended() == ["failed" if is_broken else "noop"] * 4 + ["completed"]
    notices = emitted(session, Notice)
    assert [notice.title for notice in notices] == ["Automatic compaction is paused"]


async def test_of_a_result_that_is_larger_only_the_cut_is_committed(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an engine says of its own result: what the model would be sent is weighed."""
    _, session = await a_long_talk(make_stage, [Say(DIGEST)])
    n_before = len(session.record.history.current)
    compact_well = WindowBudgetEngine.compact

    async def grow(*given: Any) -> Any:
        result = await compact_well(*given)
        assert isinstance(result, CompactionResult)
        return replace(result, entries=[*result.entries, *session.record.history.current])

    monkeypatch.setattr(WindowBudgetEngine, "compact", grow)
    done = await compact(session)
    assert (done.status, done.summary_source) == ("completed", "localFallback")
    assert len(session.record.history.current) < n_before


async def a_long_run(
    make_stage: Any, n_reads: int, *, policy: dict[str, float] | None = None
) -> tuple[Any, Session]:
    """One prompt, answered by many rounds of reading that do not fit the window together.

    The session has *policy* as if it had been stored with it: earlier versions took any number.
    """
    script = [*[[Call("read", {"path": f"f{n}.py"})] for n in range(n_reads)], [Say("done")]]
    stage = await make_stage(script, tools=[READ], window=12_000, repeat=True)
    for number in range(n_reads):
        stage.workspace.put(stage.folder / f"f{number}.py", "x = 1  # a line of a long file\n" * 260)
    session = await stage.session()
    if policy is not None:
        await session.amend(lambda info: replace(info, policy=policy))
    await stage.ask(session, "read them all")
    return stage, session


async def test_in_a_run_too_files_come_back_as_they_are_now(make_stage: Any) -> None:
    """The user types into a buffer between two model calls; the run's next compaction shows that."""
    reads = [[Call("read", {"path": f"f{number}.py"})] for number in range(5)]
    script = [*reads[:3], [WaitFor("typed"), *reads[3]], reads[4], [Say("done")]]
    stage = await make_stage(script, tools=[READ], window=12_000, repeat=True)
    for number in range(5):
        body = f"old_{number} = 1\n" + "x = 1  # a line of a long file\n" * 260
        stage.workspace.put(stage.folder / f"f{number}.py", body)
    session = await stage.session()
    started = await session.submit(text("read them all"))
    while len(stage.model.calls) < 4:
        await stage.settle()
    for number in range(3):
        uri = (stage.folder / f"f{number}.py").as_uri()
        stage.workspace.editor().open_buffer(uri, version=2, text=f"typed_{number} = 2\n")
    stage.model.gate("typed").set()
    assert (await started.outcome).fault is None
    first = session.record.compactions.all[0]
    assert (first.trigger, first.status) == ("auto", "completed")
    assert first.rehydrated
    sent = str(stage.model.calls[-1].conversation.turns)
    names = [uri[-4] for uri in first.rehydrated]
    assert [f"typed_{name}" in sent for name in names] == [True] * len(names)
    restored = "".join(part for part in sent.split("TextBlock") if RESTORED_FILE_PREFIX in part)
    assert [f"old_{name}" in restored for name in names] == [False] * len(names)


async def test_what_is_only_cut_down_is_reported_as_no_digest(make_stage: Any) -> None:
    """Nothing before the newest result is worth folding: that result is shortened, and nobody fell back."""
    stage = await make_stage([[Call("read", {"path": "a.py"})], [Say("done")]], tools=[READ], window=8_000)
    stage.workspace.put(stage.folder / "a.py", "x = 1  # a line of a long file\n" * 900)
    session = await stage.session()
    outcome = await stage.ask(session, "read it")
    (done,) = session.record.compactions.all
    assert (outcome.text, done.status, done.trigger) == ("done", "completed", "auto")
    assert (done.summary_source, done.summary, done.reason) == (None, None, None)
    assert (done.dropped_count, done.cut, len(list(session.record.history.turns))) == (0, 0, 4)


async def test_the_backstop_of_a_run_is_told_stored_and_undoable(make_stage: Any) -> None:
    """It is there where the session's own engine makes no room, such as one that waits for too long."""
    _, session = await a_long_run(make_stage, 8, policy={"triggerRatio": 9.0, "reserveTokens": 0})
    made = [done for done in session.record.compactions.all if done.engine == "runtime"]
    assert made
    assert made[0].trigger == "overflow"
    assert made[0].after_head is not None
    assert made[-1].undoable
    loss = (await session.window.losses.read(made[0])).loss
    assert loss.total == loss.let_go > 0, "the agent's own compaction knows no chronicle"
    kinds = [entry.kind for entry in session.record.history.current]
    assert (kinds[:2], kinds.count("user")) == (["summary", "user"], 1)


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore"])
async def test_a_tool_of_any_name_that_declares_reading_counts_as_a_reader(
    make_stage: Any, engine: str
) -> None:
    """No engine knows a tool by its name: windowBudget restores the file, agentcore lists it as read."""
    peek = replace(READ, name="peek_at")
    script = [[Call("peek_at", {"path": "a.py"})], [Say(LONG)], [Say(LONG)], [Say(DIGEST)]]
    stage, session = await open_session(make_stage, script, tools=[peek], files={"a.py": "x = 1\n" * 40})
    await session.choose("engine", engine)
    await stage.ask(session, "look at it")
    await stage.ask(session, "go on")
    done = await compact(session, policy={"keepRecent": 500})
    assert done.status == "completed"
    if engine == "windowBudget":
        assert done.rehydrated == ((stage.folder / "a.py").as_uri(),)
    else:
        assert (done.info or {})["readFiles"] == ["a.py"]


async def test_a_file_that_was_read_by_shell_comes_back(make_stage: Any) -> None:
    """Many agents read by nothing else; the lines are those that the command line names."""
    shell = FakeTool("exec_command", ToolReply("two = 2\nthree = 3"), kind="execute")
    script = [
        [Call("exec_command", {"cmd": "sed -n '2,3p' a.py"})],
        *([Say(LONG)], [Say(LONG)], [Say(DIGEST)]),
    ]
    stage = await make_stage(script, tools=[shell])
    stage.workspace.put(stage.folder / "a.py", "one = 1\ntwo = 2\nthree = 3\nfour = 4\n")
    session = await stage.session()
    await stage.ask(session, "look at it")
    await stage.ask(session, "go on")
    done = await compact(session, policy={"keepRecent": 500})
    assert done.rehydrated == ((stage.folder / "a.py").as_uri(),)
    (text,) = (
        block.text
        for entry in session.record.history.current
        for block in entry.turn.blocks
        if entry.kind == "file" and isinstance(block, TextBlock)
    )
    assert text == f"{RESTORED_FILE_PREFIX} a.py (lines 2-3)\ntwo = 2\nthree = 3\n[4 lines in all]"


async def test_a_file_that_comes_back_in_part_is_known_in_part(make_stage: Any) -> None:
    """The guards of edit and write go by the lines that were shown, not by those that had been read."""
    script = [[Call("read", {"path": "a.py"})], [Say(LONG)], [Say(LONG)], [Say(DIGEST)]]
    stage = await make_stage(script, tools=[READ])
    path = stage.folder / "a.py"
    stage.workspace.put(path, "".join(f"x_{number} = 'a value that is long'\n" for number in range(1500)))
    session = await stage.session()
    await stage.ask(session, "read it")
    (_, n_read), *_ = session.workbench.files.get(path).ranges
    await stage.ask(session, "go on")
    stage.workspace.put(path, "".join(f"y_{number} = 'a value that is long'\n" for number in range(1500)))
    assert (await compact(session, policy={"keepRecent": 500})).rehydrated
    ((first, count),) = session.workbench.files.get(path).ranges
    shown = str(session.record.history.current[1].turn)
    assert (first, f"y_{count - 1} " in shown, f"y_{count} " in shown) == (1, True, False)
    assert count < n_read


async def test_a_restored_file_weighs_tokens_and_names_its_entry_and_so_does_the_read_after_an_undo(
    make_stage: Any,
) -> None:
    script = [[Call("read", {"path": "a.py"})], [Say(LONG)], [Say(LONG)], [Say(DIGEST)]]
    _, session = await open_session(
        make_stage, script, "read it", "go on", tools=[READ], files={"a.py": "x = 1\n" * 40}
    )
    (read,) = await session.workbench.files.list_in_context()
    assert (await compact(session)).rehydrated
    (restored,) = await session.workbench.files.list_in_context()
    node = {entry.node_id: entry for entry in session.record.history.current}[restored.read_at_node or ""]
    assert (node.kind, restored.in_window, restored.tokens > 0) == ("file", True, True)
    await session.undo(None, force=False, expect_head=None)
    assert await session.workbench.files.list_in_context() == (read,)


async def test_a_running_compaction_is_listed_with_the_size_of_its_gate_and_named_in_the_snapshot(
    make_stage: Any,
) -> None:
    """A window that comes back can cancel a compaction that hangs."""
    stage, session = await a_long_talk(make_stage, [Hang()])
    tokens = (await session.preview(CompactionRequest())).gate.tokens
    assert session.snapshot().compaction_id is None
    started = session.compact(CompactionRequest())
    while len(stage.model.calls) < 4:
        await stage.settle()
    running = session.record.compactions.all[-1]
    assert (running.compaction_id, running.status) == (started.compaction_id, "in_progress")
    assert running.pre_tokens == tokens > len(LONG) // 4
    snapshot = session.snapshot()
    assert (snapshot.compaction_id, snapshot.phase) == (started.compaction_id, "compacting")
    assert session.cancel_compaction(snapshot.compaction_id or "")
    assert (await started.outcome).status == "cancelled"
    assert session.snapshot().compaction_id is None


async def test_a_summariser_that_ends_as_cancelled_ends_no_session(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage, [Raise(asyncio.CancelledError())], [Say("four")])
    done = await compact(session)
    assert (done.status, done.summary_source) == ("completed", "localFallback")
    assert (await stage.ask(session, "after")).text == "four"


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore", "runtime"])
async def test_files_come_back_with_every_engine_that_condenses_and_no_summary_is_made_of_them(
    make_stage: Any, engine: str
) -> None:
    """Twice: the model that writes the second summary is not shown what the first compaction brought back."""
    script = [
        [Call("read", {"path": "a.py"})],
        *([Say(f"I have read it. {LONG}")], [Say(LONG)], [Say(DIGEST)]),
        *([Say(f"One more. {LONG}")], [Say(LONG)], [Say(DIGEST)]),
    ]
    stage = await make_stage(script, tools=[READ])
    stage.workspace.put(stage.folder / "a.py", "old = 1\n" * 40)
    session = await stage.session(engine=engine)
    await stage.ask(session, "look at it")
    await stage.ask(session, "go on")
    stage.workspace.put(stage.folder / "a.py", "as_it_is_now = 2\n" * 40)
    for prompts in (["and then?", "go on again"], []):
        planned = await session.preview(CompactionRequest(policy={"keepRecent": 1}))
        done = await compact(session, policy={"keepRecent": 1})
        assert done.status == "completed"
        assert done.rehydrated == ((stage.folder / "a.py").as_uri(),)
        assert [file.uri for file in planned.rehydrate] == list(done.rehydrated)
        assert planned.projected is not None
        assert planned.projected.low <= (done.post_tokens or 0) <= planned.projected.high
        kinds = [entry.kind for entry in session.record.history.current]
        assert (kinds[:2], kinds.count("file")) == (["summary", "file"], 1)
        assert "as_it_is_now = 2" in str(session.record.history.current[1].turn)
        for prompt in prompts:
            await stage.ask(session, prompt)
    assert "as_it_is_now" not in str(stage.model.calls[-1].conversation.turns)
