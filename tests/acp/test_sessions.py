"""Sessions through a whole daemon: made, loaded, listed, changed and left in the protocol's own words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fake_panel import FakePanel
from fake_service import FakeService

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

READ: list[dict[str, Any]] = [
    {"text": "reading"},
    {"toolCall": {"name": "read", "input": {"path": "a.py"}, "id": "c1"}},
]
DONE = [{"text": "it holds x"}]


async def conversation(stage: Stage) -> str:
    """Return a session with one prompt, one call of a tool and an answer."""
    (stage.folder / "a.py").write_text("x = 1\n")
    sid = await stage.session(READ, DONE)
    await stage.run(1, sid, "what is in a.py?")
    return sid


def params(stage: Stage, sid: str, **more: Any) -> dict[str, Any]:
    return {"sessionId": sid, "cwd": str(stage.folder), "mcpServers": [], **more}


def shown(update: dict[str, Any]) -> str:
    """Return the kind and the content of an update, in short."""
    kind = update["sessionUpdate"]
    content = update.get("content")
    return (
        f"{kind}: {content['text']}" if isinstance(content, dict) else f"{kind}: {update.get('status', '')}"
    )


PAST = [
    "user_message_chunk: what is in a.py?",
    "agent_message_chunk: reading",
    "tool_call: in_progress",
    "tool_call_update: completed",
    "agent_message_chunk: it holds x",
]


async def test_a_new_session_lists_its_options(stage: Stage) -> None:
    answer = await stage.call("session/new", {"cwd": str(stage.folder), "mcpServers": []})
    result = answer["result"]
    options = {option["id"]: option for option in result["configOptions"]}
    assert options["model"]["currentValue"] == "offline-1"
    assert options["permissions"]["category"] == "mode"
    assert result["modes"]["currentModeId"] == options["permissions"]["currentValue"]
    assert [mode["id"] for mode in result["modes"]["availableModes"]] == [
        choice["value"] for choice in options["permissions"]["options"]
    ]
    assert result["_meta"]["sidecar"]["snapshot"]["cwd"] == str(stage.folder)


async def test_more_folders_may_be_given(stage: Stage) -> None:
    more = str(stage.folder.parent)
    given = {"cwd": str(stage.folder), "mcpServers": [], "additionalDirectories": [more, 7]}
    result = (await stage.call("session/new", given))["result"]
    assert result["_meta"]["sidecar"]["snapshot"]["roots"] == [more]


async def test_a_client_adds_to_the_system_prompt_and_cannot_replace_it(stage: Stage) -> None:
    given = {"cwd": str(stage.folder), "mcpServers": []}
    added = {"type": "preset", "append": " Speak like a pirate.\n"}
    model = stage.script(DONE, DONE)
    meta = {"systemPrompt": added, "sidecar": {"model": "scripted-1"}}
    sid = (await stage.call("session/new", {**given, "_meta": meta}))["result"]["sessionId"]
    forked = (await stage.call("session/fork", {"sessionId": sid, **given}))["result"]["sessionId"]
    for number, each in enumerate((sid, forked)):
        await stage.run(number + 10, each, "go")
        system = model.calls[number].conversation.system or ""
        assert system.count("# From the program that started this session\nSpeak like a pirate.") == 1
    await stage.run(12, sid, "/context")
    (answer,) = [each for each in stage.panel.updates("agent_message_chunk") if "brief" in str(each)]
    assert "tokens in the system prompt: Speak like a pirate." in answer["content"]["text"]
    for wrong, problem in (
        ("You are a pirate.", "the system prompt cannot be replaced, because tools and summaries rely on it"),
        ({"append": 7}, "systemPrompt must be an object with texts to append"),
        ({"append": "x" * 20_001}, "the brief has 20,001 characters, and may have 20,000"),
    ):
        error = (await stage.call("session/new", {**given, "_meta": {"systemPrompt": wrong}}))["error"]
        assert error["message"] == problem


def appended(*blocks: Any, mode: str = "append") -> dict[str, Any]:
    return {"systemPrompt": {"mode": mode, "content": [*blocks]}}


async def test_the_system_prompt_of_the_protocol_is_added_too_and_a_load_may_change_it(stage: Stage) -> None:
    given = {"cwd": str(stage.folder), "mcpServers": []}
    model, pirate = stage.script(DONE, DONE, DONE), {"type": "text", "text": "Speak like a pirate."}
    meta = {"sidecar": {"model": "scripted-1"}}
    made = await stage.call("session/new", {**given, **appended(pirate, pirate), "_meta": meta})
    sid = made["result"]["sessionId"]
    poet = appended({"type": "text", "text": "Speak like a poet."})
    forked = (await stage.call("session/fork", {"sessionId": sid, **given, **poet}))["result"]["sessionId"]
    await stage.run(10, sid, "go")
    await stage.run(11, forked, "go")
    await stage.call("session/load", {"sessionId": sid, **given, **poet})
    await stage.run(12, sid, "go")
    systems = [call.conversation.system or "" for call in model.calls]
    assert systems[0].count("Speak like a pirate.") == 2
    for system in systems[1:]:
        assert ("Speak like a poet." in system, "pirate" in system) == (True, False)
    for wrong, problem in (
        (appended(pirate, mode="override"), "the system prompt cannot be replaced"),
        (appended(pirate, mode="_prepend"), "must be an object with texts to append"),
        (appended(), "must be an object with texts to append"),
        (appended({"type": "image", "data": "", "mimeType": "image/png"}), "must be an object with texts"),
    ):
        for method in ("session/new", "session/load", "session/fork"):
            error = (await stage.call(method, {**given, "sessionId": sid, **wrong}))["error"]
            assert problem in error["message"]


async def test_tool_servers_are_handed_on(panel: FakePanel) -> None:
    """Servers of an unknown type are left out, as the protocol's schema asks."""
    process = {"name": "files", "command": "/bin/files", "args": ["--stdio"], "env": []}
    remote = {"type": "http", "name": "web", "url": "http://localhost/mcp", "headers": []}
    odd = [{"type": "acp", "name": "odd", "id": "x"}, 7]
    await panel.initialize()
    params = {"cwd": "/p", "mcpServers": [process, remote, *odd]}
    await panel.request(1, "session/new", params)
    expected = {"cwd": "/p", "roots": [], "mcpServers": [process, remote]}
    assert isinstance(panel.service, FakeService)
    assert panel.service.calls == [("sidecar/session/new", expected)]


