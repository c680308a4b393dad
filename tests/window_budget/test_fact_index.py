"""The fact index, whichever way the transcript came in."""

from __future__ import annotations

from typing import Any

import pytest
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
    flatten_transcript,
)
from sidecar.window_budget.fact_index import BLOCK_BYTES
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
        "digests": index.digests(before),
        "branches": index.branches(before),
        "reads": list(index.reads(before)),
        "writes": list(index.writes(before)),
        "facts": {kind: index.rank(kind, before) for kind in FactKind},
        "first": {kind: index.first(kind, before) for kind in FactKind},
        "weight": index.text_bytes(0, before),
        "text": "\n".join(index.scrollback(0, before)),
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


@pytest.mark.parametrize("at", [0, 3, 700])
def test_blocks_of_text_change_nothing(at: int) -> None:
    """However much text there is, and wherever it is cut."""
    transcript: list[Message] = [UserMessage(f"{number} {'x' * (number % 900)}") for number in range(700)]
    transcript += [UserMessage("y" * 2 * BLOCK_BYTES), UserMessage("")] * 2
    index = FactIndex().extend(transcript[:at]).extend(transcript[at:])
    for start, end in [(0, len(transcript)), (1, 699), (350, 350), (500, 703), (702, 703)]:
        assert "\n".join(index.scrollback(start, end)) == flatten_transcript(transcript[start:end])
    fork = index.extend([])
    index.extend([UserMessage("later")])
    again = fork.extend([UserMessage("other")])
    assert "\n".join(again.scrollback(0, len(again))) == flatten_transcript(
        [*transcript, UserMessage("other")]
    )


def test_an_open_call_is_known_until_it_is_answered() -> None:
    """So that a result can be named after it."""
    call = ToolCallBlock("1", "read", {"path": "a"})
    index = FactIndex().extend([AssistantMessage((call,))])
    assert index.open_call("1") == call
    assert index.extend([ToolResultMessage("1", "read", ())]).open_call("1") is None
    flood = tuple(ToolCallBlock(str(number), "read", {}) for number in range(2, 400))
    assert index.extend([AssistantMessage(flood)]).open_call("1") is None
