"""What a model's digest must not lose: the user's rules, word for word, and the evidence summaries drop.

Checked after the model has answered: a rule that is missing is put back under ``# Guardrails``, files,
commands and errors that it does not mention are listed under ``# Carryover``. The model's own words are never
changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sidecar.window_budget.budget.estimate import chars_in
from sidecar.window_budget.summarize.carried import CARRYOVER, Carried, guardrails_in, read_digest
from sidecar.window_budget.summarize.facts import Fact, FactKind, fact_key
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.summarize.selection import choose, offers, render

__all__ = ["PINNED_TOKENS", "pinned_rules", "with_evidence", "with_pinned"]

PINNED_TOKENS = 600
"""How many tokens of rules are pinned at most; the newest and the first of them win."""

EVIDENCE_TOKENS = 600
"""How many tokens of evidence are added at least; a larger digest may have more."""

_EVIDENCE = (FactKind.MODIFIED, FactKind.READ, FactKind.COMMAND, FactKind.ERROR, FactKind.NAME)

_GUARDRAILS = "# Guardrails"
_HEADING = re.compile(r"^#\s*guardrails\b.*$", re.IGNORECASE | re.MULTILINE)
_NEXT_HEADING = re.compile(r"^#\s", re.MULTILINE)
_NONE = re.compile(r"\A\s*(?:[-*]?\s*none\.?\s*)?\Z", re.IGNORECASE)
_NOT_WORD = re.compile(r"\W+")


def pinned_rules(ledger: FactLedger, before: int, carried: Carried) -> tuple[str, ...]:
    """Return the rules set before the message at *before* and those *carried* from earlier, oldest first."""
    rules = tuple(Fact(FactKind.RULE, rule) for rule in dict.fromkeys(guardrails_in(carried)))
    offered = offers(ledger, before, Carried(facts=rules), (FactKind.RULE,))
    return tuple(fact.text for fact in choose(offered, chars_in(PINNED_TOKENS)))


def with_pinned(digest: str, rules: tuple[str, ...]) -> str:
    """Return *digest* with every one of *rules* in it; those it lacks are added under ``# Guardrails``.

    >>> print(with_pinned("# Guardrails\\nnone\\n# Plan\\nship", ("Never push.",)))
    # Guardrails
    - Never push.
    # Plan
    ship
    """
    known = _words(digest)
    missing = "\n".join(f"- {rule}" for rule in rules if _words(rule) not in known)
    if not missing:
        return digest
    heading = _HEADING.search(digest)
    if heading is None:
        return f"{_GUARDRAILS}\n{missing}\n\n{digest}"
    after = _NEXT_HEADING.search(digest, heading.end())
    end = after.start() if after else len(digest)
    body = digest[heading.end() : end].strip("\n")
    told = "" if _NONE.match(body) else f"{body}\n"
    rest = digest[end:]
    return f"{digest[: heading.end()]}\n{told}{missing}" + (f"\n{rest}" if rest else "")


def with_evidence(
    digest: str, ledger: FactLedger, before: int, carried: Carried, max_tokens: int = EVIDENCE_TOKENS
) -> str:
    """Return *digest* with the files, commands, errors and names it does not mention listed at its end.

    Changed files are listed unless they are already: what only prose mentions is lost with the next prose.
    """
    known = _words(digest)
    listed = {fact_key(fact.kind, fact.text) for fact in read_digest(digest).facts}
    offered = [offer for offer in offers(ledger, before, carried, _EVIDENCE) if not offer.fact.is_minor]
    unsaid = [offer for offer in offered if not _is_said(offer.fact, listed, known)]
    missing = choose(unsaid, chars_in(max_tokens))
    if not missing:
        return digest
    heading = "" if CARRYOVER in digest else f"\n{CARRYOVER}"
    return f"{digest.rstrip()}{heading}\n{render(missing)}"


def _is_said(fact: Fact, listed: Collection[str], known: str) -> bool:
    key = fact_key(fact.kind, fact.text)
    return key in listed if fact.kind is FactKind.MODIFIED else _words(key) in known


def _words(text: str) -> str:
    return f" {_NOT_WORD.sub(' ', text.casefold()).strip()} "