async def test_the_commands_on_offer_come_after_the_answer(stage: Stage) -> None:
    await stage.session()
    commands = (await stage.panel.update("available_commands_update"))["availableCommands"]
    assert "compact" in [command["name"] for command in commands]
    assert (await stage.panel.update("usage_update"))["size"] > 0


async def test_commands_of_a_folder_are_on_offer_and_ask_once(stage: Stage) -> None:
    """A new file is offered after ``/help``; the question shows its text."""
    commands = stage.folder / ".sidecar" / "commands"
    commands.mkdir(parents=True)
    (commands / "fix.md").write_text("---\ndescription: Fix it\nargument-hint: FILE\n---\nFix $1.\n")
    sid = await stage.session(DONE)
    found = (await stage.panel.update("available_commands_update"))["availableCommands"]
    assert {"name": "fix", "description": "Fix it", "input": {"hint": "FILE"}} in found
    (commands / "new.md").write_text("Something new.")
    await stage.run(1, sid, "/help")
    found = (await stage.panel.update("available_commands_update", 2))["availableCommands"]
    assert "new" in [command["name"] for command in found]
    stage.prompt(2, sid, "/fix a.py")
    question = await stage.panel.call("session/request_permission")
    assert "Fix $1." in str(question["params"])
    allow = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    stage.panel.send({"jsonrpc": "2.0", "id": question["id"], "result": allow})
    assert (await stage.panel.answer(2))["result"]["stopReason"] == "end_turn"


