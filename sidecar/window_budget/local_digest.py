"""The local digest, and the facts that any digest must keep.

Without a model a digest is made of the transcript's own words: paths, commands, error text and rules stand in
it word for word, and these are the first things that summaries by models lose. It has a heading with the
number of messages, the prose of earlier digests (half of the room at most), and facts by kind. The user's
rules have a right to 600 tokens or two fifths of it; the first and the latest request come before them.

A model's digest is checked after the model has answered. A rule of the user that it dropped is put back under
``# Guardrails``; files, commands, errors and names that it does not mention are listed under ``# Carryover``.
The model's own words are never changed. A fact counts as mentioned when its words stand in the digest in
order, in any case, with any bullets and line ends; a changed file counts only where it is listed, because a
mention in prose is lost with the next prose.

Invariants: deterministic, bounded by ``max_tokens``, and repeatable: the facts of a digest survive being
digested again. Cost: the length of the digest, given an index.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sidecar.window_budget.estimate import BLOCK_FRAMING_TOKENS, MESSAGE_FRAMING_TOKENS, chars_in
from sidecar.window_budget.fact_index import FactIndex
from sidecar.window_budget.facts import Fact, FactKind, fact_key
from sidecar.window_budget.marks import DIGEST_HEADER
from sidecar.window_budget.message import Message
from sidecar.window_budget.selection import (
    CARRYOVER,
    COUNT_LINE,
    GOAL_PRICE,
    FactCandidate,
    PreviousDigest,
    list_candidates,
    parse_digest,
    render_facts,
    select_facts,
)
from sidecar.window_budget.text import one_line

LOCAL_DIGEST_TOKENS = 1500
"""How large a local digest grows, in this engine's tokens, its header and framing included."""

PROSE_SHARE = 0.5
"""How much of a digest the prose of earlier digests takes at most."""

REQUIRED_RULES_TOKENS = 600
RULES_SHARE = 0.4
"""How much of a digest belongs to the user's rules before anything else; what they leave is for all."""

EVIDENCE_TOKENS = 600
"""How many tokens of evidence are added to a model's digest at least; a larger digest may have more."""

MAX_BRANCHES = 4
BRANCH_CHARS = 300
"""How many digests of abandoned branches are kept, and how much of each."""

_EVIDENCE = (FactKind.MODIFIED, FactKind.READ, FactKind.COMMAND, FactKind.ERROR, FactKind.NAME)

_HEADING = re.compile(r"^#\s*guardrails\b.*$", re.IGNORECASE | re.MULTILINE)
_NEXT_HEADING = re.compile(r"^#\s", re.MULTILINE)
_NONE = re.compile(r"\A\s*(?:[-*]?\s*none\.?\s*)?\Z", re.IGNORECASE)
_NOT_WORD = re.compile(r"\W+")


def local_fallback_digest(
    messages: Sequence[Message], prior_digest: str | None = None, max_tokens: int = LOCAL_DIGEST_TOKENS
) -> str:
    """Return a digest of *messages*, made without a model.

    Args:
        messages: the messages to condense. Digests among them are carried on.
        prior_digest: the digest carried from before, or None. Its facts are merged, never copied twice.
        max_tokens: the size of the digest as a message, in tokens; below about 40 it is heading and count.

    Returns:
        Text under ``# Carryover``; its first line starts with the number of messages.

    >>> from sidecar.window_budget.message import UserMessage
    >>> print(local_fallback_digest([UserMessage("Fix the parser.")]))
    # Carryover
    1 earlier message condensed without a model.
    <BLANKLINE>
    ## Requests
    - Fix the parser.
    """
    index = FactIndex().extend(messages)
    previous = collect_previous(index, len(messages), prior_digest)
    return write_local_digest(index, len(messages), previous, max_tokens=max_tokens)


def collect_previous(index: FactIndex, before: int, prior_digest: str | None = None) -> PreviousDigest:
    """Return the earlier digests as one, oldest first.

    Args:
        index: the facts of the transcript.
        before: only digests before the message at this index count.
        prior_digest: a digest older than all of them, or None.
    """
    digests = [parse_digest(prior_digest)] if prior_digest else []
    digests.extend(parse_digest(digest.text) for digest in index.digests(before)[-MAX_BRANCHES:])
    facts = tuple(fact for digest in digests for fact in digest.facts)
    prose: list[str] = []
    for digest in digests:
        known = set(prose)
        prose.extend(line for line in digest.prose if line not in known or line.startswith("#"))
    branches = index.branches(before)[-MAX_BRANCHES:]
    prose += [f"Abandoned branch: {one_line(branch.text, BRANCH_CHARS)}" for branch in branches]
    return PreviousDigest(facts, tuple(prose))


