"""Finds the sessions of other agents where those agents keep them. It blocks, and reads no file whole.

A place is a folder of one format with a pattern for its files. The newest files are listed first; their
beginnings have the folder and the title.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from sidecar._internal.values import Value
from sidecar.importing.content import Json, as_list, as_mapping, as_text, parse_json_text
from sidecar.importing.contract import FoundSession
from sidecar.importing.opencode import list_database
from sidecar.importing.reading import peek
from sidecar.llmgateway.contract import TextBlock

_EDITORS: Final = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_CLINE: Final = "saoudrizwan.claude-dev"
_SUBAGENT: Final = "agent-"
"""How Claude Code begins the names of files that a subagent wrote."""

_TITLE_CHARS: Final = 80
_MAX_PEEKED_BYTES: Final = 16 << 20


class Place(Value):
    """A folder of one format, and a pattern for the files of its sessions."""

    format: str
    root: Path
    pattern: str


def usual_places(
    home: Path, environment: Mapping[str, str], folders: Iterable[Path] = (), platform: str = sys.platform
) -> tuple[Place, ...]:
    """Return the places where the agents keep their sessions.

    Args:
        home: the user's home folder.
        environment: the variables by which an agent's folder can be moved.
        folders: folders with work in them; aider keeps its history there.
        platform: a value of ``sys.platform``.
    """

    def folder(variable: str, default: Path) -> Path:
        return Path(environment[variable]) if environment.get(variable) else default

    if platform == "win32":
        settings = folder("APPDATA", home / "AppData" / "Roaming")
    elif platform == "darwin":
        settings = home / "Library" / "Application Support"
    else:
        settings = folder("XDG_CONFIG_HOME", home / ".config")
    claude = folder("CLAUDE_CONFIG_DIR", home / ".claude")
    codex = folder("CODEX_HOME", home / ".codex")
    copilot = folder("COPILOT_HOME", home / ".copilot")
    opencode = folder("XDG_DATA_HOME", home / ".local" / "share") / "opencode"
    gemini = folder("GEMINI_CLI_HOME", home) / ".gemini"
    cline = folder("CLINE_DIR", home / ".cline") / "data"
    pi = folder("PI_CODING_AGENT_DIR", home / ".pi" / "agent")
    tasks = [
        cline / "tasks",
        *(settings / each / "User" / "globalStorage" / _CLINE / "tasks" for each in _EDITORS),
    ]
    return (
        Place("claude-code", claude / "projects", "*/*.jsonl"),
        Place("codex", codex / "sessions", "*/*/*/rollout-*.jsonl"),
        Place("codex", codex / "archived_sessions", "rollout-*.jsonl"),
        Place("pi", pi / "sessions", "*/*.jsonl"),
        Place("opencode", opencode, "opencode*.db"),
        Place("opencode", opencode / "storage" / "session", "*/ses_*.json"),
        Place("copilot-cli", copilot / "session-state", "*/events.jsonl"),
        Place("gemini-cli", gemini / "tmp", "*/chats/session-*.json*"),
        *(Place("cline", each, "*/api_conversation_history.json") for each in tasks),
        Place("cline", cline / "sessions", "*/*.messages.json"),
        *(Place("aider", each, ".aider.chat.history.md") for each in folders),
    )


def find_sessions(
    places: Iterable[Place], *, format_name: str = "", id_start: str = "", limit: int = 200
) -> list[FoundSession]:
    """Return the sessions of *places*, the newest first.

    Args:
        places: the folders to search; a missing one has no sessions.
        format_name: only sessions of this format; empty for all.
        id_start: only sessions with an id that begins like this.
        limit: the most sessions to return.
    """
    files: list[tuple[float, int, Path, Place]] = []
    found: list[FoundSession] = []
    has_database = False
    for place in places:
        if format_name and place.format != format_name:
            continue
        for path in find_files(place):
            if path.suffix == ".db":
                stored = list(list_database(path, limit))
                has_database = has_database or bool(stored)
                found += [each for each in stored if each.id.startswith(id_start)]
            elif place.format == "opencode" and has_database:
                break  # a tree that was migrated stays behind
            elif find_id(path, place.format).startswith(id_start):
                stat = path.stat()
                files.append((stat.st_mtime, stat.st_size, path, place))
    files.sort(key=lambda each: each[0], reverse=True)
    found += [describe_file(path, place, mtime, size) for mtime, size, path, place in files[:limit]]
    return sorted(found, key=lambda each: each.updated_at, reverse=True)[:limit]


def find_files(place: Place) -> Iterator[Path]:
    try:
        for path in place.root.glob(place.pattern):
            if path.is_file() and not path.name.startswith(_SUBAGENT):
                yield path
    except OSError:
        return


def describe_file(path: Path, place: Place, mtime: float, size: int) -> FoundSession:
    cwd, title = "", ""
    if place.pattern == "*/ses_*.json":
        info = as_mapping(_load(path))
        cwd, title = as_text(info.get("directory")), as_text(info.get("title"))
    elif path.suffix != ".json" or size <= _MAX_PEEKED_BYTES:
        builder = peek(path, place.format)
        if builder is not None:
            texts = (block.text for block in builder.first_prompt if isinstance(block, TextBlock))
            cwd, title = builder.cwd, builder.title or next(texts, "")
    if place.format == "gemini-cli":
        cwd = cwd or find_gemini_folder(path)
    elif place.format == "aider":
        cwd, title = str(path.parent), ""
    elif place.format == "cline":
        task = find_cline_task(path)
        cwd = cwd or as_text(task.get("cwdOnTaskInitialization"))
    first_line = title.strip().split("\n")[0]
    return FoundSession(
        format=place.format,
        id=find_id(path, place.format),
        path=str(path),
        cwd=cwd,
        title=first_line[:_TITLE_CHARS],
        updated_at=int(mtime * 1000),
        size_bytes=size,
    )


def find_id(path: Path, format_name: str) -> str:
    """Return the agent's id of the session in *path*, as its path has it."""
    if format_name in ("copilot-cli", "cline") and path.name in (
        "events.jsonl",
        "api_conversation_history.json",
    ):
        return path.parent.name
    if format_name == "aider":
        return sha256(str(path).encode()).hexdigest()[:12]
    if format_name == "codex":
        return "-".join(path.stem.split("-")[-5:])
    return path.stem.removesuffix(".messages")


def find_gemini_folder(path: Path) -> str:
    """Return the folder of a session of Gemini CLI, which its file does not name."""
    project = path.parent.parent
    try:
        return (project / ".project_root").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        pass
    known = as_mapping(as_mapping(_load(project.parent.parent / "projects.json")).get("projects"))
    for folder, name in known.items():
        if name == project.name or sha256(folder.encode()).hexdigest() == project.name:
            return folder
    return ""


def find_cline_task(path: Path) -> Mapping[str, object]:
    """Return the entry of a task in the history of Cline."""
    tasks = map(as_mapping, as_list(_load(path.parent.parent.parent / "state" / "taskHistory.json")))
    return next((task for task in tasks if task.get("id") == path.parent.name), {})


def _load(path: Path) -> Json:
    try:
        return parse_json_text(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
