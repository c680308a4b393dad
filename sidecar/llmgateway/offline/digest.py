"""The digest ``offline-1`` writes when it is asked to condense: extracted lines under the headings asked for.

It never invents: every line was said by somebody in the transcript, or stood in the digest before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sidecar.llmgateway.offline.transcript import Entry, is_transcript, read_transcript

__all__ = ["DigestRequest", "digest_request", "write_digest"]

_Topic: TypeAlias = Literal[
    "requests", "rules", "edits", "state", "errors", "commands", "files", "decisions", "next"
]

_HOMES: Final[dict[_Topic, tuple[str, ...]]] = {
    "requests": ("objective", "goal", "request"),
    "rules": ("guardrail", "constraint", "rule", "suffix"),
    "edits": ("status", "progress", "file", "carryover", "critical"),
    "state": ("status", "progress", "open", "suffix"),
    "errors": ("error", "stuck", "blocked", "progress", "carryover", "critical"),
    "commands": ("command", "carryover", "critical", "progress", "suffix"),
    "files": ("file", "carryover", "critical", "suffix"),
    "decisions": ("rationale", "decision", "suffix"),
    "next": ("plan", "next", "open"),
}
"""Under which heading a topic belongs: the first of these words that one of the headings has."""

_KNOWN_HEADINGS: Final = (
    "Goal",
    "Constraints & Preferences",
    "Progress (Done / In Progress / Blocked)",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
    "Original Request",
    "Early Progress",
    "Context for Suffix",
)
"""Headings that a request may name in prose instead of listing them as lines."""

_HEADING_LINE: Final = re.compile(r"^#{1,6} +\S.*$", re.M)
_TRANSCRIPT_TAGS: Final = ("scrollback", "conversation", "transcript")
_CARRIED_TAGS: Final = ("carried-digest", "previous-summary", "prior-digest")
_CONDENSING: Final = re.compile(r"\b(?:summar|condens|digest|distil)", re.I)
_RULE: Final = re.compile(
    r"\b(?:always|never|must|do not|don't|dont|only|avoid|prefer|make sure|from now on|remember)\b", re.I
)
_DECISION: Final = re.compile(r"\b(?:decided|decision|because|instead of|chose|rather than|so that)\b", re.I)
_NEXT: Final = re.compile(r"\b(?:next|todo|then i|remaining|still (?:to|need)|i will|i'll|left to)\b", re.I)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_PATH: Final = re.compile(r"\b(?:path|file_path|filePath|file)\"?\s*[:=]\s*\"?([^\",;)}\n]+)")
_COMMAND: Final = re.compile(r"\bcommand\"?\s*[:=]\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^,;)}\n]+))")
_ALARM: Final = re.compile(r"(?:error|exception)\b|\b(?:failed|failure|fatal|panic|not found|denied)\b", re.I)
_EDITING: Final = frozenset({"edit", "write"})
_MAX_TOKENS: Final = 1_500
_LINE_CHARS: Final = 280


@dataclass(frozen=True, slots=True)
class DigestRequest:
    """A request to condense: the heading lines wanted, the transcript, and the digest to carry on."""

    headings: tuple[str, ...]
    transcript: str
    carried: str


def digest_request(system: str, prompt: str) -> DigestRequest | None:
    """Return what is to be condensed when *system* and *prompt* ask for that, else None."""
    transcript = _tagged(prompt, _TRANSCRIPT_TAGS)
    carried = _tagged(prompt, _CARRIED_TAGS) or ""
    around = system if transcript is None else f"{system}\n{_without_tags(prompt)}"
    headings = tuple(dict.fromkeys(line.strip() for line in _HEADING_LINE.findall(around)))
    if transcript is None and is_transcript(prompt):
        transcript = prompt
    if transcript is None or not (headings or _CONDENSING.search(around)):
        return None
    named = tuple(f"## {name}" for name in _KNOWN_HEADINGS if name.split(" (")[0] in around)
    return DigestRequest(headings or named, transcript, carried)


def write_digest(request: DigestRequest, *, max_tokens: int | None = None) -> str:
    """Return the digest: every heading of *request* in its order, ``none`` under the empty ones.

    *max_tokens* bounds it (4 characters a token; 1,500 tokens when None or more). Without headings it is a
    plain list of lines.
    """
    headings = request.headings or ("",)
    sections: dict[str, dict[str, None]] = {heading: {} for heading in headings}
    for heading, line in (*_carried(request, headings), *_extracted(request.transcript, headings)):
        sections[heading][line] = None
    budget = 4 * min(max_tokens or _MAX_TOKENS, _MAX_TOKENS) - sum(len(each) + 8 for each in headings)
    chosen = _fitting([list(lines) for lines in sections.values()], budget)
    return "\n\n".join(map(_block, headings, chosen))


def _block(heading: str, lines: Sequence[str]) -> str:
    return "\n".join(filter(None, (heading, *(f"- {line}" for line in lines)))) + ("" if lines else "\nnone")


def _tagged(text: str, tags: Sequence[str]) -> str | None:
    """Return what the first of *tags* found in *text* encloses, to its last closing tag."""
    for tag in tags:
        start, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
        if 0 <= start < end:
            return text[start + len(tag) + 2 : end].strip("\n")
    return None


def _without_tags(text: str) -> str:
    for tag in (*_TRANSCRIPT_TAGS, *_CARRIED_TAGS):
        start, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
        if 0 <= start < end:
            text = text[:start] + text[end:]
    return text


def _carried(request: DigestRequest, headings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of the digests before, each under the heading it stood under, else the last one."""
    digests = [entry.text for entry in read_transcript(request.transcript) if entry.kind == "digest"]
    names = {_name(heading): heading for heading in headings}
    for text in filter(None, (request.carried, *digests)):
        heading = headings[-1]
        for raw in text.split("\n"):
            if _HEADING_LINE.match(raw):
                heading = names.get(_name(raw), headings[-1])
            elif (line := raw.strip().removeprefix("- ").strip()) and line.lower() != "none":
                yield heading, _clip(line)


