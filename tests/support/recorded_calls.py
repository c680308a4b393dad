"""Calls of tools in recorded sessions, and the files that they were made on, as far as the results show them.

The repositories of the recordings are not there. But a result of a read shows the lines of its file, an edit
that worked shows that its old text was in it, and an error says what stood against the call. Before a call is
made again the file is brought into that state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from recorded_sessions import read_records

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
