"""The draft of the protocol: its handshake, its prompts, and its updates for each kind of event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FAKE_AGENT, FakePanel, fake_agent
from reference_page import acp_updates
from sidecar.acp.draft import DraftUpdateMapper, diff_changes
from sidecar.acp.handshake import AgentInfo
from sidecar.acp.updates import UpdateMapperV1
from sidecar.commands.launch import agent_info
from sidecar.protocol.methods import EVENTS

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

AGENT = fake_agent("lsp", "acp1", "acp2", reaches_mcp=True)
HELLO = {"info": {"name": "panel", "version": "1"}, "capabilities": {}}
HANG: list[dict[str, Any]] = [{"text": "working"}, {"hang": True}]
TEXT = {"type": "text", "text": "hello"}
COMPACTION = {"compactionId": "c", "engine": "windowBudget", "trigger": "manual"}
CALL = {"toolCallId": "t", "name": "read", "title": "Read a", "kind": "read"}
CALLED: dict[str, Any] = {"sessionUpdate": "tool_call_update", **CALL, "locations": []}
CONTENT = {"type": "content", "content": TEXT}
ENTRY = {"content": "x", "status": "pending", "priority": "high"}
USAGE = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
NOTICE = {"severity": "error", "title": "No disk", "description": "in memory"}
HELP = {"name": "help", "description": "d"}


@pytest.mark.parametrize(
    ("agent", "asked", "version", "names"),
    [
        pytest.param(AGENT, 2, 2, {"info", "capabilities"}, id="switched on and asked for"),
        pytest.param(AGENT, 1, 1, {"agentInfo", "agentCapabilities", "_meta"}, id="not asked for"),
        pytest.param(AGENT, 65535, 2, {"info", "capabilities"}, id="the newest for an unknown version"),
        pytest.param(AGENT, 0, 1, {"agentInfo", "agentCapabilities", "_meta"}, id="older than the first"),
        pytest.param(FAKE_AGENT, 2, 1, {"agentInfo", "agentCapabilities", "_meta"}, id="not switched on"),
    ],
)
async def test_which_version_is_spoken(agent: AgentInfo, asked: int, version: int, names: set[str]) -> None:
    panel = FakePanel(agent=agent)
    result = (await panel.initialize(version=asked, **HELLO))["result"]
    assert result.pop("protocolVersion") == version
    assert result.pop("authMethods") == []
    assert set(result) == names


@pytest.mark.parametrize(("switch", "version"), [("1", 2), ("0", 1)], ids=["on", "off"])
async def test_the_draft_is_spoken_where_it_is_switched_on(
    monkeypatch: pytest.MonkeyPatch, switch: str, version: int
) -> None:
    monkeypatch.setenv("INDUSAGI_ACP_DRAFT", switch)
    panel = FakePanel(agent=agent_info())
    assert (await panel.initialize(version=2, **HELLO))["result"]["protocolVersion"] == version


async def test_the_answer_declares_the_capabilities_of_a_session() -> None:
    result = (await FakePanel(agent=AGENT).initialize(version=2, **HELLO))["result"]
    assert result["info"] == {"name": "sidecar", "title": "Sidecar", "version": "0"}
    assert result["capabilities"]["session"] == {
        "prompt": {"image": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}},
        "delete": {},
        "fork": {},
        "additionalDirectories": {},
    }


def updates_of(kind: str, data: Mapping[str, Any], *, seq: int = 7, turn_id: str | None = None) -> list[Any]:
    """Return the updates of an event, without the meta for our own clients."""
    event = {"sid": "s", "seq": seq, "at": 0, "kind": kind, "data": data}
    updates = DraftUpdateMapper().updates(event if turn_id is None else event | {"turnId": turn_id})
    return [{name: value for name, value in update.items() if name != "_meta"} for update in updates]


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        pytest.param("phase", {"phase": "compacting"}, [], id="a phase"),
        pytest.param(
            "userMessage",
            {"nodeId": "n", "content": [TEXT]},
            [{"sessionUpdate": "user_message", "messageId": "n", "content": [TEXT]}],
            id="a prompt",
        ),
        pytest.param(
            "textDelta",
            {"messageId": "m", "delta": "hello"},
            [{"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}],
            id="more of an answer",
        ),
        pytest.param(
            "thinkingDelta",
            {"messageId": "m", "delta": "hello"},
            [{"sessionUpdate": "agent_thought_chunk", "messageId": "m.thought", "content": TEXT}],
            id="more of a thought",
        ),
        pytest.param(
            "message",
            {"messageId": "m", "content": [{"type": "thinking", "text": "hello"}, TEXT]},
            [
                {"sessionUpdate": "agent_thought", "messageId": "m.thought", "content": [TEXT]},
                {"sessionUpdate": "agent_message", "messageId": "m", "content": [TEXT]},
            ],
            id="an answer, whole",
        ),
        pytest.param(
            "toolStarted",
            {**CALL, "input": {"path": "a"}, "locations": [{"path": "/a"}]},
            [CALLED | {"locations": [{"path": "/a"}], "status": "in_progress", "rawInput": {"path": "a"}}],
            id="a call",
        ),
        pytest.param(
            "toolProgress",
            {"toolCallId": "t", "content": "hello"},
            [{"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": CONTENT}],
            id="more of a call",
        ),
        pytest.param(
            "toolFinished",
            {**CALL, "content": "hello", "isError": True, "locations": []},
            [CALLED | {"status": "failed", "content": [CONTENT], "rawOutput": "hello"}],
            id="the end of a call",
        ),
        pytest.param(
            "toolFinished",
            {**CALL, "content": "hello", "isError": True, "isCancelled": True},
            [CALLED | {"status": "cancelled", "content": [CONTENT], "rawOutput": "hello"}],
            id="the end of a call that was cancelled",
        ),
        pytest.param(
            "rehydrated",
            {"files": [{"uri": "file:///a"}], "missing": []},
            [
                {
                    "sessionUpdate": "tool_call_update",
                    "toolCallId": "restored-s-7",
                    "title": "Read 1 file again",
                    "kind": "read",
                    "status": "completed",
                    "locations": [{"path": "/a"}],
                    "content": [{"type": "content", "content": {"type": "text", "text": "/a"}}],
                }
            ],
            id="files that came back are a call that read them",
        ),
        pytest.param(
            "plan",
            {"entries": [ENTRY | {"status": "dropped"}]},
            [
                {
                    "sessionUpdate": "plan_update",
                    "plan": {"type": "items", "planId": "plan-s", "entries": [ENTRY]},
                }
            ],
            id="a plan",
        ),
        pytest.param(
            "usage",
            {"used": 1, "window": 2, "cost": 0.5},
            [USAGE | {"cost": {"amount": 0.5, "currency": "USD"}}],
            id="usage",
        ),
        *(
            pytest.param(
                "compaction",
                {**COMPACTION, "status": status, **given},
                [{"sessionUpdate": "compaction_update", "compactionId": "c", "status": shown, **expected}],
                id=f"a compaction, {status}",
            )
            for status, given, shown, expected in (
                ("completed", {"summary": "hello"}, "completed", {"summary": [TEXT]}),
                ("failed", {"error": "no room"}, "failed", {"error": "no room"}),
                ("undone", {"summary": "hello"}, "completed", {"summary": None}),
            )
        ),
        pytest.param(
            "compactionSummaryDelta",
            {"compactionId": "c", "delta": "hello"},
            [{"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT}],
            id="more of a summary",
        ),
        pytest.param("notice", NOTICE, [{"sessionUpdate": "notice", **NOTICE}], id="a notice"),
        pytest.param(
            "configChanged",
            {"configOptions": [{"id": "model", "name": "Model"}]},
            [
                {
                    "sessionUpdate": "config_option_update",
                    "configOptions": [{"configId": "model", "name": "Model"}],
                }
            ],
            id="the options",
        ),
        pytest.param(
            "commandsChanged",
            {"commands": [HELP, {"name": "fork", "description": "d", "hint": "h"}]},
            [
                {
                    "sessionUpdate": "available_commands_update",
                    "availableCommands": [
                        HELP,
                        {"name": "fork", "description": "d", "input": {"type": "text", "hint": "h"}},
                    ],
                }
            ],
            id="the commands",
        ),
        pytest.param("headMoved", {"head": None}, [{"sessionUpdate": "session_info_update"}], id="an aside"),
        pytest.param(
            "settled", {"stopReason": "cancelled", "turnId": "t"}, [], id="the end of a turn that never ran"
        ),
        pytest.param("_new", {}, [], id="an unknown kind"),
    ],
)
def test_the_updates_of_an_event(kind: str, data: dict[str, Any], expected: list[Any]) -> None:
    ends = {"turn_id": data["turnId"]} if kind == "settled" else {}
    assert updates_of(kind, data, **ends) == expected


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        pytest.param("settled", {"stopReason": "end_turn"}, {"stopReason": "end_turn"}, id="well"),
        pytest.param(
            "faulted",
            {"kind": "turnBudget", "message": "m"},
            {"stopReason": "max_turn_requests"},
            id="out of requests",
        ),
        pytest.param(
            "faulted",
            {"kind": "authRequired", "message": "no key"},
            {
                "stopReason": "error",
                "error": {"code": -32000, "message": "no key", "data": {"kind": "authRequired"}},
            },
            id="failed",
        ),
    ],
)
def test_the_end_of_a_turn(kind: str, data: dict[str, Any], expected: dict[str, Any]) -> None:
    mapper = DraftUpdateMapper()
    event = {"sid": "s", "seq": 1, "at": 0, "turnId": "t"}
    assert list(mapper.updates(event | {"kind": "phase", "data": {}})) == [state("running")]
    other = {**event, "turnId": "u", "kind": "settled", "data": {"stopReason": "cancelled"}}
    assert list(mapper.updates(other)) == [], "a prompt removed from the queue ends no turn"
    (update,) = mapper.updates(event | {"kind": kind, "data": data})
    assert update == state("idle") | expected | {"_meta": {"sidecar": {**data, "seq": 1}}}


def test_a_stopped_turn_of_the_past_has_a_mark_behind_it() -> None:
    data = {"stopReason": "cancelled"}
    event = {"sid": "s", "seq": 0, "at": 0, "turnId": "t", "kind": "settled", "data": data}
    (update,) = DraftUpdateMapper().updates(event)
    assert (update["sessionUpdate"], update["title"]) == ("notice", "The turn was stopped")


def state(name: str) -> dict[str, str]:
    return {"sessionUpdate": "state_update", "state": name}


@pytest.mark.parametrize(
    ("old", "operation", "patch"),
    [
        pytest.param(
            "x\n",
            "modify",
            "diff --git a/p/a.py b/p/a.py\n--- a/p/a.py\n+++ b/p/a.py\n@@ -1 +1 @@\n-x\n"
            "+y\n\\ No newline at end of file\n",
            id="a change",
        ),
        pytest.param(
            None,
            "add",
            "diff --git a/p/a.py b/p/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/p/a.py\n@@ -0,0 +1 @@\n"
            "+y\n\\ No newline at end of file\n",
            id="a new file",
        ),
        pytest.param("x" * 300_000, "modify", None, id="too long to compare"),
    ],
)
def test_a_change_of_a_file(old: str | None, operation: str, patch: str | None) -> None:
    content = diff_changes({"path": "/p/a.py", "oldText": old, "newText": "y"})
    assert content.get("patch", {}).get("text") == patch
    changes = [{"operation": operation, "path": "/p/a.py", "fileType": "text"}]
    assert (content["type"], content["changes"]) == ("diff", changes)


def test_every_update_is_in_the_schema_of_the_protocol() -> None:
    def told_in(column: int) -> set[str]:
        rows = [row for row in acp_updates() if row[column]]
        return {kind for row in rows for kind in re.findall(r"`(\w+)`", row[0])}

    assert told_in(0) == set(EVENTS)
    # A gap is no event; it stands for those that are lost.
    first = UpdateMapperV1(notices=False, compactions=False)
    assert told_in(1) - {"settled", "faulted"} == first.kinds - {"gap"}
    assert told_in(2) == DraftUpdateMapper().kinds - {"gap"}


@pytest.fixture
async def drafted(stage: Stage) -> Stage:
    """A daemon with a panel that speaks the draft."""
    stage.panel = FakePanel(service=stage.daemon.service, workspace=stage.daemon.workspace, agent=AGENT)
    await stage.panel.initialize(version=2, **HELLO)
    return stage


async def until_idle(stage: Stage, n: int = 1) -> dict[str, Any]:
    """Return the *n*-th end of a turn."""

    def ends() -> list[dict[str, Any]]:
        return [each for each in stage.panel.updates("state_update") if each["state"] == "idle"]

    await stage.panel.stream.wait_until(lambda: len(ends()) >= n)
    return ends()[n - 1]


async def test_a_prompt_is_answered_with_its_place_and_ends_in_an_update(drafted: Stage) -> None:
    sid = await drafted.session([{"text": "Hello"}])
    answer = await drafted.run(1, sid)
    (asked,) = drafted.panel.updates("user_message")
    assert answer["result"] == {"messageId": asked["messageId"]}
    assert (await until_idle(drafted))["stopReason"] == "end_turn"
    states = [each["state"] for each in drafted.panel.updates("state_update")]
    assert states == ["running", "idle"]
    assert drafted.panel.updates("agent_message")[-1]["content"] == [{"type": "text", "text": "Hello"}]


async def test_a_prompt_that_waits_is_answered_when_its_turn_comes(drafted: Stage) -> None:
    sid = await drafted.session(HANG, [{"text": "second"}])
    await drafted.run(1, sid)
    drafted.prompt(2, sid)
    await drafted.panel.update("session_info_update")
    assert not drafted.panel.answers(2)
    snapshot = drafted.daemon.service.hub.session(sid).snapshot()
    await drafted.call("_sidecar/turn/interrupt", {"sid": sid, "turnId": snapshot.turn_id})
    assert "result" in await drafted.panel.answer(2)
    assert [(await until_idle(drafted, n))["stopReason"] for n in (1, 2)] == ["cancelled", "end_turn"]


async def test_cancelling_a_session_withdraws_waiting_prompts(drafted: Stage) -> None:
    sid = await drafted.session(HANG)
    await drafted.run(1, sid)
    drafted.prompt(2, sid)
    await drafted.panel.update("session_info_update")
    drafted.panel.notify("session/cancel", {"sessionId": sid})
    error = (await drafted.panel.answer(2))["error"]
    assert (error["code"], error["data"]["kind"]) == (-32800, "cancelled")
    assert (await until_idle(drafted))["stopReason"] == "cancelled"


async def test_closing_a_session_at_work_ends_its_turn_first(drafted: Stage) -> None:
    sid = await drafted.session(HANG)
    await drafted.run(1, sid)
    await drafted.call("session/close", {"sessionId": sid})
    assert (await until_idle(drafted))["stopReason"] == "cancelled"


async def test_a_call_that_waits_for_the_user_is_cancelled_with_its_turn(drafted: Stage) -> None:
    sid = await drafted.session([{"toolCall": {"name": "bash", "input": {"command": "env echo"}, "id": "c"}}])
    await drafted.run(1, sid)
    await drafted.panel.call("session/request_permission")
    drafted.panel.notify("session/cancel", {"sessionId": sid})
    assert (await until_idle(drafted))["stopReason"] == "cancelled"
    assert drafted.panel.updates("tool_call_update")[-1]["status"] == "cancelled"


@pytest.mark.processes
async def test_a_question_makes_the_session_wait_for_its_user(drafted: Stage) -> None:
    call = {"toolCall": {"name": "bash", "input": {"command": "env echo hi"}, "id": "c"}}
    sid = await drafted.session([call], [{"text": "done"}])
    await drafted.run(1, sid)
    question = await drafted.panel.call("session/request_permission")
    assert drafted.panel.updates("state_update")[-1] == state("requires_action")
    params = question["params"]
    assert (params["title"], params["subject"]["toolCall"]["toolCallId"]) == ("Run env echo hi", "c")
    allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    drafted.panel.reply(question["id"], allowed)
    assert (await until_idle(drafted))["stopReason"] == "end_turn"
    states = [each["state"] for each in drafted.panel.updates("state_update")]
    assert states == ["running", "requires_action", "running", "idle"]
    assert drafted.panel.updates("tool_call_update")[-1]["rawOutput"] == "hi\n[exit 0]"


@pytest.mark.parametrize(
    ("replay", "texts"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"replayFrom": None}, [], id="nothing, updates so"),
        pytest.param({"replayFrom": {"type": "start"}}, ["go"], id="all of it"),
    ],
)
async def test_the_past_is_replayed_as_far_as_the_client_requests_it(
    drafted: Stage, replay: dict[str, Any], texts: list[str]
) -> None:
    sid = await drafted.session([{"text": "Hello"}])
    await drafted.run(1, sid)
    await until_idle(drafted)
    await drafted.call("session/close", {"sessionId": sid})
    before = len(drafted.panel.updates("user_message"))
    where = {"sessionId": sid, "cwd": str(drafted.folder), **replay}
    result = (await drafted.call("session/resume", where))["result"]
    assert "modes" not in result
    assert result["configOptions"][0]["configId"] == "model"
    replayed = drafted.panel.updates("user_message")[before:]
    assert [block["text"] for message in replayed for block in message["content"]] == texts


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("auth/login", {"methodId": "x"}, "invalidParams"),
        ("session/resume", {"sessionId": "s", "cwd": "/", "replayFrom": {"type": "x"}}, "invalidParams"),
        ("session/load", {}, "methodNotFound"),
        ("session/set_mode", {}, "methodNotFound"),
        ("_session/steering", {}, "methodNotFound"),
    ],
)
async def test_an_invalid_request_is_refused(
    drafted: Stage, method: str, params: dict[str, Any], kind: str
) -> None:
    assert (await drafted.call(method, params))["error"]["data"]["kind"] == kind


async def test_a_client_that_never_logged_in_may_log_out(drafted: Stage) -> None:
    assert (await drafted.call("auth/logout", {}))["result"] == {}


async def test_an_option_is_set_and_reported(drafted: Stage) -> None:
    sid = await drafted.session()
    wanted = {"sessionId": sid, "configId": "permissions", "type": "id", "value": "allowAll"}
    options = (await drafted.call("session/set_config_option", wanted))["result"]["configOptions"]
    assert {option["configId"]: option["currentValue"] for option in options}["permissions"] == "allowAll"
    assert (await drafted.panel.update("config_option_update"))["configOptions"] == options


async def test_status_names_the_version_that_a_client_speaks(drafted: Stage) -> None:
    clients = (await drafted.call("_sidecar/status", {}))["result"]["clients"]
    assert [client["face"] for client in clients] == ["acp1", "acp2"]
