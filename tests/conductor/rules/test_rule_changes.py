"""Rules as values: statements of a model about them, changes in the order of time, and how one is named."""

from __future__ import annotations

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import RuleStatement, SessionRule
from sidecar.conductor.window.rule_changes import (
    RuleChange,
    ask_about_rules,
    changes_of_statements,
    check_rule,
    find_earlier_rules,
    find_rule,
    find_words,
    fold_rules,
    split_statements,
)

PROMPTS = {
    "n1": 'Port the tests. Money is in cents. He said "drop the tables".\n> Ship on Fridays.\n'
    "```\nnever = 1\n```",
    "n2": 'Should money be in cents? Start messages with "feat:". Pense à ne jamais\npousser sur main.',
    "n3": "| what | rule |\n| money | in cents, always |\n不要修改数据库迁移文件。谢谢",
    "n4": "ok so we never touch vendor and the money thing you know " + "and so on " * 60,
}
TIMES = {"n1": 10, "n2": 20, "n3": 30, "n4": 40}


def rule(rule_id: str, text: str) -> SessionRule:
    return SessionRule(id=rule_id, text=text, source="user", at=0)


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        pytest.param("Money is in cents.", ("n1", "Money is in cents."), id="a sentence"),
        pytest.param("money is  in cents", ("n1", "Money is in cents."), id="in any case, with any blanks"),
        pytest.param("is in cents", ("n1", "Money is in cents."), id="a part stands for its sentence"),
        pytest.param("pousser sur main", ("n2", "pousser sur main."), id="a line of a sentence"),
        pytest.param(
            'Start messages with "feat:".', ("n2", 'Start messages with "feat:".'), id="with a quotation"
        ),
        pytest.param("不要修改数据库迁移文件", ("n3", "不要修改数据库迁移文件。"), id="without blanks"),
        pytest.param("in cents, always", ("n3", "in cents, always"), id="a cell of a table"),
        pytest.param("never touch vendor", ("n4", "never touch vendor"), id="a part of a long dictation"),
        pytest.param("Money is in dollars.", None, id="nothing that the user never typed"),
        pytest.param("Ship on Fridays.", None, id="nothing that was pasted"),
        pytest.param("never = 1", None, id="nothing in a fence"),
        pytest.param("drop the tables", None, id="nothing that another one said"),
        pytest.param("Should money be in cents?", None, id="no question"),
        pytest.param("is", None, id="no single syllable"),
    ],
)
def test_a_quote_is_found_among_the_words_that_the_user_typed(
    quote: str, expected: tuple[str, str] | None
) -> None:
    assert find_words(quote, PROMPTS.items()) == expected


def test_statements_stand_in_a_block_of_their_own() -> None:
    reply = (
        '# Plan\nship\n\n<rules>\nstanding: “Use tabs.”\n- moment: "Wait."\ntask: "Port it."\n'
        'ended r12ab34: "You may push."\nconflict R12AB34: "Push?"\nended: "No id."\n'
        "</rules>\n# Carryover\nnone"
    )
    note, statements = split_statements(reply)
    assert note == "# Plan\nship\n# Carryover\nnone"
    assert [(each.kind, each.rule_id, each.quote) for each in statements] == [
        ("standing", "", "Use tabs."),
        ("ended", "r12ab34", "You may push."),
        ("conflict", "r12ab34", "Push?"),
    ]
    assert split_statements("no block") == ("no block", ())


def test_the_model_is_shown_the_rules_that_hold_and_what_may_contradict_them() -> None:
    shown = ask_about_rules([rule("r1", "Use tabs."), rule("r2", "y")])
    assert shown.endswith("The rules that hold:\n- r1: Use tabs.\n- r2: y")
    assert ask_about_rules([]).endswith("The rules that hold:\nnone")


def said(kind: str, quote: str, rule_id: str = "") -> RuleStatement:
    return RuleStatement(kind, rule_id, quote)  # type: ignore[arg-type]  # any kind, for the cases below


def changes(
    *statements: RuleStatement, rules: tuple[SessionRule, ...] = ()
) -> list[tuple[str, str, str | None]]:
    found = changes_of_statements(statements, PROMPTS, TIMES, rules)
    return [(each.action, each.text, each.node_id) for each in found]


