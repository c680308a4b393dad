"""Facts in prose: requests, rules, decisions, outcomes, errors and names, found without a model.

There are nine kinds of fact, each with the title it stands under in a local digest. They are found by English
wording, so that some are missed and some are kept that are none; no fact is ever invented, and no text is
reworded. For example, the prompt "Fix src/a.py. Never touch the tests." gives a request (all of it), a rule
(its second sentence) and a name (the path).

Every pattern has bounded repetitions and every text is searched at its two ends only, so that the work on one
message is bounded even for megabytes of pasted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sidecar.window_budget.text import one_line

SCAN_CHARS = 12_000
"""How much of one text is searched: half of it at each end."""

REQUEST_CHARS = 600
SENTENCE_CHARS = 400
NAME_CHARS = 80
KEY_CHARS = 72
"""How much of a sentence identifies it; less than any digest cuts one to."""

MIN_TELLING_CHARS = 16
"""Shorter answers and requests ("Done.", "go on") come last, if at all."""

MAX_RULES = 24
MAX_DECISIONS = 6
MAX_NAMES = 16
"""How many facts of one kind one message gives at most: a pasted document does not flood the digest."""


class FactKind(Enum):
    """A kind of fact; the value is its title in a digest."""

    REQUEST = "Requests"
    RULE = "Rules"
    DECISION = "Decisions"
    OUTCOME = "Outcomes"
    MODIFIED = "Files modified"
    READ = "Files read"
    COMMAND = "Commands"
    ERROR = "Errors"
    NAME = "Names and numbers"


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact found in the message at *index*; *is_minor* when it is rarely missed."""

    kind: FactKind
    text: str
    index: int = -1
    is_minor: bool = False


_RULE = re.compile(
    r"\b(?:always|never|must(?:n't)?|do not|(?<!i )(?<!we )(?<!they )don'?t|should not|shouldn't|shall"
    r"|may not|cannot be|only use|use only|from now on|make sure|ensure|avoid|prefer|keep in mind"
    r"|remember (?:to|that)|rule|constraint|convention|require[ds]?|forbidden|not allowed|no more than"
    r"|at (?:most|least)|without (?:touching|changing|adding|breaking|asking)"
    r"|leave .{1,40} (?:alone|as it is|untouched)|unless i)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decid\w+|decision|chos(?:e|en)|choos(?:e|ing)|go(?:ing)? with|went with|opt(?:ed|ing)? for"
    r"|settled? on|agreed|instead of|rather than|trade-?off|root cause|turns out"
    r"|the (?:cause|culprit|fix|problem|bug|issue) (?:is|was)"
    r"|(?:we|i)(?:'ll| will| should) (?:use|keep|store|switch|stick)|let'?s use|switch(?:ed|ing)? to"
    r"|revert(?:ed|ing)? (?:to|the))\b",
    re.IGNORECASE,
)
# Every repetition is bounded: these run over whatever a tool or a user pastes, megabytes of base64 included.
_NAME = re.compile(
    r"https?://[^\s)>\]\"'`]{1,200}"
    r"|`[^`\n]{2,60}`"
    r"|(?<![\w./~@-])(?:~|\.{1,2})?/?(?:[\w.@-]{1,60}/){1,12}[\w.@-]{1,60}"
    r"|\b[A-Z][A-Z0-9]{1,15}-\d{1,12}\b"
    r"|(?<![\w&])#\d{1,9}\b"
    r"|(?<![\w.+-])[\w.+-]{1,60}@[\w-]{1,60}\.[\w.]{2,60}"
    r"|\b[A-Z][A-Z0-9]{0,30}_[A-Z0-9_]{1,60}(?:=\S{1,60})?"
    r"|\bv?\d{1,6}(?:\.\d{1,6}){2,3}\b"
    r"|\b(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Za-z_])[A-Za-z0-9_][\w-]{4,60}\b"
    r"|\b[A-Za-z][\w-]{1,30}(?: (?:is|was|of|to|at|in|=|id))?[ :=]{1,2}\$?\d[\d.,:]{0,20}\d"
    r"(?: ?(?:ms|s|sec\w*|min\w*|%|[kKMG]i?[bB]|tokens|px)\b)?"
    r"|\b[a-z][a-z0-9]{0,30}(?:_[a-z0-9]{1,30}){1,6}\b"
    r"|\b[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b"
)
_STRONG_ERROR = re.compile(
    r"(?<![A-Za-z_.])[A-Za-z_.]{0,60}(?:Error|Exception|Panic)\b.*"
    r"|\b(?:error|fatal|panic(?:ked)?|FAIL(?:ED|URE)?)\b\s{0,3}[:\[(!].*|CONFLICT .*"
)
_WEAK_ERROR = re.compile(
    r"error|exception|panic|fatal|fail|denied|not found|no such|cannot|can't|unable|undefined|refused"
    r"|timed? ?out|invalid|missing|rejected|doesn't|does not|must ",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"(?:exit code|process exited|chunk id|wall time|original token|output:|script (?:failed|error)"
    r"|command exited|<\w+>|</\w+>|\[?exit )",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s|$)|(?=\n)|$)")
