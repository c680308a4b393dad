"""Questions to the user: the first answer decides, and no answer is a rejection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fake_client import FakeClient
from sidecar.capabilities.contract import PermissionDecision, PermissionQuestion
from sidecar.conductor.clients import Audience
from sidecar.conductor.contract import HunkAnswer, PermissionAnswer, WorkState
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import Job, JobQueue, PromptQueue
from sidecar.conductor.record.work import PendingQuestion, SessionWork
from sidecar.conductor.workbench.permissions import PermissionBroker
from sidecar.conductor.workbench.questions import QuestionBoard
from sidecar.permissions.access import CommandAccess, EditAccess
from sidecar.permissions.policy import PermissionMode, Policy
from sidecar.permissions.protected import SessionFolders

ROOT = Path("/p")


def question(command: str) -> PermissionQuestion:
    return PermissionQuestion(
        call_id="c1",
        tool="bash",
        title=f"Run {command}",
        subject="command",
        detail=command,
        access=CommandAccess(command, ROOT),
    )


ASK = question("make")


async def run_job(job: Job) -> None:
    """No job runs here."""


def broker_of(*clients: FakeClient, timeout_ms: int = 60_000) -> PermissionBroker:
    """Clients whose name begins with "observer" only listen."""
    work = SessionWork(
        PromptQueue(JobQueue(run_job)), EventLog("s", lambda: 1000), lambda: 1000, end=None, since=1000
    )
    audience = Audience()
    for client in clients:
        audience.attach(client, "s", controls=not client.name.startswith("observer"))
    board = QuestionBoard("s", audience, work)
    return PermissionBroker(board, lambda: "p1", lambda: 1000, timeout_ms, Policy(SessionFolders((ROOT,))))


def selected(option: str) -> PermissionAnswer:
    return PermissionAnswer("selected", option)


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        pytest.param(selected("allow_once"), True, id="allowed"),
        pytest.param(selected("allow_always"), True, id="allowed for good"),
        pytest.param(selected("reject_once"), False, id="rejected"),
        pytest.param(selected("sure"), False, id="an option nobody offered is a no"),
        pytest.param(
            PermissionAnswer("selected", "allow_once", (HunkAnswer(0, 0, accepted=False),)),
            False,
            id="a hunk that was not shown is refused with the rest",
        ),
        pytest.param(PermissionAnswer("cancelled"), False, id="cancelled is a no"),
        pytest.param(PermissionAnswer("shrugged"), False, id="an unknown outcome is a no"),
    ],
)
async def test_an_answer_decides(answer: PermissionAnswer, allowed: bool) -> None:
    assert await broker_of(FakeClient(answer=answer)).ask(ASK, "t1") == PermissionDecision(allowed)


async def test_a_hook_answers_with_a_no_in_place_of_the_user() -> None:
    client = FakeClient()
    broker = broker_of(client)
    asked: list[PendingQuestion] = []

    def refuse(question: PendingQuestion | None) -> None:
        if question is not None:
            asked.append(question)
            question.refuse("not today")

    broker.board.work.follow(refuse)
    assert await broker.ask(ASK, "t1") == PermissionDecision(False, "not today")
    assert client.resolved == [("reject_once", "a hook")]
    assert [(each.text, each.details, each.closed.cancelled) for each in asked] == [
        ("Run make", {"tool": "bash"}, True)
    ]
    assert broker.board.work.state == WorkState(state="idle", since=1000)


async def test_a_question_without_an_answer_expires_and_listeners_are_notified() -> None:
    client = FakeClient()
    assert await broker_of(client, timeout_ms=10).ask(ASK, "t1") == PermissionDecision(False)
    assert client.resolved == [("expired", "timeout")]
    assert client.was_cancelled


async def test_listeners_are_notified_when_a_question_is_cancelled() -> None:
    """Field 1, complaint 16: a question nobody waits for must not stay on a screen."""
    client, observer = FakeClient(), FakeClient("observer")
    asking = asyncio.ensure_future(broker_of(client, observer).ask(ASK, "t1"))
    await client.was_asked.wait()
    await asyncio.sleep(0)
    assert client.requests
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert client.was_cancelled
    assert client.resolved == observer.resolved == [("cancelled", "the tool call")]


async def test_the_first_answer_decides_for_all_clients() -> None:
    quick, slow = FakeClient("quick", selected("allow_once")), FakeClient("slow")
    assert await broker_of(slow, quick).ask(ASK, "t1") == PermissionDecision(True)
    assert quick.resolved == slow.resolved == [("allow_once", "quick")]
    assert slow.was_cancelled


async def test_a_question_shows_what_cannot_be_seen() -> None:
    client = FakeClient(answer=selected("reject_once"))
    blanks = " " * 3000
    asked = replace(question(f"ls{blanks}; rm\u3164 -r"), title="Run ls\u202e")
    await broker_of(client).ask(asked, "t1")
    (request,) = client.requests
    assert request.title == "Run ls‹U+202E›"
    assert request.subject.detail == "ls‹3,000 blanks›; rm‹U+3164› -r"


async def test_a_client_that_comes_later_is_asked_once_and_may_answer() -> None:
    away, newcomer = FakeClient("away"), FakeClient("newcomer", selected("allow_once"))
    broker = broker_of(away)
    broker.board.ask_newcomer(newcomer)
    asking = asyncio.ensure_future(broker.ask(ASK, "t1"))
    await away.was_asked.wait()
    for client in (away, newcomer, newcomer):
        broker.board.ask_newcomer(client)
    assert await asking == PermissionDecision(True)
    assert len(away.requests) == len(newcomer.requests) == 1
    assert away.resolved == [("allow_once", "newcomer")]
    broker.board.ask_newcomer(newcomer)
    await asyncio.sleep(0)
    assert len(newcomer.requests) == 1, "nothing is open any more"


async def test_allow_always_holds_for_its_scope_only() -> None:
    client = FakeClient(answer=selected("allow_always"))
    broker = broker_of(client)
    await broker.ask(ASK, "t1")
    await broker.ask(ASK, "t1")
    await broker.ask(question("rm -r x"), "t1")
    assert [request.subject.detail for request in client.requests] == ["make", "rm -r x"]


async def test_the_question_holds_subject_diffs_and_deadline() -> None:
    client = FakeClient(answer=selected("reject_once"))
    await broker_of(client).ask(ASK, "t1")
    request = client.requests[0]
    assert (request.sid, request.turn_id, request.permission_id) == ("s", "t1", "p1")
    assert request.expires_at == 61_000
    assert [option.kind for option in request.options] == ["allow_once", "allow_always", "reject_once"]


EDIT = PermissionQuestion(
    call_id="c1",
    tool="edit",
    title="Edit a.py",
    subject="toolCall",
    detail="/p/a.py",
    access=EditAccess(Path("/p/a.py"), True),
)
OUTSIDE = PermissionQuestion(
    call_id="c1",
    tool="edit",
    title="Edit b.py",
    subject="path",
    detail="/elsewhere/b.py",
    access=EditAccess(Path("/elsewhere/b.py"), False),
)


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        pytest.param("ask", (), id="asks for everything"),
        pytest.param("allowEdits", (EDIT,), id="edits inside the session's folders alone"),
        pytest.param("allowAll", (EDIT, OUTSIDE, ASK), id="asks for nothing"),
    ],
)
async def test_a_mode_allows_without_asking(
    mode: PermissionMode, allowed: tuple[PermissionQuestion, ...]
) -> None:
    client = FakeClient(answer=selected("reject_once"))
    broker = broker_of(client)
    broker.policy.mode = mode
    asks = (EDIT, OUTSIDE, ASK)
    assert tuple([ask for ask in asks if (await broker.ask(ask, "t1")).is_allowed]) == allowed
    assert len(client.requests) == len(asks) - len(allowed)


async def test_an_observer_is_notified_but_receives_no_question() -> None:
    controller, observer = FakeClient(answer=selected("allow_once")), FakeClient("observer")
    assert (await broker_of(observer, controller).ask(ASK, "t1")).is_allowed
    assert (observer.requests, observer.resolved) == ([], [("allow_once", "editor")])


@pytest.mark.parametrize("observers", [(), (FakeClient("observer"),)], ids=["no client", "an observer"])
async def test_without_a_controller_the_question_is_rejected(observers: Sequence[FakeClient]) -> None:
    assert not (await broker_of(*observers).ask(ASK, "t1")).is_allowed
    assert [observer.resolved for observer in observers] == [[] for _ in observers]
