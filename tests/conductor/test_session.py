"""A session from outside: prompts, queue, steering, interruption, faults, and what is on disk after each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from long_talks import emitted, open_session
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.todo import TODO
from sidecar.conductor.contract import PlanItem, TokenCounts
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import FolderNotFound, SessionBusyError, SessionNotFound
from sidecar.conductor.events import Event, Faulted, Message, Notice, Settled, UserMessage
from sidecar.conductor.hub import NewSession
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.session_events import OneTimeNotices
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.session import Session
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.window.request import NextRequest
from sidecar.llmgateway.contract import (
    ErrorEmission,
    GatewayError,
    StopEmission,
    TextBlock,
    Usage,
    UsageEmission,
)
from sidecar.llmgateway.scripted import Call, EndWithoutDone, Hang, Raise, Say, WaitFor
from turns import text


def kinds(session: Session) -> list[str]:
    return [event.kind for event in session.record.log.after(0, limit=100_000)]


async def until(session: Session, seen: Callable[[Event], bool]) -> Event:
    """Wait until the log has an event that *seen* accepts."""
    found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()

    def look(log: Any) -> None:
        for event in log.after(0, limit=100_000):
            if seen(event) and not found.done():
                found.set_result(event)

    stop = session.record.log.follow(look)
    look(session.record.log)
    try:
        async with asyncio.timeout(10):
            return await found
    finally:
        stop()


async def test_a_turn_tells_everything_in_order_and_settles_last(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Say("Hello there", 2)]])
    started = await session.submit(text("hi"))
    outcome = await started.outcome
    assert (started.disposition, outcome.stop_reason, outcome.text) == ("started", "end_turn", "Hello there")
    assert kinds(session)[:3] == ["phase", "userMessage", "phase"]
    assert kinds(session)[-4:] == ["infoChanged", "usage", "phase", "settled"]
    assert emitted(session, UserMessage) == [UserMessage(started.user_node_id, text("hi"))]
    assert [message.content[0]["text"] for message in emitted(session, Message)] == ["Hello there"]
    assert [event.seq for event in session.record.log.after(0)] == list(range(1, session.record.log.seq + 1))


async def test_what_settled_is_on_disk_and_loads_again(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")], [Say("two")]], "a", "b")
    turns, seq, head = list(session.record.history.turns), session.record.log.seq, session.record.history.head
    stored = await stage.shelf.graph(session.sid)
    assert (len(stored.entries), stored.leaf) == (4, head)
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert list(loaded.record.history.turns) == turns
    assert (loaded.record.log.seq, loaded.record.history.head, loaded.info.title) == (seq, head, "a")


async def test_the_tokens_used_and_the_plan_survive_a_reload(make_stage: Any) -> None:
    plan = Call("todo", {"entries": [{"content": "look", "status": "completed"}, {"content": "fix"}]})
    script = [[plan, UsageEmission(Usage(100, 5))], [Say("done"), UsageEmission(Usage(300, 7, 50))]]
    stage, session = await open_session(make_stage, script, "1", tools=[TODO])
    total, items = session.window.request.usage().session_total, session.snapshot().plan
    assert total == TokenCounts(400, 12, 50)
    assert items == (PlanItem("look", "completed", "medium"), PlanItem("fix", "pending", "medium"))
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert (loaded.window.request.usage().session_total, loaded.snapshot().plan) == (total, items)


async def test_prompts_while_busy_wait_and_are_answered_in_order(make_stage: Any) -> None:
    stage = await make_stage([[WaitFor("go"), Say("one")], [Say("two")], [Say("three")]])
    session = await stage.session()
    first = await session.submit(text("1"))
    second, third = await session.submit(text("2")), await session.submit(text("3"))
    assert [(s.disposition, s.position) for s in (first, second, third)] == [
        ("started", None),
        ("queued", 1),
        ("queued", 2),
    ]
    stage.model.gate("go").set()
    outcomes = [await started.outcome for started in (first, second, third)]
    assert [outcome.text for outcome in outcomes] == ["one", "two", "three"]
    ends = emitted(session, Settled)
    assert [end.turn_id for end in ends] == [first.turn_id, second.turn_id, third.turn_id]


async def test_a_busy_session_can_be_asked_not_to_queue(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Hang()]])
    await session.submit(text("1"))
    with pytest.raises(SessionBusyError):
        await session.submit(text("2"), when_busy="reject")


async def test_an_interrupt_cancels_the_turn_and_keeps_the_queue(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Say("par"), Hang()], [Say("two")]])
    first = await session.submit(text("1"))
    second = await session.submit(text("2"))
    await until(session, lambda event: event.kind == "textDelta")
    assert session.turns.prompts.interrupt(first.turn_id, "keep").accepted
    assert (await first.outcome).stop_reason == "cancelled"
    assert (await second.outcome).text == "two"


@pytest.mark.parametrize("kind", ["message", "infoChanged"])
async def test_an_interrupt_that_is_accepted_while_a_turn_ends_cancels_it(make_stage: Any, kind: str) -> None:
    stage, session = await open_session(make_stage, [[Say("all of it")], [Say("two")]])
    first = await session.submit(text("1"))
    await until(session, lambda event: event.kind == kind)
    assert session.turns.prompts.interrupt(first.turn_id, "keep").accepted
    outcome = await first.outcome
    assert (outcome.stop_reason, outcome.text) == ("cancelled", "all of it")
    assert emitted(session, Settled)[-1].stop_reason == "cancelled"
    assert (await stage.ask(session, "2")).text == "two"


async def test_an_interrupt_while_idle_or_of_another_turn_is_refused_and_poisons_nothing(
    make_stage: Any,
) -> None:
    stage, session = await open_session(make_stage, [[WaitFor("go"), Say("one")]])
    assert not session.turns.prompts.interrupt(None, "keep").accepted
    started = await session.submit(text("1"))
    assert not session.turns.prompts.interrupt("another", "keep").accepted
    stage.model.gate("go").set()
    assert (await started.outcome).stop_reason == "end_turn"
    assert not session.turns.prompts.interrupt(None, "keep").accepted


@pytest.mark.parametrize(
    ("queue", "returned"),
    [pytest.param("drop", None, id="dropped"), pytest.param("return", (text("2"),), id="given back")],
)
async def test_an_interrupt_may_empty_the_queue(make_stage: Any, queue: Any, returned: Any) -> None:
    _, session = await open_session(make_stage, [[Hang()]])
    await session.submit(text("1"))
    second = await session.submit(text("2"))
    done = session.turns.prompts.interrupt(None, queue)
    assert (done.accepted, done.returned) == (True, returned)
    assert (await second.outcome).stop_reason == "cancelled"
    assert session.turns.prompts.items() == ()


async def test_a_waiting_prompt_can_be_taken_out_by_its_turn(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[WaitFor("go"), Say("one")]])
    first, second = await session.submit(text("1")), await session.submit(text("2"))
    assert session.turns.prompts.interrupt(second.turn_id, "keep").accepted
    stage.model.gate("go").set()
    assert (await first.outcome).text == "one"
    assert (await second.outcome).stop_reason == "cancelled"


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(Raise(RuntimeError("boom")), "modelFailed", id="a model that raises"),
        pytest.param(ErrorEmission(GatewayError("http", "503")), "modelFailed", id="a model that errs"),
    ],
)
async def test_a_failing_model_faults_the_turn_and_not_the_session(
    make_stage: Any, step: Any, kind: str
) -> None:
    stage, session = await open_session(make_stage, [[step], [Say("two")]])
    failed = await stage.ask(session, "1")
    assert failed.fault is not None
    assert failed.fault.error_kind == kind
    assert kinds(session)[-1] == "faulted"
    assert emitted(session, Faulted)[0].error_kind == kind
    assert (await stage.ask(session, "2")).text == "two"


async def test_a_model_that_says_nothing_settles_and_leaves_no_blank_turn(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[EndWithoutDone()], [Say("two")]], "1")
    assert (await stage.ask(session, "2")).text == "two"
    assert all(turn.blocks for turn in session.record.history.turns)


CUT = StopEmission("max_output")


async def test_a_cut_off_answer_is_gone_on_with(make_stage: Any) -> None:
    stage = await make_stage([[Say("half "), CUT], [Say("and half "), CUT], [Say("whole")], [Say("two")]])
    session = await stage.session()
    outcome = await stage.ask(session, "1")
    assert (outcome.stop_reason, outcome.text) == ("end_turn", "half and half whole")
    assert (await stage.ask(session, "2")).text == "two"


async def test_an_answer_that_is_cut_each_time_ends_and_says_so(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("more "), CUT]] * 4)
    outcome = await stage.ask(session, "1")
    assert (outcome.stop_reason, outcome.text) == ("max_tokens", "more " * 4)


async def test_going_on_keeps_the_limit_of_model_calls(make_stage: Any) -> None:
    _, session = await open_session(make_stage, [[Say("one "), CUT], [Say("two "), CUT]])
    started = await session.submit(({"type": "text", "text": "go"},), max_model_calls=2)
    outcome = await started.outcome
    assert (outcome.stop_reason, outcome.text, outcome.fault) == ("max_tokens", "one two ", None)


async def test_usage_is_what_the_next_request_holds_and_says_where_it_is_from(make_stage: Any) -> None:
    stage = await make_stage([[Say("one"), UsageEmission(Usage(1000, 5, 200))], [Say("two")]])
    session = await stage.session()
    assert session.window.request.usage().source == "estimate"
    usage = (await stage.ask(session, "1")).last.usage
    assert usage.source == "provider"
    assert 1200 < usage.used < 1220
    assert usage.session_total is not None
    assert (usage.session_total.input, usage.session_total.cache_read) == (1000, 200)


async def test_a_session_needs_a_folder(make_stage: Any) -> None:
    stage = await make_stage()
    for folder in ("relative", "~nobody-has-this-name", str(stage.folder / "missing"), __file__):
        with pytest.raises(FolderNotFound):
            await stage.hub.new(NewSession(folder))


async def test_unknown_sessions_and_engines_are_named(make_stage: Any) -> None:
    stage = await make_stage()
    with pytest.raises(SessionNotFound):
        stage.hub.session("nobody")
    with pytest.raises(SessionNotFound):
        await stage.hub.load("nobody")
    with pytest.raises(InvalidInput):
        await stage.session(engine="steam")


async def test_rules_of_the_project_are_in_every_request_as_they_are_now(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")], [Say("two")]])
    stage.workspace.put(stage.folder / "AGENTS.md", "Never touch setup.py.")
    await stage.ask(session, "1")
    stage.workspace.put(stage.folder / "AGENTS.md", "Always run the tests.")
    await stage.ask(session, "2")
    systems = [call.conversation.system or "" for call in stage.model.calls]
    assert "Never touch setup.py." in systems[0]
    assert "Always run the tests." in systems[1]
    assert "Never touch" not in systems[1]


async def test_a_store_that_cannot_be_written_is_told_once_and_the_talk_goes_on(
    make_stage: Any, tmp_path: Any
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    stage, session = await open_session(make_stage, [[Say("one")], [Say("two")]], store=blocked)
    assert (await stage.ask(session, "1")).text == "one"
    assert (await stage.ask(session, "2")).text == "two"
    notices = emitted(session, Notice)
    assert len(notices) == 1
    blocked.unlink()
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert [turn.blocks for turn in loaded.record.history.turns] == [
        (TextBlock("1"),),
        (TextBlock("one"),),
        (TextBlock("2"),),
        (TextBlock("two"),),
    ]


async def test_closing_in_the_middle_of_a_turn_loses_nothing_that_was_told(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")], [Say("par"), Hang()]], "1")
    started = await session.submit(text("2"))
    await until(session, lambda event: event.turn_id == started.turn_id and event.kind == "textDelta")
    await stage.hub.close(session.sid)
    assert (await started.outcome).stop_reason == "cancelled"
    loaded = (await stage.hub.load(session.sid)).session
    assert [turn.role for turn in loaded.record.history.turns][:3] == ["user", "assistant", "user"]


async def test_a_mistake_of_ours_leaves_nobody_waiting_for_a_compaction(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot happen; when it does, who asked hears of it and the next prompt is answered."""
    monkeypatch.delenv("INDUSAGI_STRICT")
    stage, session = await open_session(make_stage, [[Say("x" * 9_000)]], "one", "two", repeat=True)
    with monkeypatch.context() as broken:
        broken.setattr(NextRequest, "usage", lambda gauge, **_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await session.compact(CompactionRequest()).outcome
    assert (await stage.ask(session, "four")).stop_reason == "end_turn"


BREAKS: list[Any] = [
    pytest.param(NextRequest, "usage", id="usage cannot be weighed"),
    pytest.param(SessionRecord, "store", id="the session's record cannot be made"),
    pytest.param(OneTimeNotices, "emit_pending", id="a notice cannot be given"),
    pytest.param(RequestHead, "refresh", id="the rules cannot be read"),
]


@pytest.mark.parametrize(("owner", "name"), BREAKS)
async def test_a_turn_ends_once_whatever_step_of_it_raises(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    stage, session = await open_session(make_stage, [[Say("ok")]], repeat=True)
    session.record.notices.add(Notice("info", "A notice", ""))
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, lambda *_, **__: 1 // 0)
        started = await session.submit(text("one"))
        outcome = await started.outcome
    assert outcome.fault is not None
    assert outcome.fault.error_kind == "invalidState"
    ends = [event for event in session.record.log.after(0) if event.kind in ("settled", "faulted")]
    assert [(end.kind, end.turn_id, end.seq) for end in ends] == [
        ("faulted", started.turn_id, session.record.log.seq)
    ]
    assert not session.is_running
    assert (await stage.ask(session, "two")).text == "ok"


async def test_a_reader_of_the_log_that_raises_stops_no_turn(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("ok")]])

    def fail(log: EventLog) -> None:
        raise ZeroDivisionError

    session.record.log.follow(fail)
    assert (await stage.ask(session, "one")).text == "ok"
    assert kinds(session)[-1] == "settled"


