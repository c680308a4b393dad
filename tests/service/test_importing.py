"""Sessions of other agents through the daemon: listed, imported, and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar._internal.errors import SidecarError
from sidecar.boot import ENGINES
from sidecar.llmgateway.scripted import Say

STEPS: tuple[dict[str, Any], ...] = (
    {"type": "user", "message": {"role": "user", "content": "Fix the parser\nplease"}},
    {
        "type": "assistant",
        "message": {
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/w/a.py"}}],
        },
    },
    {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "1\tx = 1"}],
        },
        "toolUseResult": {
            "type": "text",
            "file": {
                "filePath": "/w/a.py",
                "content": "x = 1\n",
                "numLines": 1,
                "startLine": 1,
                "totalLines": 1,
            },
        },
    },
    {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}},
    {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "We fixed it."}},
    {"type": "user", "message": {"role": "user", "content": "And the tests?"}},
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with one session of Claude Code."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    for name in ("CODEX_HOME", "COPILOT_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    for name in ("PI_CODING_AGENT_DIR", "CLINE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    folder = tmp_path / "claude" / "projects" / "-w"
    folder.mkdir(parents=True)
    lines = (
        json.dumps({"uuid": str(n), "parentUuid": None, "sessionId": "5c98", "cwd": str(tmp_path), **step})
        for n, step in enumerate(STEPS)
    )
    (folder / "5c98f1d2.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


async def test_a_session_is_listed_imported_and_gone_on_with(home: Path, make_desk: Any) -> None:
    desk = make_desk([[Say("They pass.")]])
    client = desk.client()
    (found,) = (await client.call("session/import", listOnly=True))["sessions"]
    assert (found["source"], found["id"], found["cwd"]) == ("claude-code", "5c98f1d2", str(home))
    assert found["title"] == "Fix the parser"

    done = await client.call("session/import", id="5c98", model="scripted-1")
    report = done["report"]
    assert (report["title"], report["cwd"]) == ("Fix the parser", str(home))
    assert report["entries"] == {"user": 2, "assistant": 1, "tool": 1, "summary": 1}
    assert (report["reads"], report["compactions"], report["notes"]) == (1, 1, [])

    loaded = await client.call("session/load", sid=done["sid"], replay="full")
    assert loaded["integrity"]["ok"]
    assert [each["kind"] for each in (await client.call("session/tree", sid=done["sid"]))["nodes"]] == [
        *("user", "assistant", "tool", "summary", "user")
    ]
    files = (await client.call("context/files", sid=done["sid"]))["files"]
    assert [each["uri"] for each in files] == ["file:///w/a.py"]
    await desk.ask(client, done["sid"], "Go on")
    (compaction,) = (await client.call("compact/list", sid=done["sid"]))["compactions"]
    assert (
        compaction["summary"],
        compaction["preCount"],
        compaction["droppedCount"],
    ) == (
        "We fixed it.",
        3,
        3,
    )
    await client.call("compact/undo", sid=done["sid"], compactionId=compaction["compactionId"], force=True)
    nodes = (await client.call("session/read", sid=done["sid"]))["nodes"]
    assert [each["role"] for each in nodes] == ["user", "assistant", "tool", "user", "user", "assistant"]


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_imported_session_goes_on_with_every_engine(home: Path, make_desk: Any, engine: str) -> None:
    desk = make_desk([[Say("They pass.")], [Say("# A summary")], [Say("# Another")]])
    client = desk.client()
    done = await client.call("session/import", id="5c98", model="scripted-1", engine=engine)
    await client.call("session/load", sid=done["sid"])
    answer = await desk.ask(client, done["sid"], "Go on")
    assert answer["text"] == "They pass."
    assert (await client.call("context/usage", sid=done["sid"]))["used"] > 0
    for form in ("markdown", "json", "claude-code", "codex"):
        exported = await client.call("session/export", sid=done["sid"], format=form, view="full")
        assert "And the tests?" in exported["text"]
        assert "Fix the parser" in exported["text"]


@pytest.mark.parametrize(
    ("params", "kind", "says"),
    [
        pytest.param({}, "invalidParams", "neither path nor id", id="nothing named"),
        pytest.param({"path": "a.jsonl"}, "invalidParams", "not an absolute path", id="a relative path"),
        pytest.param({"id": "zz"}, "invalidParams", "no session begins with", id="an unknown id"),
        pytest.param({"id": "5c", "source": "word"}, "invalidParams", "no source 'word'", id="a source"),
        pytest.param({"id": "5c", "cwd": "/gone/away"}, "invalidParams", "no such folder", id="a folder"),
        pytest.param({"id": "5c", "engine": "magic"}, "invalidParams", "no engine 'magic'", id="an engine"),
        pytest.param({"id": "5c", "model": "magic"}, "modelNotFound", "magic", id="a model"),
    ],
)
async def test_a_wrong_request_says_what_is_wrong(
    home: Path, make_desk: Any, params: dict[str, str], kind: str, says: str
) -> None:
    client = make_desk([]).client()
    with pytest.raises(SidecarError, match=says) as caught:
        await client.call("session/import", **params)
    assert caught.value.kind == kind
    assert (await client.call("session/list"))["sessions"] == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        pytest.param("gone.jsonl", None, "No such file", id="no file"),
        pytest.param("a.jsonl", '{"x": 1}\n', "not a session of a known agent", id="another file"),
        pytest.param("a.json", '{"x": ', "cannot be read", id="a damaged document"),
        pytest.param(
            "a.jsonl", '{"type": "session", "cwd": "/"}\n', "holds no messages", id="an empty session"
        ),
    ],
)
async def test_a_file_that_is_no_session_is_refused(
    home: Path, make_desk: Any, name: str, text: str | None, says: str
) -> None:
    path = home / name
    if text is not None:
        path.write_text(text, encoding="utf-8")
    client = make_desk([]).client()
    with pytest.raises(SidecarError, match=says) as caught:
        await client.call("session/import", path=str(path))
    assert caught.value.kind == "fileProblem"
