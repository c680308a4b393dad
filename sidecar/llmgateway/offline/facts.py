"""What a transcript holds that is worth keeping, as lines by topic: extracted, never inferred.

Which heading a topic goes under, and how much of it fits, is the digest's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from sidecar.llmgateway.offline.transcript import Entry

__all__ = ["Topic", "facts_of"]

Topic: TypeAlias = Literal[
    "requests", "rules", "edits", "state", "errors", "commands", "files", "decisions", "next"
]
"""What a line is about; ``state`` is the last thing the agent said."""

_RULE: Final = re.compile(
    r"\b(?:always|never|must|do not|don't|dont|only|avoid|prefer|make sure|from now on|remember)\b", re.I
)
_DECISION: Final = re.compile(r"\b(?:decided|decision|because|instead of|chose|rather than|so that)\b", re.I)
_NEXT: Final = re.compile(r"\b(?:next|todo|then i|remaining|still (?:to|need)|i will|i'll|left to)\b", re.I)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_PATH: Final = re.compile(r"\b(?:path|file_path|filePath|file)\"?\s*[:=]\s*\"?([^\",;)}\n]+)")
_COMMAND: Final = re.compile(r"\bcommand\"?\s*[:=]\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^,;)}\n]+))")
_ALARM: Final = re.compile(r"(?:error|exception)\b|\b(?:failed|failure|fatal|panic|not found|denied)\b", re.I)
_EXIT: Final = re.compile(r"\bexit(?:ed)?(?: code| status)?[ :=]+(-?\d+)", re.I)
_EDITING: Final = frozenset({"edit", "write"})


def facts_of(entries: Sequence[Entry]) -> Iterator[tuple[Topic, str]]:
    """Yield the lines of *entries* that matter, each with its topic, in the order of the conversation."""
    answers = _answers(entries)
    last_said = ""
    for index, entry in enumerate(entries):
        match entry.kind:
            case "user":
                yield "requests", entry.text
                yield from (("rules", each) for each in _sentences(entry.text) if _RULE.search(each))
            case "agent":
                last_said = entry.text
                yield from (("decisions", each) for each in _sentences(entry.text) if _DECISION.search(each))
                yield from (("next", each) for each in _sentences(entry.text) if _NEXT.search(each))
            case "call":
                yield from _call_facts(entry, answers.get(index))
            case "error":
                yield "errors", f"{entry.name or 'tool'}: {_alarm(entry.text)}"
            case "shell":
                yield "commands", f"`{entry.name}` -> exit {entry.text.partition(chr(10))[0]}"
            case _:
                continue
    if last_said:
        yield "state", last_said


def _answers(entries: Sequence[Entry]) -> dict[int, Entry]:
    """Return the result of each call by the call's index; results come in the order of their calls."""
    answers: dict[int, Entry] = {}
    waiting: list[int] = []
    for index, entry in enumerate(entries):
        if entry.kind == "call":
            waiting.append(index)
        elif entry.kind in ("result", "error"):
            fitting = [each for each in waiting if not entry.name or entries[each].name == entry.name]
            if fitting:
                waiting.remove(fitting[0])
                answers[fitting[0]] = entry
        elif entry.kind == "user":
            waiting.clear()
    return answers


def _call_facts(call: Entry, answer: Entry | None) -> Iterator[tuple[Topic, str]]:
    failed = " failed" if answer is not None and answer.kind == "error" else ""
    command = _COMMAND.search(call.text)
    if command is not None:
        line = (command[1] or command[2]).replace('\\"', '"').replace("\\n", " ")
        code = _EXIT.search(answer.text) if answer is not None else None
        yield "commands", f"`{line}`{f' -> exit {code[1]}' if code else failed and ' -> failed'}"
    path = _PATH.search(call.text)
    if path is not None:
        topic: Topic = "edits" if call.name in _EDITING and not failed else "files"
        yield topic, f"{path[1].strip()} ({call.name}{failed})"


def _alarm(text: str) -> str:
    """Return the line that says what went wrong: the last one that sounds like it, else the first."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    alarming = [line for line in lines if _ALARM.search(line)]
    return (alarming or lines[:1] or ["no message"])[-1]


def _sentences(text: str) -> list[str]:
    return [sentence.strip("-* \t") for sentence in _SENTENCE.split(text) if sentence.strip()]
