"""The protocol's own Python SDK drives the real process through a whole session, as an editor would."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from sdk_panel import SdkPanel

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

EDIT = {"path": "a.py", "old_text": "unsaved", "new_text": "edited"}
EDITS: list[list[dict[str, Any]]] = [
    [{"thinking": "look"}, {"toolCall": {"name": "read", "input": {"path": "a.py"}}}],
    [{"toolCall": {"name": "edit", "input": EDIT}}],
    [{"text": "done"}],
]
HANGS: list[list[dict[str, Any]]] = [[{"text": "never ends"}, {"hang": True}]]
WHICH = {"question": "Which tables?", "choices": ["users", "logs"], "multiple": True}
MODELS = {
    "edits-1": {"scripted": EDITS},
    "hangs-1": {"scripted": HANGS},
    "edits-and-hangs-1": {"scripted": [*EDITS, *HANGS]},
    "asks-1": {
        "scripted": [[{"toolCall": {"name": "ask", "input": {"questions": [WHICH]}}}], [{"text": "done"}]]
    },
    "answers-1": {"scripted": [[{"text": "once"}], [{"text": "again"}]]},
}
"""One for each test that calls a model: a script goes on where the last call of any session left it."""


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
def shared_panel() -> SdkPanel:
    from sdk_panel import SdkPanel

    return SdkPanel()


@pytest.fixture
def panel(shared_panel: SdkPanel) -> SdkPanel:
    """The panel, without what other tests have left in it."""
    for kept in (shared_panel.updates, shared_panel.asked, shared_panel.unsaved):
        kept.clear()
    return shared_panel


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(shared_panel: SdkPanel, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """A running agent that has shaken hands."""
    from sdk_panel import connected_agent

    env = {**os.environ, "INDUSAGI_HOME": str(tmp_path_factory.mktemp("home"))}
    command = (sys.executable, "-m", "sidecar", "acp")
    async with connected_agent(shared_panel, *command, env=env, models=MODELS) as agent:
        yield agent


async def start(agent: Any, folder: Path, model: str) -> str:
    session = await agent.new_session(cwd=str(folder), mcp_servers=[], sidecar={"model": model})
    return str(session.session_id)


async def edit(agent: Any, panel: SdkPanel, folder: Path, sid: str) -> None:
    """Let the session read unsaved text, and edit it through the editor."""
    panel.unsaved[str(folder / "a.py")] = "unsaved\n"
    answer = await panel.ask(agent, sid, "edit a.py")
    assert (answer.stop_reason, panel.text()) == ("end_turn", "done")


async def cancel(agent: Any, panel: SdkPanel, sid: str) -> None:
    running = asyncio.ensure_future(panel.ask(agent, sid, "go on"))
    await panel.wait_for("never ends")
    await agent.cancel(session_id=sid)
    assert (await running).stop_reason == "cancelled"


async def test_a_turn_reads_unsaved_text_and_edits_through_the_editor(
    agent: Any, panel: SdkPanel, folder: Path
) -> None:
    await edit(agent, panel, folder, await start(agent, folder, "edits-1"))
    assert (read(folder / "a.py"), panel.asked) == ("edited\n", ["Edit a.py"])
    assert [update.status for update in panel.updates_of("tool_call")] == ["in_progress", "in_progress"]
    ended = [update for update in panel.updates_of("tool_call_update") if update.status == "completed"]
    assert [item.type for update in ended for item in update.content] == ["content", "diff"]
    assert panel.updates_of("usage_update")
    assert {command.name for command in panel.updates_of("available_commands_update")[0].available_commands}


async def test_a_question_is_a_form_of_the_protocol(agent: Any, panel: SdkPanel, folder: Path) -> None:
    sid = await start(agent, folder, "asks-1")
    assert (await panel.ask(agent, sid, "ask me")).stop_reason == "end_turn"
    assert (panel.asked, panel.text()) == (["Which tables?"], "done")
    assert type(panel.fields["q1"]).__name__ == "ElicitationMultiSelectPropertySchema"
    (call,) = [each for each in panel.updates_of("tool_call_update") if each.status == "completed"]
    assert call.raw_output == {"output": "The user answered:\nWhich tables? logs"}


async def test_a_cancelled_turn_is_cancelled(agent: Any, panel: SdkPanel, folder: Path) -> None:
    await cancel(agent, panel, await start(agent, folder, "hangs-1"))


async def test_a_mode_and_an_option_are_set(agent: Any, panel: SdkPanel, folder: Path) -> None:
    sid = await start(agent, folder, "answers-1")
    await agent.set_session_mode(session_id=sid, mode_id="allowEdits")
    answer = await agent.set_config_option(session_id=sid, config_id="engine", value="none")
    values = {option.id: option.current_value for option in answer.config_options}
    assert (values["engine"], values["permissions"]) == ("none", "allowEdits")
    assert panel.updates_of("current_mode_update")[-1].current_mode_id == "allowEdits"


async def test_a_closed_session_is_listed_and_loaded_with_its_past(
    agent: Any, panel: SdkPanel, folder: Path
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


async def test_our_methods_are_extensions(agent: Any, folder: Path) -> None:
    before = await agent.ext_method("sidecar/status", {})
    await start(agent, folder, "answers-1")
    status = await agent.ext_method("sidecar/status", {})
    assert status["sessions"]["loaded"] == before["sessions"]["loaded"] + 1