def test_only_a_standing_wish_with_a_right_quote_becomes_a_rule() -> None:
    assert changes(said("standing", "money is in cents"), said("standing", "Money is in dollars")) == [
        ("add", "Money is in cents.", "n1")
    ]


def test_what_is_a_rule_or_was_dismissed_is_not_proposed_again() -> None:
    known = SessionRule(id="r1", text="Money is in cents.", source="summary", at=9, holds=False)
    assert changes(said("standing", "Money is in cents."), rules=(known,)) == []
    assert len(changes(*[said("standing", "Money is in cents.")] * 2)) == 1


def test_a_rule_ends_by_later_words_of_the_user_alone() -> None:
    early, late = (
        rule("r000001", "Never touch vendor."),
        SessionRule(id="r000002", text="x", source="user", at=35),
    )
    words = "money is in cents"
    assert changes(said("ended", words, "r000001"), rules=(early,)) == [
        ("remove", "Money is in cents.", "n1")
    ]
    assert changes(said("conflict", words, "r000001"), rules=(early,)) == [
        ("conflict", "Money is in cents.", "n1")
    ]
    assert changes(said("ended", words, "r000002"), rules=(late,)) == [], "they were typed before the rule"
    assert changes(said("ended", "no such words", "r000001"), rules=(early,)) == []
    assert changes(said("ended", words, "r000009"), rules=(early,)) == [], "there is no such rule"


def change(action: str, text: str, at: int, key: str = "r1", source: str = "summary") -> RuleChange:
    return RuleChange(id=key, action=action, text=text, source=source, at=at, node_id="n1")  # type: ignore[arg-type]  # as above


def test_changes_are_folded_in_the_order_of_time() -> None:
    end, conflict = change("remove", "You may.", 9), change("conflict", "May I?", 6)
    (first,) = fold_rules([end, change("add", "Never push.", 5), conflict])
    assert (first.text, first.proposed, first.holds, first.conflicts) == (
        "Never push.",
        False,
        False,
        ("May I?",),
    )
    assert first.revoked_by is not None
    assert (first.revoked_by.source, first.revoked_by.text, first.revoked_by.node_id) == (
        "summary",
        "You may.",
        "n1",
    )


def test_a_proposed_rule_is_kept_by_hand_or_by_saying_it() -> None:
    add = change("add", "Never push.", 5)
    assert [rule.proposed for rule in fold_rules([add])] == [True]
    assert [rule.proposed for rule in fold_rules([add, change("keep", "", 6, source="user")])] == [False]
    again = change("add", "never push", 6, "r2", "user")
    assert [(rule.id, rule.proposed) for rule in fold_rules([add, again])] == [("r1", False)]


def test_a_rule_that_was_taken_back_may_be_set_again() -> None:
    (first, second) = fold_rules(
        [
            change("add", "Use tabs.", 1),
            change("remove", "", 2, source="user"),
            change("add", "Use tabs.", 3, "r2"),
        ]
    )
    assert (first.holds, second.holds) == (False, True)


def test_rules_of_earlier_versions_stand_in_their_summaries() -> None:
    summary = (
        "# Guardrails\n- Money is in cents.\n- The user likes cents\n- Ship on Fridays.\n# Carryover\n"
        "3 earlier messages condensed without a model.\n\n## Rules\n- 不要修改数据库迁移文件。\n"
        "## Requests\n- Port the tests."
    )
    found = find_earlier_rules([summary], PROMPTS, TIMES)
    assert [(each.text, each.source, each.node_id) for each in found] == [
        ("Money is in cents.", "found", "n1"),
        ("不要修改数据库迁移文件。", "found", "n3"),
    ]


def test_a_rule_is_found_by_its_id_or_its_words() -> None:
    rules = [rule("r1", "Never push to main."), rule("r2", "Never push tags.")]
    assert find_rule(rules, "r2") == rules[1]
    assert find_rule(rules, "PUSH main") == rules[0]
    with pytest.raises(InvalidInput, match="2 rules have the words 'push'"):
        find_rule(rules, "push")
    with pytest.raises(InvalidInput, match="no rule that holds"):
        find_rule(rules, "")


@pytest.mark.parametrize("text", ["", "  \n", "x" * 2_001])
def test_a_rule_has_some_words_but_not_too_many(text: str) -> None:
    with pytest.raises(InvalidInput):
        check_rule(text)
