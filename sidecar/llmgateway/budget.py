"""Budgets: the money or the tokens that a prompt, a session or a day may take, as values and as text.

A text such as ``0.50usd per prompt, 2M per day`` names an amount and a period. An amount is in dollars
(``0.50usd``, ``$0.50``) or in tokens (``200k``, ``2M``, ``5000 tokens``); without a period it is for each
prompt. Two amounts of one period, one in dollars and one in tokens, are one budget. ``none`` is no budget.

Tokens are all tokens of a call: input, output, read from a cache, and written to one. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from sidecar.llmgateway.contract import BudgetPeriod, CostBudget, Usage

PERIODS: Final[tuple[BudgetPeriod, ...]] = get_args(BudgetPeriod)
NO_BUDGET: Final = "none"
FORMS: Final = 'an amount and a period, such as "0.50usd", "200k" or "5usd per day"; "none" for no budget'

_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_AMOUNT: Final = re.compile(
    r"(?:\$\s*(?P<dollars>[\d.]+)|(?P<usd>[\d.]+)\s*(?:usd|\$)"
    r"|(?P<tokens>[\d.]+)\s*(?:(?P<scale>[km])(?:\s*tokens)?|tokens))(?:\s+(?:per|a)\s+(?P<per>\w+))?",
    re.IGNORECASE,
)


def tokens_of_usage(usage: Usage) -> int:
    """Return all tokens of a call."""
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return usage.input_tokens + usage.output_tokens + cached


def parse_budgets(text: str, usual: BudgetPeriod = "prompt") -> tuple[CostBudget, ...]:
    """Return the budgets in *text*, in the order of the periods; *usual* is that of a bare amount.

    Raises ValueError.

    >>> parse_budgets("$0.5, 200k, 5usd per day")
    (CostBudget(usd=0.5, tokens=200000, per='prompt'), CostBudget(usd=5.0, tokens=None, per='day'))
    """
    found: dict[str, dict[str, float | int]] = {}
    if text.strip().lower() == NO_BUDGET:
        return ()
    for part in text.split(","):
        match = _AMOUNT.fullmatch(part.strip())
        per = (match["per"] or usual).lower() if match is not None else ""
        if match is None or per not in PERIODS:
            raise ValueError(f"{part.strip()!r} is not a budget; write {FORMS}")
        amounts = found.setdefault(per, {})
        try:
            if match["tokens"]:
                amounts["tokens"] = round(float(match["tokens"]) * _SCALES[(match["scale"] or "").lower()])
            else:
                amounts["usd"] = float(match["dollars"] or match["usd"])
        except ValueError:
            raise ValueError(f"{part.strip()!r} is not a budget; write {FORMS}") from None
    named = {per: found[per] for per in PERIODS if per in found}
    return tuple(CostBudget(per=per, **amounts).check() for per, amounts in named.items())  # type: ignore[arg-type]  # usd is a float, tokens an int


def describe_budgets(budgets: Iterable[CostBudget]) -> str:
    """Return *budgets* as text that :func:`parse_budgets` reads.

    >>> describe_budgets(parse_budgets("$0.5, 200k, 5usd per day"))
    '0.50usd per prompt, 200k per prompt, 5usd per day'
    >>> describe_budgets(())
    'none'
    """
    parts = []
    for each in budgets:
        if each.usd is not None:
            parts.append(f"{write_number(each.usd)}usd per {each.per}")
        if each.tokens is not None:
            parts.append(f"{write_tokens(each.tokens)} per {each.per}")
    return ", ".join(parts) or NO_BUDGET


def write_number(usd: float) -> str:
    """Return dollars with the cents that they have, and with more digits where they are less than a cent.

    >>> write_number(5.0), write_number(0.5), write_number(0.00123)
    ('5', '0.50', '0.00123')
    """
    if usd == int(usd):
        return str(int(usd))
    return f"{usd:.2f}" if round(usd, 2) == usd else f"{usd:.6f}".rstrip("0")


def write_tokens(tokens: int) -> str:
    """Return a number of tokens in thousands or millions where it is round.

    >>> write_tokens(2_000_000), write_tokens(1_500), write_tokens(12)
    ('2M', '1.5k', '12 tokens')
    """
    for scale, unit in ((1_000_000, "M"), (1_000, "k")):
        if tokens >= scale and tokens % (scale // 10) == 0:
            return f"{tokens / scale:g}{unit}"
    return f"{tokens} tokens"


def describe_budget(state: Mapping[str, Any]) -> str:
    """Return the spent part of a budget in words; *state* is as on the wire.

    >>> describe_budget({"per": "day", "usd": 5.0, "spentUsd": 4.1, "tokens": None, "spentTokens": 90_000})
    '$4.10 of $5 for this day are spent'
    """
    parts = []
    if state.get("usd") is not None:
        parts.append(f"${write_number(round(state['spentUsd'], 4))} of ${write_number(state['usd'])}")
    if state.get("tokens") is not None:
        parts.append(f"{state['spentTokens']:,} of {state['tokens']:,} tokens")
    return f"{' and '.join(parts)} for this {state['per']} are spent"


def merge_budgets(*levels: Iterable[CostBudget]) -> Mapping[BudgetPeriod, CostBudget]:
    """Return the budget of each period; one of a later level replaces the one of an earlier level."""
    found = {budget.per: budget for level in levels for budget in level}
    return {per: found[per] for per in PERIODS if per in found}
