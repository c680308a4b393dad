"""The files that a session read and changed are the same ones in every list of them, of a real daemon.

The lists are: the files in context, the facts of a loss report, the lists of agentcore's summaries, the
files that come back after a compaction, the changes that a checkpoint can take back, and the edited files of
a rewind.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scripted_sessions import DONE, call
from sidecar.conductor.contract import Compaction
from sidecar_client import Session

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX shells"),
]

FILES = (
    *("shown.py", "numbered.py", "ranged.py", "headed.py", "sub/inner.py", "branch.py", "quoted name.py"),
    *(
        "edited.py",
        "replaced.py",
        "sed.py",
        "appended.py",
        "old.py",
        "removed.py",
        "restored.py",
        "source.py",
    ),
    *("searched.py", "awk.py", "failed.py"),
)
READ_BY_SHELL = {
    "cat shown.py": ["shown.py"],
    "nl -ba numbered.py": ["numbered.py"],
    "sed -n '2,3p' ranged.py | head -5": ["ranged.py"],
    "cd sub && head -n 2 inner.py": ["sub/inner.py"],
    "if [ -f branch.py ]; then cat branch.py; fi": ["branch.py"],
    "(cd sub; true); cat 'quoted name.py'": ["quoted name.py"],
}
CHANGED_BY_SHELL = {
    "sed -i 's/one/two/' sed.py": ["sed.py"],
    "echo more >> appended.py": ["appended.py"],
    "cat > document.py <<'END'\nnew\nEND": ["document.py"],
    "echo x | tee teed.py > /dev/null": ["teed.py"],
    "mv old.py moved.py": ["old.py", "moved.py"],
    "rm removed.py": ["removed.py"],
    "cp source.py sub/": ["sub/source.py"],
    "echo changed > restored.py && git checkout -q -- restored.py": ["restored.py"],
    "touch touched.py && false": ["touched.py"],
}
NEITHER_BY_SHELL = (
    *(
        "grep -n one searched.py",
        "awk '{print $1}' awk.py",
        "ls",
        "python3 -c 'print(open(\"awk.py\").read())'",
    ),
    *(
        "find . -name '*.py' | xargs wc -l",
        "cat nothing.py",
        "sed -i s/a/b/ nothing.py",
        "cat $HOME/nothing.py",
    ),
)
READ = {"read.py", *(path for paths in READ_BY_SHELL.values() for path in paths)}
CHANGED = {
    *("edited.py", "written.py", "replaced.py"),
    *(path for paths in CHANGED_BY_SHELL.values() for path in paths),
}
GONE = {"old.py", "removed.py"}
WITH_KNOWN_TEXT = {"edited.py", "written.py", "replaced.py", "document.py"}
"""Files that were changed with a text that the model wrote."""


HEADINGS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)
NOTE = [{"text": "\n\n".join(f"## {heading}\nnone" for heading in HEADINGS)}]
"""An answer to a request for a summary; the lists of files stand below those that a model has written."""


def prepare(project: Path) -> None:
    (project / "sub").mkdir()
    for name in (*FILES, "read.py"):
        (project / name).write_text(f"one line of {name}\ntwo\nthree\n")


def names(project: Path, uris: Iterable[str]) -> set[str]:
    return {
        Path(uri.removeprefix("file://").replace("%20", " ")).relative_to(project).as_posix() for uri in uris
    }


async def compact(session: Session, engine: str) -> Compaction:
    """Compact all but the newest prompt."""
    started = await session.client.compact_start(session.sid, engine=engine, policy={"keepRecent": 1})
    await session.wait_for(
        "compaction",
        lambda event: (
            event.data["compactionId"] == started.compaction_id and event.data["status"] == "completed"
        ),
    )
    listed = await session.client.compact_list(session.sid)
    return next(each for each in listed.compactions if each.compaction_id == started.compaction_id)


async def lists_of(session: Session, project: Path) -> Mapping[str, Any]:
    """Return every list of files, by name; the compactions for them are taken back."""
    found: dict[str, Any] = {"in context": names(project, (each.uri for each in await session.files()))}
    done = await compact(session, "windowBudget")
    for kind in ("read", "modified"):
        loss = await session.client.compact_read(session.sid, done.compaction_id, part="loss", kinds=(kind,))
        texts = [fact.text for fact in loss.facts or ()]
        found[f"loss: {kind}"] = {text.partition(": ")[0].removeprefix(f"{project}/") for text in texts}
    found["restored"] = names(project, done.rehydrated)
    await session.undo(done.compaction_id)
    done = await compact(session, "agentcore")
    info = done.info or {}
    for kind in ("read", "modified"):
        found[f"agentcore: {kind}"] = {path.removeprefix(f"{project}/") for path in info[f"{kind}Files"]}
    await session.undo(done.compaction_id)
    return found


async def test_all_lists_of_a_session_have_the_same_files(project: Path, open_session: Any) -> None:
    prepare(project)
    lines = (*READ_BY_SHELL, *CHANGED_BY_SHELL, *NEITHER_BY_SHELL)
    git = "git init -q . && git add restored.py && git -c user.name=x -c user.email=x@x commit -qm x"
    steps = [
        call("bash", command=git),
        call("read", path="read.py"),
        call("read", path="edited.py"),
        call("edit", path="edited.py", old_text="two", new_text="2"),
        call("write", path="written.py", content="written\n"),
        call("bash", command="cat replaced.py"),
        call("edit", path="replaced.py", old_text="two", new_text="2"),
        *(call("bash", command=line) for line in lines),
    ]
    filler = [{"text": "words " * 3000}]
    session = await open_session(DONE, *steps, DONE, filler, *[NOTE] * 8)
    before = await session.run("hello")
    await session.run("read and change them")
    after = await session.run("write words")
    read = READ | {"edited.py", "replaced.py"}
    found = await lists_of(session, project)
    assert found["in context"] == read | WITH_KNOWN_TEXT
    assert found["loss: read"] == read
    assert found["loss: modified"] == CHANGED
    assert found["agentcore: modified"] == CHANGED
    assert found["agentcore: read"] == read - CHANGED
    assert set() < found["restored"] <= (read | CHANGED) - GONE
    kept = (await session.client.checkpoint_list(session.sid)).checkpoints
    assert names(project, (file.uri for each in kept for file in each.files)) == CHANGED - {"restored.py"}
    moved = await session.client.session_rewind(session.sid, before.head, after.head)
    assert names(project, moved.edited_files) == CHANGED


PATCH = (
    "*** Begin Patch\n*** Update File: patched.py\n@@\n-two\n+2\n*** Add File: added.py\n+x\n*** End Patch"
)
FOREIGN: tuple[tuple[str, Any, str, bool], ...] = (
    ("Read", {"file_path": "read.py", "offset": 2, "limit": 1}, "     2\ttwo", False),
    ("view_file", {"AbsolutePath": "viewed.py"}, "one\ntwo", False),
    ("mcp__fs__read_text_file", {"path": "served.py"}, "one\ntwo", False),
    ("str_replace_editor", {"command": "view", "path": "seen.py"}, "one\ntwo", False),
    ("shell", {"command": ["bash", "-lc", "cd sub && cat inner.py"]}, "one\ntwo", False),
    ("exec", {"input": 'await tools.exec_command({cmd: "sed -n 1,2p scripted.py"})'}, "one\ntwo", False),
    ("Edit", {"file_path": "edited.py", "old_string": "two", "new_string": "2"}, "done", False),
    ("Write", {"file_path": "written.py", "content": "x\n"}, "done", False),
    ("apply_patch", {"input": PATCH}, "done", False),
    ("search_replace", {"file_path": "replaced.py", "old_string": "a", "new_string": "b"}, "done", False),
    ("delete_file", {"target_file": "deleted.py"}, "done", False),
    ("mcp__fs__move_file", {"source": "old.py", "destination": "new.py"}, "done", False),
    ("Bash", {"command": "sed -i s/a/b/ sed.py && make"}, "make: *** no rule\n[exit 2]", True),
    ("Bash", {"command": "cat > document.py <<'END'\nx\nEND"}, "", False),
    ("Edit", {"file_path": "failed.py", "old_string": "two", "new_string": "2"}, "not found", True),
    ("Grep", {"pattern": "x", "path": "searched.py"}, "searched.py:1:x", False),
    ("Bash", {"command": "make test"}, "ok", False),
    ("lint", {"path": "linted.py"}, "fine", False),
)
"""Calls in the names of other agents, with their arguments, results, and whether these are errors."""

FOREIGN_READ = {"read.py", "viewed.py", "served.py", "seen.py", "sub/inner.py", "scripted.py"}
FOREIGN_CHANGED = {
    *("edited.py", "written.py", "patched.py", "added.py", "replaced.py", "deleted.py", "old.py", "new.py"),
    *("sed.py", "document.py"),
}


async def test_so_have_the_lists_of_an_imported_session(project: Path, open_session: Any) -> None:
    records: list[Any] = [{"type": "user", "message": {"content": "hello"}}]
    records.append({"type": "assistant", "message": {"content": [{"type": "text", "text": "hello"}]}})
    records.append({"type": "user", "message": {"content": "read and change them"}})
    for number, (name, given, output, is_error) in enumerate(FOREIGN):
        use = {"type": "tool_use", "id": f"t{number}", "name": name, "input": given}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": output, "is_error": is_error}
        records.append({"type": "assistant", "message": {"content": [use]}})
        records.append({"type": "user", "message": {"content": [result]}})
    records.append({"type": "assistant", "message": {"content": [{"type": "text", "text": "words " * 3000}]}})
    file = project.parent / "session.jsonl"
    lines = (
        {"uuid": f"u{n}", "sessionId": "s", "cwd": str(project), **each} for n, each in enumerate(records)
    )
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    first = await open_session(DONE, *[NOTE] * 8)
    imported = await first.client.session_import(path=str(file), cwd=str(project))
    session = await first.client.load_session(imported.sid)
    await session.client.session_set_config_option(session.sid, "model", "fake-1")
    nodes = (await session.client.session_read(session.sid)).nodes
    after = await session.run("go on")
    found = await lists_of(session, project)
    assert found["in context"] == {"written.py", "document.py", "added.py"}, "the texts that are known whole"
    assert found["loss: read"] == FOREIGN_READ
    assert found["loss: modified"] == FOREIGN_CHANGED
    assert found["agentcore: modified"] == FOREIGN_CHANGED
    assert found["agentcore: read"] == FOREIGN_READ
    moved = await session.client.session_rewind(session.sid, nodes[1].id, after.head)
    assert names(project, moved.edited_files) == FOREIGN_CHANGED
