"""Sessions are found where their agents keep them, the newest first, with folder, title and size."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imported_sessions import shown
from sidecar.importing.contract import ImportFailedError
from sidecar.importing.finding import find_sessions, usual_places
from sidecar.importing.opencode import is_in_store, list_database
from sidecar.importing.reading import read_session

SECOND = 1_000_000_000


def write(path: Path, *records: Any, at_s: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records), encoding="utf-8")
    os.utime(path, ns=(at_s * SECOND, at_s * SECOND))
    return path


def make_home(home: Path) -> None:
    """Write one session of each agent, the first one the newest."""
    write(home / ".claude/projects/-w/agent-1.jsonl", {"type": "user", "sessionId": "s"}, at_s=9500)
    prompt = {"type": "user", "uuid": "1", "parentUuid": None, "sessionId": "s", "cwd": "/w"}
    write(
        home / ".claude/projects/-w/aa.jsonl",
        {**prompt, "message": {"role": "user", "content": "Fix\nit"}},
        at_s=9000,
    )
    write(
        home / ".codex/sessions/2026/11/20/rollout-2026-11-20T09-00-00-0-1-2-3-4.jsonl",
        {"type": "session_meta", "payload": {"id": "x", "cwd": "/w"}},
        at_s=8000,
    )
    write(home / ".pi/agent/sessions/--w--/pp.jsonl", {"type": "session", "id": "pp", "cwd": "/w"}, at_s=7000)
    write(
        home / ".copilot/session-state/oo/events.jsonl",
        {"type": "session.start", "data": {"context": {"cwd": "/w"}}},
        at_s=6000,
    )
    write(home / ".gemini/projects.json", {"projects": {"/w": "w"}})
    write(
        home / ".gemini/tmp/w/chats/session-1.json",
        {
            "sessionId": "gg",
            "projectHash": "x",
            "messages": [{"id": "1", "type": "user", "content": "Hello"}],
        },
        at_s=5000,
    )
    write(home / ".cline/data/state/taskHistory.json", [{"id": "77", "cwdOnTaskInitialization": "/w"}])
    write(
        home / ".cline/data/tasks/77/api_conversation_history.json",
        [{"role": "user", "content": "A task"}],
        at_s=4000,
    )
    write(home / "work/.aider.chat.history.md", at_s=3000)
    make_database(home / ".local/share/opencode/opencode.db")


def make_database(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            """
            CREATE TABLE session (id, parent_id, directory, title, time_updated);
            CREATE TABLE message (id, session_id, time_created, data);
            CREATE TABLE part (id, message_id, session_id, data);
            INSERT INTO session VALUES ('ses_1', NULL, '/w', 'Fix', 1760000000000);
            INSERT INTO session VALUES ('ses_2', 'ses_1', '/w', 'Sub', 1);
            INSERT INTO message VALUES ('m1', 'ses_1', 1, '{"role": "user"}');
            INSERT INTO message VALUES ('m2', 'ses_1', 2, '{"role": "assistant"}');
            INSERT INTO part VALUES ('p1', 'm1', 'ses_1', '{"type": "text", "text": "hi"}');
            INSERT INTO part VALUES ('p2', 'm2', 'ses_1', '{"type": "text", "text": "ho"}');
            """
        )


def test_one_session_of_each_agent_is_found(tmp_path: Path) -> None:
    make_home(tmp_path)
    places = usual_places(tmp_path, {}, [tmp_path / "work"], "linux")
    found = find_sessions(places)
    assert [(each.format, each.id, each.cwd, each.title) for each in found] == [
        ("opencode", "ses_1", "/w", "Fix"),
        ("claude-code", "aa", "/w", "Fix"),
        ("codex", "0-1-2-3-4", "/w", ""),
        ("pi", "pp", "/w", ""),
        ("copilot-cli", "oo", "/w", ""),
        ("gemini-cli", "session-1", "/w", "Hello"),
        ("cline", "77", "/w", "A task"),
        ("aider", found[7].id, str(tmp_path / "work"), ""),
    ]
    assert found[1].updated_at == 9_000_000
    assert found[1].size_bytes == Path(found[1].path).stat().st_size
    assert [each.format for each in find_sessions(places, format_name="pi")] == ["pi"]
    assert len(find_sessions(places, limit=2)) == 2
    assert [each.id for each in find_sessions(places, id_start="ses")] == ["ses_1", "session-1"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(ImportFailedError, match="is not a file"):
        read_session(tmp_path / "pipe.jsonl")


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("CLAUDE_CONFIG_DIR", "moved/projects"),
        ("CODEX_HOME", "moved/sessions"),
        ("COPILOT_HOME", "moved/session-state"),
        ("XDG_DATA_HOME", "moved/opencode"),
        ("PI_CODING_AGENT_DIR", "moved/sessions"),
    ],
)
def test_a_moved_folder_is_followed(tmp_path: Path, variable: str, folder: str) -> None:
    places = usual_places(tmp_path, {variable: str(tmp_path / "moved")}, (), "linux")
    assert tmp_path / folder in [place.root for place in places]


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("linux", ".config/Code"),
        ("darwin", "Library/Application Support/Code"),
        ("win32", "AppData/Roaming/Code"),
    ],
)
def test_each_system_has_its_folder_of_settings(tmp_path: Path, platform: str, folder: str) -> None:
    roots = [place.root for place in usual_places(tmp_path, {}, (), platform) if place.format == "cline"]
    assert tmp_path / folder / "User/globalStorage/saoudrizwan.claude-dev/tasks" in roots


def test_nothing_is_found_in_an_empty_home(tmp_path: Path) -> None:
    assert find_sessions(usual_places(tmp_path / "none", {}, [tmp_path])) == []


def test_a_session_in_the_database_of_opencode_is_read_by_its_id(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    make_database(path)
    assert is_in_store(path)
    assert [each.id for each in list_database(path, 9)] == ["ses_1"]
    assert shown(read_session(path, session_id="ses_1")) == ["user: hi", "assistant: ho"]
    with pytest.raises(ImportFailedError, match="no session 'ses_9'"):
        read_session(path, session_id="ses_9")


def test_a_file_that_is_no_database_lists_nothing(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_text("no", encoding="utf-8")
    assert list(list_database(path, 9)) == []


def test_the_older_tree_of_opencode_is_read(tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    path = write(storage / "session/proj/ses_1.json", {"id": "ses_1", "directory": "/w", "title": "Fix"})
    write(storage / "message/ses_1/msg_1.json", {"id": "msg_1", "role": "user"})
    write(storage / "part/msg_1/prt_1.json", {"type": "text", "text": "hi"})
    session = read_session(path)
    assert (shown(session), session.title, session.cwd) == (["user: hi"], "Fix", "/w")
