"""The state of a session's work, as every client is notified of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_client import FakeClient
from long_talks import open_session
from sidecar.capabilities.contract import PermissionQuestion
from sidecar.conductor.contract import PermissionAnswer, SessionSummary, WaitingFor
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import ErrorEmission, GatewayError
from sidecar.llmgateway.scripted import Say, WaitFor
from sidecar.permissions.access import EditAccess
from turns import text


def shown(lines: list[SessionSummary]) -> list[tuple[str | None, str | None, str | None]]:
    """Return state, decision and text of *lines*, each once for a row of equal ones."""
    found = [(line.state, line.waiting_for, line.text) for line in lines]
    return [each for at, each in enumerate(found) if found[at - 1 : at] != [each]]


async def watch(stage: Any, session: Session, client: FakeClient) -> None:
    stage.hub.audience.join(client)
    stage.hub.audience.attach(client, session.sid, controls=True)


async def test_clients_see_a_session_work_fail_and_rest(make_stage: Any) -> None:
    failure = ErrorEmission(GatewayError("http", "no such model"))
    stage = await make_stage([[WaitFor("go"), Say("one")], [failure], [Say("two")]])
    session, watcher = await stage.session(), FakeClient()
    await watch(stage, session, watcher)
    assert session.snapshot().state == "idle"
    receipt = await session.submit(text("fix it\nplease"))
    working = session.snapshot()
    stage.model.gate("go").set()
    await receipt.outcome
    assert (working.state, working.text) == ("working", "fix it")
    assert session.snapshot().state == "idle"  # at once, and not when the job behind the turn is over
    await stage.ask(session, "again")
    failed = session.snapshot()
    await stage.ask(session, "once more")
    assert (failed.state, failed.text) == ("failed", "no such model")
    await asyncio.sleep(0)
    assert [state for state, *_ in shown(watcher.lines)] == [
        "working",
        "idle",
        "working",
        "failed",
        "working",
        "idle",
    ]
    times = [line.since for line in watcher.lines]
    assert times == sorted(times, key=lambda time: time or 0)
    (listed,) = await stage.hub.list()
    assert listed == watcher.lines[-1]


async def test_a_rest_since_a_failure_ends_with_the_next_change(make_stage: Any) -> None:
    stage, session = await open_session(
        make_stage, [[Say("one")], [ErrorEmission(GatewayError("http", "no such model"))]], "a", "b"
    )
    states = [session.snapshot().state]
    await session.rewind(None, expect_head=None)
    await stage.settle()
    assert [*states, session.snapshot().state] == ["failed", "idle"]


async def test_two_clients_see_a_question_until_one_answers(make_stage: Any) -> None:
    stage, session = await open_session(make_stage)
    silent, answering = FakeClient("neovim"), FakeClient("panel")
    await watch(stage, session, silent)
    access = EditAccess(stage.folder / "a.py", is_inside=True)
    question = PermissionQuestion(
        call_id="c1", tool="edit", title="Edit a.py", subject="path", detail="a.py", access=access
    )
    asked = asyncio.ensure_future(session.workbench.ask(question))
    await silent.was_asked.wait()
    waiting = session.snapshot()
    answering.answer = PermissionAnswer("selected", "allow_once")
    stage.hub.audience.join(answering)
    stage.hub.audience.attach(answering, session.sid, controls=True)
    session.workbench.board.ask_newcomer(answering)
    assert (await asked).is_allowed
    assert (waiting.state, waiting.waiting_for, waiting.text) == ("waiting", "permission", "Edit a.py")
    for client in (silent, answering):
        assert shown(client.lines)[-1] == ("idle", None, None)


@pytest.mark.parametrize("decision", ["permission", "question", "budget"])
async def test_every_decision_of_the_user_is_waited_for(make_stage: Any, decision: WaitingFor) -> None:
    """A client that comes meanwhile sees it, too, in the snapshot and in the list."""
    stage = await make_stage()
    session, watcher = await stage.session(), FakeClient()
    await watch(stage, session, watcher)
    with session.record.work.wait_for(decision, "Which one?", lambda why: None) as question:
        seen, (listed,) = session.snapshot(), await stage.hub.list()
    expected = {"state": "waiting", "waiting_for": decision, "text": "Which one?", "since": question.at}
    for line in (seen, listed, watcher.lines[0]):
        assert {name: getattr(line, name) for name in expected} == expected
    assert question.closed.cancelled
    assert shown(watcher.lines)[1:] == [("idle", None, None)]


async def test_a_compaction_says_what_it_does(make_stage: Any) -> None:
    stage = await make_stage()
    session, watcher = await stage.session(), FakeClient()
    await watch(stage, session, watcher)
    await session.compact(CompactionRequest(force=True)).outcome
    assert shown(watcher.lines)[0] == ("working", None, "Compacts the conversation")
