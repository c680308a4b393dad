"""A panel sees which files an undo or a rewind takes back, before it asks for that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.acp.conftest import Stage


def call(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the answer of a model that calls one tool."""
    return [{"toolCall": {"name": tool, "input": arguments}}]


DONE = [{"text": "done"}]
LONG = [{"text": "a long answer " * 3_000}]


async def allow_all(stage: Stage, sid: str) -> None:
    await stage.call("session/set_mode", {"sessionId": sid, "modeId": "allowAll"})


async def changed(stage: Stage, **params: Any) -> list[tuple[str, list[str]]]:
    """Return the files of a diff, by name, with their changed lines."""
    answer = await stage.call("_sidecar/checkpoint/diff", params)
    return [
        (Path(each["uri"]).name, [line for line in each["diff"].splitlines()[2:] if line[0] in "+-"])
        for each in answer["result"]["files"]
    ]


async def test_a_rewind_with_files_is_shown_first(stage: Stage) -> None:
    (stage.folder / "a.txt").write_text("one\n")
    edit = call("edit", path="a.txt", old_text="one", new_text="two")
    sid = await stage.session(call("read", path="a.txt"), DONE, edit, DONE)
    await allow_all(stage, sid)
    await stage.run(1, sid, "read it")
    head = stage.daemon.service.hub.session(sid).record.history.head
    await stage.run(2, sid, "change it")
    assert await changed(stage, sid=sid, toNode=head) == [("a.txt", ["-one", "+two"])]
    assert (stage.folder / "a.txt").read_text() == "two\n"
    now = stage.daemon.service.hub.session(sid).record.history.head
    params = {"sid": sid, "toNode": head, "expectHead": now, "files": "restore"}
    moved = (await stage.call("_sidecar/session/rewind", params))["result"]
    assert [each["outcome"] for each in moved["restoredFiles"]] == ["restored"]
    assert (stage.folder / "a.txt").read_text() == "one\n"


async def test_an_undo_with_files_is_shown_first(stage: Stage) -> None:
    (stage.folder / "a.txt").write_text("one\n")
    (stage.folder / "b.txt").write_text("one\n")
    reads = [*call("read", path="a.txt"), *call("read", path="b.txt")]
    early = call("edit", path="a.txt", old_text="one", new_text="two")
    late = call("edit", path="b.txt", old_text="one", new_text="two")
    notes = [{"text": "# Goal\nto change files"}]
    sid = await stage.session(reads, early, LONG, LONG, LONG, notes, call("read", path="b.txt"), late, DONE)
    await allow_all(stage, sid)
    for number in range(3):
        await stage.run(number, sid, f"step {number}")
    params = {"sid": sid}
    compaction_id = (await stage.call("_sidecar/compact/start", params))["result"]["compactionId"]
    await stage.run("later", sid, "and the other one")
    assert (stage.folder / "b.txt").read_text() == "two\n"
    assert await changed(stage, sid=sid, compactionId=compaction_id) == [("b.txt", ["-one", "+two"])]
    params = {"sid": sid, "compactionId": compaction_id, "files": "restore"}
    undone = (await stage.call("_sidecar/compact/undo", params))["result"]
    assert [Path(each["uri"]).name for each in undone["restoredFiles"]] == ["b.txt"]
    assert (stage.folder / "a.txt").read_text() == "two\n"
    assert (stage.folder / "b.txt").read_text() == "one\n"
