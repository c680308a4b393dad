"""The digest that ``offline-1`` writes on request: extracted lines under the wanted headings.

Problem: an engine sends a transcript as text, in a dialect of its own, with headings to fill; this model can
only quote. Three steps, each a pure function of text:

1. :func:`read_transcript` splits the transcript into entries: speaker or tool, and text.
2. :func:`facts_of` takes the lines out of the entries that are worth keeping, each with a topic.
3. :func:`write_digest` puts each topic under its heading and cuts the whole to a budget.

Invariants: every line stood in the transcript or in the digest before it, and no heading is missing. The cost
grows with the length of the transcript.

Example: ``» you: fix it`` becomes the entry *user*, the topic *requests*, a line under ``## Goal``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.text.typed import find_typed_sentences

EntryKind: TypeAlias = Literal["user", "agent", "call", "result", "error", "shell", "digest", "other"]
Topic: TypeAlias = Literal[
    "requests", "rules", "edits", "state", "errors", "commands", "files", "decisions", "next"
]
"""The subject of a line; ``state`` is the last answer of the agent."""


class TranscriptEntry(Value):
    """One message, call or result; *name* is that of the tool, or the command line of a ``shell`` entry."""

    kind: EntryKind
    text: str
    name: str = ""


class DigestRequest(Value):
    """A request to condense: the wanted heading lines, the transcript, and the digest before it."""

    headings: tuple[str, ...]
    transcript: str
    previous: str


_Dialect: TypeAlias = Sequence[tuple[EntryKind, re.Pattern[str]]]


def _dialect(*forms: tuple[EntryKind, str]) -> _Dialect:
    return tuple((kind, re.compile(pattern)) for kind, pattern in forms)


# Each pattern matches the first line of an entry; its groups are `name` and `text`, both optional. The lines
# behind it belong to the entry until a line matches again.
_DIALECTS: Final = (
    _dialect(
        ("user", r"» you: ?(?P<text>.*)"),
        ("error", r"» agent!err: ?(?P<text>.*)"),
        ("call", r"» agent\.call (?P<name>[^:]*): ?(?P<text>.*)"),
        ("other", r"» agent\.plan: ?(?P<text>.*)"),
        ("agent", r"» agent: ?(?P<text>.*)"),
        ("error", r"» tool!err \((?P<name>[^)]*)\): ?(?P<text>.*)"),
        ("result", r"» tool \((?P<name>[^)]*)\): ?(?P<text>.*)"),
        ("shell", r"» shell\$ (?P<name>.*) \[exit (?P<text>[^\]]*)\]"),
        ("digest", r"» digest: ?(?P<text>.*)"),
        ("other", r"» note \([^)]*\): ?(?P<text>.*)"),
    ),
    _dialect(
        ("call", r"\[Assistant tool calls\]: ?(?P<text>.*)"),
        ("other", r"\[Assistant thinking\]: ?(?P<text>.*)"),
        ("user", r"\[(?:User|user)\b[^\]]*\]: ?(?P<text>.*)"),
        ("agent", r"\[(?:Assistant|assistant)\b[^\]]*\]: ?(?P<text>.*)"),
        ("error", r"\[Tool result error\]: ?(?P<text>.*)"),
        ("result", r"\[Tool result\]: ?(?P<text>.*)"),
        ("digest", r"\[Previous summary\]: ?(?P<text>.*)"),
    ),
    _dialect(
        ("user", r"user:"),
        ("agent", r"assistant:"),
        ("other", r"tool:"),
        ("call", r"tool_call (?P<name>[^(]*)\((?P<text>.*)\)"),
        ("error", r"tool_result \(error\) -> (?P<text>.*)"),
        ("result", r"tool_result -> (?P<text>.*)"),
    ),
)
_DIGEST_MARKS: Final = (
    "[condensed earlier context]",
    "[session digest",
    "[branch digest",
    "[Conversation summary",
    "<context-summary>",
)
"""The beginnings of turns that an earlier compaction wrote."""
_RESTORED_MARK: Final = "[Restored file after compaction]"

HOST_MARKS: Final = (
    *_DIGEST_MARKS,
    _RESTORED_MARK,
    "The user's rules, word for word.",
    "The user has set these rules;",
    "These rules no longer hold:",
)
"""The beginnings of texts that a host writes under the user's role."""

_INNER_CALL: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)\((?P<text>.*?)\)(?:; |\Z)", re.S)

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
"""The heading of a topic is the first one with one of these words, tried in this order."""

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
_PREVIOUS_TAGS: Final = ("carried-digest", "previous-summary", "prior-digest")
_CONDENSING: Final = re.compile(r"\b(?:summar|condens|digest|distil|notes (?:of|on)|keep the notes)", re.I)
_MAX_TOKENS: Final = 1_500
_LINE_CHARS: Final = 280


