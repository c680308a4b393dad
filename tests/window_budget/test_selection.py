"""Selection: the cheapest facts fit first, and a digest is read again without its marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.text.clip import one_line
from sidecar.window_budget import (
    DIGEST_HEADER,
    AssistantMessage,
    FactIndex,
    Message,
    ToolResultMessage,
    UserMessage,
)
from sidecar.window_budget.digest_layout import PreviousDigest, measure_facts, parse_digest, render_facts
from sidecar.window_budget.facts import Fact, FactKind, fact_key, key_of_cut
from sidecar.window_budget.selection import (
    FactCandidate,
    Known,
    list_candidates,
    select_facts,
    shorten_carried,
)

TEXTS = ("", "be brief", "two\nlines", "a in src", "b in src", "c in src", "d in docs; e")


def candidate(price: float, fact: Fact, full_text: str = "") -> FactCandidate:
    return FactCandidate(price, fact, fact_key(fact.kind, fact.text), full_text)


def test_the_cheapest_facts_are_kept_and_laid_out_by_kind() -> None:
    """Price decides what stays, kind and age decide where it stands."""
    candidates = [
        candidate(1.0, Fact(FactKind.COMMAND, "make", 5)),
        candidate(2.0, Fact(FactKind.RULE, "never push", 7)),
        candidate(3.0, Fact(FactKind.RULE, "x" * 90, 1)),
        candidate(4.0, Fact(FactKind.RULE, "be brief", 3)),
    ]
    facts = select_facts(candidates, max_chars=60)
    assert render_facts(facts) == "## Rules\n- be brief\n- never push\n## Commands\n- make"


def test_a_shortened_fact_gets_its_full_text_when_room_is_left() -> None:
    """The cheapest first; one that does not fit stays short."""
    candidates = [
        candidate(1.0, Fact(FactKind.ERROR, "a"), "a" * 20),
        candidate(2.0, Fact(FactKind.ERROR, "b"), "b" * 20),
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


def test_nothing_stands_there_twice() -> None:
    """A failed command stands with its error, a name in what holds it; the room goes to other facts."""
    candidates = [
        candidate(1.0, Fact(FactKind.COMMAND, "make test [exit 2]", 3)),
        candidate(2.0, Fact(FactKind.ERROR, "make test [exit 2]: no rule", 3)),
        candidate(3.0, Fact(FactKind.COMMAND, "make test [exit 0]", 5)),
        candidate(4.0, Fact(FactKind.READ, "src/anchor_9.py", 1)),
        candidate(5.0, Fact(FactKind.NAME, "anchor_9", 1)),
        candidate(6.0, Fact(FactKind.OUTCOME, "All is well.", 2)),
    ]
    facts = select_facts(candidates, max_chars=153)
    assert render_facts(facts) == (
        "## Outcomes\n- All is well.\n## Files read\n- src/anchor_9.py\n"
        "## Commands\n- make test [exit 0]\n## Errors\n- make test [exit 2]: no rule"
    )


def test_searches_of_one_place_name_it_once_and_are_read_as_they_were() -> None:
    searches = [Fact(FactKind.SEARCH, f"name_{number} in src") for number in range(3)]
    searches.append(Fact(FactKind.SEARCH, "port in docs"))
    text = render_facts(searches)
    assert text == "## Searches\n- name_0; name_1; name_2 (each in src)\n- port in docs"
    assert [fact.text for fact in parse_digest(text).facts] == [fact.text for fact in searches]


@given(st.lists(st.builds(Fact, st.sampled_from(FactKind), st.sampled_from(TEXTS))))
def test_facts_are_measured_as_they_are_laid_out(facts: list[Fact]) -> None:
    assert measure_facts(facts) == len(render_facts(facts))


@given(st.lists(st.sampled_from(["ﬀ", "ẞ", " ", "  \t", "\n", "…", "word", "İ"]), max_size=300), st.data())
def test_a_cut_text_has_the_key_that_it_would_have_of_itself(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    fact = Fact(data.draw(st.sampled_from(FactKind)), one_line(text, data.draw(st.integers(60, 130))))
    assert key_of_cut(fact, fact_key(fact.kind, text)) == fact_key(fact.kind, fact.text)


def test_the_lines_of_old_edits_and_outcomes_alike_are_left_out_where_room_is_short() -> None:
    """Sixteen edits show the line that changed, and two outcomes of one shape are enough."""
    messages: list[Message] = []
    for number in range(20):
        given = {"path": f"src/{chr(97 + number)}.py", "old_string": "x = 1", "new_string": "x = 2"}
        messages += [
            UserMessage("Go on with the next of these files."),
            AssistantMessage((ToolCallBlock(str(number), "edit", given),)),
            ToolResultMessage(str(number), "edit", (TextBlock("ok"),)),
            AssistantMessage((TextBlock(f"Done with file number {number}."),)),
        ]
    known = Known(FactIndex().extend(messages), len(messages))
    texts = [each.fact.text for each in list_candidates(known, 5_000)]
    assert sum("x = 1 -> x = 2" in text for text in texts) == 16
    assert sum(text.startswith("src/") for text in texts) == 20
    assert sum(text.startswith("Done with") for text in texts) == 2
