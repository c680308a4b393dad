"""A panel sees a sub-agent as a session below its parent, or as a session that it may load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.acp.conftest import Stage


def call(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the answer of a model that calls one tool."""
    return [{"toolCall": {"name": tool, "input": arguments, "id": "c1"}}]


TASK = call("task", title="Look", prompt="Look around.")
SAYS = [{"text": "found it"}]
DONE = [{"text": "done"}]


def updates_of(stage: Stage, sid: str) -> list[dict[str, Any]]:
    """Return the updates of one session, in order."""
    return [
        message["params"]["update"]
        for message in stage.panel.messages
        if message.get("method") == "session/update" and message["params"]["sessionId"] == sid
    ]


async def test_a_panel_that_takes_subagents_sees_the_child_and_its_messages_by_themselves(
    stage: Stage,
) -> None:
    await stage.open({"subagents": {}})
    sid = await stage.session(TASK, SAYS, DONE)
    await stage.run(1, sid)
    begun, ended = stage.panel.updates("subagent_update")
    child = begun["sessionId"]
    assert (begun["title"], begun["capabilities"]) == ("Look", {"cancel": {}})
    assert begun["state"] == {"state": "running"}
    assert begun["_meta"]["sidecar"]["subagent"]["toolCallId"] == "c1"
    assert (ended["sessionId"], ended["state"]) == (child, {"state": "idle", "stopReason": "end_turn"})
    updates = [each["params"] for each in stage.panel.messages if each.get("method") == "session/update"]
    announced = next(at for at, each in enumerate(updates) if each["update"] == begun)
    assert [each for each in updates[:announced] if each["sessionId"] == child] == []
    told = [each for each in updates_of(stage, child) if "content" in each]
    texts = ["Your task:\n\nLook around.", "found it"]
    assert [(each["sessionUpdate"], each["content"]["text"]) for each in told] == [
        ("user_message_chunk", texts[0]),
        ("agent_message_chunk", texts[1]),
    ]


async def test_a_panel_cancels_a_child_and_the_parent_goes_on(stage: Stage) -> None:
    await stage.open({"subagents": {}})
    sid = await stage.session(TASK, [{"text": "half"}, {"hang": True}], DONE)
    stage.prompt(1, sid)
    child = (await stage.panel.update("subagent_update"))["sessionId"]
    await stage.panel.update("agent_message_chunk")
    stage.panel.notify("session/cancel", {"sessionId": child})
    assert (await stage.panel.answer(1))["result"]["stopReason"] == "end_turn"
    _, ended = stage.panel.updates("subagent_update")
    assert ended["state"] == {"state": "idle", "stopReason": "cancelled"}


async def test_a_panel_that_takes_none_finds_the_session_at_the_call_and_loads_it(stage: Stage) -> None:
    sid = await stage.session(TASK, SAYS, DONE)
    await stage.run(1, sid)
    assert stage.panel.updates("subagent_update") == []
    linked = [each for each in stage.panel.updates("tool_call_update") if "subagent" in _ours(each)]
    assert {each["toolCallId"] for each in linked} == {"c1"}
    child = _ours(linked[0])["subagent"]["child"]
    params = {"sessionId": child, "cwd": str(stage.folder), "mcpServers": []}
    loaded = (await stage.call("session/load", params))["result"]
    assert loaded["_meta"]["sidecar"]["snapshot"]["parent"] == sid
    assert updates_of(stage, child)[1]["content"]["text"] == "found it"
    listed = (await stage.call("session/list"))["result"]["sessions"]
    assert [each["sessionId"] for each in listed] == [sid]


def _ours(update: dict[str, Any]) -> dict[str, Any]:
    ours: dict[str, Any] = update.get("_meta", {}).get("sidecar", {})
    return ours
