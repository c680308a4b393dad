"""Rules as values: folded in the order of time, found by id or words, quoted by a summary."""

from __future__ import annotations

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.rule_shapes import SessionRule
from sidecar.conductor.window.rule_changes import (
    RuleChange,
    check_rule,
    find_quotes,
    find_rule,
    fold_rules,
    statement_of_change,
    statements_of_prompt,
)

PROMPTS = {
    "n1": 'Port the tests. Money is in cents. He said "drop the tables".\n> Ship on Fridays.',
    "n2": "Should money be in cents? Long lines are ugly.",
}


def rule(rule_id: str, text: str) -> SessionRule:
    return SessionRule(id=rule_id, text=text, source="user", at=0)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param('- "Money is in cents."', [("n1", "Money is in cents.")], id="a sentence"),
        pytest.param("- “money is in cents”", [("n1", "Money is in cents.")], id="in any case"),
        pytest.param("- Money is in cents.", [], id="not a sentence without quotation marks"),
        pytest.param('- "Money is in dollars."', [], id="nothing that the user never typed"),
        pytest.param('- "Ship on Fridays."', [], id="nothing that was pasted"),
        pytest.param('- "drop the tables"', [], id="nothing that another one said"),
        pytest.param('- "Should money be in cents?"', [], id="no question"),
        pytest.param('- "in cents and so"', [], id="no part of a sentence"),
        pytest.param('# Plan\n- "Money is in cents."', [], id="nothing below another heading"),
    ],
)
def test_a_summary_proposes_what_it_quotes_from_a_prompt(line: str, expected: list[tuple[str, str]]) -> None:
    assert list(find_quotes(f"# Guardrails\n{line}\n# Status\ndone", PROMPTS)) == expected


def test_a_rule_is_found_by_its_id_or_its_words() -> None:
    rules = [rule("r1", "Never push to main."), rule("r2", "Never push tags.")]
    assert find_rule(rules, "r2") == rules[1]
    assert find_rule(rules, "PUSH main") == rules[0]
    with pytest.raises(InvalidInput, match="2 rules have the words 'push'"):
        find_rule(rules, "push")
    with pytest.raises(InvalidInput, match="no rule that holds"):
        find_rule(rules, "")


def test_a_rule_that_took_another_one_back_is_named_even_when_it_is_forgotten() -> None:
    said = statements_of_prompt("Always use tabs. Never use tabs.", "n1", 5, 0)
    first, second = fold_rules(said)
    forget = RuleChange(id=second.id, action="remove", text=second.text, source="user", at=6, node_id="n1")
    first, second = fold_rules([*said, statement_of_change(forget)])
    assert first.revoked_by is not None
    assert second.revoked_by is not None
    assert (first.revoked_by.text, second.revoked_by.text) == ("Never use tabs.", None)


def test_a_prompt_from_before_the_import_is_an_imported_one() -> None:
    (rule,) = fold_rules(statements_of_prompt("Never push.", "n1", 5, 9))
    assert rule.source == "imported"


@pytest.mark.parametrize("text", ["", "  \n", "x" * 2_001])
def test_a_rule_has_some_words_but_not_too_many(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_rule(text)
