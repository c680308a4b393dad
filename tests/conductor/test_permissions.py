"""Questions to the user: one answer decides, silence is no."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from sidecar.capabilities.contract import PermissionAsk
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.permissions import PermissionBroker, PermissionMode
from sidecar.conductor.terminals import Terminals

ASK = PermissionAsk("c1", "bash", "Run make", "command", "make", "bash:make")
NEVER = PermissionAnswer("never")


@dataclass
class Client:
    """Answers with *answer*, or waits for ever."""

    answer: PermissionAnswer
    name: str = "editor"
    asked: list[PermissionRequest] = field(default_factory=list)
    resolved: list[tuple[str, str]] = field(default_factory=list)
    let_go: bool = False

    @property
    def client_id(self) -> str:
        return self.name

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        self.asked.append(request)
        if self.answer is not NEVER:
            return self.answer
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.let_go = True
        return NEVER

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        self.resolved.append((outcome, by))

    def sessions_changed(self) -> None:
        raise AssertionError("not this room's business")


class Host:
    """A hub with nothing but clients; those whose name begins with "observer" only listen."""

    def __init__(self, clients: Sequence[Client]) -> None:
        self.clients = clients
        self.terminals = Terminals()

    def controllers(self, sid: str) -> Sequence[Client]:
        return [client for client in self.clients if not client.name.startswith("observer")]

    def listeners(self, sid: str) -> Sequence[Client]:
        return self.clients

    def changed(self) -> None:
        raise AssertionError("not this room's business")

    async def fork_of(self, sid: str) -> str:
        raise AssertionError("not this room's business")


def desk_of(*clients: Client, timeout_ms: int = 60_000) -> PermissionBroker:
    return PermissionBroker("s", Host(clients), lambda: "p1", lambda: 1000, timeout_ms)


def selected(option: str) -> PermissionAnswer:
    return PermissionAnswer("selected", option)


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        pytest.param(selected("allow_once"), True, id="allowed"),
        pytest.param(selected("allow_always"), True, id="allowed for good"),
        pytest.param(selected("reject_once"), False, id="rejected"),
        pytest.param(selected("sure"), False, id="an option nobody offered is a no"),
        pytest.param(PermissionAnswer("cancelled"), False, id="cancelled is a no"),
        pytest.param(PermissionAnswer("shrugged"), False, id="an unknown outcome is a no"),
    ],
)
async def test_an_answer_decides(answer: PermissionAnswer, allowed: bool) -> None:
    assert await desk_of(Client(answer)).ask(ASK, "t1") is allowed


async def test_nobody_to_ask_is_a_no() -> None:
    assert await desk_of().ask(ASK, "t1") is False


async def test_silence_until_the_deadline_is_a_no_and_is_told() -> None:
    client = Client(NEVER)
    assert await desk_of(client, timeout_ms=10).ask(ASK, "t1") is False
    assert client.resolved == [("expired", "timeout")]
    assert client.let_go


async def test_a_question_that_is_given_up_is_told_to_all_who_follow() -> None:
    """Field 1, complaint 16: a question nobody waits for must not stay on a screen."""
    client, observer = Client(NEVER), Client(NEVER, "observer")
    asking = asyncio.ensure_future(desk_of(client, observer).ask(ASK, "t1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert client.asked
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert client.let_go
    assert client.resolved == observer.resolved == [("cancelled", "the tool call")]


async def test_the_first_answer_decides_for_all_clients() -> None:
    quick, slow = Client(selected("allow_once"), "quick"), Client(NEVER, "slow")
    assert await desk_of(slow, quick).ask(ASK, "t1") is True
    assert quick.resolved == slow.resolved == [("allow_once", "quick")]
    assert slow.let_go


async def test_always_is_remembered_for_its_scope_only() -> None:
    client = Client(selected("allow_always"))
    desk = desk_of(client)
    await desk.ask(ASK, "t1")
    await desk.ask(ASK, "t1")
    other = PermissionAsk("c2", "bash", "Run rm", "command", "rm -r x", "bash:rm")
    await desk.ask(other, "t1")
    assert [request.subject.detail for request in client.asked] == ["make", "rm -r x"]


async def test_the_question_says_what_where_and_until_when() -> None:
    client = Client(selected("reject_once"))
    await desk_of(client).ask(ASK, "t1")
    request = client.asked[0]
    assert (request.sid, request.turn_id, request.permission_id) == ("s", "t1", "p1")
    assert request.expires_at == 61_000
    assert [option.kind for option in request.options] == ["allow_once", "allow_always", "reject_once"]


EDIT = PermissionAsk("c1", "edit", "Edit a.py", "toolCall", "/p/a.py", "edit")
OUTSIDE = PermissionAsk("c1", "edit", "Edit b.py", "path", "/elsewhere/b.py", "edit:/elsewhere")


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        pytest.param("ask", (), id="asks for everything"),
        pytest.param("allowEdits", (EDIT,), id="edits inside the session's folders alone"),
        pytest.param("allowAll", (EDIT, OUTSIDE, ASK), id="asks for nothing"),
    ],
)
async def test_a_mode_allows_without_asking(mode: PermissionMode, allowed: tuple[PermissionAsk, ...]) -> None:
    client = Client(selected("reject_once"))
    desk = desk_of(client)
    desk.mode = mode
    asks = (EDIT, OUTSIDE, ASK)
    assert tuple([ask for ask in asks if await desk.ask(ask, "t1")]) == allowed
    assert len(client.asked) == len(asks) - len(allowed)


async def test_who_only_listens_is_not_asked_but_told() -> None:
    controller, observer = Client(selected("allow_once")), Client(NEVER, "observer")
    assert await desk_of(observer, controller).ask(ASK, "t1")
    assert (observer.asked, observer.resolved) == ([], [("allow_once", "editor")])


async def test_without_a_controller_nobody_allows() -> None:
    observer = Client(NEVER, "observer")
    assert not await desk_of(observer).ask(ASK, "t1")
    assert observer.resolved == []
