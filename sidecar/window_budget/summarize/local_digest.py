"""A digest without a model: deterministic, bounded, and made of what the transcript itself says.

It is no poor man's summary: paths, commands, error text and rules survive in it word for word, which is what
summaries by models lose first. Linear in what it is given, and from a ledger the cost of its own length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidecar.window_budget.budget.estimate import (
    BLOCK_FRAMING_TOKENS,
    MESSAGE_FRAMING_TOKENS,
    chars_in,
)
from sidecar.window_budget.marks import DIGEST_HEADER
from sidecar.window_budget.message import Message
from sidecar.window_budget.summarize.carried import CARRYOVER, COUNT_LINE, Carried, read_digest
from sidecar.window_budget.summarize.facts import FactKind
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.summarize.pins import PINNED_TOKENS
from sidecar.window_budget.summarize.selection import GOAL_PRICE, Offer, choose, offers, render
from sidecar.window_budget.text import one_line

__all__ = ["LOCAL_DIGEST_TOKENS", "carried_into", "ledger_digest", "local_fallback_digest"]

LOCAL_DIGEST_TOKENS = 1500
"""How large a local digest grows, in this engine's tokens, its header and framing included."""

PROSE_SHARE = 0.5
"""How much of a digest an earlier digest's prose takes at most."""

RULES_SHARE = 0.4
"""How much of a digest is the user's rules' before anything else; what they do not need is for all."""

PROSE_LINE_CHARS = 400
"""How much of one line is told once the whole does not fit."""

MAX_NOTES = 4
NOTE_CHARS = 300
"""How many digests of abandoned branches are told, and how much of each."""


def local_fallback_digest(
    messages: Sequence[Message], prior_digest: str | None = None, max_tokens: int = LOCAL_DIGEST_TOKENS
) -> str:
    """Return a digest of *messages*, made without a model.

    Args:
        messages: what is condensed. Digests among them are carried on.
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
    ledger = FactLedger().extended(messages)
    carried = carried_into(ledger, len(messages), prior_digest)
    return ledger_digest(ledger, len(messages), carried, max_tokens)


def carried_into(ledger: FactLedger, before: int, prior_digest: str | None = None) -> Carried:
    """Return what earlier digests carry into one that ends before the message at *before*, oldest first."""
    digests = [read_digest(prior_digest)] if prior_digest else []
    digests.extend(read_digest(note.text) for note in ledger.digests(before)[-MAX_NOTES:])
    facts = tuple(fact for digest in digests for fact in digest.facts)
    prose: list[str] = []
    for digest in digests:
        said = set(prose)
        prose.extend(line for line in digest.prose if line not in said or line.startswith("#"))
    branches = ledger.branches(before)[-MAX_NOTES:]
    prose += [f"Abandoned branch: {one_line(note.text, NOTE_CHARS)}" for note in branches]
    return Carried(facts, tuple(prose))


def ledger_digest(
    ledger: FactLedger, before: int, carried: Carried, max_tokens: int, count: int | None = None
) -> str:
    """Return the digest of the messages before *before*; *count* is told as their number when given."""
    n_messages = before if count is None else count
    head = f"{CARRYOVER}\n{COUNT_LINE.format(n_messages, '' if n_messages == 1 else 's')}"
    chars = chars_in(max_tokens - MESSAGE_FRAMING_TOKENS - BLOCK_FRAMING_TOKENS) - len(DIGEST_HEADER) - 2
    chars -= len(head) + 4
    prose = _fitted(carried.prose, int(chars * PROSE_SHARE))
    facts = choose(_rules_first(offers(ledger, before, carried), chars), chars - len(prose))
    return "\n\n".join(filter(None, (head, prose, render(facts))))


def _rules_first(offered: Sequence[Offer], chars: int) -> list[Offer]:
    """Return *offered* with the goals, then the rules that have a right to be told, before all else."""
    rules = [offer for offer in offered if offer.fact.kind is FactKind.RULE]
    pinned = set(choose(rules, min(chars_in(PINNED_TOKENS), int(chars * RULES_SHARE))))

    def urgency(offer: Offer) -> int:
        return 0 if offer.price == GOAL_PRICE else 1 if offer.fact in pinned else 2

    return sorted(offered, key=urgency)


def _fitted(prose: Sequence[str], max_chars: int) -> str:
    """Return *prose* within *max_chars*: the first lines of each of its sections before the later ones."""
    whole = "\n".join(prose)
    if len(whole) <= max_chars:
        return whole
    lines = [one_line(line, PROSE_LINE_CHARS) for line in prose]
    kept = set[int]()
    for number in _by_telling(lines):
        cost = len(lines[number]) + 1
        if 1 < cost <= max_chars:
            max_chars -= cost
            kept.add(number)
    return "\n".join(lines[number] for number in sorted(_with_content(lines, kept)))


def _by_telling(prose: Sequence[str]) -> list[int]:
    """Return the line numbers of *prose*, headings first, then guardrails, then the top of every section."""
    depth, ranks = 0, []
    in_rules = False
    for number, line in enumerate(prose):
        if line.startswith("#"):
            depth, in_rules = 0, "guardrails" in line.casefold()
        else:
            depth += 1
        ranks.append((0 if in_rules else depth, number))
    return [number for _, number in sorted(ranks)]


def _with_content(prose: Sequence[str], kept: Iterable[int]) -> set[int]:
    """Return *kept* without headings that are followed by nothing kept."""
    lines = sorted(kept)
    following = [*lines, -1][1:]
    return {
        number
        for number, after in zip(lines, following, strict=True)
        if not prose[number].startswith("#") or (after >= 0 and not prose[after].startswith("#"))
    }
