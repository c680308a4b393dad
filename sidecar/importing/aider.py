"""aider: ``.aider.chat.history.md`` in the folder that it works in, every chat of it in one file.

Lines with ``####`` were typed, lines with ``>`` are aider's own, all others are the model's. aider itself
reads the file as one conversation (``--restore-chat-history``), and so does this. A command that the user ran
with ``/run``, ``/test``, ``/git`` or ``!`` keeps the output that follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from sidecar.importing.builder import ImportBuilder
from sidecar.importing.content import Json, as_text, typed_block
from sidecar.llmgateway.contract import TextBlock

_STARTED: Final = "# aider chat started at "
_RUNS: Final = re.compile(r"(?:/run|/test|/git|/lint|!)")
_LineKind: TypeAlias = Literal["header", "typed", "host", "answer"]


def is_aider(line: Json) -> bool:
    """Whether *line* is a line of text that only aider writes."""
    return as_text(line).startswith(_STARTED)


def read_aider(records: Iterable[Json], builder: ImportBuilder) -> None:
    """Read the lines of a history, each without its end."""
    builder.title = "aider history"
    reader = _Reader(builder)
    for line in map(as_text, records):
        reader.read(line)
    reader.end()


class _Reader:
    """The state of one file: the lines of the paragraph that is open."""

    def __init__(self, builder: ImportBuilder) -> None:
        self._builder = builder
        self._kind: _LineKind | None = None
        self._lines: list[str] = []
        self._ran = ""
        self._at_ms: int | None = None

    def read(self, line: str) -> None:
        """Read one line."""
        kind = find_kind(line, self._kind)
        if kind != self._kind:
            self.end()
            self._kind = kind
        if kind == "header":
            self.end()
            self._at_ms = parse_start(line) or self._at_ms
        elif kind == "typed":
            self._lines.append(line[4:].removeprefix(" ").rstrip())
        else:
            self._lines.append(line[1:].removeprefix(" ").rstrip() if kind == "host" else line)

    def end(self) -> None:
        """End the open paragraph."""
        text, self._lines = "\n".join(self._lines).strip("\n"), []
        if self._ran and self._kind != "answer":
            output = f"\n{text}" if self._kind == "host" else ""
            self._builder.prompt([TextBlock(self._ran + output)], at_ms=self._at_ms)
            self._ran = ""
            if self._kind == "host":
                return
        if not text.strip():
            return
        if self._kind == "typed" and _RUNS.match(text):
            self._ran = text
        elif self._kind == "typed":
            self._builder.prompt([typed_block(text)], at_ms=self._at_ms)
        elif self._kind == "answer":
            self._builder.answer([TextBlock(text)], at_ms=self._at_ms, group="aider")
        elif self._kind == "host":
            self._builder.note("hostText")


def find_kind(line: str, before: _LineKind | None) -> _LineKind | None:
    if line.startswith(_STARTED):
        return "header"
    if line.startswith("####"):
        return "typed"
    if line == ">" or line.startswith("> "):
        return "host"
    return "answer" if line.strip() else before


def parse_start(line: str) -> int | None:
    try:
        found = datetime.fromisoformat(line.removeprefix(_STARTED).strip())
    except ValueError:
        return None
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)
