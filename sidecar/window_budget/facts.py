"""Facts in prose: requests, rules, decisions, outcomes, errors and names, found without a model.

Each kind of fact has the title that it stands under in a local digest. Rules and decisions are found by their
wording, so that some are missed and some are kept that are none; no fact is ever invented, and no text is
reworded. A prompt in any language is kept as it was typed. For example, "Fix src/a.py. Never touch the
tests." gives a request (all of it), a rule (its second sentence) and a name (the path).

Every pattern has bounded repetitions and every text is searched at its two ends only, so that the work on one
message is bounded even for megabytes of pasted text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from itertools import groupby, islice

from sidecar._internal.values import Value
from sidecar.text.clip import cut_middle, one_line, tidy
from sidecar.text.typed import hide_pasted_text
from sidecar.window_budget.wording import find_permission, find_rule_words, sets_rule, states_decision

SCAN_CHARS = 12_000
"""How much of one text is searched: half of it at each end."""

REQUEST_CHARS = 2_000
"""How much of a prompt is kept word for word; of a longer one the middle goes."""

PASTE_CHARS = 400
"""Of a longer paste in a prompt the first and the last line are kept."""

SENTENCE_CHARS = 400
NAME_CHARS = 80
NAME_BLANKS = 3
"""How many blanks a name has at most before the first sign that it is one, as "size of  12" has."""

KEY_CHARS = 72
"""How much of a sentence identifies it; less than any digest cuts one to."""

MIN_TELLING_CHARS = 16
"""Shorter answers and requests ("Done.", "go on") come last, if at all."""

MAX_RULES = 24
MAX_DECISIONS = 6
MAX_OUTCOMES = 4
MAX_NAMES = 16
"""How many facts of one kind one message gives at most: a pasted document does not flood the digest."""


class FactKind(Enum):
    """A kind of fact; the value is its title in a digest."""

    REQUEST = "Requests"
    RULE = "Rules"
    TODO = "Open todos"
    QUESTION = "Open question"
    DECISION = "Decisions"
    OUTCOME = "Outcomes"
    MODIFIED = "Files modified"
    READ = "Files read"
    COMMAND = "Commands"
    SEARCH = "Searches"
    ERROR = "Errors"
    ENVIRONMENT = "Environment"
    NAME = "Names and numbers"

    # The hash of an Enum is that of its name, and a call in Python; there is one object for each member.
    __hash__ = object.__hash__


class Fact(Value):
    """A fact found in the message at *index*; *is_minor* when it is rarely missed."""

    kind: FactKind
    text: str
    index: int = -1
    is_minor: bool = False

    def with_text(self, text: str) -> Fact:
        """Return this fact in other words."""
        return self if text == self.text else Fact(self.kind, text, self.index, self.is_minor)


_NOT_BY_WORDS = frozenset({FactKind.READ, FactKind.MODIFIED, FactKind.COMMAND, FactKind.ERROR})
"""Kinds whose facts are known by something else than their first words."""

# Every repetition is bounded: these run over whatever a tool or a user pastes, megabytes of base64 included.
_NAME = re.compile(
    r"https?://[^\s)>\]\"'`]{1,200}"
    r"|`[^`\n]{2,60}`"
    # An ordinary word, with another one or the end behind it: most words, and none of the rest begins there.
    r"|(?<!\w)(?![A-Za-z][a-z]*+(?: (?!(?:is|was|of|to|at|in|id) )[A-Za-z]|[.,;!?)]*+(?:\Z|(?<=[.,;!?)])\s)))"
    r"(?:(?<![\w./~@-])(?:~|\.{1,2})?/?(?:[\w.@-]{1,60}/){1,12}[\w.@-]{1,60}"
    r"|\b[A-Z][A-Z0-9]{1,15}-\d{1,12}\b"
    r"|(?<![\w&])#\d{1,9}\b"
    r"|(?<![\w.+-])[\w.+-]{1,60}@[\w-]{1,60}\.[\w.]{2,60}"
    r"|\b[A-Z][A-Z0-9]{0,30}_[A-Z0-9_]{1,60}(?:=\S{1,60})?"
    r"|\bv?\d{1,6}(?:\.\d{1,6}){2,3}\b"
    r"|\b(?=[\w-]{0,60}\d)(?=[\w-]{0,60}[A-Za-z_])[A-Za-z0-9_][\w-]{4,60}\b"
    r"|\b[A-Za-z][\w-]{1,30}(?: (?:is|was|of|to|at|in|=|id))?[ :=]{1,2}\$?\d[\d.,:]{0,20}\d"
    r"(?: ?(?:ms|s|sec\w*|min\w*|%|[kKMG]i?[bB]|tokens|px)\b)?"
    r"|\b[a-z][a-z0-9]{0,30}(?:_[a-z0-9]{1,30}){1,6}\b"
    r"|\b[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b)"
)
_ENVIRONMENT = re.compile(
    r"(?<![\w.-])(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|[a-z][a-z0-9-]{0,40}(?:\.[a-z0-9-]{1,40}){1,4}):\d{2,5}\b"
    r"|\b[A-Z][A-Za-z+#]{1,20}(?:\.js)? v?\d{1,4}(?:\.\d{1,6}){1,3}\b"
)
"""A host with its port, and a program with its version."""

_PORT_OR_VERSION = re.compile(r"[:.]\d")
"""What stands in each of them, and in few lines else."""

_NAMED = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9_./-]*(?:\d|[a-z][A-Z]|\w[_/]\w)[A-Za-z0-9_./-]*")
"""A number, a path or an identifier."""

_OF_PROSE = r"a-z .,;:!?'()\"\n-"
"""What most of a text is made of: to search for anything else is twice as fast as for digits and capitals."""

_MAY_NAME = re.compile(rf"[^{_OF_PROSE}](?:(?<=\d)|(?<=[a-z][A-Z])|(?<=\w[_/])(?=\w))")
"""What each of them holds, and nothing else: most sentences hold none, and to look for them takes twenty
times as long."""

_QUESTION = re.compile(r"(?:\A|(?<=[.!?。！？\n]))[^.!?。！？\n]{3,400}[?？]\W{0,4}\Z")
_QUESTION_MARK = re.compile(r"[?？]\W{0,4}\Z")
"""A question at the end of an answer, and how it ends."""

_TELLING = re.compile(rf"[^{_OF_PROSE}](?:(?<=[/`@_\d])|(?<=[a-z0-9][A-Z]))")
"""What every name, number and version holds at least one of: a text without any, as most prose is, is not
searched for them."""

_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|[。！？\n]")
_BULLET = re.compile(r"\s*(?:[-*•>]|\d+[.)])\s+|#+\s+")
_CODE_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_DIGITS = re.compile(r"[\da-f](?:(?=[0-9a-f]{6})(?<!\w\w)(?<=[0-9a-f])[0-9a-f]{6,}\b|(?<=\d)\d*)")
"""A hash or a number. It begins with one class of characters, so that others are passed over at once."""

_TRAILER = re.compile(r" \[(?:exit -?\d+|failed)\]$")
_SUBJECT = re.compile(r"(.{1,400}? \[(?:exit -?\d+|failed)\]|[^:]{1,400}): ")
SUBJECT_CHARS = 36
"""How much of a command identifies its error, less than any digest cuts one to."""


def facts_of_prompt(text: str, index: int = -1) -> Iterator[Fact]:
    """Yield the facts of a user's prompt: the request itself, rules, decisions, names.

    >>> [fact.text for fact in facts_of_prompt("Fix the parser. Never touch api.py.")]
    ['Fix the parser. Never touch api.py.', 'Never touch api.py.']
    """
    typed = "\n".join(filter(None, shorten_pastes(tidy(text)).splitlines()))
    if typed:
        request = cut_middle(typed, REQUEST_CHARS, "[... {} characters cut ...]")
        yield Fact(FactKind.REQUEST, request, index, is_minor=len(request) < MIN_TELLING_CHARS)
    prose = keep_ends(text)
    yield from _environment(prose, index)
    for sentence in find_rule_sentences(text):
        if sets_rule(hide_pasted_text(sentence)):
            yield Fact(FactKind.RULE, sentence, index)
    for sentence in _sentences(prose, states_decision, MAX_DECISIONS):
        yield Fact(FactKind.DECISION, sentence, index)
    yield from _names(prose, index)


def facts_of_reply(text: str, index: int = -1, *, is_answer: bool = False) -> Iterator[Fact]:
    """Yield the facts of a model's text: decisions, names, and the outcomes of a turn.

    Args:
        text: prose of one message.
        index: its position in the transcript.
        is_answer: whether it ends a turn; then its first sentence is an outcome, and so are sentences that
            name something. Elsewhere a sentence that names two things is one that is rarely missed.
    """
    prose = keep_ends(text)
    is_telling = _TELLING.search(prose) is not None
    left, sentences = MAX_OUTCOMES, _clean_sentences(prose)
    if not is_telling or _MAY_NAME.search(prose) is None:
        sentences = islice(sentences, int(is_answer))
    for number, sentence in enumerate(sentences):
        names = is_telling and _MAY_NAME.search(sentence) is not None
        is_first = is_answer and number == 0 and len(sentence) >= MIN_TELLING_CHARS
        if is_first or (names and (is_answer or len({*_NAMED.findall(sentence)}) > 1)):
            left -= 1
            yield Fact(FactKind.OUTCOME, sentence, index, is_minor=not (is_answer and names))
        if not left:
            break
    if is_telling:
        yield from _environment(prose, index)
    for sentence in _sentences(prose, states_decision, MAX_DECISIONS):
        yield Fact(FactKind.DECISION, sentence, index)
    if is_telling:
        yield from _names(prose, index)


def shorten_pastes(prompt: str) -> str:
    """Return *prompt* with only the first and the last line of each long paste in it.

    >>> shorten_pastes("Look:\\n" + "> a long line of a log\\n" * 30 + "Fix it.")
    'Look:\\n> a long line of a log\\n[... 28 lines cut ...]\\n> a long line of a log\\nFix it.'
    """
    if len(prompt) < PASTE_CHARS or "\n" not in prompt:
        return prompt
    hidden = hide_pasted_text(prompt).split("\n")
    shown: list[str] = []
    pairs = zip(prompt.split("\n"), hidden, strict=True)
    for is_pasted, group in groupby(pairs, key=lambda pair: not pair[1].strip("· \t")):
        lines = [line for line, _ in group]
        if is_pasted and sum(map(len, lines)) > PASTE_CHARS:
            lines[1:-1] = [f"[... {len(lines) - 2} lines cut ...]"]
        shown += lines
    return "\n".join(shown)


def find_question(answer: str) -> str:
    """Return the question that *answer* ends with, empty when it ends otherwise.

    >>> find_question("Both would work. Shall I use the first one?")
    'Shall I use the first one?'
    """
    end = answer[-SENTENCE_CHARS:].rstrip()
    found = _QUESTION.search(end) if _QUESTION_MARK.search(end, len(end) - 5) else None
    return one_line(found.group(), SENTENCE_CHARS) if found else ""


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
    if kind is FactKind.ERROR and all(parts := split_error(text)):
        return f"{parts[0][:SUBJECT_CHARS]}: {parts[1].casefold()[:KEY_CHARS].rstrip('…')}"
    # The beginning is enough of any text that is not mostly blanks.
    words = " ".join(text[: 2 * KEY_CHARS].casefold().split())
    if len(words) < KEY_CHARS and len(text) > 2 * KEY_CHARS:
        words = " ".join(text.casefold().split(None, KEY_CHARS))
    return words[:KEY_CHARS].rstrip("…")


def key_of_cut(fact: Fact, key: str) -> str:
    """Return the key of *fact*, which had *key* before its text was cut or made longer.

    Where the key is the first words, and these are all there, it stays the same.

    >>> key_of_cut(Fact(FactKind.COMMAND, "pytest -q …"), "pytest -q tests/a.py tests/b.py")
    'pytest -q …'
    """
    is_same = len(fact.text) > KEY_CHARS == len(key) and fact.kind not in _NOT_BY_WORDS
    return key if is_same else fact_key(fact.kind, fact.text)


def split_error(text: str) -> tuple[str, str]:
    """Return an error as its subject, the command or tool that failed, and the line that tells the fault.

    >>> split_error("make test [exit 2]: no rule: test"), split_error("out of memory")
    (('make test [exit 2]', 'no rule: test'), ('', 'out of memory'))
    """
    found = _SUBJECT.match(text)
    return (found[1], text[found.end() :]) if found else ("", text)


def shape_of(key: str) -> str:
    """Return *key* with every number and hash replaced by 0, so that a thousand alike count as one."""
    return _DIGITS.sub("0", key[:SENTENCE_CHARS])


def ends_of(text: str) -> str:
    """Return the two ends of *text*, or all of it where it is short."""
    is_long = len(text) > SCAN_CHARS
    return f"{text[: SCAN_CHARS // 2]}\n{text[-SCAN_CHARS // 2 :]}" if is_long else text


def keep_ends(text: str) -> str:
    """Return the part of *text* that is searched, without code blocks."""
    text = ends_of(text)
    return _CODE_FENCE.sub("\n", text) if "```" in text else text


@lru_cache(maxsize=2)
def find_rule_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a prompt that set a rule or allow something, in words that the user typed.

    Quotations within such a sentence stand in it. A long text is searched at its ends. The newest texts are
    remembered, as the fact index and the rules of a session both look at each prompt.
    """
    prose, sentences = keep_ends(text), list[str]()
    hits = find_rule_words(prose)
    typed, after = hide_pasted_text(prose) if hits else "", 0
    for start, end in find_sentences(typed):
        while after < len(hits) and hits[after][1] <= start:
            after += 1
        if after == len(hits) or len(sentences) == MAX_RULES:
            break
        sentence = _clean(prose[start:end])
        is_telling = len(sentence) > 3 and not sentence.rstrip("*_").endswith((":", "?"))
        shown = typed[start:end].strip()
        if hits[after][0] < end and is_telling and (sets_rule(shown) or find_permission(shown)):
            sentences.append(sentence)
    return tuple(sentences)


