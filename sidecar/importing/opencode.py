"""opencode: a session as one document of messages with parts.

That is the form of ``opencode export``. On disk a session is rows of a database, or a tree of small files in
versions before 1.2; both are read into this form. The database is opened for reading only; its owner may have
it open. A call and its result are one part. A compaction is a mark in a prompt, and the answer to it is the
summary.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sidecar.importing.builder import ImportBuilder, Item, ShownFile
from sidecar.importing.content import (
    Json,
    as_list,
    as_mapping,
    as_text,
    image_block,
    parse_arguments,
    parse_json_text,
    parse_time,
    typed_block,
)
from sidecar.importing.contract import FoundSession
from sidecar.llmgateway.contract import Block, TextBlock, ThinkingBlock, ToolCallBlock

_QUIET: Final = frozenset({"step-start", "step-finish", "patch", "snapshot", "agent", "retry"})
_LINE: Final = re.compile(r"(?:<content>|<file>)?(\d+)(?:: |\| )(.*)")
_WHOLE: Final = re.compile(r"\(End of file - total (\d+) lines\)")
_PATH: Final = re.compile(r"<path>(.*?)</path>")

_FIND: Final = "SELECT id, directory, title, time_updated FROM session"
_LIST: Final = """
    SELECT id, directory, title, time_updated,
        (SELECT sum(length(data)) FROM part WHERE part.session_id = session.id)
    FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC LIMIT ?
"""


def is_opencode(value: Json) -> bool:
    """Whether *value* is a session of opencode."""
    record = as_mapping(value)
    messages = as_list(record.get("messages"))
    return "info" in record and bool(messages) and "parts" in as_mapping(messages[0])


def read_opencode(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the document of a session."""
    for record in map(as_mapping, records):
        info = as_mapping(record.get("info"))
        builder.id = as_text(info.get("id"))
        builder.cwd = as_text(info.get("directory")) or builder.cwd
        builder.title = as_text(info.get("title"))
        reader = _Reader(builder)
        for message in as_list(record.get("messages")):
            reader.read(
                as_mapping(as_mapping(message).get("info")), as_list(as_mapping(message).get("parts"))
            )
        reverted = as_text(as_mapping(info.get("revert")).get("messageID"))
        if reverted:
            builder.rewind_to(reverted, before=True)


class _Reader:
    """The state of one session: the items that the next summary keeps in view."""

    def __init__(self, builder: ImportBuilder) -> None:
        self._builder = builder
        self._kept: list[Item] = []

    def read(self, info: Mapping[str, Json], parts: Iterable[Json]) -> None:
        """Read one message."""
        at_ms, key = parse_time(as_mapping(info.get("time")).get("created")), as_text(info.get("id"))
        found = [as_mapping(part) for part in parts]
        if info.get("role") == "user":
            self.read_prompt(found, at_ms, key)
        elif info.get("summary") is True:
            texts = [as_text(part.get("text")) for part in found if part.get("type") == "text"]
            self._builder.fold("\n\n".join(texts), kept=self._kept, at_ms=at_ms, key=key)
            self._kept = []
        else:
            self.read_answer(found, at_ms, key)

    def read_prompt(self, parts: Iterable[Mapping[str, Json]], at_ms: int | None, key: str) -> None:
        blocks: list[Block] = []
        shown: list[str] = []
        for part in parts:
            text = as_text(part.get("text"))
            match part.get("type"):
                case "text" if part.get("synthetic") and _PATH.match(text):
                    shown.append(text)
                case "text" if part.get("synthetic") or part.get("ignored"):
                    self._builder.note("hostText")
                case "text" if text:
                    blocks.append(typed_block(text))
                case "file" if image := image_block({**part, "media_type": part.get("mime")}):
                    blocks.append(image)
                case "compaction":
                    self._kept = self._builder.items_from(as_text(part.get("tail_start_id")))
                case "subtask":
                    blocks.append(TextBlock(as_text(part.get("prompt"))))
        self._builder.prompt(blocks, at_ms=at_ms, key=key)
        for text in shown:
            path = _PATH.match(text)
            self._builder.file(text, _shown_file(path[1] if path else "", text), at_ms=at_ms)

    def read_answer(self, parts: Iterable[Mapping[str, Json]], at_ms: int | None, key: str) -> None:
        """Read an answer; its results are recorded when all of its calls are."""
        blocks: list[Block] = []
        states: list[tuple[ToolCallBlock, Mapping[str, Json]]] = []
        for part in parts:
            kind, text = as_text(part.get("type")), as_text(part.get("text"))
            if kind == "text":
                blocks.append(TextBlock(text))
            elif kind == "reasoning":
                blocks.append(ThinkingBlock(text))
            elif kind == "tool":
                state = as_mapping(part.get("state"))
                # A scrubber may have replaced the ids; call and result share the part.
                call_id = as_text(part.get("id")) or as_text(part.get("callID"))
                name = as_text(part.get("tool")) or "tool"
                call = ToolCallBlock(call_id, name, parse_arguments(state.get("input")))
                blocks.append(call)
                states.append((call, state))
            elif kind not in _QUIET:
                self._builder.note("unknownItem")
        self._builder.answer(blocks, at_ms=at_ms, key=key)
        for call, state in states:
            if state.get("status") in ("completed", "error"):
                self.read_result(call, state)

    def read_result(self, call: ToolCallBlock, state: Mapping[str, Json]) -> None:
        is_error = state.get("status") == "error"
        code = as_mapping(state.get("metadata")).get("exit")
        output = as_text(state.get("error" if is_error else "output"))
        path = as_text(as_mapping(call.input).get("filePath")) if call.name == "read" else ""
        self._builder.result(
            call.id,
            output,
            is_error=is_error or (isinstance(code, int) and code != 0),
            shown=_shown_file(path, output),
        )


def _shown_file(path: str, text: str) -> ShownFile | None:
    """Return the file that a result of ``read`` shows, None for a part of one."""
    total = _WHOLE.search(text[-200:]) if path else None
    if total is None:
        return None
    found = [_LINE.fullmatch(line) for line in text.split("\n")]
    lines = [(int(line[1]), line[2]) for line in found if line is not None]
    # A line of the file may itself look like a numbered one only behind its own number.
    if [number for number, _ in lines] != list(range(1, int(total[1]) + 1)):
        return None
    return ShownFile(path, "".join(f"{line}\n" for _, line in lines))


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
