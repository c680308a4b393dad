"""The fake keeps the promises of the port."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_workspace import FakeWorkspace
from recorded_reads import expect
from sidecar.workspace.contract import (
    EditorPort,
    FileAccessError,
    FileView,
    StaleFile,
    TextChange,
    WatchStatus,
    WorkspacePort,
)
from sidecar.workspace.files import text_hash

A = Path("/p/a.py")
URI = "file:///p/a.py"


async def test_buffer_before_disk() -> None:
    fake = FakeWorkspace({A: "disk"})
    port: WorkspacePort = fake
    assert (await port.view(Path("/p/x/../a.py"))).text == "disk"
    editor: EditorPort = port.editor()
    editor.open_buffer(URI, version=2, text="mine")
    view = await port.view(A)
    assert (view.text, view.source, view.version, view.unsaved) == ("mine", "buffer", 2, True)
    assert await port.open_views() == (view,)
    fake.put(A, "mine")
    editor.save_buffer(URI)
    assert not (await port.view(A)).unsaved
    editor.close_buffer(URI)
    assert (await port.view(A)).source == "disk"


async def test_what_is_not_there() -> None:
    with pytest.raises(FileAccessError, match="no such file"):
        await FakeWorkspace().view(A)


async def test_staleness_is_told_at_once() -> None:
    fake = FakeWorkspace({A: "disk"})
    editor = fake.editor()
    stale_files: list[StaleFile] = []
    tracker = fake.tracker("s", stale_files.append)
    expect(tracker, await fake.view(A))
    editor.open_buffer(URI, version=1, text="disk")
    assert stale_files == []
    editor.change_buffer(URI, version=2, changes=[TextChange("typed")], encoding="utf-16")
    assert [stale.now_hash for stale in stale_files] == [text_hash("typed")]
    editor.close_buffer(URI)
    expect(tracker, await fake.view(A))
    fake.put(A, None)
    assert stale_files[1].now_hash is None
    fake.drop_tracker("s")
    fake.put(A, "new")
    assert len(stale_files) == 2


async def test_writing() -> None:
    fake = FakeWorkspace()
    editor = fake.editor()
    view = await fake.write(A, "one", expected_hash=None)
    with pytest.raises(FileAccessError, match="last read"):
        await fake.write(A, "two", expected_hash=None)
    editor.open_buffer(URI, version=1, text="one")
    second = await fake.write(A, "two", expected_hash=view.hash)
    assert (second.text, second.source, await fake.open_views()) == ("two", "disk", ())
    editor.change_buffer(URI, version=2, changes=[TextChange("typed")], encoding="utf-16")
    with pytest.raises(FileAccessError, match="unsaved changes"):
        await fake.write(A, "three", expected_hash=text_hash("typed"))


@pytest.mark.parametrize("accepts", [True, False])
async def test_writing_through_the_editor(accepts: bool) -> None:
    fake = FakeWorkspace({A: "one"})

    async def apply(before: FileView, new_text: str) -> bool:
        if accepts:
            changes = [TextChange(new_text)]
            editor.change_buffer(before.uri, version=2, changes=changes, encoding="utf-16")
        return accepts

    editor = fake.editor(apply)
    editor.open_buffer(URI, version=1, text="one")
    if accepts:
        assert (await fake.write(A, "two", expected_hash=text_hash("one"))).text == "two"
        return
    with pytest.raises(FileAccessError, match="did not accept"):
        await fake.write(A, "two", expected_hash=text_hash("one"))


async def test_watching_and_listening() -> None:
    fake = FakeWorkspace()
    changed: list[Path] = []
    unsubscribe = fake.on_change(changed.append)
    dispose = fake.watch(Path("/p"))
    assert fake.watch_status() == WatchStatus("watchfiles", (Path("/p"),), 0)
    give_back = fake.leave_to_client([Path("/p")])
    assert fake.watch_status().backend == "client"
    give_back()
    assert fake.watch_status().backend == "watchfiles"
    fake.disk_changed([A])
    unsubscribe()
    dispose()
    dispose()
    fake.disk_changed([A])
    await fake.close()
    assert (changed, fake.watched, fake.closed) == ([A], [], True)
