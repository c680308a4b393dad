"""Permission questions: rejected unless a handler allows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
)
from sidecar_client import PermissionHandler, allow, reject
from sidecar_client.scripted import ScriptedDaemon

QUESTION = {
    "sid": "s",
    "turnId": "t",
    "permissionId": "p",
    "title": "run ls",
    "subject": {"type": "command", "toolCallId": "c", "tool": "bash", "detail": "ls"},
    "options": [
        {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ],
    "expiresAt": 1,
}
ALLOWED = {"outcome": "selected", "optionId": "yes"}
REJECTED = {"outcome": "selected", "optionId": "no"}


async def allow_bash(request: PermissionRequest) -> PermissionAnswer:
    await asyncio.sleep(0)
    return allow(request) if request.subject.tool == "bash" else reject(request)


def fail(_request: PermissionRequest) -> PermissionAnswer:
    raise ValueError("no terminal")


@pytest.mark.parametrize(
    ("handler", "question", "answer"),
    [
        pytest.param(None, QUESTION, REJECTED, id="nobody to ask rejects"),
        pytest.param(allow, QUESTION, ALLOWED, id="allow allows once"),
        pytest.param(reject, QUESTION, REJECTED, id="reject rejects once"),
        pytest.param(allow_bash, QUESTION, ALLOWED, id="a handler may look and wait"),
        pytest.param(fail, QUESTION, REJECTED, id="a handler that fails rejects"),
        pytest.param(allow, {**QUESTION, "options": []}, {"outcome": "cancelled"}, id="no option is no"),
    ],
)
async def test_answers(handler: PermissionHandler | None, question: Any, answer: Any) -> None:
    script = ScriptedDaemon()
    async with script.client() if handler is None else script.client(permission=handler):
        assert (await script.request("sidecar/permission/request", question)).result == answer


async def test_a_question_that_does_not_fit_is_an_error_which_counts_as_a_rejection() -> None:
    script = ScriptedDaemon()
    async with script.client(permission=allow):
        answer = await script.request("sidecar/permission/request", {"sid": "s"})
    assert answer.error is not None


async def test_the_client_goes_on_while_a_question_is_open() -> None:
    decide = asyncio.Event()

    async def wait(request: PermissionRequest) -> PermissionAnswer:
        await decide.wait()
        return allow(request)

    script = ScriptedDaemon({"echo": lambda params: params})
    async with script.client(permission=wait) as client:
        asking = asyncio.create_task(script.request("sidecar/permission/request", QUESTION))
        assert await client.request("echo", 1) == 1
        decide.set()
        assert (await asking).result == ALLOWED


FORM: dict[str, Any] = {
    "sid": "s",
    "turnId": None,
    "elicitationId": "e",
    "from": "agent",
    "message": "Which?",
    "schema": {},
    "expiresAt": 0,
}


def choose(form: Elicitation) -> ElicitationAnswer:
    return ElicitationAnswer("accept", {"q1": form.message})


def shrug(form: Elicitation) -> ElicitationAnswer:
    raise ValueError("no terminal")


async def test_a_form_has_an_answer_of_its_handler_and_is_dismissed_where_that_fails() -> None:
    script = ScriptedDaemon()
    async with script.client(elicit=choose):
        answer = await script.request("sidecar/elicit", FORM)
    assert answer.result == {"action": "accept", "content": {"q1": "Which?"}}
    script = ScriptedDaemon()
    async with script.client(elicit=shrug):
        assert (await script.request("sidecar/elicit", FORM)).result == {"action": "cancel"}


async def test_a_client_without_a_handler_is_asked_no_forms() -> None:
    script = ScriptedDaemon()
    async with script.client():
        assert (await script.request("sidecar/elicit", FORM)).error is not None