def digest_request(system: str, prompt: str) -> DigestRequest | None:
    """Return the request to condense in *system* and *prompt*, None when they ask for something else."""
    transcript = _text_in_tags(prompt, _TRANSCRIPT_TAGS)
    if transcript is not None:
        around, previous = prompt, _text_in_tags(prompt, _PREVIOUS_TAGS) or ""
        for tag in (*_TRANSCRIPT_TAGS, *_PREVIOUS_TAGS):
            start, end = around.find(f"<{tag}>"), around.rfind(f"</{tag}>")
            if 0 <= start < end:
                around = around[:start] + around[end:]
    else:
        around, transcript = split_transcript(prompt) or (prompt, "")
        # A prompt without tags has the earlier notes below a line that ends with a colon.
        paragraphs = (paragraph.partition("\n") for paragraph in around.split("\n\n"))
        previous = "\n".join(rest for label, _, rest in paragraphs if label.rstrip().endswith(":"))
    asked = f"{system}\n{around}"
    if not transcript or not _CONDENSING.search(asked):
        return None
    headings = tuple(dict.fromkeys(line.strip() for line in _HEADING_LINE.findall(asked)))
    named = tuple(f"## {name}" for name in _KNOWN_HEADINGS if name.split(" (")[0] in asked)
    return DigestRequest(headings or named, transcript, previous)


def write_digest(request: DigestRequest, *, max_tokens: int | None = None) -> str:
    """Return the digest: every heading of *request* in its order, ``none`` under the empty ones.

    Args:
        request: the headings and the transcript; without headings the digest is a plain list of lines.
        max_tokens: its size, at 4 characters a token; 1,500 for None and for more.
    """
    headings = request.headings or ("",)
    entries = read_transcript(request.transcript)
    sections: dict[str, dict[str, None]] = {heading: {} for heading in headings}
    digests = [entry.text for entry in entries if entry.kind == "digest"]
    for text in filter(None, (request.previous, *digests)):
        for heading, line in lines_by_heading(text, headings):
            sections[heading][line] = None
    homes = {
        topic: next((each for word in words for each in headings if word in each.lower()), headings[-1])
        for topic, words in _HOMES.items()
    }
    for topic, line in facts_of(entries):
        if line.strip():
            sections[homes[topic]][_clip(line)] = None
    budget = 4 * min(max_tokens or _MAX_TOKENS, _MAX_TOKENS) - sum(len(each) + 8 for each in headings)
    chosen = choose_lines([list(lines) for lines in sections.values()], budget)
    blocks: list[str] = []
    for heading, lines, following in zip(headings, chosen, (*headings[1:], ""), strict=True):
        # A heading that only groups deeper ones may be empty.
        is_parent = _depth(following) > _depth(heading)
        listed = [f"- {line}" for line in lines] or ([] if is_parent else ["none"])
        blocks.append("\n".join(filter(None, (heading, *listed))))
    return "\n\n".join(blocks)


def choose_lines(sections: Sequence[Sequence[str]], budget_chars: int) -> list[list[str]]:
    """Return as many lines of *sections* as fit into *budget_chars*, in their order.

    They are chosen in rounds, one line of each section a round: the first line, then from the newest back.

    >>> choose_lines([["a1", "a2", "a3"], ["b1"]], 15)
    [['a1', 'a3'], ['b1']]
    """
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