async def test_a_slash_command_is_answered(stage: Stage) -> None:
    """It makes a turn without a model; its answer comes without deltas."""
    sid = await stage.session()
    assert (await stage.run(1, sid, "/status"))["result"]["stopReason"] == "end_turn"
    (answer,) = stage.panel.updates("agent_message_chunk")
    assert sid in answer["content"]["text"]


class TestLoad:
    """A stored session comes back: all of it before the answer, or none."""

    async def test_the_past_comes_before_the_answer(self, stage: Stage) -> None:
        sid = await conversation(stage)
        await stage.call("session/close", {"sessionId": sid})
        panel = await stage.open()
        answer = await stage.call("session/load", params(stage, sid))
        past = [message["params"]["update"] for message in panel.messages if "params" in message]
        assert list(map(shown, past))[: len(PAST)] == PAST
        assert [(call["title"], call["kind"]) for call in past if "title" in call][:2] == [
            ("Read a.py", "read")
        ] * 2
        position = panel.messages.index(answer)
        assert all("id" not in message for message in panel.messages[1:position])
        assert answer["result"]["_meta"]["sidecar"]["integrity"]["ok"]
        assert answer["result"]["configOptions"]

    async def test_a_running_session_may_be_loaded_by_a_second_panel(self, stage: Stage) -> None:
        sid = await conversation(stage)
        first = stage.panel
        second = await stage.open()
        await second.request(1, "session/load", params(stage, sid))
        stage.panel = first
        stage.script([{"text": "for both"}])
        await stage.run(2, sid)
        n_chunks = len(second.updates("agent_message_chunk"))
        assert shown(second.updates("agent_message_chunk")[n_chunks - 1]) == "agent_message_chunk: for both"

    async def test_compacted_turns_are_replayed_in_their_place(self, stage: Stage) -> None:
        long = [[{"text": f"{word} " * 2_000}] for word in ("one", "two", "three")]
        sid = await stage.session(
            *long,
            [{"text": "# Objective\nin short\n# Plan\nnone"}],
            [{"text": "after"}],
            policy={"keepRecent": 100},
        )
        for n, text in enumerate(("1", "2", "3", "/compact", "4")):
            await stage.run(f"p{n}", sid, text)
        assert [each.status for each in stage.daemon.service.hub.session(sid).record.compactions.all] == [
            "completed"
        ]
        await stage.call("session/close", {"sessionId": sid})
        panel = await stage.open()
        await stage.call("session/load", params(stage, sid))
        kinds = [update["sessionUpdate"] for update in panel.updates()]
        turn = ["user_message_chunk", "agent_message_chunk"]
        assert kinds[:9] == [*turn, *turn, *turn, "tool_call", *turn]
        assert panel.updates("tool_call")[0]["_meta"]["contextCompaction"]["trigger"] == "manual"

    @pytest.mark.parametrize("method", ["session/load", "session/resume"])
    async def test_the_plan_comes_back(self, stage: Stage, method: str) -> None:
        entry = {"content": "one", "status": "in_progress", "priority": "high"}
        todo = [{"toolCall": {"name": "todo", "input": {"entries": [entry]}}}]
        sid = await stage.session(todo, DONE)
        await stage.run(1, sid)
        await stage.open()
        await stage.call(method, params(stage, sid))
        assert (await stage.panel.update("plan"))["entries"] == [entry]

    async def test_resume_replays_no_past(self, stage: Stage) -> None:
        sid = await conversation(stage)
        await stage.call("session/close", {"sessionId": sid})
        panel = await stage.open()
        answer = await stage.call("session/resume", params(stage, sid))
        assert panel.messages.index(answer) == 1
        await panel.update("available_commands_update")
        assert not any(shown(update) in PAST for update in panel.updates())
        stage.script(DONE)
        assert (await stage.run(2, sid))["result"]["stopReason"] == "end_turn"

    @pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
    async def test_a_session_that_is_not_stored_is_not_found(self, stage: Stage, method: str) -> None:
        answer = await stage.call(method, params(stage, "nothing"))
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32002, "sessionNotFound")
        assert stage.panel.updates() == []


