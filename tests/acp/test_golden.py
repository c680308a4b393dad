"""The golden messages of the protocol: those of clients are read, those of agents are the ones we send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from fake_service import QUESTION
from sidecar._internal.errors import InvalidInput
from sidecar.acp.handshake import profile_of
from sidecar.acp.sessions import content, further_roots, session_id, text
from sidecar.acp.shapes import diff_content, text_content
from sidecar.acp.updates import UpdateMapperV1
from sidecar.conductor.content import content_to_prompt
from sidecar.workspace.contract import FileAccessError

if TYPE_CHECKING:
    from tests.acp.conftest import Stage


@pytest.fixture(scope="session")
def golden(material: Path) -> dict[str, Any]:
    """Return every golden message by its name."""
    folder = material / "acp-golden"
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}


def update_of(kind: str, /, seq: int = 1, **data: Any) -> dict[str, Any]:
    """Return the update of an event."""
    event = {"sid": "s", "seq": seq, "at": 0, "kind": kind, "data": data}
    return next(iter(UpdateMapperV1(notices=False, compactions=False).updates(event)))


def read_prompt(message: Any) -> int:
    assert session_id(message)
    return len(content_to_prompt(content(message)))


def read_block(message: Any) -> int:
    return len(content_to_prompt([message]))


CLIENT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "initialize_request": (lambda message: profile_of(message).writes_files, True),
    "new_session_request": (
        lambda message: (text(message, "cwd"), further_roots(message)),
        ("/home/user/project", []),
    ),
    "prompt_request": (read_prompt, 2),
    "cancel_notification": (session_id, "sess_abc123def456"),
    "content_text": (read_block, 1),
    "content_image": (lambda block: read_block(block | {"data": block["data"].rstrip(".")}), 1),
    "content_resource_text": (read_block, 1),
    "content_resource_blob": (read_block, 1),
    "content_resource_link": (read_block, 1),
}
"""The messages of clients: the function that reads each, and its result. The image is abridged there."""

CONFIG = [{"path": "/home/user/project/src/config.json"}]


def tool(event: str, call_id: str = "call_001", /, **fields: Any) -> dict[str, Any]:
    """Return the update of an event of a tool, which has no places unless *fields* name them."""
    call: dict[str, Any] = {"name": "read", "locations": [], "isError": False, "toolCallId": call_id}
    return update_of(event, **(call | fields))


AGENT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "session_update_user_message_chunk": (
        update_of("userMessage", seq=0, content=[{"type": "text", "text": "What's the capital of France?"}]),
        set(),
    ),
    "session_update_agent_message_chunk": (
        update_of("textDelta", messageId="m", delta="The capital of France is Paris."),
        set(),
    ),
    "session_update_agent_thought_chunk": (
        update_of("thinkingDelta", messageId="m", delta="Thinking about best approach..."),
        set(),
    ),
    "session_update_plan": (
        update_of(
            "plan",
            entries=[
                {"content": "Check for syntax errors", "priority": "high", "status": "pending"},
                {"content": "Identify potential type issues", "priority": "medium", "status": "pending"},
            ],
        ),
        set(),
    ),
    "session_update_tool_call": (
        tool("toolStarted", title="Reading configuration file", kind="read"),
        {"status"},
    ),
    "session_update_tool_call_read": (
        tool(
            "toolStarted",
            title="Reading configuration file",
            kind="read",
            locations=CONFIG,
            input=CONFIG[0],
        ),
        {"status"},
    ),
    "session_update_tool_call_edit": (
        tool(
            "toolStarted",
            "call_003",
            title="Apply edit",
            kind="edit",
            locations=CONFIG,
            input={**CONFIG[0], "content": "print('hello')"},
        ),
        {"status"},
    ),
    "session_update_tool_call_locations_rawinput": (
        tool("toolStarted", "call_lr", title="Tracking file", kind="edit", locations=CONFIG, input=CONFIG[0]),
        set(),
    ),
    "session_update_tool_call_update_content": (
        update_of("toolProgress", toolCallId="call_001", content="Found 3 configuration files..."),
        set(),
    ),
    "session_update_tool_call_update_more_fields": (
        tool(
            "toolFinished",
            "call_010",
            title="Processing changes",
            kind="edit",
            locations=CONFIG,
            content={"result": "ok"},
        ),
        {"content", "rawInput"},
    ),
    "tool_content_content_text": (text_content("Analysis complete. Found 3 issues."), set()),
    "tool_content_diff": (
        diff_content(
            {
                "path": "/home/user/project/src/config.json",
                "oldText": '{\n  "debug": false\n}',
                "newText": '{\n  "debug": true\n}',
            }
        ),
        {"_meta"},
    ),
    "tool_content_diff_no_old": (
        diff_content({"path": "/home/user/project/src/config.json", "newText": '{\n  "debug": true\n}'}),
        {"_meta"},
    ),
}
"""The messages of agents: ours for the same, and the fields that differ in ours."""

DIALOGUE = {
    "initialize_response",
    "new_session_response",
    "request_permission_request",
    "request_permission_response_selected",
    "permission_outcome_selected",
    "permission_outcome_cancelled",
    "fs_read_text_file_request",
    "fs_read_text_file_response",
    "fs_write_text_file_request",
}
"""Messages that a test below takes up in a conversation."""

NOT_SPOKEN = {"content_audio", "tool_content_terminal"}
"""Content that this agent declares not to take, and content that it never sends."""


def test_every_golden_message_has_a_test(golden: dict[str, Any]) -> None:
    assert set(golden) == CLIENT.keys() | AGENT.keys() | DIALOGUE | NOT_SPOKEN


@pytest.mark.parametrize("name", CLIENT)
def test_a_message_of_a_client_is_read(golden: dict[str, Any], name: str) -> None:
    read, expected = CLIENT[name]
    assert read(golden[name]) == expected


@pytest.mark.parametrize("name", AGENT)
def test_our_message_is_the_golden_one(golden: dict[str, Any], name: str) -> None:
    ours, differing = AGENT[name]
    wanted = {key: value for key, value in golden[name].items() if key not in differing}
    assert {key: ours[key] for key in wanted} == wanted


def test_audio_is_refused_as_it_was_declared(golden: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="unknown type 'audio'"):
        content_to_prompt([golden["content_audio"]])


async def test_the_handshake_has_the_golden_shape(panel: FakePanel, golden: dict[str, Any]) -> None:
    result = (await panel.request(1, "initialize", golden["initialize_request"]))["result"]
    expected = golden["initialize_response"]
    assert expected.keys() <= result.keys()
    assert expected["agentCapabilities"].keys() <= result["agentCapabilities"].keys()


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("request_permission_response_selected", {"outcome": "cancelled"}),
        ("permission_outcome_cancelled", {"outcome": "cancelled"}),
    ],
)
async def test_a_permission_response_is_read(
    panel: FakePanel, golden: dict[str, Any], name: str, outcome: dict[str, Any]
) -> None:
    """The golden answer picks an option that was not on offer here: it counts as none."""
    await panel.initialize()
    panel.ask(1, "_sidecar/fake/ask")
    asked = await panel.call("session/request_permission")
    assert golden["request_permission_request"].keys() <= asked["params"].keys()
    assert golden["permission_outcome_selected"].keys() == {"outcome", "optionId"}
    reply = golden[name]
    panel.reply(asked["id"], reply if isinstance(reply["outcome"], dict) else {"outcome": reply})
    assert (await panel.answer(1))["result"] == outcome
    assert QUESTION.title == asked["params"]["toolCall"]["title"]


@pytest.fixture
async def lent(stage: Stage) -> Stage:
    """Return a stage whose panel lends its files, with one file."""
    (stage.folder / "main.py").write_text("saved")
    await stage.open({"fs": {"readTextFile": True, "writeTextFile": True}})
    await stage.session()
    return stage


async def test_a_file_is_read_in_the_golden_shape(lent: Stage, golden: dict[str, Any]) -> None:
    viewing = asyncio.ensure_future(lent.daemon.workspace.view(lent.folder / "main.py"))
    asked = await lent.panel.call("fs/read_text_file")
    assert asked["params"].keys() <= golden["fs_read_text_file_request"].keys()
    lent.panel.reply(asked["id"], golden["fs_read_text_file_response"])
    assert (await viewing).text == golden["fs_read_text_file_response"]["content"]


async def test_a_file_is_written_in_the_golden_shape(lent: Stage, golden: dict[str, Any]) -> None:
    path = lent.folder / "config.json"
    writing = asyncio.ensure_future(lent.daemon.workspace.write(path, "{}", expected_hash=None))
    asked = await lent.panel.call("fs/write_text_file")
    assert asked["params"].keys() == golden["fs_write_text_file_request"].keys()
    lent.panel.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32603, "message": "no"}})
    with pytest.raises(FileAccessError, match="did not accept"):
        await writing
