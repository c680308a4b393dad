"""What the editors people have show of a conversation: stale files, lenses, documents; and who watches."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lsprotocol import types

if TYPE_CHECKING:
    from tests.e2e.conftest import Editor

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

STALE = ["changed since the model read it"]


async def test_a_file_that_changed_is_marked_until_it_is_read_again(editor: Editor, workplace: Path) -> None:
    """Where the editor watches, it tells of the change itself; the others have our own watcher."""
    path = workplace / "watched.py"
    path.write_text("one = 1\n")
    sid = await editor.new_session(workplace)
    await editor.ask(sid, "what is in watched.py?")
    path.write_text("two = 2\n")
    if editor.watches:
        changed = types.FileEvent(path.as_uri(), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([changed]))
    await editor.until(partial(editor.has_hints, path, STALE))
    hint = editor.client.diagnostics[path.as_uri()][0]
    assert (hint.severity, hint.source) == (types.DiagnosticSeverity.Hint, "sidecar")
    await editor.ask(sid, "what is in watched.py?")
    await editor.until(partial(editor.has_hints, path, []))


async def test_typing_marks_a_file_undoing_unmarks_it_and_so_does_the_end_of_the_session(
    editor: Editor, workplace: Path
) -> None:
    path = workplace / "typed.py"
    path.write_text("one = 1\n")
    editor.open(path, "one = 1\n")
    sid = await editor.new_session(workplace)
    await editor.ask(sid, "what is in typed.py?")
    for old, new, expected in (("1", "2", STALE), ("2", "1", []), ("1", "3", STALE)):
        editor.type(path, (0, 6), old, new)
        await editor.until(partial(editor.has_hints, path, expected))
    await editor.request("sidecar/session/close", {"sid": sid})
    await editor.until(partial(editor.has_hints, path, []))
    editor.close(path)


async def test_a_session_outside_the_editor_s_folders_is_watched_all_the_same(
    editor: Editor, workplace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text("one = 1\n")
    await editor.new_session(workplace)
    sid = await editor.new_session(tmp_path)
    await editor.ask(sid, "what is in elsewhere.py?")
    path.write_text("two = 2\n")
    await editor.until(partial(editor.has_hints, path, STALE))
    watch = (await editor.execute("sidecar.status"))["watch"]
    assert watch["backend"] == ("client+watchfiles" if editor.watches else "watchfiles")


async def test_a_lens_shows_the_model_s_knowledge_of_a_file(editor: Editor, workplace: Path) -> None:
    offered = editor.answered.capabilities.code_lens_provider
    assert (offered is not None) == (editor.text_document.code_lens is not None)
    if offered is None:
        return
    path = workplace / "lens.py"
    path.write_text("one = 1\n" * 50)
    sid = await editor.new_session(workplace)
    await editor.ask(sid, "what is in lens.py?")
    title, drop = await editor.lens_titles(path)
    assert title.startswith("in context, ")
    assert drop == "drop from context"
    n_refreshes = editor.lens_refreshes
    await editor.ask(sid, "what is in parser.py?")
    assert "read 1 turn ago" in (await editor.lens_titles(path))[0]
    if editor.workspace.code_lens and editor.workspace.code_lens.refresh_support:
        await editor.until(lambda: editor.lens_refreshes > n_refreshes)
    else:
        assert editor.lens_refreshes == 0


async def test_a_file_is_dropped_by_the_command_of_its_lens(editor: Editor, workplace: Path) -> None:
    if editor.answered.capabilities.code_lens_provider is None:
        pytest.skip("this editor shows no lenses")
    path = workplace / "dropped.py"
    path.write_text("one = 1\n" * 50)
    sid = await editor.new_session(workplace)
    await editor.ask(sid, "what is in dropped.py?")
    asked = types.CodeLensParams(types.TextDocumentIdentifier(path.as_uri()))
    lenses = await editor.client.text_document_code_lens_async(asked)
    drop = (lenses or [])[1].command
    assert drop is not None
    done = await editor.client.workspace_execute_command_async(
        types.ExecuteCommandParams(drop.command, drop.arguments)
    )
    assert isinstance(done, dict)
    assert done["tokensFreed"] > 0
    assert await editor.lens_titles(path) == []


async def test_a_conversation_opens_as_a_document_also_before_and_after_a_compaction(
    editor: Editor, workplace: Path
) -> None:
    served = editor.answered.capabilities.workspace
    offered = served.text_document_content if served else None
    assert (offered is not None) == (editor.workspace.text_document_content is not None)
    if offered is None:
        return
    assert isinstance(offered, types.TextDocumentContentOptions)
    assert list(offered.schemes) == ["sidecar-session"]
    sid = await editor.new_session(workplace)
    for _ in range(3):
        await editor.ask(sid, "what is in parser.py?")
    transcript = f"sidecar-session:/{sid}/transcript.md"
    assert (await editor.document(transcript)).count("what is in parser.py?") >= 3
    compaction = (await editor.execute("sidecar.compact", sid=sid))["compactionId"]
    await editor.until(lambda: transcript in editor.document_refreshes)
    sides = [f"sidecar-session:/{sid}/compaction/{compaction}/{side}.md" for side in ("before", "after")]
    before, after = [await editor.document(uri) for uri in sides]
    assert before != after == await editor.document(transcript)