class TestList:
    """Stored and open sessions, the newest first, a page at a time."""

    async def test_a_session_is_listed_with_its_title(self, stage: Stage) -> None:
        sid = await conversation(stage)
        (listed,) = (await stage.call("session/list", {}))["result"]["sessions"]
        assert (listed["sessionId"], listed["cwd"]) == (sid, str(stage.folder))
        assert (listed["title"], listed["updatedAt"][-1]) == ("what is in a.py?", "Z")
        assert listed["_meta"]["sidecar"]["messages"] == 4

    async def test_it_is_filtered_by_folder(self, stage: Stage, tmp_path: Path) -> None:
        await conversation(stage)
        for cwd, n_expected in ((str(stage.folder), 1), (str(tmp_path), 0)):
            found = await stage.call("session/list", {"cwd": cwd})
            assert len(found["result"]["sessions"]) == n_expected

    async def test_it_comes_in_pages(self, stage: Stage) -> None:
        for _ in range(51):
            await stage.call("session/new", {"cwd": str(stage.folder), "mcpServers": []})
        first = (await stage.call("session/list", {}))["result"]
        second = (await stage.call("session/list", {"cursor": first["nextCursor"]}))["result"]
        assert (len(first["sessions"]), len(second["sessions"])) == (50, 1)
        assert "nextCursor" not in second

    async def test_an_unknown_cursor_is_refused(self, stage: Stage) -> None:
        answer = await stage.call("session/list", {"cursor": "odd"})
        assert answer["error"]["data"]["kind"] == "invalidParams"


class TestLeave:
    """A session is closed, deleted or forked."""

    async def test_a_closed_session_is_still_stored(self, stage: Stage) -> None:
        sid = await conversation(stage)
        assert (await stage.call("session/close", {"sessionId": sid}))["result"] == {}
        assert len((await stage.call("session/list", {}))["result"]["sessions"]) == 1
        assert (await stage.run(4, sid))["error"]["code"] == -32002

    async def test_a_deleted_session_is_gone(self, stage: Stage) -> None:
        sid = await conversation(stage)
        assert (await stage.call("session/delete", {"sessionId": sid}))["result"] == {}
        assert (await stage.call("session/list", {}))["result"]["sessions"] == []
        assert (await stage.call("session/load", params(stage, sid)))["error"]["code"] == -32002

    async def test_a_fork_goes_on_by_itself(self, stage: Stage) -> None:
        sid = await conversation(stage)
        forked = (await stage.call("session/fork", params(stage, sid)))["result"]
        assert forked["sessionId"] != sid
        stage.script([{"text": "elsewhere"}])
        assert (await stage.run(3, forked["sessionId"]))["result"]["stopReason"] == "end_turn"
        assert len(stage.daemon.service.hub.session(sid).record.history.turns) == 4

    async def test_a_session_that_does_not_exist_cannot_be_closed(self, stage: Stage) -> None:
        answer = await stage.call("session/close", {"sessionId": "nothing"})
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32002, "sessionNotFound")

    async def test_deleting_a_session_that_does_not_exist_succeeds(self, stage: Stage) -> None:
        """The protocol wants no error for it: two clients may delete one session."""
        for _ in range(2):
            assert (await stage.call("session/delete", {"sessionId": "nothing"}))["result"] == {}


