"""The local digest, and the facts that any digest must keep.

Without a model a digest is made of the transcript's own words: paths, commands, error text and rules stand in
it word for word, and these are the first things that summaries by models lose. It has a heading with the
number of messages, the prose of earlier digests (whole where there is room), and facts by kind. The user's
rules have a right to two fifths of it; the first and the latest request and open todos come before them.

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
from dataclasses import replace

from sidecar.text.clip import one_line
from sidecar.window_budget.digest_layout import (
    CARRYOVER,
    COUNT_LINE,
    PreviousDigest,
    parse_digest,
    render_facts,
)
from sidecar.window_budget.estimate import (
    BLOCK_FRAMING_TOKENS,
    MESSAGE_FRAMING_TOKENS,
    chars_in,
    tokens_of_chars,
)
from sidecar.window_budget.facts import KEY_CHARS, Fact, FactKind, fact_key, split_error
from sidecar.window_budget.message import DIGEST_HEADER, Message, branch_text, digest_text
from sidecar.window_budget.selection import Known, list_candidates, put_first, select_facts
from sidecar.window_budget.transcript import Transcript

LOCAL_DIGEST_TOKENS = 1500
"""How large a local digest grows, in this engine's tokens, its header and framing included."""

PROSE_SHARE = 0.5
"""How much of a digest the prose of earlier digests takes where there is no room for all of it."""

RULES_SHARE = 0.4
"""How much of a model's digest the user's rules take at most."""

EVIDENCE_TOKENS = 600
"""How many tokens of evidence are added to a model's digest at least; a larger digest may have more."""

MAX_BRANCHES = 4
BRANCH_CHARS = 300
"""How many digests of abandoned branches are kept, and how much of each."""

_NO_EVIDENCE = frozenset({FactKind.RULE})
"""Rules are not added to a model's digest as evidence: they have a place of their own there."""

_HEADING = re.compile(r"^#\s*guardrails\b.*$", re.IGNORECASE | re.MULTILINE)
_NEXT_HEADING = re.compile(r"^#\s", re.MULTILINE)
_NONE = re.compile(r"\A\s*(?:[-*]?\s*none\.?\s*)?\Z", re.IGNORECASE)
_NOT_WORD = re.compile(r"\W+")