def _name(heading: str) -> str:
    return heading.lstrip("# ").strip().lower()


def _extracted(transcript: str, headings: Sequence[str]) -> Iterator[tuple[str, str]]:
    homes = {topic: _home(words, headings) for topic, words in _HOMES.items()}
    for topic, line in _facts(read_transcript(transcript)):
        if line.strip():
            yield homes[topic], _clip(line)


def _home(words: Iterable[str], headings: Sequence[str]) -> str:
    return next((each for word in words for each in headings if word in each.lower()), headings[-1])


def _facts(entries: Sequence[Entry]) -> Iterator[tuple[_Topic, str]]:
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
                yield from _call_facts(entry, entries[index + 1 : index + 40])
            case "error":
                yield "errors", f"{entry.name or 'tool'}: {_alarm(entry.text)}"
            case "shell":
                yield "commands", f"`{entry.name}` -> exit {entry.text.partition(chr(10))[0]}"
            case _:
                continue
    if last_said:
        yield "state", last_said


def _call_facts(call: Entry, after: Sequence[Entry]) -> Iterator[tuple[_Topic, str]]:
    command = _COMMAND.search(call.text)
    if command is not None:
        line = (command[1] or command[2]).replace('\\"', '"').replace("\\n", " ")
        yield "commands", f"`{line}`{_outcome(after)}"
    path = _PATH.search(call.text)
    if path is not None:
        topic: _Topic = "edits" if call.name in _EDITING else "files"
        yield topic, f"{path[1].strip()} ({call.name})"


def _outcome(after: Sequence[Entry]) -> str:
    """Return how a command ended, as far as the next result tells."""
    result = next((entry for entry in after if entry.kind in ("result", "error")), None)
    if result is None:
        return ""
    code = re.search(r"\bexit(?:ed)?(?: code| status)?[ :=]+(-?\d+)", result.text, re.I)
    if code is not None:
        return f" -> exit {code[1]}"
    return " -> failed" if result.kind == "error" else ""


def _alarm(text: str) -> str:
    """Return the line that says what went wrong: the last one that sounds like it, else the first."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    alarming = [line for line in lines if _ALARM.search(line)]
    return (alarming or lines[:1] or ["no message"])[-1]


def _sentences(text: str) -> list[str]:
    return [sentence.strip("-* \t") for sentence in _SENTENCE.split(text) if sentence.strip()]


def _fitting(sections: Sequence[Sequence[str]], budget_chars: int) -> list[list[str]]:
    """Return as much of every section as fits: in rounds, first lines first, then from the newest back."""
    picks = [([0] if section else []) + list(range(len(section) - 1, 0, -1)) for section in sections]
    kept: list[list[int]] = [[] for _ in sections]
    for round_index in range(max(map(len, picks), default=0)):
        for section, pick, keep in zip(sections, picks, kept, strict=True):
            if round_index < len(pick):
                cost = len(section[pick[round_index]]) + 3
                if cost <= budget_chars:
                    budget_chars -= cost
                    keep.append(pick[round_index])
    return [[section[index] for index in sorted(keep)] for section, keep in zip(sections, kept, strict=True)]


def _clip(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _LINE_CHARS else f"{one_line[: _LINE_CHARS - 3]}..."