class TestOptions:
    """What a session is set to, and its mode for clients older than options."""

    async def test_an_option_is_set_and_all_are_returned(self, stage: Stage) -> None:
        sid = await stage.session()
        given = {"sessionId": sid, "configId": "engine", "value": "none"}
        result = (await stage.call("session/set_config_option", given))["result"]
        options = {option["id"]: option["currentValue"] for option in result["configOptions"]}
        assert options["engine"] == "none"
        assert (await stage.panel.update("config_option_update"))["configOptions"] == result["configOptions"]

    async def test_a_mode_is_set(self, stage: Stage) -> None:
        sid = await stage.session()
        given = {"sessionId": sid, "modeId": "allowEdits"}
        assert (await stage.call("session/set_mode", given))["result"] == {}
        assert (await stage.panel.update("current_mode_update"))["currentModeId"] == "allowEdits"

    @pytest.mark.parametrize(
        ("method", "given", "code"),
        [
            ("session/set_mode", {"modeId": "odd"}, -32602),
            ("session/set_mode", {}, -32602),
            ("session/set_mode", {"sessionId": "nothing", "modeId": "ask"}, -32602),
            ("session/set_config_option", {"configId": "odd", "value": "x"}, -32602),
            ("session/set_config_option", {"configId": "engine", "value": True, "type": "boolean"}, -32602),
            ("session/set_config_option", {"configId": "engine"}, -32602),
            (
                "session/set_config_option",
                {"sessionId": "nothing", "configId": "engine", "value": "none"},
                -32002,
            ),
        ],
    )
    async def test_an_invalid_option_is_refused(
        self, stage: Stage, method: str, given: dict[str, Any], code: int
    ) -> None:
        sid = await stage.session()
        answer = await stage.call(method, {"sessionId": sid, **given})
        assert answer["error"]["code"] == code


class TestOurMethods:
    """``_sidecar/x/y`` is ``sidecar/x/y`` of the same service."""

    async def test_a_session_of_theirs_is_a_session_of_ours(self, stage: Stage) -> None:
        sid = await stage.session(DONE)
        await stage.run(1, sid)
        ours = (await stage.call("_sidecar/context/usage", {"sid": sid}))["result"]
        assert ours == stage.panel.updates("usage_update")[-1]["_meta"]["sidecar"]

    async def test_a_session_made_by_our_method_is_followed(self, stage: Stage) -> None:
        stage.script(DONE)
        given = {"cwd": str(stage.folder), "model": "scripted-1"}
        sid = (await stage.call("_sidecar/session/new", given))["result"]["sid"]
        assert (await stage.run(2, sid))["result"]["stopReason"] == "end_turn"
        assert shown(stage.panel.updates("agent_message_chunk")[0]) == "agent_message_chunk: it holds x"

    async def test_its_errors_carry_the_codes_of_this_protocol(self, stage: Stage) -> None:
        answer = await stage.call("_sidecar/context/usage", {"sid": "nothing"})
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32002, "sessionNotFound")


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/fork"])
@pytest.mark.parametrize("servers", ["x", {}, 5])
async def test_servers_are_an_array(stage: Stage, method: str, servers: Any) -> None:
    sid = await stage.session([{"text": "one"}])
    params = {"sessionId": sid, "cwd": str(stage.folder), "mcpServers": servers}
    answer = await stage.call(method, params)
    assert answer["error"]["data"]["kind"] == "invalidParams"


@pytest.mark.parametrize(
    ("events", "kinds", "updates"),
    [
        pytest.param(None, set(), {"agent_message_chunk", "usage_update"}, id="not declared"),
        pytest.param({}, {"message", "usage"}, {"agent_message_chunk", "usage_update"}, id="declared"),
        pytest.param({"kinds": ["usage"]}, {"usage"}, {"agent_message_chunk", "usage_update"}, id="some"),
        pytest.param({"optOut": ["usage"]}, {"message"}, {"agent_message_chunk"}, id="all but one"),
        pytest.param(
            {"optOut": ["sidecar/event"]}, set(), {"agent_message_chunk", "usage_update"}, id="none"
        ),
    ],
)
async def test_a_client_of_ours_takes_events_too(
    stage: Stage, events: Any, kinds: set[str], updates: set[str]
) -> None:
    await stage.open({"_meta": {"sidecar": {} if events is None else {"events": events}}})
    sid = await stage.session([{"text": "one"}])
    await stage.call("session/prompt", {"sessionId": sid, "prompt": [{"type": "text", "text": "go"}]})
    told = {each["params"]["kind"] for each in stage.panel.calls("_sidecar/event")}
    assert told & {"message", "usage"} == kinds
    shown = {each["params"]["update"]["sessionUpdate"] for each in stage.panel.calls("session/update")}
    assert shown & {"agent_message_chunk", "usage_update"} == updates
