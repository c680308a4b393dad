"""Promises of both front ends, over the bytes of both: handshake, requests, questions to a user, the end."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pytest

from acp_schema import check_messages
from fake_editor import FakeEditor
from fake_panel import FakePanel
from fake_service import FORM, QUESTION, SIGN_IN, FakeService
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import Elicitation, ElicitationAnswer, PermissionAnswer
from sidecar.protocol.codec import to_wire
from sidecar.protocol.errors import acp_code, lsp_code
from sidecar.transport.peer import Limits

Client: TypeAlias = FakeEditor | FakePanel
CHANGED: Final = "sidecar/sessions/changed"


@dataclass(frozen=True)
class Face:
    """One front end, with its words for what both have.

    Attributes:
        make: makes a client of it over a fake service.
        prefix: stands before the methods of ours.
        cancel: the notification that takes a request back, and its member with the id.
        code: takes the kind of an error and returns its code.
        unknown: a method that belongs to the other protocol.
    """

    make: Callable[..., Client]
    prefix: str
    cancel: tuple[str, str]
    code: Callable[[str], int]
    unknown: str

    def ours(self, name: str) -> str:
        """Return the method ``sidecar/<name>`` as this front end has it."""
        return f"{self.prefix}sidecar/{name}"

    def cancel_request(self, client: Client, request_id: Any) -> None:
        """Take a request back."""
        method, member = self.cancel
        client.notify(method, {member: request_id})

    def problem(self, kind: str) -> tuple[int, str]:
        """Return code and kind of an error."""
        return self.code(kind), kind

    async def initialize(self, client: Client, ours: Any = None, options: Any = None) -> dict[str, Any]:
        """Shake hands with *ours* declared as features of a client of ours, and *options* for the daemon."""
        own = {"sidecar": options}
        if isinstance(client, FakeEditor):
            given = {} if options is None else {"initializationOptions": own}
            return await client.initialize(sidecar=ours, **given)
        given = {} if options is None else {"_meta": own}
        return await client.initialize({} if ours is None else {"_meta": {"sidecar": ours}}, **given)

    async def ready(self, ours: Any = None, **settings: Any) -> Client:
        """Return a client that has shaken hands."""
        client = self.make(**settings)
        assert "result" in await self.initialize(client, ours)
        return client


LSP = Face(FakeEditor, "", ("$/cancelRequest", "id"), lsp_code, "textDocument/hover")
ACP = Face(FakePanel, "_", ("$/cancel_request", "requestId"), acp_code, "sidecar/status")


@pytest.fixture(params=[pytest.param(LSP, id="lsp"), pytest.param(ACP, id="acp")])
def face(request: pytest.FixtureRequest) -> Face:
    found: Face = request.param
    return found


@pytest.fixture
async def client(face: Face) -> AsyncIterator[Client]:
    """A client of each front end; what a panel was sent is held against the schema of its protocol."""
    made = await face.ready()
    yield made
    if isinstance(made, FakePanel):
        check_messages(made.sent, made.messages)


def fake_of(client: Client) -> FakeService:
    """Return the fake service behind *client*."""
    assert isinstance(client.service, FakeService)
    return client.service


def problem_in(answer: Mapping[str, Any]) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["kind"]


# The handshake.


async def test_nothing_is_answered_before_the_handshake_and_there_is_one(face: Face) -> None:
    client = face.make()
    client.notify(face.ours("fake/echo"))
    assert problem_in(await client.request(1, face.ours("status"))) == face.problem("notInitialized")
    assert client.service.connections == []
    await face.initialize(client)
    again = await client.request(2, "initialize", {"protocolVersion": 1, "capabilities": {}})
    assert problem_in(again) == face.problem("alreadyInitialized")
    assert "result" in await client.request(3, face.ours("status"))
    assert len(client.service.connections) == 1


@pytest.mark.parametrize(("options", "n_messages"), [(None, 1), ({"jsonrpc": "2.0", "id": 4}, 0)])
async def test_the_service_is_opened_behind_the_answer_unless_options_may_refuse_it(
    face: Face, options: Any, n_messages: int
) -> None:
    client, opened = face.make(), list[tuple[Any, int]]()
    client.on_open = lambda given: opened.append((given, len(client.messages)))
    await face.initialize(client, options=options)
    await client.request(1, face.ours("fake/echo"))
    assert opened == [(options or {}, n_messages)]


async def test_refused_options_refuse_the_client_which_may_try_again(face: Face) -> None:
    def refuse(options: Mapping[str, Any]) -> None:
        if options:
            raise InvalidInput("no such model")

    client = face.make()
    client.on_open = refuse
    answer = await face.initialize(client, options={"models": 1})
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "no such model")
    assert client.service.connections == []
    again = {"protocolVersion": 1, "capabilities": {}}
    assert "result" in await client.request(2, "initialize", again)


# Requests and notifications.


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"message": {"jsonrpc": "2.0", "id": 1, "method": "x"}}, id="a message"),
        pytest.param({"class": 1, "x-y": 2, "_id": 3}, id="odd names"),
        pytest.param({"t": "ä a\u2028b\u2029c\u0085d\x0be\x0cf\U0001f600"}, id="ends of lines in text"),
    ],
)
async def test_params_arrive_and_results_leave_as_they_are(face: Face, client: Client, value: Any) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": face.ours("fake/echo"), "params": value}
    client.send_body(json.dumps(body, ensure_ascii=False).encode())
    assert (await client.answer(1))["result"] == value


@pytest.mark.parametrize(
    ("body", "request_id", "code"),
    [
        pytest.param(b"{", None, -32700, id="no json"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', None, -32600, id="a batch"),
        pytest.param(b'{"id":1,"method":"session/list"}', 1, -32600, id="no version"),
    ],
)
async def test_a_body_that_is_no_message_is_refused_and_the_next_request_is_answered(
    face: Face, client: Client, body: bytes, request_id: int | None, code: int
) -> None:
    client.send_body(body)
    assert "result" in await client.request("next", face.ours("status"))
    errors = [(each["id"], each["error"]["code"]) for each in client.messages if "error" in each]
    assert (errors, client.calls("window/showMessage")) == ([(request_id, code)], [])


async def test_an_unknown_method_is_refused_with_its_kind(face: Face, client: Client) -> None:
    for n, method in enumerate((face.ours("nope"), face.unknown, "$/nope", "_odd/method", "")):
        assert problem_in(await client.request(n, method)) == face.problem("methodNotFound")


async def test_an_unexpected_exception_shows_nothing_of_itself(
    face: Face, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        client = await face.ready()
        for n, method in enumerate(("crash", "crashLater")):
            answer = await client.request(n, face.ours(f"fake/{method}"), "the prompt")
            assert problem_in(answer) == face.problem("internal")
            for hidden in ("the prompt", "Traceback", ".py"):
                assert hidden not in json.dumps(answer)
    assert "the prompt" not in caplog.text
    assert "ValueError" in caplog.text
    assert client.calls("window/showMessage") == []


async def test_an_id_that_is_open_is_not_open_twice_and_is_cancelled_once(face: Face, client: Client) -> None:
    for _ in range(2):
        client.ask(7, face.ours("fake/wait"))
    await fake_of(client).begun.wait()
    assert problem_in(await client.answer(7)) == face.problem("invalidRequest")
    face.cancel_request(client, 7)
    await client.stream.wait_until(lambda: len(client.answers(7)) == 2)
    assert problem_in(client.answers(7)[1]) == face.problem("cancelled")
    assert fake_of(client).cancelled == ["fake/wait"]


async def test_a_request_cancelled_in_its_own_tick_is_answered_and_its_work_ends(
    face: Face, client: Client
) -> None:
    client.ask(1, face.ours("fake/wait"))
    face.cancel_request(client, 1)
    assert problem_in(await client.answer(1)) == face.problem("cancelled")
    assert fake_of(client).cancelled == ["fake/wait"]


async def test_the_limits_of_a_connection_are_kept(face: Face) -> None:
    client = await face.ready(limits=Limits(max_body_bytes=10_000, max_in_flight=2))
    big = await client.request("big", face.ours("fake/echo"), "x" * 20_000)
    assert problem_in(big) == face.problem("messageTooLarge")
    for n in range(3):
        client.ask(n, face.ours("fake/wait"))
    busy = await client.answer(2)
    assert (problem_in(busy), busy["error"]["data"]["retryable"]) == (face.problem("overloaded"), True)


async def test_notifications_that_mean_nothing_are_ignored(face: Face, client: Client) -> None:
    cancel, member = face.cancel
    for params in (None, {}, {member: None}, {member: [1]}, {member: "unknown"}, [1], "x"):
        client.notify(cancel, params)
    for method in ("$/nope", "nope", "_odd/notification", "initialize", face.ours("status")):
        client.notify(method, {})
    assert (await client.request(1, face.ours("fake/echo"), 1))["result"] == 1
    assert (len(client.messages), fake_of(client).calls) == (2, [("sidecar/fake/echo", 1)])


async def test_many_requests_of_many_kinds_are_each_answered_once(face: Face, client: Client) -> None:
    names = ("status", "fake/echo", "fake/crash", "fake/crashLater", "fake/refuse", "fake/wait", "nope")
    for n in range(210):
        client.ask(n, face.ours(names[n % len(names)]), n)
    for n in range(0, 210, 3):
        face.cancel_request(client, n)
    fake_of(client).released.set()
    await client.stream.wait_until(lambda: len(client.messages) == 211)
    await asyncio.sleep(0)
    assert [len(client.answers(n)) for n in range(210)] == [1] * 210


async def test_ten_thousand_notifications_leave_no_task_and_no_future_behind(face: Face) -> None:
    client = await face.ready({})
    notifications: tuple[tuple[str, Any], ...] = (
        (face.cancel[0], {face.cancel[1]: 7}),
        ("session/cancel", {"sessionId": "unknown"}),
        ("_vendor/note", {"x": 1}),
        ("no/such", None),
        ("session/cancel", None),
        (
            "textDocument/didChange",
            {"textDocument": {"uri": "file:///p/n", "version": 2}, "contentChanges": []},
        ),
        ("workspace/didChangeWatchedFiles", {"changes": [{"uri": "file:///p/n", "type": 2}]}),
        ("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": []}}),
        ("window/workDoneProgress/cancel", {"token": "w"}),
    )
    document = {"uri": "file:///p/n", "languageId": "x", "version": 1, "text": "a"}
    client.notify("textDocument/didOpen", {"textDocument": document})
    await client.request("before", "textDocument/codeLens")  # which waits for the language server
    tasks, n_futures = asyncio.all_tasks(), len(pending_futures())
    for n in range(10_000):
        client.notify(*notifications[n % len(notifications)])
    await client.request("after", face.ours("fake/echo"))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= tasks
    assert len(pending_futures()) <= n_futures
    await client.connection.aclose(1)


def pending_futures() -> list[asyncio.Future[Any]]:
    """Return the futures of this process that are not settled."""
    return [each for each in gc.get_objects() if isinstance(each, asyncio.Future) and not each.done()]


@pytest.mark.parametrize(
    ("ours", "n_expected"), [(None, 0), ({}, 1), ({"events": {"optOut": [CHANGED, "textDelta"]}}, 0)]
)
async def test_our_notifications_are_for_clients_of_ours_that_want_them(
    face: Face, ours: Any, n_expected: int
) -> None:
    client = await face.ready(ours)
    await client.request(1, face.ours("fake/notify"), {"method": CHANGED, "params": {}})
    assert len(client.calls(f"{face.prefix}{CHANGED}")) == n_expected


@pytest.mark.parametrize(("ours", "expected"), [(None, []), ({}, [{"reason": "SIGTERM", "inMs": 2000}])])
async def test_the_end_is_announced_to_clients_of_ours_and_ends_the_connection(
    face: Face, ours: Any, expected: list[Any]
) -> None:
    client = await face.ready(ours)
    await client.request(1, face.ours("fake/echo"))
    client.connection.announce_end("SIGTERM", 2.0)
    await client.connection.aclose(1)
    assert [call["params"] for call in client.calls(face.ours("closing"))] == expected
    assert client.port.is_closed


async def test_every_client_has_a_connection_of_its_own_over_one_service(face: Face) -> None:
    service = FakeService()
    clients = [await face.ready(service=service) for _ in range(2)]
    for n, client in enumerate(clients):
        assert (await client.request(1, face.ours("fake/echo"), n))["result"] == n
    clients[0].stream.hang_up()
    await clients[0].connection.wait_ended()
    await clients[0].connection.aclose(1)
    assert (await clients[1].request(3, face.ours("status")))["result"]["clients"] == 2
    assert [connection.is_closed for connection in service.connections] == [True, False]
    assert service.n_closed == 0


# Questions to a user.


@dataclass(frozen=True)
class Way:
    """One way to put a question to a user: the features that a client declares, and the method then."""

    face: Face
    ours: Any
    method: str

    async def client(self) -> Client:
        return await self.face.ready(self.ours)


def chosen(option: Any) -> dict[str, Any]:
    return {"outcome": "selected", "optionId": option}


IN_FULL = Way(LSP, {"permission": {}}, "sidecar/permission/request")
WITH_BUTTONS = Way(LSP, None, "window/showMessageRequest")
IN_A_PANEL = Way(ACP, None, "session/request_permission")
CANCELLED = {"outcome": "cancelled"}
REPLIES: tuple[tuple[Way, str | None, tuple[Any, ...]], ...] = (
    (IN_FULL, "yes", (chosen("yes"),)),
    (IN_FULL, "no", (chosen("no"),)),
    (WITH_BUTTONS, "yes", ({"title": "Allow"},)),
    (WITH_BUTTONS, "no", ({"title": "Reject"},)),
    (IN_A_PANEL, "yes", ({"outcome": chosen("yes")},)),
    (IN_A_PANEL, "no", ({"outcome": chosen("no")},)),
    (IN_FULL, None, (CANCELLED, chosen("other"), {"outcome": "selected"}, {"outcome": "odd"})),
    (IN_FULL, None, (None, "yes", [])),
    (IN_FULL, None, ({**chosen("yes"), "hunks": [{"diff": 0, "hunk": "1", "accepted": False}]},)),
    (IN_FULL, None, ({**chosen("yes"), "hunks": [{"diff": 0, "hunk": 1, "accepted": "no"}]},)),
    (IN_FULL, None, ({**chosen("yes"), "hunks": {"0": False}},)),
    (WITH_BUTTONS, None, (None, {}, {"title": "Other"}, {"title": [1]}, "Allow")),
    (
        IN_A_PANEL,
        None,
        ({"outcome": CANCELLED}, {"outcome": "selected"}, {"outcome": {"outcome": "selected"}}),
    ),
    (IN_A_PANEL, None, ({"outcome": chosen("other")}, {"outcome": chosen(["yes"])})),
    (IN_A_PANEL, None, (chosen("yes"), {}, None, "yes")),
)
ANSWERS = [(way, reply, option) for way, option, replies in REPLIES for reply in replies]
"""Replies of a user, and the option that each chooses, None for no clear choice."""


@pytest.mark.parametrize(("way", "reply", "option"), ANSWERS)
async def test_a_clear_choice_counts_and_all_else_is_cancelled(
    way: Way, reply: Any, option: str | None
) -> None:
    client = await way.client()
    client.ask(1, way.face.ours("fake/ask"))
    client.reply((await client.call(way.method))["id"], reply)
    expected = CANCELLED if option is None else chosen(option)
    assert (await client.answer(1))["result"] == expected
    changes = [call["params"]["update"] for call in client.calls("session/update")]
    is_running = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}
    assert changes == ([is_running] if way is IN_A_PANEL and option == "yes" else [])


HUNKS = [{"diff": 0, "hunk": 1, "accepted": False}]


@pytest.mark.parametrize(
    ("way", "reply"),
    [
        pytest.param(IN_FULL, {**chosen("yes"), "hunks": HUNKS}, id="beside the choice"),
        pytest.param(
            IN_A_PANEL, {"outcome": chosen("yes"), "_meta": {"sidecar": {"hunks": HUNKS}}}, id="in the meta"
        ),
    ],
)
async def test_parts_of_a_change_are_answered_apart(way: Way, reply: Any) -> None:
    client = await way.client()
    client.ask(1, way.face.ours("fake/ask"))
    client.reply((await client.call(way.method))["id"], reply)
    assert (await client.answer(1))["result"] == {**chosen("yes"), "hunks": HUNKS}


@pytest.mark.parametrize("way", [IN_FULL, WITH_BUTTONS, IN_A_PANEL])
async def test_a_client_that_errs_or_leaves_has_not_answered_and_an_expired_question_is_withdrawn(
    way: Way,
) -> None:
    client = await way.client()
    await client.request(1, way.face.ours("fake/echo"))
    one, two, three = (asyncio.ensure_future(client.port.sink.request_permission(QUESTION)) for _ in range(3))
    calls = [await client.call(way.method, n) for n in (1, 2, 3)]
    client.send({"jsonrpc": "2.0", "id": calls[0]["id"], "error": {"code": -32601, "message": "no"}})
    assert await one == PermissionAnswer("cancelled")
    two.cancel()
    method, member = way.face.cancel
    assert (await client.call(method))["params"] == {member: calls[1]["id"]}
    client.stream.vanish()
    assert await three == PermissionAnswer("cancelled")


BOTH_FORMS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
FORM_IN_FULL = Way(LSP, BOTH_FORMS, "sidecar/elicit")
OPTIONS_IN_A_PANEL = Way(ACP, None, "session/request_permission")
ACCEPT, CANCEL = ElicitationAnswer("accept", {"q1": "SQLite"}), ElicitationAnswer("cancel")
ACCEPTED = {"action": "accept", "content": {"q1": "SQLite"}}


@pytest.mark.parametrize(
    ("way", "form", "reply", "expected"),
    [
        pytest.param(FORM_IN_FULL, FORM, ACCEPTED, ACCEPT, id="a form"),
        pytest.param(FORM_IN_FULL, SIGN_IN, ACCEPTED, ACCEPT, id="an address"),
        *(
            pytest.param(FORM_IN_FULL, FORM, reply, None, id=f"another reply, {reply}")
            for reply in (None, "yes", {}, {"action": 1})
        ),
        pytest.param(
            FORM_IN_FULL,
            FORM,
            {"action": "accept", "content": [1]},
            ElicitationAnswer("accept"),
            id="content of another shape",
        ),
        pytest.param(WITH_BUTTONS, FORM, {"title": "SQLite"}, ACCEPT, id="a button"),
        pytest.param(WITH_BUTTONS, FORM, None, CANCEL, id="closed"),
        pytest.param(WITH_BUTTONS, FORM, {"title": "Oracle"}, None, id="no button"),
        pytest.param(
            WITH_BUTTONS,
            SIGN_IN,
            {"title": "Done"},
            ElicitationAnswer("accept", {}),
            id="a button of an address",
        ),
        pytest.param(OPTIONS_IN_A_PANEL, FORM, {"outcome": chosen("1")}, ACCEPT, id="an option"),
        pytest.param(
            OPTIONS_IN_A_PANEL,
            FORM,
            {"outcome": chosen("decline")},
            ElicitationAnswer("decline"),
            id="the option of no answer",
        ),
        pytest.param(OPTIONS_IN_A_PANEL, FORM, {"outcome": CANCELLED}, CANCEL, id="closed in a panel"),
        pytest.param(OPTIONS_IN_A_PANEL, FORM, {"outcome": chosen("7")}, None, id="no option"),
        pytest.param(OPTIONS_IN_A_PANEL, FORM, {}, None, id="another reply of a panel"),
    ],
)
async def test_a_form_is_answered_as_far_as_the_client_can_show_it(
    way: Way, form: Elicitation, reply: Any, expected: ElicitationAnswer | None
) -> None:
    client = await way.client()
    await client.request(1, way.face.ours("fake/echo"))
    asking = asyncio.ensure_future(client.port.sink.elicit(form))
    call = await client.call(way.method)
    client.reply(call["id"], reply)
    assert await asking == expected
    match call["params"]:
        case {"toolCall": {"title": title}, "options": options}:
            names = [option["name"] for option in options]
            assert (title, names) == ("Which database?", ["Postgres", "SQLite", "No answer"])
        case {"actions": _, "message": message}:
            assert (form.url or form.message) in message
        case params:
            assert params == to_wire(form)


@pytest.mark.parametrize(
    ("face", "ours", "form"),
    [
        pytest.param(LSP, None, replace(FORM, schema={"properties": {"q1": {"type": "string"}}}), id="text"),
        pytest.param(LSP, {}, FORM, id="a client of ours without forms"),
        pytest.param(LSP, {"elicitation": {"form": {}}}, SIGN_IN, id="only forms"),
        pytest.param(ACP, None, replace(FORM, schema={"properties": {"q1": {}}}), id="text in a panel"),
    ],
)
async def test_a_form_that_a_client_cannot_show_has_no_answer(
    face: Face, ours: Any, form: Elicitation
) -> None:
    client = await face.ready(ours)
    await client.request(1, face.ours("fake/echo"))
    assert await client.port.sink.elicit(form) is None


async def test_a_client_that_leaves_leaves_the_form_open() -> None:
    client = await FORM_IN_FULL.client()
    await client.request(1, "sidecar/fake/echo")
    asking = asyncio.ensure_future(client.port.sink.elicit(FORM))
    await client.call(FORM_IN_FULL.method)
    client.stream.vanish()
    for _ in range(9):
        await asyncio.sleep(0)
    assert not asking.done()
    asking.cancel()
