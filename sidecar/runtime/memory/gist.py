"""The local gist: a summary without a model, of requests, rules, files, commands, errors and decisions.

It is deterministic and bounded. Every line comes from the turns; nothing is inferred. An earlier gist among
the turns is carried on line by line, under the sections it stood in. When room is short, the sections get it
in
rounds: each keeps its first line, then its newest one, the one before that, and so on, until nothing fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sidecar.conversation import EntryKind
from sidecar.llmgateway.contract import (
    AssistantTurn,
    CommandBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.runtime.memory.estimate import CHARS_PER_TOKEN, serialize
from sidecar.text.typed import find_typed_sentences

SUMMARY_HEADING: Final = "[condensed earlier context]"
"""The mark of this engine: the first line of a summary turn."""

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
_MAX_SEARCHED_CHARS: Final = 20_000
"""Longer texts are searched at both ends only, so that one huge paste does not cost a second."""


TurnKinds: TypeAlias = Sequence[EntryKind | None]
"""The kind of each turn, as far as the host knows it; for None the first words of a text decide."""


def kind_of_text(text: str, kind: EntryKind | None) -> EntryKind:
    """Return the kind of a text under the user's role.

    Args:
        text: one block of the turn. The prompt that a compaction kept follows the summary in one turn.
        kind: the kind of the turn as its host knows it, None for unknown.
    """
    if kind is not None:
        return kind
    return "summary" if text.startswith(SUMMARY_HEADING) else "user"


def local_gist(messages: Sequence[Turn], *, max_tokens: int = 1_000, kinds: TurnKinds = ()) -> str:
    """Return the gist of *messages*.

    Args:
        messages: the turns to condense.
        max_tokens: its size at most, at 4 characters a token. Sections without lines are left out.
        kinds: the kind of each turn, empty for unknown.

    >>> local_gist([UserTurn((TextBlock("Fix the build. Never touch main."),))])
    '# Rules\\n- Never touch main.\\n\\n# Requests\\n- Fix the build. Never touch main.'
    """
    sections: dict[str, dict[str, None]] = {name: {} for name in _SECTIONS}
    for name, line in _lines(messages, kinds):
        text = " ".join(line[: 4 * _LINE_CHARS].split())
        if text:
            sections[name][text if len(text) <= _LINE_CHARS else f"{text[: _LINE_CHARS - 3]}..."] = None
    kept = fit_sections([list(lines) for lines in sections.values()], max_tokens * CHARS_PER_TOKEN)
    return "\n\n".join(
        "\n".join((f"# {name}", *(f"- {line}" for line in lines)))
        for name, lines in zip(sections, kept, strict=True)
        if lines
    )


def earlier_gists(messages: Sequence[Turn], kinds: TurnKinds) -> Iterator[str]:
    """Yield the texts of the summaries among *messages*; *kinds* is empty where the host knows none."""
    for turn, kind in zip(messages, kinds or (None,) * len(messages), strict=True):
        for block in turn.blocks if isinstance(turn, UserTurn) else ():
            if isinstance(block, TextBlock) and kind_of_text(block.text, kind) == "summary":
                yield block.text


def _lines(messages: Sequence[Turn], kinds: TurnKinds) -> Iterator[tuple[str, str]]:
    """Yield the lines of *messages*, each with the name of its section."""
    outcomes = {
        block.call_id: block
        for turn in messages
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
    }
    names: dict[str, str] = {}
    last_answer = ""
    for turn, kind in zip(messages, kinds or (None,) * len(messages), strict=True):
        for block in turn.blocks:
            match block:
                case TextBlock(text=text) if isinstance(turn, UserTurn):
                    text_kind = kind_of_text(text, kind)
                    if text_kind == "summary":
                        yield from _lines_of_digest(text.partition("\n")[2])
                    elif text_kind == "user":
                        yield "Requests", text
                        for rule in find_typed_sentences(_keep_ends(text), _SENTENCE, _RULE):
                            yield "Rules", rule
                case TextBlock(text=text) if isinstance(turn, AssistantTurn):
                    last_answer = text or last_answer
                    sentences = _SENTENCE.split(_keep_ends(text))
                    yield from (
                        ("Decisions", each.strip("-* \t")) for each in sentences if _DECISION.search(each)
                    )
                case ToolCallBlock():
                    names[block.id] = block.name
                    yield from _lines_of_call(block, outcomes.get(block.id))
                case ToolResultBlock(is_error=True):
                    tool = names.get(block.call_id, "tool")
                    yield "Errors", f"{tool}: {find_error_line(serialize(block.output))}"
                case CommandBlock(command=command, args=args):
                    yield "Commands", " ".join((command, *(args or ())))
                case _:
                    continue
    yield "Open", last_answer


def _lines_of_digest(digest: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of an earlier digest under the section they stood in, or under Open."""
    section = "Open"
    for raw in digest.split("\n"):
        line = raw.strip()
        if line.startswith("#"):
            title = line.lstrip("# ").lower()
            section = next((name for name in _SECTIONS if name.lower() in title), "Open")
        elif line and line.lower() != "none":
            yield section, line.removeprefix("- ")


def _lines_of_call(call: ToolCallBlock, outcome: ToolResultBlock | None) -> Iterator[tuple[str, str]]:
    arguments: Mapping[str, Any] = call.input if isinstance(call.input, Mapping) else {}
    failed = " failed" if outcome is not None and outcome.is_error else ""
    path = next((arguments[key] for key in _PATH_KEYS if isinstance(arguments.get(key), str)), None)
    if path is not None:
        yield "Files", f"{path} ({call.name}{failed})"
    command = arguments.get("command")
    if isinstance(command, str):
        code = _EXIT.search(_keep_ends(serialize(outcome.output))) if outcome is not None else None
        yield "Commands", f"`{command}`{f' -> exit {code[1]}' if code else failed and ' -> failed'}"


def find_error_line(text: str) -> str:
    """Return the line that names the error: the last that sounds like one, else the first."""
    lines = [line for line in _keep_ends(text).split("\n") if line.strip()]
    alarming = [line for line in lines if _ALARM.search(line)]
    return (alarming or lines[:1] or ["no message"])[-1].strip()


def _keep_ends(text: str) -> str:
    half = _MAX_SEARCHED_CHARS // 2
    return text if len(text) <= _MAX_SEARCHED_CHARS else f"{text[:half]}\n{text[-half:]}"


def fit_sections(sections: Sequence[Sequence[str]], max_chars: int) -> list[list[str]]:
    """Return the lines of every section that fit: in rounds, the first line, then from the newest back."""
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
