"""Budgets as text: what is refused, and what comes back as it was written."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.budget import describe_budgets, parse_budgets

WRONG = ["", "5", "5 apples", "0usd", "1usd per week", "-1usd", "1usd 2usd", "1..2usd", "1usd per prompt,"]


@pytest.mark.parametrize("written", WRONG)
def test_a_text_that_is_no_budget_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not a budget; write an amount|must be above 0"):
        parse_budgets(written)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$2", "2usd per prompt"),
        ("0.5USD a day", "0.50usd per day"),
        ("1.5M tokens per session", "1.5M per session"),
        ("12 tokens, 12k", "12k per prompt"),
        ("None", "none"),
    ],
)
def test_a_budget_comes_back_in_one_form(written: str, said: str) -> None:
    assert describe_budgets(parse_budgets(written)) == said
    assert parse_budgets(said) == parse_budgets(written)
