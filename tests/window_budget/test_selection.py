"""Selection: the cheapest facts fit first, and a digest is read again without its marks."""

from __future__ import annotations

import pytest

from sidecar.window_budget import DIGEST_HEADER, FactIndex, UserMessage
from sidecar.window_budget.facts import Fact, FactKind
from sidecar.window_budget.selection import (
    FactCandidate,
    Known,
    PreviousDigest,
    list_candidates,
    parse_digest,
    render_facts,
    select_facts,
    shorten_carried,
)


def test_the_cheapest_facts_are_kept_and_laid_out_by_kind() -> None:
    """Price decides what stays, kind and age decide where it stands."""
    candidates = [
        FactCandidate(1.0, Fact(FactKind.COMMAND, "make", 5)),
        FactCandidate(2.0, Fact(FactKind.RULE, "never push", 7)),
        FactCandidate(3.0, Fact(FactKind.RULE, "x" * 90, 1)),
        FactCandidate(4.0, Fact(FactKind.RULE, "be brief", 3)),
    ]
    facts = select_facts(candidates, max_chars=60)
    assert render_facts(facts) == "## Rules\n- be brief\n- never push\n## Commands\n- make"


def test_a_shortened_fact_gets_its_full_text_when_room_is_left() -> None:
    """The cheapest first; one that does not fit stays short."""
    candidates = [
        FactCandidate(1.0, Fact(FactKind.ERROR, "a"), "a" * 20),
        FactCandidate(2.0, Fact(FactKind.ERROR, "b"), "b" * 20),
    ]
    texts = [fact.text for fact in select_facts(candidates, max_chars=45)]
    assert texts == ["a" * 20, "b"]


def test_rules_cost_less_than_commands_and_new_facts_less_than_carried_ones() -> None:
    """By weight and rank."""
    index = FactIndex().extend([UserMessage("Never push to the main branch of this project.")])
    previous = PreviousDigest(
        (
            Fact(FactKind.RULE, "Never touch the generated files of this project."),
            Fact(FactKind.COMMAND, "make test of this whole project twice over"),
        )
    )
    candidates = list_candidates(Known(index, 1, previous), 5_000, (FactKind.RULE, FactKind.COMMAND))
    found = [each.fact.text[:12] for each in candidates]
    assert found == ["Never push t", "Never touch ", "make test of"]


@pytest.mark.parametrize("header", [DIGEST_HEADER, "[condensed earlier context]", "[any other mark]"])
def test_the_mark_of_any_engine_falls_away(header: str) -> None:
    """An opening line in square brackets is none of the digest's text."""
    assert parse_digest(f"{header}\n# Plan\nship it") == parse_digest("# Plan\nship it")
    assert parse_digest("# Plan\n[x] ship it").prose == ("# Plan", "[x] ship it")


@pytest.mark.parametrize(
    ("kind", "text", "shorter"),
    [
        (FactKind.ERROR, "make…: no rule", "no rule"),
        (FactKind.COMMAND, "make test", "make test"),
        (FactKind.RULE, "be brief", "be brief"),
    ],
)
def test_a_carried_fact_loses_its_passing_details(kind: FactKind, text: str, shorter: str) -> None:
    assert shorten_carried(Fact(kind, text)) == shorter