def write_local_digest(
    index: FactIndex, before: int, previous: PreviousDigest, *, max_tokens: int, count: int | None = None
) -> str:
    """Return the local digest of the messages before an index.

    Args:
        index: the facts of the transcript.
        before: the index of the first message that is not digested.
        previous: the earlier digests.
        max_tokens: the size of the digest as a message, in tokens.
        count: the number of messages to state; None for *before*.
    """
    n_messages = before if count is None else count
    head = f"{CARRYOVER}\n{COUNT_LINE.format(n_messages, '' if n_messages == 1 else 's')}"
    chars = chars_in(max_tokens - MESSAGE_FRAMING_TOKENS - BLOCK_FRAMING_TOKENS) - len(DIGEST_HEADER) - 2
    chars -= len(head) + 4
    prose = previous.fit_prose(int(chars * PROSE_SHARE))
    candidates = list_candidates(index, before, previous)
    rules = [candidate for candidate in candidates if candidate.fact.kind is FactKind.RULE]
    required = set(select_facts(rules, min(chars_in(REQUIRED_RULES_TOKENS), int(chars * RULES_SHARE))))

    def urgency(candidate: FactCandidate) -> int:
        return 0 if candidate.price == GOAL_PRICE else 1 if candidate.fact in required else 2

    facts = select_facts(sorted(candidates, key=urgency), chars - len(prose))
    return "\n\n".join(filter(None, (head, prose, render_facts(facts))))


def collect_rules(index: FactIndex, before: int, previous: PreviousDigest) -> tuple[str, ...]:
    """Return the rules that a digest must keep, oldest first.

    Args:
        index: the facts of the transcript.
        before: only messages before this index count.
        previous: the earlier digests, with the rules that they carry.

    Returns:
        Rules of at most :data:`REQUIRED_RULES_TOKENS` together; the newest and the first win.
    """
    rules = tuple(Fact(FactKind.RULE, rule) for rule in dict.fromkeys(previous.rules()))
    candidates = list_candidates(index, before, PreviousDigest(facts=rules), (FactKind.RULE,))
    return tuple(fact.text for fact in select_facts(candidates, chars_in(REQUIRED_RULES_TOKENS)))


def add_missing_rules(digest: str, rules: tuple[str, ...]) -> str:
    """Return *digest* with every one of *rules* in it; those it lacks are added under ``# Guardrails``.

    >>> print(add_missing_rules("# Guardrails\\nnone\\n# Plan\\nship", ("Never push.",)))
    # Guardrails
    - Never push.
    # Plan
    ship
    """
    known = _words_of(digest)
    missing = "\n".join(f"- {rule}" for rule in rules if _words_of(rule) not in known)
    if not missing:
        return digest
    heading = _HEADING.search(digest)
    if heading is None:
        return f"# Guardrails\n{missing}\n\n{digest}"
    after = _NEXT_HEADING.search(digest, heading.end())
    end = after.start() if after else len(digest)
    body = digest[heading.end() : end].strip("\n")
    kept = "" if _NONE.match(body) else f"{body}\n"
    rest = digest[end:]
    return f"{digest[: heading.end()]}\n{kept}{missing}" + (f"\n{rest}" if rest else "")


def add_missing_facts(
    digest: str,
    index: FactIndex,
    before: int,
    previous: PreviousDigest,
    max_tokens: int = EVIDENCE_TOKENS,
) -> str:
    """Return *digest* with the files, commands, errors and names that it does not mention at its end.

    Args:
        digest: a model's digest.
        index: the facts of the transcript.
        before: only facts of messages before this index count.
        previous: the earlier digests.
        max_tokens: how much may be added, in tokens.
    """
    known = _words_of(digest)
    listed = {fact_key(fact.kind, fact.text) for fact in parse_digest(digest).facts}

    def is_missing(fact: Fact) -> bool:
        key = fact_key(fact.kind, fact.text)
        return key not in listed if fact.kind is FactKind.MODIFIED else _words_of(key) not in known

    candidates = list_candidates(index, before, previous, _EVIDENCE)
    wanted = [each for each in candidates if not each.fact.is_minor and is_missing(each.fact)]
    missing = select_facts(wanted, chars_in(max_tokens))
    if not missing:
        return digest
    heading = "" if CARRYOVER in digest else f"\n{CARRYOVER}"
    return f"{digest.rstrip()}{heading}\n{render_facts(missing)}"


def _words_of(text: str) -> str:
    return f" {_NOT_WORD.sub(' ', text.casefold()).strip()} "
