"""The handshake: the version, the declarations, and the messages before and after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fake_panel import FAKE_AGENT, FakePanel
from sidecar.acp.handshake import AcpProfile, profile_of
from sidecar.protocol.handshake import ClientFeatures, advertise

NOBODY = profile_of({"protocolVersion": 1})


@pytest.mark.parametrize("version", [0, 1, 2, 3, 65535, -1])
async def test_the_answer_is_the_newest_version_spoken_here(panel: FakePanel, version: int) -> None:
    """A version that is not spoken is never echoed."""
    answer = await panel.initialize(version=version)
    assert answer["result"]["protocolVersion"] == 1


async def test_what_the_agent_declares(panel: FakePanel) -> None:
    steering = {"supported": True}
    ours = advertise(FAKE_AGENT.server, max_message_bytes=64 * 1024 * 1024, max_in_flight=1024)
    sessions: dict[str, Any] = {
        name: {}
        for name in ("list", "resume", "close", "delete", "fork", "additionalDirectories", "systemPrompt")
    }
    assert (await panel.initialize())["result"] == {
        "protocolVersion": 1,
        "agentInfo": {"name": "sidecar", "title": "Sidecar", "version": "0"},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": sessions,
            "auth": {},
            "_meta": {"sidecar": ours, "steering": steering},
        },
        "authMethods": [],
        "_meta": {"steering": steering},
    }


@pytest.mark.parametrize("version", [None, "1", 1.5, True, [1]])
async def test_a_version_is_an_integer(panel: FakePanel, version: Any) -> None:
    answer = await panel.initialize(version=version)
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32602, "invalidParams")


async def test_a_client_that_was_refused_may_try_again(panel: FakePanel) -> None:
    await panel.request(1, "initialize", {})
    assert "result" in await panel.initialize()


async def test_nothing_is_answered_before_the_handshake(panel: FakePanel) -> None:
    answer = await panel.request(1, "session/new", {"cwd": "/", "mcpServers": []})
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32600, "notInitialized")


async def test_there_is_one_handshake(panel: FakePanel) -> None:
    await panel.initialize()
    answer = await panel.request(1, "initialize", {"protocolVersion": 1})
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32600, "alreadyInitialized")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({}, {}, id="nothing is declared"),
        pytest.param(
            {"clientInfo": {"name": "Zed", "version": "1"}}, {"name": "Zed"}, id="the client's own name"
        ),
        pytest.param({"clientInfo": {"name": 7}}, {}, id="a name is a string"),
        pytest.param(
            {"clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}}},
            {"reads_files": True, "writes_files": True},
            id="files",
        ),
        pytest.param(
            {"clientCapabilities": {"fs": {"readTextFile": 1, "writeTextFile": "yes"}}},
            {},
            id="only true is true",
        ),
        pytest.param(
            {"clientCapabilities": {"session": {"notices": {}, "compaction": {}}, "plan": {}}},
            {"takes_notices": True, "takes_compactions": True, "takes_plans": True},
            id="the younger updates",
        ),
        pytest.param(
            {"clientCapabilities": {"session": {"notices": None, "compaction": True}}},
            {},
            id="which are declared by an object",
        ),
        pytest.param(
            {"clientCapabilities": "odd", "clientInfo": [], "_meta": 3}, {}, id="odd shapes are not declared"
        ),
        pytest.param(
            {"clientCapabilities": {"_meta": {"sidecar": {"protocol": 1}}}},
            {"features": ClientFeatures()},
            id="a client of ours",
        ),
        pytest.param(
            {"_meta": {"sidecar": {"models": {}}}}, {"options": {"models": {}}}, id="options for the daemon"
        ),
    ],
)
def test_what_a_client_declares(params: dict[str, Any], expected: dict[str, Any]) -> None:
    found = profile_of({"protocolVersion": 1, **params})
    assert found == replace(NOBODY, **expected)


def test_a_client_that_declares_nothing_has_nothing() -> None:
    assert (
        AcpProfile(
            version=1,
            name="",
            takes_notices=False,
            takes_compactions=False,
            takes_plans=False,
            takes_subagents=False,
            reads_files=False,
            writes_files=False,
            runs_commands=False,
            shows_forms=False,
            shows_urls=False,
            features=None,
            options={},
        )
        == NOBODY
    )


async def test_the_backend_is_opened_once_the_answer_is_out(panel: FakePanel) -> None:
    n_messages_at_opening: list[int] = []
    panel.on_open = lambda options: n_messages_at_opening.append(len(panel.messages))
    await panel.initialize()
    await panel.request(1, "_sidecar/fake/echo", {})
    assert n_messages_at_opening == [1]


async def test_options_are_taken_before_the_answer(panels: Callable[..., FakePanel]) -> None:
    panel = panels()
    await panel.initialize(_meta={"sidecar": {"models": {}}})
    assert panel.opened == [{"models": {}}]


async def test_wrong_options_refuse_the_client(stage: Any) -> None:
    panel = stage.make_panel(service=stage.daemon.service, workspace=stage.daemon.workspace)
    panel.on_open = stage.daemon.configure
    answer = await panel.initialize(_meta={"sidecar": {"models": {"m": 1}}})
    assert answer["error"]["data"]["kind"] == "invalidParams"


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("authenticate", "invalidParams"),
        ("logout", "methodNotFound"),
        ("session/odd", "methodNotFound"),
        ("sidecar/status", "methodNotFound"),
        ("_odd/method", "methodNotFound"),
        ("_sidecar/odd", "methodNotFound"),
    ],
)
async def test_an_unknown_method_is_refused(panel: FakePanel, method: str, kind: str) -> None:
    await panel.initialize()
    answer = await panel.request(1, method, {"methodId": "key"})
    code = {"invalidParams": -32602, "methodNotFound": -32601}[kind]
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (code, kind)


async def test_unknown_notifications_are_ignored(panel: FakePanel) -> None:
    panel.notify("session/cancel", {"sessionId": "before the handshake"})
    await panel.initialize()
    panel.notify("_odd/notification", {"a": 1})
    panel.notify("$/odd")
    panel.notify("session/cancel", {"sessionId": "unknown"})
    panel.notify("session/cancel", {})
    panel.notify("session/cancel")
    panel.notify("$/cancel_request", {"requestId": "unknown"})
    panel.notify("$/cancel_request", [])
    assert (await panel.request(1, "_sidecar/fake/echo", {"a": 1}))["result"] == {"a": 1}


async def test_our_own_notifications_are_for_clients_of_ours(panels: Callable[..., FakePanel]) -> None:
    cases: list[tuple[dict[str, Any], int]] = [({}, 0), ({"_meta": {"sidecar": {}}}, 1)]
    for declared, expected in cases:
        panel = panels()
        await panel.initialize(declared)
        note = {"method": "sidecar/sessions/changed", "params": {}}
        await panel.request(1, "_sidecar/fake/notify", note)
        assert len(panel.calls("_sidecar/sessions/changed")) == expected


async def test_a_client_may_opt_out_of_a_notification(panel: FakePanel) -> None:
    events = {"optOut": ["sidecar/sessions/changed"]}
    await panel.initialize({"_meta": {"sidecar": {"events": events}}})
    await panel.request(1, "_sidecar/fake/notify", {"method": "sidecar/sessions/changed", "params": {}})
    assert panel.calls("_sidecar/sessions/changed") == []


async def test_the_end_is_announced_to_clients_of_ours(panel: FakePanel) -> None:
    await panel.initialize({"_meta": {"sidecar": {}}})
    await panel.request(1, "_sidecar/fake/echo", {})
    panel.connection.announce_end("SIGTERM", 2.0)
    await panel.connection.aclose(1.0)
    assert panel.calls("_sidecar/closing")[0]["params"] == {"reason": "SIGTERM", "inMs": 2000}
    assert panel.port.is_closed
