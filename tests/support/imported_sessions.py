"""Reading of small files that the tests write themselves, and a short form of the entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sidecar.conversation import Entry
from sidecar.importing.contract import ImportedSession
from sidecar.importing.reading import read_session
from sidecar.llmgateway.contract import (
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from sidecar.runtime.store import SessionGraph


def import_records(
    folder: Path, *records: Any, name: str = "session.jsonl", **options: Any
) -> ImportedSession:
    """Write *records* as JSON lines, text as it is, into *folder* and import the file."""
    path = folder / name
    lines = (each if isinstance(each, str) else json.dumps(each) for each in records)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return read_session(path, **options)


def path_of(session: ImportedSession) -> list[Entry]:
    """Return the entries of the active branch."""
    graph = SessionGraph("s")
    graph.restore(session.entries, session.leaf)
    return list(graph.entry_path(session.leaf))


def show(entry: Entry) -> str:
    """Return an entry on one line: its kind, and its blocks in short."""
    return f"{entry.kind}: " + " | ".join(map(_show_block, entry.turn.blocks))


def _show_block(block: Any) -> str:
    match block:
        case TextBlock(text=text):
            return str(text)
        case ThinkingBlock(text=text):
            return f"({text})"
        case ToolCallBlock(id=call_id, name=name):
            return f"{name}#{call_id}"
        case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
            return f"#{call_id}{'!' if is_error else '='}{output}"
        case CommandBlock(command=command):
            return f"/{command}"
        case ImageBlock(media_type=media_type):
            return f"<{media_type}>"
    raise AssertionError(block)


def shown(session: ImportedSession) -> list[str]:
    """Return the active branch, an entry a line."""
    return [show(entry) for entry in path_of(session)]
