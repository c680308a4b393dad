"""Facts in prose: keys, shapes, error lines, and a bounded search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock
from sidecar.window_budget import (
    AssistantMessage,
    FactIndex,
    UserMessage,
)
from sidecar.window_budget.facts import (
    _NAME,
    MAX_NAMES,
    FactKind,
    fact_key,
    facts_of_prompt,
    facts_of_reply,
    shape_of,
)


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


def test_the_sentences_of_an_answer_that_name_something_are_outcomes() -> None:
    """Not the first alone; between two calls only a sentence with two names is one, and rarely missed."""
    text = "I looked at all of it. All 214 tests of row_store pass. Nothing else changed. ticket AB-12"
    found = [fact for fact in facts_of_reply(text, is_answer=True) if fact.kind is FactKind.OUTCOME]
    assert [(fact.text, fact.is_minor) for fact in found] == [
        ("I looked at all of it.", True),
        ("All 214 tests of row_store pass.", False),
        ("ticket AB-12", False),
    ]
    text = "Let me look at row_store. It hands row_store to log_writer."
    found = [fact for fact in facts_of_reply(text) if fact.kind is FactKind.OUTCOME]
    assert [(fact.text, fact.is_minor) for fact in found] == [("It hands row_store to log_writer.", True)]


def test_a_long_paste_in_a_prompt_leaves_the_typed_words_whole() -> None:
    typed = "Why does it stop here?\n" + "Look at the queue as well. " * 20
    log = "".join(f"2026-03-01 12:00:{second:02} INFO served\n" for second in range(60))
    (request,) = (fact for fact in facts_of_prompt(f"{typed}\n{log}") if fact.kind is FactKind.REQUEST)
    assert request.text.startswith(typed.strip())
    assert request.text.endswith("[... 58 lines cut ...]\n2026-03-01 12:00:59 INFO served")


SIGNS = [
    "port 7013",
    "size is  12",
    "a/b.py",
    "#17",
    "AB-12",
    "me@host.org",
    "A_B",
    "v1.2.3",
    "a1b2c",
    "HistoryWriter",
]
WORDS = st.sampled_from(
    [*SIGNS, "`git x`", "the", "Word", "id", "3", "is", "of", "x", "https://a.b/c", "--", "é1"]
)


@given(
    st.lists(st.tuples(WORDS, st.sampled_from([" ", ". ", ", ", "  ", "", ": ", " (", "? "])), max_size=14)
)
def test_names_are_looked_for_wherever_they_may_be(parts: list[tuple[str, str]]) -> None:
    """Of a line only the words around a sign are searched, which changes nothing."""
    line = "".join(map("".join, parts))
    found = (name.strip("`").rstrip(".,:;") for name in _NAME.findall(line))
    names = [fact.text for fact in facts_of_prompt(line) if fact.kind is FactKind.NAME]
    assert names == [*dict.fromkeys(" ".join(name.split()) for name in found)][:MAX_NAMES]
