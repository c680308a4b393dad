"""The protocol's own Python SDK drives the real process through a whole session, as an editor would."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import acp
import pytest
import pytest_asyncio
from acp import schema
from acp.stdio import spawn_agent_process

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PATIENCE_S = 20.0
LINE_BYTES = 32 * 1024 * 1024
EDIT = {"path": "a.py", "old_text": "unsaved", "new_text": "edited"}
EDITS: list[list[dict[str, Any]]] = [
    [{"thinking": "look"}, {"toolCall": {"name": "read", "input": {"path": "a.py"}}}],
    [{"toolCall": {"name": "edit", "input": EDIT}}],
    [{"text": "done"}],
]
HANGS: list[list[dict[str, Any]]] = [[{"text": "never ends"}, {"hang": True}]]
WHICH = {"question": "Which tables?", "choices": ["users", "logs"], "multiple": True}
DELEGATES: list[list[dict[str, Any]]] = [
    [{"toolCall": {"name": "task", "input": {"title": "Look", "prompt": "Look around."}}}],
    [{"toolCall": {"name": "bash", "input": {"command": "env echo hi"}}}],
    [{"text": "it says hi"}],
    [{"text": "delegated"}],
]
MODELS = {
    "delegates-1": {"scripted": DELEGATES},
    "edits-1": {"scripted": EDITS},
    "hangs-1": {"scripted": HANGS},
    "edits-and-hangs-1": {"scripted": [*EDITS, *HANGS]},
    "asks-1": {
        "scripted": [[{"toolCall": {"name": "ask", "input": {"questions": [WHICH]}}}], [{"text": "done"}]]
    },
    "answers-1": {"scripted": [[{"text": "once"}], [{"text": "again"}]]},
}
"""One for each test that calls a model: a script goes on where the last call of any session left it."""


class Panel:
    """An editor's side of the SDK: keeps the updates, has unsaved text, and allows everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[str] = []
        self.unsaved: dict[str, str] = {}
        self.fields: Any = None
        self._news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        self._news.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append(str(tool_call.title))
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(
        self, message: str, mode: Any, **kwargs: Any
    ) -> schema.AcceptElicitationResponse:
        self.asked.append(message)
        self.fields = mode.requested_schema.properties
        return schema.AcceptElicitationResponse(action="accept", content={"q1": ["logs"]})

    async def read_text_file(self, session_id: str, path: str, **kwargs: Any) -> schema.ReadTextFileResponse:
        if path not in self.unsaved:
            raise acp.RequestError(-32002, "no such file")
        return schema.ReadTextFileResponse(content=self.unsaved[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **kwargs: Any) -> None:
        self.unsaved.pop(path, None)
        write(Path(path), content)

    async def wait_for(self, text: str) -> None:
        """Return once the agent has written *text*."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.text():
                self._news.clear()
                await self._news.wait()

    def updates_of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    def text(self) -> str:
        return "".join(update.content.text for update in self.updates_of("agent_message_chunk"))


def typed(words: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=words)


def write(path: Path, text: str) -> None:
    path.write_text(text)


def read(path: Path) -> str:
    return path.read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path.resolve()
    write(folder / "a.py", "saved\n")
    return folder


@pytest.fixture(scope="module")
def shared_panel() -> Panel:
    return Panel()


@pytest.fixture
def panel(shared_panel: Panel) -> Panel:
    """The panel, without what other tests have left in it."""
    for kept in (shared_panel.updates, shared_panel.asked, shared_panel.unsaved):
        kept.clear()
    return shared_panel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(shared_panel: Panel, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """A running agent that has shaken hands; it ends with 0 when its input does."""
    env = {**os.environ, "INDUSAGI_HOME": str(tmp_path_factory.mktemp("home"))}
    command = (sys.executable, "-m", "sidecar", "acp")
    client: Any = shared_panel
    how: Any = {"transport_kwargs": {"limit": LINE_BYTES}, "use_unstable_protocol": True}  # for forms
    async with spawn_agent_process(client, *command, env=env, **how) as (agent, process):
        files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
        forms = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
        capabilities = schema.ClientCapabilities(fs=files, elicitation=forms)
        options = {"models": MODELS}
        answer = await agent.initialize(65535, client_capabilities=capabilities, sidecar=options)
        assert answer.protocol_version == 1
        yield agent
    assert process.returncode == 0


async def start(agent: Any, folder: Path, model: str) -> str:
    session = await agent.new_session(cwd=str(folder), mcp_servers=[], sidecar={"model": model})
    return str(session.session_id)


async def edit(agent: Any, panel: Panel, folder: Path, sid: str) -> None:
    """Let the session read unsaved text, and edit it through the editor."""
    panel.unsaved[str(folder / "a.py")] = "unsaved\n"
    answer = await agent.prompt(session_id=sid, prompt=[typed("edit a.py")])
    assert (answer.stop_reason, panel.text()) == ("end_turn", "done")


async def cancel(agent: Any, panel: Panel, sid: str) -> None:
    running = asyncio.ensure_future(agent.prompt(session_id=sid, prompt=[typed("go on")]))
    await panel.wait_for("never ends")
    await agent.cancel(session_id=sid)
    assert (await running).stop_reason == "cancelled"


async def test_a_turn_reads_unsaved_text_and_edits_through_the_editor(
    agent: Any, panel: Panel, folder: Path
) -> None:
    await edit(agent, panel, folder, await start(agent, folder, "edits-1"))
    assert (read(folder / "a.py"), panel.asked) == ("edited\n", ["Edit a.py"])
    assert [update.status for update in panel.updates_of("tool_call")] == ["in_progress", "in_progress"]
    ended = [update for update in panel.updates_of("tool_call_update") if update.status == "completed"]
    assert [item.type for update in ended for item in update.content] == ["content", "diff"]
    assert panel.updates_of("usage_update")
    assert {command.name for command in panel.updates_of("available_commands_update")[0].available_commands}


async def test_a_question_is_a_form_of_the_protocol(agent: Any, panel: Panel, folder: Path) -> None:
    sid = await start(agent, folder, "asks-1")
    assert (await agent.prompt(session_id=sid, prompt=[typed("ask me")])).stop_reason == "end_turn"
    assert (panel.asked, panel.text()) == (["Which tables?"], "done")
    assert isinstance(panel.fields["q1"], schema.ElicitationMultiSelectPropertySchema)
    (call,) = [each for each in panel.updates_of("tool_call_update") if each.status == "completed"]
    assert call.raw_output == {"output": "The user answered:\nWhich tables? logs"}


async def test_a_cancelled_turn_is_cancelled(agent: Any, panel: Panel, folder: Path) -> None:
    await cancel(agent, panel, await start(agent, folder, "hangs-1"))


async def test_a_mode_and_an_option_are_set(agent: Any, panel: Panel, folder: Path) -> None:
    sid = await start(agent, folder, "answers-1")
    await agent.set_session_mode(session_id=sid, mode_id="allowEdits")
    answer = await agent.set_config_option(session_id=sid, config_id="engine", value="none")
    values = {option.id: option.current_value for option in answer.config_options}
    assert (values["engine"], values["permissions"]) == ("none", "allowEdits")
    assert panel.updates_of("current_mode_update")[-1].current_mode_id == "allowEdits"


async def test_a_closed_session_is_listed_and_loaded_with_its_past(
    agent: Any, panel: Panel, folder: Path
) -> None:
    sid = await start(agent, folder, "edits-and-hangs-1")
    await edit(agent, panel, folder, sid)
    await cancel(agent, panel, sid)
    await agent.close_session(session_id=sid)
    listed = (await agent.list_sessions(cwd=str(folder))).sessions
    assert [session.session_id for session in listed] == [sid]
    panel.updates.clear()
    await agent.load_session(session_id=sid, cwd=str(folder), mcp_servers=[])
    prompts = [update.content.text for update in panel.updates_of("user_message_chunk")]
    assert prompts == ["edit a.py", "go on"]
    assert len(panel.updates_of("tool_call")) == 2


async def test_a_fork_goes_on_by_itself(agent: Any, panel: Panel, folder: Path) -> None:
    sid = await start(agent, folder, "answers-1")
    await agent.prompt(session_id=sid, prompt=[typed("begin")])
    forked = await agent.fork_session(session_id=sid, cwd=str(folder), mcp_servers=[])
    assert forked.session_id != sid
    panel.updates.clear()
    answer = await agent.prompt(session_id=forked.session_id, prompt=[typed("more")])
    assert (answer.stop_reason, panel.text()) == ("end_turn", "again")


async def test_a_missing_session_is_an_error_with_its_code(agent: Any, folder: Path) -> None:
    with pytest.raises(acp.RequestError) as caught:
        await agent.load_session(session_id="nothing", cwd=str(folder), mcp_servers=[])
    assert caught.value.code == -32002


async def test_our_methods_are_extensions(agent: Any, folder: Path) -> None:
    before = await agent.ext_method("sidecar/status", {})
    await start(agent, folder, "answers-1")
    status = await agent.ext_method("sidecar/status", {})
    assert status["sessions"]["loaded"] == before["sessions"]["loaded"] + 1


async def test_a_sub_agent_asks_in_the_name_of_its_parent_and_is_loaded(
    agent: Any, panel: Panel, folder: Path
) -> None:
    sid = await start(agent, folder, "delegates-1")
    await agent.prompt(session_id=sid, prompt=[typed("delegate it")])
    assert (panel.text(), panel.asked) == ("delegated", ["Run env echo hi (sub-agent)"])
    metas = [update.field_meta or {} for update in panel.updates_of("tool_call_update")]
    states = [meta["sidecar"]["subagent"] for meta in metas if "subagent" in meta.get("sidecar", {})]
    assert [state["state"] for state in states] == ["running", "completed"]
    panel.updates.clear()
    await agent.load_session(session_id=states[0]["child"], cwd=str(folder), mcp_servers=[])
    await panel.wait_for("it says hi")
    listed = (await agent.list_sessions()).sessions
    assert states[0]["child"] not in [each.session_id for each in listed]