def local_fallback_digest(
    messages: Sequence[Message], prior_digest: str | None = None, max_tokens: int | None = None
) -> str:
    """Return a digest of *messages*, made without a model.

    Args:
        messages: the messages to condense. Digests among them are carried on.
        prior_digest: the digest carried from before, or None. Its facts are merged, never copied twice.
        max_tokens: the size of the digest as a message, in tokens; below about 40 it is heading and count.
            None for 1,500 besides the digests carried from before, which stay whole.

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
    known = collect_known(Transcript.of(messages), len(messages), prior_digest)
    if max_tokens is not None:
        return write_local_digest(known, len(messages), max_tokens, max_tokens)
    most = LOCAL_DIGEST_TOKENS + tokens_of_chars(known.previous.prose_chars)
    return write_local_digest(known, len(messages), LOCAL_DIGEST_TOKENS, most)


def collect_known(
    transcript: Transcript, cut: int, prior_digest: str | None = None, closing: str = ""
) -> Known:
    """Return the facts of the messages before *cut*, folded ones included.

    Args:
        transcript: the messages with their facts.
        cut: the index of the first message that is not digested.
        prior_digest: a digest older than all of them, or None.
        closing: the last line of earlier digests, which is not carried on.
    """
    meter, digests = transcript.meter, [parse_digest(prior_digest)] if prior_digest else []
    carried = (digest_text(transcript[index]) for index in meter.digests(cut)[-MAX_BRANCHES:])
    digests.extend(parse_digest(text) for text in carried if text is not None)
    # Where the index knows what was folded, the facts of a digest are among its own.
    facts = () if transcript.knows_folded else tuple(fact for digest in digests for fact in digest.facts)
    prose: list[str] = []
    for digest in digests:
        known = set(prose)
        lines = (line for line in digest.prose if not line or line != closing)
        prose.extend(line for line in lines if line not in known or line.startswith("#"))
    branches = (branch_text(transcript[index]) for index in meter.branches(cut)[-MAX_BRANCHES:])
    prose += [f"Abandoned branch: {one_line(text, BRANCH_CHARS)}" for text in branches if text is not None]
    return Known(transcript.facts, transcript.position(cut), PreviousDigest(facts, tuple(prose)))


def write_local_digest(known: Known, n_messages: int, max_tokens: int, most_tokens: int) -> str:
    """Return the local digest.

    Args:
        known: the facts to choose from.
        n_messages: the number of messages to state.
        max_tokens: the size of the digest as a message, in tokens.
        most_tokens: the size to which it grows where earlier digests would not stay whole.
    """
    head = f"{CARRYOVER}\n{COUNT_LINE.format(n_messages, '' if n_messages == 1 else 's')}"
    chars = chars_in(max_tokens - MESSAGE_FRAMING_TOKENS - BLOCK_FRAMING_TOKENS) - len(DIGEST_HEADER) - 2
    chars -= len(head) + 4
    facts_chars = chars - int(chars * PROSE_SHARE)
    more = known.previous.prose_chars - (chars - facts_chars)
    chars += max(0, min(more, chars_in(most_tokens) - chars_in(max_tokens)))
    prose = known.previous.fit_prose(chars - facts_chars)
    candidates = list_candidates(known, chars)
    facts = select_facts(put_first(candidates, chars), chars - len(prose))
    return "\n\n".join(filter(None, (head, prose, render_facts(facts))))


def collect_rules(known: Known, digest_tokens: int = LOCAL_DIGEST_TOKENS) -> tuple[str, ...]:
    """Return the rules that a digest must keep, oldest first.

    Args:
        known: the facts there are, with the rules that earlier digests carry.
        digest_tokens: the size of the digest.

    Returns:
        Rules of two fifths of the digest at most; the newest and the first win.
    """
    max_chars = int(chars_in(digest_tokens) * RULES_SHARE)
    carried = tuple(Fact(FactKind.RULE, rule) for rule in dict.fromkeys(known.previous.rules()))
    with_carried = replace(known, previous=PreviousDigest(facts=carried))
    candidates = list_candidates(with_carried, max_chars, (FactKind.RULE,))
    return tuple(fact.text for fact in select_facts(candidates, max_chars))


def add_missing_rules(digest: str, rules: tuple[str, ...]) -> str:
    """Return *digest* with every one of *rules* in it; those it lacks are added under ``# Guardrails``.

    >>> print(add_missing_rules("# Guardrails\\nnone\\n# Plan\\nship", ("Never push.",)))
    # Guardrails
    - Never push.
    # Plan
    ship
    """
    words = _words_of(digest)
    missing = "\n".join(f"- {rule}" for rule in rules if _words_of(rule) not in words)
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


def add_missing_facts(digest: str, known: Known, max_tokens: int = EVIDENCE_TOKENS) -> str:
    """Return *digest* with the facts that it does not mention at its end: the newest prompts word for word.

    Args:
        digest: a model's digest.
        known: the facts there are.
        max_tokens: how much may be added, in tokens.
    """
    words = _words_of(digest)
    listed = {fact_key(fact.kind, fact.text) for fact in parse_digest(digest).facts}

    def is_missing(fact: Fact, whole: str) -> bool:
        key = (whole or fact.text) if fact.kind is FactKind.REQUEST else fact_key(fact.kind, fact.text)
        if fact.kind is FactKind.ERROR:
            key = split_error(fact.text)[1][:KEY_CHARS] or key
        return key not in listed if fact.kind is FactKind.MODIFIED else _words_of(key) not in words

    kinds = [kind for kind in FactKind if kind not in _NO_EVIDENCE]
    max_chars = chars_in(max_tokens)
    candidates = list_candidates(known, max_chars, kinds)
    wanted = [
        each
        for each in candidates
        if (not each.fact.is_minor or each.fact.kind is FactKind.OUTCOME)
        and is_missing(each.fact, each.full_text)
    ]
    missing = select_facts(put_first(wanted, max_chars), max_chars)
    if not missing:
        return digest
    heading = "" if CARRYOVER in digest else f"\n{CARRYOVER}"
    return f"{digest.rstrip()}{heading}\n{render_facts(missing)}"


def _words_of(text: str) -> str:
    return f" {_NOT_WORD.sub(' ', text.casefold()).strip()} "
