"""Tool results as lines that can be cited: tolerant readers of what read, grep and the like answer.

Nothing here judges what a line means; a line's rank is how many of the wanted words it holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.llmgateway.contract import ToolCallBlock, ToolResultBlock

__all__ = ["Finding", "Hit", "best_hits", "finding_of", "is_definition"]

_NUMBERED: Final = re.compile(r"\s*(\d{1,9})(?:\t|→|: |\| )(.*)")
_GREPPED: Final = re.compile(r"((?:[A-Za-z]:)?[^:\n]+):(\d{1,9}):\s?(.*)")
_DEFINITION: Final = re.compile(
    r"\s*(?:export |default |public |private |static |async |pub |abstract |final )*"
    r"(?:def|class|fn|func|function|const|let|var|type|struct|enum|interface|trait|impl|module|macro_rules!)\b"
    r"|\s*[A-Z][A-Z0-9_]+\s*(?::[^=]+)?=\s"
)
_MAX_LINES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of one file, and the tool that showed it."""

    path: str
    line: int
    text: str
    tool: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One tool call and what came of it; *path* is the file it was about, where it was about one."""

    tool: str
    input: Any
    text: str
    is_error: bool
    path: str | None
    hits: tuple[Hit, ...]

    @property
    def lines(self) -> list[str]:
        """The lines of the answer that are not blank."""
        return [line.strip() for line in self.text.split("\n")[:_MAX_LINES] if line.strip()]

    @property
    def file_name(self) -> str | None:
        """The name of the file that was read, or looked for with a pattern."""
        sought = self.path or _argument(self.input, ("pattern", "query", "name", "glob"))
        return sought.replace("\\", "/").rstrip("/").rpartition("/")[2] if sought else None

    def is_of(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether this came of the call of *tool* with *arguments*."""
        return self.tool == tool and self.input == arguments


def finding_of(call: ToolCallBlock, result: ToolResultBlock) -> Finding:
    """Return what *result* says in answer to *call*."""
    text = _as_text(result.output)
    path = _argument(call.input, ("path", "file_path", "filePath", "file"))
    is_error = bool(result.is_error)
    hits = () if is_error else tuple(_hits(call.name, path, text))
    return Finding(call.name, call.input, text, is_error, path, hits)


def best_hits(findings: Iterable[Finding], terms: Sequence[str], *, limit: int) -> list[Hit]:
    """Return the *limit* best hits: those with most of *terms* first, definitions before uses.

    Without a term in it a line is no hit, unless there are no terms at all. One line is cited once.
    """
    wanted = [term.lower() for term in terms]
    ranked: list[tuple[float, int, Hit]] = []
    seen: set[tuple[str, int]] = set()
    for finding in findings:
        for hit in finding.hits:
            if (hit.path, hit.line) not in seen and (score := _score(hit.text, wanted)) > 0:
                seen.add((hit.path, hit.line))
                ranked.append((-score, len(ranked), hit))
    return [hit for _, _, hit in sorted(ranked)[:limit]]


def is_definition(text: str) -> bool:
    """Whether a line of code seems to define something."""
    return _DEFINITION.match(text) is not None


def _score(text: str, wanted: Sequence[str]) -> float:
    if not text.strip():
        return 0
    low = text.lower()
    n_found = sum(term in low for term in wanted)
    if wanted and not n_found:
        return 0
    return n_found + (1.5 if is_definition(text) else 0.5)


def _hits(tool: str, path: str | None, text: str) -> Iterable[Hit]:
    lines = text.split("\n")[:_MAX_LINES]
    if tool == "read" and path is not None:
        numbered = [_NUMBERED.fullmatch(line.rstrip("\r")) for line in lines]
        return [Hit(path, int(match[1]), match[2], tool) for match in numbered if match is not None]
    if tool in ("bash", "write", "edit"):
        return []
    grepped = [_GREPPED.fullmatch(line.rstrip("\r")) for line in lines]
    return [Hit(match[1].strip(), int(match[2]), match[3], tool) for match in grepped if match is not None]


def _argument(value: Any, names: Sequence[str]) -> str | None:
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in names if isinstance(value.get(name), str)), None)


def _as_text(output: Any) -> str:
    """Return the text of a tool's answer, whatever JSON it came in."""
    match output:
        case None:
            return ""
        case str():
            return output
        case list() | tuple():
            return "\n".join(_as_text(each) for each in output)
        case {"text": text} | {"content": text} | {"output": text} | {"stdout": text}:
            return _as_text(text)
        case _:
            return json.dumps(output, ensure_ascii=False, default=str)
