"""Checkpoints of a session whose files are open in an editor, damaged, too large, or were never changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fake_workspace import FakeWorkspace
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import PlannedChange
from sidecar.capabilities.edit import EDIT, WRITE
from sidecar.capabilities.read import READ
from sidecar.conductor.session import Session
from sidecar.conductor.workbench.checkpoints import Checkpoints
from sidecar.llmgateway.scripted import Call, Say
from sidecar.workspace.contract import FileAccessError, FileBytes, FileView
from sidecar.workspace.kept_contents import KeptContents


class Contents(KeptContents):
    """Kept contents of a workspace in memory; its files have no more than 100 bytes."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.workspace = FakeWorkspace()

    def look(self, path: Path) -> FileBytes:
        text = self.workspace.files[path]
        if len(text) > 100:
            raise FileAccessError("tooLarge", f"cannot read {path}: it has 100 bytes or more")
        return FileBytes(text.encode(), 0o644, text, "utf-8")


async def a_changed_file(make_stage: Any, home: Path, text: str = "one\n") -> tuple[Any, Session, Path]:
    contents = Contents(home)
    script = [
        [Call("read", {"path": "a.txt"})],
        [Call("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"})],
        [Say("done")],
    ]
    stage = await make_stage(script, tools=(READ, EDIT, WRITE), contents=contents)
    contents.workspace = stage.workspace
    path = stage.folder / "a.txt"
    stage.workspace.put(path, text)
    session = await stage.session()
    await session.choose("permissions", "allowAll")
    return stage, session, path


async def test_a_restore_goes_through_the_editor_where_the_file_is_open(
    make_stage: Any, tmp_path: Path
) -> None:
    stage, session, path = await a_changed_file(make_stage, tmp_path / "home")
    applied: list[str] = []

    async def apply(before: FileView, text: str) -> bool:
        applied.append(text)
        editor.open_buffer(before.uri, version=(before.version or 0) + 1, text=text)
        return True

    editor = stage.workspace.editor(apply)
    editor.open_buffer(path.as_uri(), version=1, text="one, unsaved\n")
    await stage.ask(session, "change it")
    (restored,) = await session.restore_files("c1", None)
    assert restored.outcome == "restored"
    assert applied == ["two, unsaved\n", "one, unsaved\n"]
    assert stage.workspace.files[path] == "one\n"


async def test_unsaved_changes_of_the_user_are_work_of_others(make_stage: Any, tmp_path: Path) -> None:
    stage, session, path = await a_changed_file(make_stage, tmp_path / "home")
    await stage.ask(session, "change it")
    stage.workspace.editor().open_buffer(path.as_uri(), version=1, text="two, and more\n")
    (restored,) = await session.restore_files("c1", [path.as_uri()])
    assert (restored.outcome, restored.reason) == ("changedSince", "others have changed it since")


async def test_a_change_that_was_kept_and_never_made_is_left_out(make_stage: Any, tmp_path: Path) -> None:
    stage, session, path = await a_changed_file(make_stage, tmp_path / "home")
    await stage.ask(session, "change it")
    checkpoints: Checkpoints = session.workbench.checkpoints
    await checkpoints.of_call("3").keep([PlannedChange(path, stage.workspace.now(path), "never\n")])
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid)).session
    assert [each.checkpoint_id for each in loaded.workbench.checkpoints.all] == ["c1", "c2"]
    assert [each.outcome for each in await loaded.restore_files("c2", None)] == ["unchanged"]
    assert [each.outcome for each in await loaded.restore_files("c1", None)] == ["restored"]
    assert stage.workspace.files[path] == "one\n"


async def test_a_large_file_is_named_and_not_kept(make_stage: Any, tmp_path: Path) -> None:
    stage, session, path = await a_changed_file(make_stage, tmp_path / "home", "one\n" + "x" * 100)
    await stage.ask(session, "change it")
    (kept,) = session.workbench.checkpoints.all
    assert "100 bytes or more" in (kept.files[0].problem or "")
    (restored,) = await session.restore_files("c1", None)
    assert restored.outcome == "notKept"
    assert stage.workspace.files[path].startswith("two")


async def test_a_content_that_has_gone_is_named(make_stage: Any, tmp_path: Path) -> None:
    stage, session, _ = await a_changed_file(make_stage, tmp_path / "home")
    await stage.ask(session, "change it")
    KeptContents(tmp_path / "home").remove(session.sid)
    (restored,) = await session.restore_files("c1", None)
    assert (restored.outcome, restored.reason) == ("notKept", "the kept content has gone")


async def test_nothing_of_an_ephemeral_session_is_kept(make_stage: Any, tmp_path: Path) -> None:
    stage, _, _ = await a_changed_file(make_stage, tmp_path / "home")
    session = await stage.session(ephemeral=True)
    await session.choose("permissions", "allowAll")
    await stage.ask(session, "change it")
    assert session.workbench.checkpoints.all == ()
    assert not (tmp_path / "home").exists()
    with pytest.raises(InvalidInput, match="no checkpoint 'c1'"):
        session.restore_files("c1", None)


async def test_files_that_a_rewind_takes_back_are_not_reported_as_changed(
    make_stage: Any, tmp_path: Path
) -> None:
    """Between the move of the conversation and that of the files, the model's content is not the file's."""
    stage, session, path = await a_changed_file(make_stage, tmp_path / "home")
    await stage.ask(session, "change it")
    seq, read = session.record.log.seq, session.record.history.current[2].node_id
    await session.rewind(read, expect_head=None, restores_files=True)
    assert stage.workspace.files[path] == "one\n"
    kinds = [event.kind for event in session.record.log.after(seq)]
    assert ("headMoved" in kinds, {"fileStale", "fileFresh"} & {*kinds}) == (True, set())
    stage.workspace.put(path, "by others\n")
    assert [event.kind for event in session.record.log.after(seq)][-1] == "fileStale"