_BULLET = re.compile(r"^\s*(?:[-*•>]|\d+[.)])\s+|^#+\s+")
_CODE_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_DIGITS = re.compile(r"\b[0-9a-f]{7,}\b|\d+")
_TRAILER = re.compile(r" \[(?:exit -?\d+|failed)\]$")


def facts_of_prompt(text: str, index: int = -1) -> Iterator[Fact]:
    """Yield the facts of a user's prompt: the request itself, rules, decisions, names.

    >>> [fact.text for fact in facts_of_prompt("Fix the parser. Never touch api.py.")]
    ['Fix the parser. Never touch api.py.', 'Never touch api.py.']
    """
    if request := one_line(text, REQUEST_CHARS):
        yield Fact(FactKind.REQUEST, request, index, is_minor=len(request) < MIN_TELLING_CHARS)
    prose = _keep_ends(text)
    for sentence in _sentences(prose, _RULE, MAX_RULES):
        if not sentence.endswith("?"):
            yield Fact(FactKind.RULE, sentence, index)
    for sentence in _sentences(prose, _DECISION, MAX_DECISIONS):
        yield Fact(FactKind.DECISION, sentence, index)
    yield from _names(prose, index)


def facts_of_reply(text: str, index: int = -1, *, is_answer: bool = False) -> Iterator[Fact]:
    """Yield the facts of a model's text: decisions, names, and the outcome of a turn.

    Args:
        text: prose of one message.
        index: its position in the transcript.
        is_answer: whether it ends a turn; then its first sentence is the outcome.
    """
    prose = _keep_ends(text)
    telling = (sentence for sentence in _clean_sentences(prose) if len(sentence) >= MIN_TELLING_CHARS)
    if is_answer and (outcome := next(telling, "")):
        yield Fact(FactKind.OUTCOME, outcome, index)
    for sentence in _sentences(prose, _DECISION, MAX_DECISIONS):
        yield Fact(FactKind.DECISION, sentence, index)
    yield from _names(prose, index)


def error_line(body: str) -> str:
    """Return the line of *body* that names the error best; empty for an empty body.

    >>> error_line("Exit code 1\\nTraceback (most recent call last):\\n  ...\\nKeyError: 'port'")
    "KeyError: 'port'"
    """
    lines = [
        line for line in _keep_ends(body).splitlines() if line.strip() and not _NOISE.match(line.strip())
    ]
    strong = next((found.group() for line in lines if (found := _STRONG_ERROR.search(line))), None)
    weak = next((line for line in lines if _WEAK_ERROR.search(line)), None)
    return one_line(strong or weak or (lines[0] if lines else one_line(body, SENTENCE_CHARS)), SENTENCE_CHARS)


def fact_key(kind: FactKind, text: str) -> str:
    """Return the key of a fact: two facts of *kind* with one key are the same, however their texts differ.

    A file is its path, a command is its text without the outcome, prose is its words.

    >>> fact_key(FactKind.COMMAND, "pytest -q [exit 1]")
    'pytest -q'
    """
    if kind is FactKind.READ:
        return text
    if kind is FactKind.MODIFIED:
        return text.partition(": ")[0]
    if kind is FactKind.COMMAND:
        return _TRAILER.sub("", text)
    return " ".join(text.casefold().split())[:KEY_CHARS].rstrip("…")


def shape_of(key: str) -> str:
    """Return *key* with every number and hash replaced by 0, so that a thousand alike count as one."""
    return _DIGITS.sub("0", key[:SENTENCE_CHARS])


def _keep_ends(text: str) -> str:
    """Return the part of *text* that is searched, without code blocks."""
    if len(text) > SCAN_CHARS:
        text = f"{text[: SCAN_CHARS // 2]}\n{text[-SCAN_CHARS // 2 :]}"
    return _CODE_FENCE.sub("\n", text) if "```" in text else text


def _clean_sentences(prose: str) -> Iterator[str]:
    for found in _SENTENCE.finditer(prose):
        sentence = one_line(_BULLET.sub("", found.group()), SENTENCE_CHARS)
        if len(sentence) > 3:
            yield sentence


def _sentences(prose: str, pattern: re.Pattern[str], limit: int) -> Iterator[str]:
    if not pattern.search(prose):
        return
    for sentence in _clean_sentences(prose):
        if limit and not sentence.endswith(":") and pattern.search(sentence):
            limit -= 1
            yield sentence


def _names(prose: str, index: int) -> Iterator[Fact]:
    seen = set[str]()
    for found in _NAME.finditer(prose):
        name = one_line(found.group().strip("`").rstrip(".,:;"), NAME_CHARS)
        if name and name not in seen:
            seen.add(name)
            yield Fact(FactKind.NAME, name, index, is_minor=not _DIGITS.search(name))
        if len(seen) >= MAX_NAMES:
            return
