"""The digest ``offline-1`` writes when it is asked to condense: extracted lines under the headings asked for.

It never invents: every line was said by somebody in the transcript, or stood in the digest before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.llmgateway.offline.facts import Topic, facts_of
from sidecar.llmgateway.offline.transcript import read_transcript, split_transcript

__all__ = ["DigestRequest", "digest_request", "write_digest"]

_HOMES: Final[dict[Topic, tuple[str, ...]]] = {
    "requests": ("objective", "goal", "request"),
    "rules": ("guardrail", "constraint", "rule", "suffix"),
    "edits": ("shipped", "done", "progress", "file", "carryover", "critical"),
    "state": ("active", "in progress", "progress", "open", "suffix"),
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
_CONDENSING: Final = re.compile(r"\b(?:summar|condens|digest|distil|notes (?:of|on)|keep the notes)", re.I)
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
    if transcript is not None:
        around, carried = _without_tags(prompt), _tagged(prompt, _CARRIED_TAGS) or ""
    else:
        around, transcript = split_transcript(prompt) or (prompt, "")
        carried = _below_a_label(around)
    asked = f"{system}\n{around}"
    headings = tuple(dict.fromkeys(line.strip() for line in _HEADING_LINE.findall(asked)))
    if not transcript or not _CONDENSING.search(asked):
        return None
    named = tuple(f"## {name}" for name in _KNOWN_HEADINGS if name.split(" (")[0] in asked)
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
    blocks = map(_block, headings, chosen, (*headings[1:], ""))
    return "\n\n".join(blocks)


def _block(heading: str, lines: Sequence[str], following: str) -> str:
    """Return one section; a heading that is only there for the deeper one *following* it may be empty."""
    is_parent = _depth(following) > _depth(heading)
    listed = [f"- {line}" for line in lines] or ([] if is_parent else ["none"])
    return "\n".join(filter(None, (heading, *listed)))


def _depth(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


def _tagged(text: str, tags: Sequence[str]) -> str | None:
    """Return what the first of *tags* found in *text* encloses, to its last closing tag."""
    for tag in tags:
        start, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
        if 0 <= start < end:
            return text[start + len(tag) + 2 : end].strip("\n")
    return None


def _below_a_label(text: str) -> str:
    """Return what stands under a line that ends with a colon: notes that a prompt without tags carries on."""
    paragraphs = (paragraph.partition("\n") for paragraph in text.split("\n\n"))
    return "\n".join(rest for label, _, rest in paragraphs if label.rstrip().endswith(":"))


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
    for topic, line in facts_of(read_transcript(transcript)):
        if line.strip():
            yield homes[topic], _clip(line)


def _home(words: Iterable[str], headings: Sequence[str]) -> str:
    return next((each for word in words for each in headings if word in each.lower()), headings[-1])


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
