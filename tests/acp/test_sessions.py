"""Sessions through a whole daemon: made, loaded, listed, changed and left in the protocol's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.acp.sessions import Sessions
from sidecar.service.contract import Answer

if TYPE_CHECKING:
    from tests.acp.conftest import Stage

READ: list[dict[str, Any]] = [
    {"text": "reading"},
    {"toolCall": {"name": "read", "input": {"path": "a.py"}, "id": "c1"}},
]
DONE = [{"text": "it holds x"}]
BRIEF_HEADER = "# From the program that started this session"


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


PROCESS = {"name": "files", "command": "/bin/files", "args": ["--stdio"], "env": []}
REMOTE = {"type": "http", "name": "web", "url": "http://localhost/mcp", "headers": []}
UNKNOWN = [{"type": "acp", "name": "odd", "id": "x"}, 7]
NAMED = {"sessionId": "s", "cwd": "/p", "mcpServers": []}
ASKED = {"cwd": "/p", "roots": [], "mcpServers": []}
PIRATE = {"type": "text", "text": "Speak like a pirate."}


def prompt_of(*blocks: Any, mode: str = "append") -> dict[str, Any]:
    return {"systemPrompt": {"mode": mode, "content": [*blocks]}}


async def ask(method: str, params: Any) -> tuple[str, dict[str, Any]]:
    """Return the request of the service into which a request of the protocol is translated."""
    asked: list[tuple[str, dict[str, Any]]] = []

    async def request(method: str, params: dict[str, Any]) -> Answer:
        asked.append((method, params))
        return Answer({"sid": "s", "configOptions": [], "sessions": []})

    await Sessions(request, lambda sid: None).handlers()[method](params)
    return asked[0]


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        pytest.param("new", {"cwd": "/p"}, {"cwd": "/p", "roots": []}, id="a folder is enough"),
        pytest.param(
            "new",
            NAMED | {"mcpServers": [PROCESS, REMOTE, *UNKNOWN]},
            ASKED | {"mcpServers": [PROCESS, REMOTE]},
            id="servers of an unknown type are left out, as the schema asks",
        ),
        pytest.param(
            "new",
            NAMED | {"additionalDirectories": ["/more", 7], "_meta": {"sidecar": {"model": "m"}}},
            ASKED | {"roots": ["/more"], "model": "m"},
            id="more folders, and wishes beyond the protocol",
        ),
        pytest.param("load", NAMED, {**ASKED, "sid": "s", "replay": "full"}, id="a load has the past"),
        pytest.param("resume", NAMED, {**ASKED, "sid": "s", "replay": "none"}, id="a resume has not"),
        pytest.param("fork", NAMED, {**ASKED, "sid": "s"}, id="a fork"),
        *(
            pytest.param(
                method, NAMED | prompt, {**ASKED, **more, "brief": brief}, id=f"a brief of {method}, {n}"
            )
            for n, (prompt, brief) in enumerate(
                (
                    ({"_meta": {"systemPrompt": {"append": " Aye.\n"}}}, " Aye.\n"),
                    (prompt_of(PIRATE, PIRATE), "Speak like a pirate.\n\nSpeak like a pirate."),
                )
            )
            for method, more in (
                ("new", {}),
                ("load", {"sid": "s", "replay": "full"}),
                ("fork", {"sid": "s"}),
            )
        ),
        pytest.param("list", {"cwd": "/p", "cursor": "c"}, {"cwd": "/p", "cursor": "c"}, id="a page"),
        pytest.param("list", {"cwd": None}, {}, id="all sessions"),
    ],
)
async def test_a_request_is_one_of_the_service(method: str, params: Any, expected: dict[str, Any]) -> None:
    name = {"resume": "load"}.get(method, method)
    assert await ask(f"session/{method}", params) == (f"sidecar/session/{name}", expected)


async def test_the_next_page_is_named_in_the_words_of_the_service() -> None:
    async def request(method: str, params: dict[str, Any]) -> Answer:
        return Answer({"sessions": [], "nextCursor": "c2"})

    listed = await Sessions(request, lambda sid: None).list({})
    assert listed.value == {"sessions": [], "nextCursor": "c2"}


@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/fork"])
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"mcpServers": "x"}, "must be an array of servers"),
        ({"mcpServers": {}}, "must be an array of servers"),
        ({"_meta": {"systemPrompt": "You are a pirate."}}, "the system prompt cannot be replaced"),
        ({"_meta": {"systemPrompt": {"append": 7}}}, "must be an object with texts to append"),
        (prompt_of(PIRATE, mode="override"), "the system prompt cannot be replaced"),
        (prompt_of(PIRATE, mode="_prepend"), "must be an object with texts to append"),
        (prompt_of(), "must be an object with texts to append"),
        (prompt_of({"type": "image", "data": "", "mimeType": "image/png"}), "must be an object with texts"),
        ({"cwd": 7}, "params.cwd must be a string"),
    ],
)
async def test_a_request_of_another_shape_is_refused(method: str, given: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await ask(method, NAMED | given)


async def test_a_brief_stands_in_the_system_prompt_and_a_load_or_a_fork_may_change_it(stage: Stage) -> None:
    given = {"cwd": str(stage.folder), "mcpServers": []}
    poet = prompt_of({"type": "text", "text": "Speak like a poet."})
    model = stage.script(DONE, DONE, DONE, DONE)
    meta = {"sidecar": {"model": "scripted-1"}}
    made = await stage.call("session/new", {**given, **prompt_of(PIRATE), "_meta": meta})
    sid = made["result"]["sessionId"]
    forks = [await stage.call("session/fork", {"sessionId": sid, **given, **each}) for each in ({}, poet)]
    for n, each in enumerate((sid, *(fork["result"]["sessionId"] for fork in forks))):
        await stage.run(n + 10, each)
    await stage.run(20, sid, "/context")
    shown = str(stage.panel.updates("agent_message_chunk"))
    assert "tokens in the system prompt: Speak like a pirate." in shown
    await stage.call("session/load", {"sessionId": sid, **given, **poet})
    await stage.run(21, sid)
    briefs = [(call.conversation.system or "").partition(BRIEF_HEADER)[2] for call in model.calls]
    assert [brief.split("\n")[1] for brief in briefs] == [
        *["Speak like a pirate."] * 2,
        *["Speak like a poet."] * 2,
    ]
    long = await stage.call("session/new", {**given, **prompt_of({"type": "text", "text": "x" * 20_001})})
    assert long["error"]["message"] == "the brief has 20,001 characters, and may have 20,000"


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


async def test_the_commands_on_offer_come_after_the_answer(stage: Stage) -> None:
    await stage.session()
    commands = (await stage.panel.update("available_commands_update"))["availableCommands"]
    assert "compact" in [command["name"] for command in commands]
    assert (await stage.panel.update("usage_update"))["size"] > 0


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
    """Stored and open sessions, the newest first."""

    async def test_a_session_is_listed_with_its_title(self, stage: Stage) -> None:
        sid = await conversation(stage)
        (listed,) = (await stage.call("session/list", {}))["result"]["sessions"]
        assert (listed["sessionId"], listed["cwd"]) == (sid, str(stage.folder))
        assert (listed["title"], listed["updatedAt"][-1]) == ("what is in a.py?", "Z")
        assert listed["_meta"]["sidecar"]["messages"] == 4


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