def find_sentences(prose: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of *prose*; a line end ends one as well.

    >>> [slice(*each) for each in find_sentences("Go on. Stop!")]
    [slice(0, 6, None), slice(6, 12, None)]
    """
    start = 0
    for found in _SENTENCE_END.finditer(prose):
        if found.end() > start + 1:
            yield start, found.end()
        start = found.end()
    if start < len(prose):
        yield start, len(prose)


def _clean(sentence: str) -> str:
    bullet = _BULLET.match(sentence)
    return one_line(sentence[bullet.end() :] if bullet else sentence, SENTENCE_CHARS)


def _clean_sentences(prose: str) -> Iterator[str]:
    for start, end in find_sentences(prose):
        sentence = _clean(prose[start:end])
        if len(sentence) > 3:
            yield sentence


def _sentences(prose: str, is_wanted: Callable[[str], bool], limit: int) -> Iterator[str]:
    if not is_wanted(prose):
        return
    for sentence in _clean_sentences(prose):
        if limit and not sentence.endswith(":") and is_wanted(sentence):
            limit -= 1
            yield sentence


def _environment(prose: str, index: int) -> Iterator[Fact]:
    if _PORT_OR_VERSION.search(prose) is None:
        return
    lines = (line for line in prose.split("\n") if _PORT_OR_VERSION.search(line))
    found = (each.group() for line in lines for each in _ENVIRONMENT.finditer(line))
    seen = dict.fromkeys(islice(found, MAX_NAMES))
    for text in seen:
        yield Fact(FactKind.ENVIRONMENT, text, index)


def _names(prose: str, index: int) -> Iterator[Fact]:
    """Yield the names in *prose*; none goes on over a line.

    Only the words around a sign that each name holds are searched: most words are far from any.
    """
    seen = set[str]()
    for line in prose.split("\n"):
        end = 0
        while (sign := _TELLING.search(line, end)) is not None:
            start = sign.start()
            for _ in range(NAME_BLANKS + 1):
                start = max(end, line.rfind(" ", end, start))
            found = _NAME.search(line, start)
            if found is None:
                break
            end = found.end()
            name = one_line(found.group().strip("`").rstrip(".,:;"), NAME_CHARS)
            if name and name not in seen:
                seen.add(name)
                yield Fact(FactKind.NAME, name, index, not _DIGITS.search(name))
                if len(seen) >= MAX_NAMES:
                    return
