"""The meter of ``runtime.memory``, by the figures of its seed document."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.memory import IMAGE_CHARS, estimate_context_tokens, live_tokens, tokens_of, turn_chars
from turns import nest_lists


@pytest.mark.parametrize(
    ("turn", "tokens"),
    [
        pytest.param(UserTurn((TextBlock("x" * 4000),)), 1004, id="text, four characters a token"),
        pytest.param(AssistantTurn(()), 4, id="a blank turn costs its overhead"),
        pytest.param(UserTurn((ImageBlock("image/png", "12345678"),)), 6, id="an image by its payload"),
        pytest.param(UserTurn((CommandBlock("clear", ("now",)),)), 4, id="a command costs nothing"),
        pytest.param(AssistantTurn((ToolCallBlock("c", "read", {"path": "a.py"}),)), 9, id="name and JSON"),
        pytest.param(AssistantTurn((ToolCallBlock("c", "read", None),)), 5, id="null input is free"),
        pytest.param(ToolTurn((ToolResultBlock("c", "abcdefgh"),)), 6, id="a string result, raw"),
        pytest.param(UserTurn((TextBlock("é" * 5),)), 6, id="code points, not bytes"),
        pytest.param(AssistantTurn((ThinkingBlock("abcd", "signature"),)), 5, id="signatures cost nothing"),
    ],
)
def test_the_estimates_of_the_seed_document(turn: Turn, tokens: int) -> None:
    assert estimate_context_tokens((turn,)) == tokens


VALUES = {
    "strings raw": ("raw", 3),
    "None is nothing": (None, 0),
    "compact JSON, non-ASCII raw": ({"a": [1, "é"]}, len('{"a":[1,"é"]}')),
    "what is no JSON by its text": ({1, 2}, len("{1, 2}")),
    "what is too deep to be printed": (nest_lists(), len("<list nested too deeply to print>")),
}


@pytest.mark.parametrize(("value", "n_chars"), VALUES.values(), ids=VALUES)
def test_values_are_serialized_compactly(value: Any, n_chars: int) -> None:
    assert turn_chars(ToolTurn((ToolResultBlock("c", value),))) == n_chars


TEXTS = st.text(max_size=20)
blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, TEXTS),
    st.builds(ToolCallBlock, st.just("c"), TEXTS, st.dictionaries(TEXTS, st.integers(), max_size=3)),
    st.builds(ToolResultBlock, st.just("c"), TEXTS),
    st.builds(ImageBlock, st.just("image/png"), TEXTS),
)


@given(st.lists(st.builds(UserTurn, st.lists(blocks, max_size=3).map(tuple)), max_size=8))
def test_an_incremental_sum_equals_the_estimate(history: list[Turn]) -> None:
    n_chars = 0
    for n_turns, turn in enumerate(history, start=1):
        n_chars += turn_chars(turn)
        assert tokens_of(n_chars, n_turns) == estimate_context_tokens(history[:n_turns])


def test_images_weigh_the_same_whatever_their_payload_on_the_live_path() -> None:
    photo = UserTurn((ImageBlock("image/png", "x" * 1_400_000),))
    assert estimate_context_tokens((photo,)) == 350_004
    assert live_tokens((photo,)) == IMAGE_CHARS // 4 + 4
