"""The fact index, whichever way the transcript came in."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import TextBlock, ToolCallBlock
from sidecar.window_budget import (
    AssistantMessage,
    CompactionSummaryMessage,
    FactIndex,
    Message,
    ToolResultMessage,
    UserMessage,
)
from sidecar.window_budget.facts import FactKind

words = st.sampled_from(["never push", "I decided to go with b", "see a_1", "v1.2.3", "", "# x", "é" * 9])
messages = st.lists(
    st.one_of(
        words.map(UserMessage),
        words.map(lambda text: AssistantMessage((TextBlock(text),))),
        st.sampled_from("123").map(
            lambda key: AssistantMessage((ToolCallBlock(key, "read", {"path": key}),))
        ),
        st.tuples(st.sampled_from("123"), words, st.booleans()).map(
            lambda drawn: ToolResultMessage(drawn[0], "read", (TextBlock(drawn[1]),), drawn[2])
        ),
        words.map(lambda text: CompactionSummaryMessage(text, 0)),
    ),
    max_size=12,
)


def view(index: FactIndex, before: int) -> dict[str, Any]:
    """Return everything that a index tells of the messages before *before*."""
    return {
        "reads": list(index.reads(before)),
        "writes": list(index.writes(before)),
        "facts": {kind: index.rank(kind, before) for kind in FactKind},
        "oldest": {kind: index.oldest(kind, before) for kind in FactKind},
        "todos": index.todos(before),
    }


@given(messages, messages, messages)
def test_versions_do_not_disturb_each_other(
    start: list[Message], left: list[Message], right: list[Message]
) -> None:
    """An older version stays as it was, may grow in another direction, and tells as if built at once."""
    base = FactIndex().extend(start)
    grown = [(base, start), (base.extend(left), start + left), (base.extend(right), start + right)]
    for index, transcript in grown:
        whole = FactIndex().extend(transcript)
        for before in range(len(transcript) + 1):
            assert view(index, before) == view(whole, before)


@given(messages, messages, st.integers(0, 12))
def test_an_index_that_is_cut_back_equals_one_that_never_went_on(
    start: list[Message], after: list[Message], count: int
) -> None:
    count = min(count, len(start))
    base = FactIndex().extend(start)
    again = base.first(count).extend([UserMessage("go on"), *after])
    # A result behind the cut belongs to no call that is known there.
    whole = FactIndex().extend(start[:count]).first(count).extend([UserMessage("go on"), *after])
    assert view(again, len(again)) == view(whole, len(whole))
    assert view(base, len(base)) == view(FactIndex().extend(start), len(start))


def test_an_open_call_is_known_until_it_is_answered() -> None:
    """So that a result can be named after it."""
    call = ToolCallBlock("1", "read", {"path": "a"})
    index = FactIndex().extend([AssistantMessage((call,))])
    assert index._open_calls.get("1") == call
    assert index.extend([ToolResultMessage("1", "read", ())])._open_calls.get("1") is None
    flood = tuple(ToolCallBlock(str(number), "read", {}) for number in range(2, 400))
    assert index.extend([AssistantMessage(flood)])._open_calls.get("1") is None


def test_the_environment_that_was_used_is_known() -> None:
    call = ToolCallBlock("c1", "bash", {"command": "node --version"})
    switch = ToolCallBlock("c2", "bash", {"command": "git switch -c fix/parser && make"})
    index = FactIndex().extend(
        [
            UserMessage("The database is at db.example.internal:5432, PostgreSQL 15.4."),
            AssistantMessage((TextBlock("I look at localhost:8080."), call, switch)),
            ToolResultMessage("c1", "bash", (TextBlock("v20.11.1\n[exit 0]"),)),
            ToolResultMessage("c2", "bash", (TextBlock("done\n[exit 0]"),)),
        ]
    )
    found = {each.fact.text for each in index.rank(FactKind.ENVIRONMENT, before=4)}
    assert found == {
        "db.example.internal:5432",
        "PostgreSQL 15.4",
        "localhost:8080",
        "node --version: v20.11.1",
        "branch fix/parser",
    }


def test_a_question_is_open_until_the_user_says_something() -> None:
    asked = AssistantMessage((TextBlock("Two ways are possible. Shall I take the first one?"),))
    messages: list[Message] = [UserMessage("Fix it."), asked, UserMessage("Yes.")]
    index = FactIndex().extend(messages[:2])
    assert [index.question(before) for before in (0, 1, 2)] == ["", "", "Shall I take the first one?"]
    assert index.extend(messages[2:]).question(3) == ""
    assert FactIndex().extend(messages).first(2).question(2) == "Shall I take the first one?"


def test_what_is_said_again_is_one_text_in_memory() -> None:
    prompts = [UserMessage(f"Look at src/parser.py, {word} please.") for word in ("first", "then", "again")]
    facts = [each for each in FactIndex().extend(prompts).all() if each.kind is FactKind.NAME]
    assert [(each.text, each.index) for each in facts] == [("src/parser.py", number) for number in range(3)]
    assert len({id(each.text) for each in facts}) == 1
