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
    assert index.open_call("1") == call
    assert index.extend([ToolResultMessage("1", "read", ())]).open_call("1") is None
    flood = tuple(ToolCallBlock(str(number), "read", {}) for number in range(2, 400))
    assert index.extend([AssistantMessage(flood)]).open_call("1") is None
