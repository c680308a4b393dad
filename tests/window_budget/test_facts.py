"""Facts in prose: keys, shapes, error lines, and a bounded search."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import TextBlock
from sidecar.window_budget import (
    AssistantMessage,
    FactIndex,
    UserMessage,
)
from sidecar.window_budget.facts import FactKind, fact_key, shape_of


def test_like_facts_share_a_shape_and_one_fact_has_one_key() -> None:
    """Numbers and hashes do not make a fact special; outcomes and gists do not make it another one."""
    assert shape_of("item 17 of 99 at 8f3a2b1c") == shape_of("item 3 of 4 at deadbeef")
    assert fact_key(FactKind.MODIFIED, "a.py: x -> y") == fact_key(FactKind.MODIFIED, "a.py")
    assert fact_key(FactKind.COMMAND, "make [failed]") == fact_key(FactKind.COMMAND, "make [exit 0]")
    assert fact_key(FactKind.RULE, "Never  push") == fact_key(FactKind.RULE, "never push")


@pytest.mark.parametrize(
    "unit", ["a.", "a-", "a_", "A1", "1:", "x@", "`", "http://", "/a", "Error", " \n", " ", "<", "# "]
)
def test_pasted_junk_costs_no_more_than_its_length(unit: str) -> None:
    """Nothing in the search for facts runs away on a megabyte of it."""
    index = FactIndex().extend([UserMessage(unit * 300_000), AssistantMessage((TextBlock(unit * 300_000),))])
    assert len(index) == 2
