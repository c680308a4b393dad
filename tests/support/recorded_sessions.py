"""Recorded sessions of other agents, as every engine's tests go through them, and the calls of tools in them.

The recordings lie beside the checkout and are no part of it: where they are absent, the tests are skipped and
say so. Their own converter reads them; nothing of it is kept here.

The repositories of the recordings are not there. But a result of a read shows the lines of its file, an edit
that worked shows that its old text was in it, and an error says what stood against the call. Before a call is
made again the file is brought into that state.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)

_BESIDE: Final = Path(__file__).resolve().parents[2].parent / "shared" / "data"
_DATA: Final = Path(os.environ["FIDELITY_DATA"]).parent if "FIDELITY_DATA" in os.environ else _BESIDE
"""The folder of ``dev``, the recordings by agent, and ``tools``."""

AGENTS: Final = (
    "claude-code",
    "codex",
    "opencode",
    "copilot-cli",
    "gemini-cli",
    "pi",
    "aider",
    "swe-agent",
    "mini-swe-agent",
    "openhands",
    "tau-bench",
    "cline",
)
"""Whose sessions are recorded."""

WITH_CALLS: Final = tuple(name for name in AGENTS if name not in ("aider", "mini-swe-agent", "tau-bench"))
"""Those whose recordings tell calls and results apart."""

Record: TypeAlias = dict[str, Any]
"""A message: role, text, tool_calls, tool_call_id, tool_name, is_error, usage; None for what it has not."""


def recordings(
    agents: Sequence[str] = AGENTS, *, each: int | None = None, max_bytes: int | None = None
) -> list[Any]:
    """Return the paths of recordings as test parameters, the smallest of an agent first.

    Args:
        agents: whose.
        each: how many of each agent, all for None.
        max_bytes: leaves larger ones out.
    """
    found = [path for name in agents for path in recorded_files(name, max_bytes)[:each]]
    absent = pytest.mark.skip(reason="the recorded sessions are not beside this checkout")
    named = [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found]
    return named or [pytest.param(_DATA, id="absent", marks=absent)]


def read_records(path: Path) -> list[Record]:
    """Return a recording's messages, oldest first."""
    return _converter()(path.read_text("utf-8", "surrogateescape"), str(path))[1]


def turn_of(record: Record) -> Turn:
    """Return a message of a recording as a turn."""
    text = (TextBlock(record["text"]),) if record["text"] else ()
    if record["role"] == "tool":
        return ToolTurn((ToolResultBlock(record["tool_call_id"] or "", record["text"], record["is_error"]),))
    if record["role"] == "assistant":
        calls = (ToolCallBlock(c["id"] or "", c["name"] or "", c["input"]) for c in record["tool_calls"])
        return AssistantTurn((*text, *calls))
    return UserTurn(text)


def recorded_files(agent: str, max_bytes: int | None = None) -> list[Path]:
    """Return the recordings of one agent, the smallest first; none where they are absent."""
    sized = ((path.stat().st_size, path) for path in (_DATA / "dev" / agent).glob("*"))
    return [path for size, path in sorted(sized) if max_bytes is None or size <= max_bytes]


@cache
def _converter() -> Callable[[str, str], tuple[str, list[Record]]]:
    spec = importlib.util.spec_from_file_location("recorded_sessions_convert", _DATA / "tools" / "convert.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    convert: Callable[[str, str], tuple[str, list[Record]]] = module.convert
    return convert


Kind: TypeAlias = Literal["read", "edit", "write", "grep", "glob"]

KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("read", "view", "read_file"), "read"),
    **dict.fromkeys(("edit", "replace"), "edit"),
    **dict.fromkeys(("write", "write_file"), "write"),
    **dict.fromkeys(("grep", "grep_search", "rg"), "grep"),
    "glob": "glob",
}
"""Our tool for a tool of another agent, by its name in small letters."""

PATHS: Final = ("file_path", "filePath", "path", "dir_path")
_NUMBERED: Final = re.compile(r"^\s*(\d+)(?:→|: |\. |\t)(.*)$")
_ABSENT: Final = re.compile(r"does not exist|not found: |no such file|ENOENT", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call with its outcome; *arguments* are as the model wrote them, but for the places of files."""

    kind: Kind
    arguments: Mapping[str, Any]
    path: Path | None
    result: str
    is_error: bool

    @property
    def problem(self) -> str:
        """A word for what stood against the call, empty for nothing that is known."""
        found = (
            ("refused", r"user doesn't want|rejected|interrupted by user|denied"),
            ("stale", r"modified since|unexpectedly modified|has changed since"),
            ("unread", r"has not been read|must read"),
            ("twice", r"found \d+ matches|multiple"),
            ("same", r"exactly the same|identical"),
            ("missing text", r"to replace not found|could not find|not found in"),
            ("absent", _ABSENT.pattern),
            ("folder", r"EISDIR|is a directory"),
            ("too large", r"exceeds maximum|too large"),
        )
        words = (word for word, sign in found if re.search(sign, self.result, re.IGNORECASE))
        return next(words, "") if self.is_error else ""

    def lines(self) -> dict[int, str]:
        """Return the lines that the result of a read shows, by their numbers."""
        text = self.result
        if "<content>" in text:
            text = text.partition("<content>\n")[2].partition("\n</content>")[0]
        numbered = [_NUMBERED.match(line) for line in text.split("\n")]
        if numbered and numbered[0] is not None:
            return {int(found[1]): found[2] for found in numbered if found is not None}
        first = self.arguments.get("offset", 1)
        return dict(enumerate(text.split("\n"), first if isinstance(first, int) else 1))


def recorded_calls(recording: Path, root: Path) -> Iterator[RecordedCall]:
    """Yield the calls of a recording that our tools know, with every path below *root*."""
    waiting: dict[str, Mapping[str, Any]] = {}
    for record in read_records(recording):
        waiting |= {call["id"]: call for call in record.get("tool_calls") or ()}
        call = waiting.pop(record.get("tool_call_id") or "", None)
        kind = None if call is None else KINDS.get(str(call["name"]).lower())
        if call is None or kind is None or not isinstance(call["input"], Mapping):
            continue
        arguments = dict(call["input"])
        path: Path | None = None
        for name in PATHS:
            if isinstance(arguments.get(name), str):
                path = root / arguments[name].removeprefix("~").lstrip("/")
                arguments[name] = str(path)
        if kind == "glob" and str(arguments.get("pattern", "")).startswith("/"):
            arguments["pattern"] = str(root) + arguments["pattern"]
        yield RecordedCall(kind, arguments, path, record["text"] or "", bool(record["is_error"]))