def lines_by_heading(digest: str, headings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of an earlier digest, each with its heading among *headings*, else the last one."""
    names = {_heading_name(heading): heading for heading in headings}
    heading = headings[-1]
    for raw in digest.split("\n"):
        if _HEADING_LINE.match(raw):
            heading = names.get(_heading_name(raw), headings[-1])
        elif (line := raw.strip().removeprefix("- ").strip()) and line.lower() != "none":
            yield heading, _clip(line)


def facts_of(entries: Sequence[TranscriptEntry]) -> Iterator[tuple[Topic, str]]:
    """Yield the lines of *entries* that are worth keeping, with their topics, in the order of the entries."""
    results = results_by_call(entries)
    last_answer = ""
    for index, entry in enumerate(entries):
        sentences = [each.strip("-* \t") for each in _SENTENCE.split(entry.text) if each.strip()]
        match entry.kind:
            case "user":
                yield "requests", entry.text
                yield from (("rules", each) for each in find_typed_sentences(entry.text, _SENTENCE, _RULE))
            case "agent":
                last_answer = entry.text
                yield from (("decisions", each) for each in sentences if _DECISION.search(each))
                yield from (("next", each) for each in sentences if _NEXT.search(each))
            case "call":
                yield from facts_of_call(entry, results.get(index))
            case "error":
                # The last line that sounds like an error, else the first one.
                lines = [line.strip() for line in entry.text.split("\n") if line.strip()]
                alarming = [line for line in lines if _ALARM.search(line)]
                yield "errors", f"{entry.name or 'tool'}: {(alarming or lines[:1] or ['no message'])[-1]}"
            case "shell":
                yield "commands", f"`{entry.name}` -> exit {entry.text.partition(chr(10))[0]}"
            case _:
                continue
    if last_answer:
        yield "state", last_answer


def results_by_call(entries: Sequence[TranscriptEntry]) -> dict[int, TranscriptEntry]:
    """Return the result of each call by the index of the call; results come in the order of their calls."""
    results: dict[int, TranscriptEntry] = {}
    waiting: list[int] = []
    for index, entry in enumerate(entries):
        if entry.kind == "call":
            waiting.append(index)
        elif entry.kind in ("result", "error"):
            matching = [each for each in waiting if not entry.name or entries[each].name == entry.name]
            if matching:
                waiting.remove(matching[0])
                results[matching[0]] = entry
        elif entry.kind == "user":
            waiting.clear()
    return results


def facts_of_call(call: TranscriptEntry, result: TranscriptEntry | None) -> Iterator[tuple[Topic, str]]:
    """Yield the command and the file of one call, with their outcomes."""
    failed = " failed" if result is not None and result.kind == "error" else ""
    command = _COMMAND.search(call.text)
    if command is not None:
        line = (command[1] or command[2]).replace('\\"', '"').replace("\\n", " ")
        code = _EXIT.search(result.text) if result is not None else None
        yield "commands", f"`{line}`{f' -> exit {code[1]}' if code else failed and ' -> failed'}"
    path = _PATH.search(call.text)
    if path is not None:
        topic: Topic = "edits" if call.name in ("edit", "write") and not failed else "files"
        yield topic, f"{path[1].strip()} ({call.name}{failed})"


def split_transcript(text: str) -> tuple[str, str] | None:
    """Return the text before the transcript, and the transcript; None when *text* holds none."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if any(_first_line(line.rstrip(), dialect) for dialect in _DIALECTS):
            return "\n".join(lines[:index]), "\n".join(lines[index:])
    return None


def read_transcript(text: str) -> tuple[TranscriptEntry, ...]:
    """Return the entries of *text*; text that is not a transcript is one ``digest`` entry.

    >>> [(entry.kind, entry.text) for entry in read_transcript("» you: fix it\\n» agent.call read: {}")]
    [('user', 'fix it'), ('call', '{}')]
    """
    first = text.lstrip().split("\n", 1)[0].rstrip()
    dialect = next((dialect for dialect in _DIALECTS if _first_line(first, dialect)), None)
    if dialect is None:
        return (TranscriptEntry("digest", text.strip()),) if text.strip() else ()
    found: list[TranscriptEntry] = []
    for entry in _raw_entries(text, dialect):
        if entry.kind == "call" and not entry.name:
            # Several calls on one line.
            calls = _INNER_CALL.finditer(entry.text)
            found += (TranscriptEntry("call", match["text"], match["name"]) for match in calls)
        elif entry.kind == "user" and entry.text.startswith(_DIGEST_MARKS):
            found.append(TranscriptEntry("digest", entry.text.partition("\n")[2]))
        elif entry.kind == "user" and entry.text.startswith(_RESTORED_MARK):
            found.append(TranscriptEntry("other", entry.text))
        elif entry.text or entry.name:
            found.append(entry)
    return tuple(found)


def _raw_entries(text: str, dialect: _Dialect) -> Iterator[TranscriptEntry]:
    opened = TranscriptEntry("other", "")
    lines: list[str] = []
    for line in text.strip().split("\n"):
        entry = _first_line(line.rstrip(), dialect)
        if entry is None:
            lines.append(line)
            continue
        yield TranscriptEntry(opened.kind, "\n".join(lines).strip(), opened.name)
        opened, lines = entry, [entry.text]
    yield TranscriptEntry(opened.kind, "\n".join(lines).strip(), opened.name)


def _first_line(line: str, dialect: _Dialect) -> TranscriptEntry | None:
    """Return the entry that begins with *line*, None when it continues the one before."""
    for kind, pattern in dialect:
        match = pattern.fullmatch(line)
        if match is not None:
            groups = match.groupdict()
            return TranscriptEntry(kind, groups.get("text") or "", groups.get("name") or "")
    return None


def _text_in_tags(text: str, tags: Sequence[str]) -> str | None:
    """Return the text inside the first of *tags* that *text* has, to its last closing tag."""
    for tag in tags:
        start, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
        if 0 <= start < end:
            return text[start + len(tag) + 2 : end].strip("\n")
    return None


def _depth(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


def _heading_name(heading: str) -> str:
    return heading.lstrip("# ").strip().lower()


def _clip(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _LINE_CHARS else f"{one_line[: _LINE_CHARS - 3]}..."
