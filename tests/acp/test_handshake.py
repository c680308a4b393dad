"""The handshake: the version, the declarations, and the messages before and after it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from fake_panel import FAKE_AGENT, FakePanel
from sidecar.acp.handshake import profile_of
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
    values = {field.name: getattr(NOBODY, field.name) for field in fields(NOBODY)}
    known = {"version": 1, "name": "", "features": None, "options": {}}
    assert values == dict.fromkeys(values, False) | known


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
