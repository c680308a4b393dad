"""Clients of another daemon at the sessions of this one: what a link may ask for, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from memory_stream import MemoryClient
from sidecar.llmgateway.scripted import Say
from sidecar.service.relay import GuestClient

DECIDED_HERE = "what runs unasked is decided on the machine that has the session open"


def prompt(text: str) -> dict[str, Any]:
    return {"input": [{"type": "text", "text": text}]}


class Link:
    """The other end of a link to a daemon, which has the session *sid* open."""

    def __init__(self, desk: Any, sid: str) -> None:
        self._far = MemoryClient()
        self._sid = sid
        self._n_sent = 0
        self.guest = GuestClient(desk.daemon.service, self._far.stream, "afar", speaks_ours=True)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer of the daemon: its ``result`` or its ``error``."""
        self._n_sent += 1
        given = {"method": f"sidecar/{method}", "params": {"sid": self._sid, **params}}
        answer: dict[str, Any] = (await self._far.request(self._n_sent, "relay", given))["result"]
        return answer


@pytest.fixture
async def desk(make_desk: Any) -> Any:
    return make_desk([[Say("done")]], repeat=True)


@pytest.fixture
async def link(desk: Any) -> Link:
    return Link(desk, await desk.talk(desk.client()))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/setConfigOption", {"configId": "permissions", "value": "allowAll"}),
        ("permission/rules", {"set": {"effect": "allow", "rule": "git push"}}),
        ("turn/run", {**prompt("hello"), "allow": ["git push"]}),
        ("turn/run", prompt("/permissions allowAll")),
        ("turn/run", prompt(" /permissions\tallow git push\n")),
        ("turn/start", prompt("/permissions deny git push")),
        ("turn/steer", {**prompt("/permissions remove git push"), "expectTurnId": "t"}),
        ("queue/edit", {**prompt("/permissions plan"), "itemId": "i"}),
    ],
)
async def test_no_request_and_no_command_decides_what_runs_unasked(
    link: Link, desk: Any, method: str, params: dict[str, Any]
) -> None:
    assert (await link.ask(method, **params))["error"]["message"] == DECIDED_HERE
    (session,) = desk.daemon.service.hub.sessions
    assert session.permission_rules.mode == "ask"
    assert {rule.source for rule in await session.permission_rules.list()} == {
        "builtIn", "session", "workspace",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/load", {"mcpServers": [{"name": "x", "command": "touch", "args": ["here"]}]}),
        ("session/fork", {"mcpServers": [{"name": "x", "command": "touch", "args": ["here"]}]}),
        ("session/load", {"cwd": "/"}),
        ("session/fork", {"cwd": "/"}),
        ("session/fork", {"roots": ["/"]}),
        ("session/export", {"path": "/nowhere/new.md"}),
    ],
)
async def test_no_request_starts_programs_opens_folders_or_writes_files(
    link: Link, desk: Any, method: str, params: dict[str, Any]
) -> None:
    assert (await link.ask(method, **params))["error"]["message"] == DECIDED_HERE
    assert len(desk.daemon.service.hub.sessions) == 1


async def test_a_session_is_forked_in_its_own_folder_and_exported_as_text(link: Link, desk: Any) -> None:
    await link.ask("turn/run", **prompt("hello"))
    forked = await link.ask("session/fork", cwd=str(desk.folder), roots=[], mcpServers=[])
    assert forked["result"]["sid"] in {session.sid for session in desk.daemon.service.hub.sessions}
    assert "hello" in (await link.ask("session/export"))["result"]["text"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/permissions", "ask"),
        ("/permissions rules", "Reading and searching"),
        ("/permissions test git push", "git push: asks"),
        ("/permissionsallowAll", "done"),
        ("say /permissions allowAll", "done"),
    ],
)
async def test_permissions_can_be_read_and_written_about(link: Link, text: str, answer: str) -> None:
    assert answer in (await link.ask("turn/run", **prompt(text)))["result"]["text"]


async def test_a_malformed_request_is_an_error_of_the_request(link: Link) -> None:
    for params in ({"input": 5}, {"input": [5]}, {"sid": None}):
        assert (await link.ask("turn/run", **params))["error"]["kind"] == "invalidParams"
