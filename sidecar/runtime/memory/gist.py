"""A gist without a model: what was asked, which rules were set, which files and commands, what went wrong.

Deterministic and bounded. Every line was said or done in the turns it is made of; nothing is inferred. An
earlier gist among the turns is carried on, line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    CommandBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.runtime.memory.estimate import CHARS_PER_TOKEN, serialized

__all__ = ["SUMMARY_HEADING", "is_host_text", "local_gist"]

SUMMARY_HEADING: Final = "[condensed earlier context]"
"""How the text of a summary turn begins."""

_DIGEST_MARKS: Final = (SUMMARY_HEADING, "[session digest", "[branch digest")
_RESTORED_MARK: Final = "[Restored file after compaction]"
_SECTIONS: Final = ("Rules", "Requests", "Errors", "Files", "Commands", "Decisions", "Open")
"""The headings, in the order in which they get room."""

_RULE: Final = re.compile(
    r"\b(?:always|never|must|do not|don't|only|avoid|prefer|make sure|from now on|remember)\b", re.I
)
_DECISION: Final = re.compile(r"\b(?:decided|decision|because|instead of|chose|rather than)\b", re.I)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_ALARM: Final = re.compile(r"(?:error|exception)\b|\b(?:failed|failure|fatal|panic|not found|denied)\b", re.I)
_EXIT: Final = re.compile(r"\bexit(?:ed)?(?: code| status)?[ :=]+(-?\d+)", re.I)
_PATH_KEYS: Final = ("path", "file_path", "filePath", "file")
_LINE_CHARS: Final = 240
_NOT_MINED_AFTER: Final = 20_000
"""Longer texts are read at both ends only, so that one huge paste does not cost a second."""


def is_host_text(text: str) -> bool:
    """Whether *text* under the user's role was written by the host: a digest or a restored file."""
    return text.startswith((*_DIGEST_MARKS, _RESTORED_MARK))


def local_gist(messages: Sequence[Turn], *, max_tokens: int = 1_000) -> str:
    """Return the gist of *messages*, of at most *max_tokens* tokens at 4 characters each.

    Sections without lines are left out. When room is short every section keeps its first line and its
    newest ones.

    >>> local_gist([UserTurn((TextBlock("Fix the build. Never touch main."),))])
    '# Rules\\n- Never touch main.\\n\\n# Requests\\n- Fix the build. Never touch main.'
    """
    sections: dict[str, dict[str, None]] = {name: {} for name in _SECTIONS}
    for name, line in _lines(messages):
        if line.strip():
            sections[name][_clip(line)] = None
    kept = _fitting([list(lines) for lines in sections.values()], max_tokens * CHARS_PER_TOKEN)
    return "\n\n".join(
        "\n".join((f"# {name}", *(f"- {line}" for line in lines)))
        for name, lines in zip(sections, kept, strict=True)
        if lines
    )


def _lines(messages: Sequence[Turn]) -> Iterator[tuple[str, str]]:
    outcomes = {
        block.call_id: block
        for turn in messages
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
    }
    names: dict[str, str] = {}
    last_said = ""
    for turn in messages:
        for block in turn.blocks:
            match block:
                case TextBlock(text=text) if isinstance(turn, UserTurn):
                    yield from _user_lines(text)
                case TextBlock(text=text) if isinstance(turn, AssistantTurn):
                    last_said = text or last_said
                    yield from _matching("Decisions", _DECISION, text)
                case ToolCallBlock():
                    names[block.id] = block.name
                    yield from _call_lines(block, outcomes.get(block.id))
                case ToolResultBlock(is_error=True):
                    yield "Errors", f"{names.get(block.call_id, 'tool')}: {_alarm(serialized(block.output))}"
                case CommandBlock(command=command, args=args):
                    yield "Commands", " ".join((command, *(args or ())))
                case _:
                    continue
    yield "Open", last_said


def _user_lines(text: str) -> Iterator[tuple[str, str]]:
    if text.startswith(_DIGEST_MARKS):
        yield from _carried(text.partition("\n")[2])
    elif not is_host_text(text):
        yield "Requests", text
        yield from _matching("Rules", _RULE, text)


def _carried(digest: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of an earlier digest under the section they stood in, or under Open."""
    section = "Open"
    for raw in digest.split("\n"):
        line = raw.strip()
        if line.startswith("#"):
            title = line.lstrip("# ").lower()
            section = next((name for name in _SECTIONS if name.lower() in title), "Open")
        elif line and line.lower() != "none":
            yield section, line.removeprefix("- ")


def _matching(section: str, pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    for sentence in _SENTENCE.split(_ends(text)):
        if pattern.search(sentence):
            yield section, sentence.strip("-* \t")


def _call_lines(call: ToolCallBlock, outcome: ToolResultBlock | None) -> Iterator[tuple[str, str]]:
    arguments: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) else {}
    failed = " failed" if outcome is not None and outcome.is_error else ""
    path = next((arguments[key] for key in _PATH_KEYS if isinstance(arguments.get(key), str)), None)
    if path is not None:
        yield "Files", f"{path} ({call.name}{failed})"
    command = arguments.get("command")
    if isinstance(command, str):
        code = _EXIT.search(_ends(serialized(outcome.output))) if outcome is not None else None
        yield "Commands", f"`{command}`{f' -> exit {code[1]}' if code else failed and ' -> failed'}"


def _alarm(text: str) -> str:
    """Return the line that says what went wrong: the last that sounds like it, else the first."""
    lines = [line for line in _ends(text).split("\n") if line.strip()]
    alarming = [line for line in lines if _ALARM.search(line)]
    return (alarming or lines[:1] or ["no message"])[-1].strip()


def _ends(text: str) -> str:
    half = _NOT_MINED_AFTER // 2
    return text if len(text) <= _NOT_MINED_AFTER else f"{text[:half]}\n{text[-half:]}"


def _fitting(sections: Sequence[Sequence[str]], max_chars: int) -> list[list[str]]:
    """Return what fits of every section: in rounds, the first line, then from the newest back."""
    picks = [[0, *range(len(lines) - 1, 0, -1)] if lines else [] for lines in sections]
    kept: list[list[int]] = [[] for _ in sections]
    for turn in range(max(map(len, picks), default=0)):
        for lines, pick, keep, name in zip(sections, picks, kept, _SECTIONS, strict=True):
            if turn < len(pick):
                cost = len(lines[pick[turn]]) + 3 + (0 if keep else len(name) + 4)
                if cost <= max_chars:
                    max_chars -= cost
                    keep.append(pick[turn])
    return [[lines[index] for index in sorted(keep)] for lines, keep in zip(sections, kept, strict=True)]


def _clip(line: str) -> str:
    text = " ".join(line[: 4 * _LINE_CHARS].split())
    return text if len(text) <= _LINE_CHARS else f"{text[: _LINE_CHARS - 3]}..."