async def test_a_client_that_gives_up_waiting_leaves_the_session_alive(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[WaitFor("go"), Say("one")], [Say("two")]])
    started = await session.submit(text("one"))
    started.outcome.cancel()
    stage.model.gate("go").set()
    assert (await stage.ask(session, "two")).text == "two"
    assert kinds(session).count("settled") == 2


async def test_a_clock_that_is_set_back_makes_no_turn_shorter_than_nothing(make_stage: Any) -> None:
    clock = count(10_000, -60).__next__
    _, session = await open_session(
        make_stage, [[Say("x" * 9_000)]], "one", "two", repeat=True, clock_ms=clock
    )
    assert [told.duration_ms for told in emitted(session, Settled)] == [0, 0]


async def test_a_turn_ends_also_when_its_last_event_cannot_be_made(
    make_stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, session = await open_session(make_stage, [[Say("one")], [Say("two")]])
    append = session.record.log.append

    def append_but_not_settled(data: Any, turn_id: str | None = None) -> Event:
        if isinstance(data, Settled) and session.record.log.seq < 100:
            monkeypatch.undo()
            raise RuntimeError("no")
        event: Event = append(data, turn_id)
        return event

    monkeypatch.setattr(session.record.log, "append", append_but_not_settled)
    first = await stage.ask(session, "1")
    assert first.fault is not None
    assert kinds(session)[-1] == "faulted"
    second = await stage.ask(session, "2")
    assert (second.fault, kinds(session)[-1]) == (None, "settled")


async def test_a_turn_that_ends_without_a_word_says_so(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("")]])
    outcome = await stage.ask(session, "go")
    assert outcome.stop_reason == "end_turn"
    assert [notice.title for notice in emitted(session, Notice)] == [
        "The model ended its turn without a word"
    ]
