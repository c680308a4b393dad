"""Turns, edits and questions in the editors people have, each with what its client can do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types

if TYPE_CHECKING:
    from tests.e2e.conftest import Editor

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


async def test_the_handshake_describes_the_daemon(editor: Editor) -> None:
    capabilities = editor.answered.capabilities
    experimental: Any = capabilities.experimental
    assert experimental["sidecar"]["protocol"] == 1
    assert capabilities.execute_command_provider
    assert "sidecar.prompt" in capabilities.execute_command_provider.commands
    general = editor.client.capabilities.general if editor.client.capabilities else None
    encodings = (general.position_encodings or []) if general else []
    wanted = "utf-8" if types.PositionEncodingKind.Utf8 in encodings else "utf-16"
    assert capabilities.position_encoding == wanted


async def test_a_prompt_is_a_command_that_settles(editor: Editor, workplace: Path) -> None:
    ran = await editor.ask(await editor.new_session(workplace), "where is `parse_brackets` defined?")
    assert ran["stopReason"] == "end_turn"
    assert "parser.py:1" in ran["text"]


async def test_a_turn_shows_as_progress_to_its_end(editor: Editor, workplace: Path) -> None:
    """The command brings a token of the client's own."""
    prompt = [{"type": "text", "text": "what is in parser.py?"}]
    sid = await editor.new_session(workplace)
    editor.progress["turn-1"] = []
    await editor.client.workspace_execute_command_async(
        types.ExecuteCommandParams("sidecar.prompt", [{"sid": sid, "input": prompt}], "turn-1")
    )
    reports = list(editor.progress["turn-1"])
    assert reports[0].kind == "begin"
    assert reports[-1] == types.WorkDoneProgressEnd(message="end_turn")


async def test_cancel_on_the_progress_of_a_turn_interrupts_it(editor: Editor, workplace: Path) -> None:
    """The command brings no token, so the daemon asks the editor for one."""
    sid = await editor.new_session(workplace, model="half-1")
    before = set(editor.progress)
    asking = asyncio.ensure_future(editor.ask(sid, "go on"))
    await editor.until(lambda: any(editor.progress[token] for token in set(editor.progress) - before))
    (token,) = set(editor.progress) - before
    begun = editor.progress[token][0]
    assert (begun.kind, begun.cancellable) == ("begin", True)
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token=token))
    assert (await asking)["stopReason"] == "cancelled"
    cancelled = types.WorkDoneProgressEnd(message="cancelled")
    await editor.until(lambda: editor.progress[token][-1] == cancelled)
    ran = await editor.ask(await editor.new_session(workplace), "what is in parser.py?")
    assert ran["stopReason"] == "end_turn", "and nothing else"


async def test_the_model_reads_unsaved_text(editor: Editor, workplace: Path) -> None:
    path = workplace / "parser.py"
    editor.open(path, "def only_in_the_editor(text):\n    return 0\n")
    editor.type(path, (1, 11), "0", "41 + 1")
    ran = await editor.ask(await editor.new_session(workplace), "what is in parser.py?")
    editor.close(path)
    assert "only_in_the_editor" in ran["text"]
    assert "parse_brackets" not in ran["text"]


async def test_a_command_asks_with_buttons_and_runs_when_allowed(editor: Editor, workplace: Path) -> None:
    editor.asked.clear()
    ran = await editor.ask(await editor.new_session(workplace), "run `env echo allowed-it`")
    assert ran["stopReason"] == "end_turn"
    assert len(editor.asked) == 1
    assert "allowed-it" in ran["text"]


async def test_an_edit_lands_in_the_open_buffer_where_the_editor_takes_versioned_edits(
    editor: Editor, workplace: Path
) -> None:
    path = workplace / "note.txt"
    path.write_text("on disk\n")
    editor.open(path, "typed\n")
    sid = await editor.new_session(workplace)
    await editor.ask(sid, "what is in note.txt?")
    ran = await editor.ask(sid, "write note.txt: from the model")
    version, text = editor.buffers[path.as_uri()]
    n_edits = len(editor.edits)
    editor.edits.clear()
    editor.close(path)
    assert path.read_text() == "on disk\n", "an unsaved buffer is never written beneath"
    if editor.takes_versioned_edits:
        assert (n_edits, version, text) == (1, 2, "from the model")
    else:
        assert (n_edits, version, text) == (0, 1, "typed\n")
        assert "unsaved changes" in ran["text"]


async def test_compaction_is_reachable_by_commands(editor: Editor, workplace: Path) -> None:
    sid = await editor.new_session(workplace)
    for _ in range(3):
        await editor.ask(sid, "what is in parser.py?")
    plan = await editor.execute("sidecar.compactPreview", sid=sid, mode="force")
    assert plan["dropped"]["count"] > 0
    started = await editor.execute("sidecar.compact", sid=sid)
    assert started["disposition"] == "started"
    undone = await editor.execute("sidecar.uncompact", sid=sid)
    assert undone["restoredTokens"] >= 0
    usage = await editor.execute("sidecar.context", sid=sid)
    assert 0 < usage["used"] < usage["window"]


async def test_plain_clients_get_no_events_of_ours(editor: Editor, workplace: Path) -> None:
    await editor.ask(await editor.new_session(workplace), "what is in parser.py?")
    status = await editor.execute("sidecar.status")
    assert status["sessions"]["loaded"] >= 1
    assert editor.client.messages == []
