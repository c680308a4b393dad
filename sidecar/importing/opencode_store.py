"""opencode's sessions as they lie on disk: rows of a database, or a tree of small files before version 1.2.

Both are read into the document that ``opencode export`` writes. The database is opened for reading only; its
owner may have it open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sidecar.importing.content import Json, as_mapping, as_text, parse_json_text, parse_time
from sidecar.importing.contract import FoundSession

_FIND: Final = "SELECT id, directory, title, time_updated FROM session"
_LIST: Final = """
    SELECT id, directory, title, time_updated,
        (SELECT sum(length(data)) FROM part WHERE part.session_id = session.id)
    FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC LIMIT ?
"""


def is_in_store(path: Path) -> bool:
    """Whether *path* is the database, or the file of a session in the older tree."""
    return path.suffix == ".db" or (path.name.startswith("ses_") and path.parent.parent.name == "session")


def load_document(path: Path, session_id: str) -> Json:
    """Return a session as a document. Raises OSError, ValueError or sqlite3.Error."""
    return load_rows(path, session_id) if path.suffix == ".db" else load_files(path)


def list_database(path: Path, limit: int) -> Iterator[FoundSession]:
    """Yield the newest sessions of a database but for subagents; none where it cannot be read."""
    try:
        with _connect(path) as database:
            rows = database.execute(_LIST, (limit,)).fetchall()
    except sqlite3.Error:
        return
    for session_id, directory, title, updated, size in rows:
        yield FoundSession(
            format="opencode",
            id=session_id,
            path=str(path),
            cwd=directory or "",
            title=title or "",
            updated_at=parse_time(updated) or 0,
            size_bytes=size or 0,
        )


def load_rows(path: Path, session_id: str) -> Json:
    with _connect(path) as database:
        rows = database.execute(f"{_FIND} WHERE id = ?", (session_id,)).fetchall()
        if not rows:
            raise ValueError(f"it has no session {session_id!r}; name one by its id")
        found, directory, title, _ = rows[0]
        parts: dict[str, list[Json]] = {}
        query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
        for part_id, message_id, data in database.execute(query, (session_id,)):
            parts.setdefault(message_id, []).append({**as_mapping(parse_json_text(data)), "id": part_id})
        query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
        messages = [
            {
                "info": {**as_mapping(parse_json_text(data)), "id": message_id},
                "parts": parts.get(message_id, []),
            }
            for message_id, data in database.execute(query, (session_id,))
        ]
        revert = load_revert(database, session_id)
    return {
        "info": {"id": found, "directory": directory, "title": title, "revert": revert},
        "messages": messages,
    }


def load_revert(database: sqlite3.Connection, session_id: str) -> Json:
    """Return the mark of the messages that the user took back; early databases have no column for it."""
    try:
        rows = database.execute("SELECT revert FROM session WHERE id = ?", (session_id,)).fetchall()
    except sqlite3.Error:
        return None
    return parse_json_text(as_text(rows[0][0])) if rows else None


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
        yield database


def load_files(path: Path) -> Json:
    storage = path.parent.parent.parent
    info = _read_object(path)
    messages = []
    for file in sorted((storage / "message" / path.stem).glob("msg_*.json")):
        parts = [_read_object(part) for part in sorted((storage / "part" / file.stem).glob("prt_*.json"))]
        messages.append({"info": _read_object(file), "parts": parts})
    return {"info": info, "messages": messages}


def _read_object(path: Path) -> Mapping[str, Json]:
    return as_mapping(parse_json_text(path.read_text(encoding="utf-8", errors="replace")))
