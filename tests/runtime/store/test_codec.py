"""The shape of the lines."""

from __future__ import annotations

import json
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
from sidecar.runtime.contract import SessionNode
from sidecar.runtime.store import turn_from_record, turn_to_record
from sidecar.runtime.store.codec import encode_line, node_from_record, node_record, settled_turn


@pytest.mark.parametrize(
    ("block", "record"),
    [
        pytest.param(TextBlock("hi"), {"kind": "text", "text": "hi"}, id="text"),
        pytest.param(ThinkingBlock("hm"), {"kind": "thinking", "text": "hm"}, id="thinking"),
        pytest.param(
            ThinkingBlock("hm", "sig"), {"kind": "thinking", "text": "hm", "signature": "sig"}, id="signature"
        ),
        pytest.param(
            ToolCallBlock("c1", "read", {"path": "a"}),
            {"kind": "tool_call", "id": "c1", "name": "read", "input": {"path": "a"}},
            id="tool call",
        ),
        pytest.param(
            ToolResultBlock("c1", None), {"kind": "tool_result", "callId": "c1", "output": None}, id="result"
        ),
        pytest.param(
            ToolResultBlock("c1", "x", False),
            {"kind": "tool_result", "callId": "c1", "output": "x", "isError": False},
            id="result with its flag",
        ),
        pytest.param(
            ImageBlock("image/png", "AA=="),
            {"kind": "image", "mediaType": "image/png", "dataBase64": "AA=="},
            id="image",
        ),
        pytest.param(CommandBlock("clear"), {"kind": "command", "command": "clear"}, id="command"),
        pytest.param(
            CommandBlock("x", ("a", "b")),
            {"kind": "command", "command": "x", "args": ["a", "b"]},
            id="arguments",
        ),
    ],
)
def test_each_block_has_its_stored_form(block: Block, record: dict[str, Any]) -> None:
    turn = ToolTurn((block,))
    assert turn_to_record(turn) == {"role": "tool", "blocks": [record]}
    assert turn_from_record({"role": "tool", "blocks": [record]}) == turn


def test_a_node_line_holds_id_parent_turn_time_and_checksum() -> None:
    node = SessionNode("id", None, UserTurn((TextBlock("é"),)), 7)
    assert encode_line(node_record(node)).decode() == (
        '{"type":"node","node":{"id":"id","parent":null,'
        '"turn":{"role":"user","blocks":[{"text":"é","kind":"text"}]},"createdAt":7},"sum":"2c15fac2"}\n'
    )


@pytest.mark.parametrize(
    "record",
    [
        {"role": "system", "blocks": []},
        {"role": "user", "blocks": [{"kind": "poem", "text": "x"}]},
        {"role": "user", "blocks": [{"kind": "text"}]},
        {"role": "user", "blocks": [{"kind": "text", "text": 3}]},
        {"role": "user"},
        {"role": ["user"], "blocks": []},
        {"role": "user", "blocks": ["text"]},
        [],
    ],
)
def test_what_is_no_turn_is_refused(record: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        turn_from_record(record)


def test_a_turn_that_is_json_is_settled_already() -> None:
    turn = AssistantTurn((ToolCallBlock("c", "read", {"path": "a"}),))
    assert settled_turn(turn)[0] is turn


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
texts = st.text(st.characters(), max_size=8)
blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, texts),
    st.builds(ThinkingBlock, texts, st.none() | texts),
    st.builds(ToolCallBlock, texts, texts, json_values),
    st.builds(ToolResultBlock, texts, json_values, st.none() | st.booleans()),
    st.builds(ImageBlock, texts, texts),
    st.builds(CommandBlock, texts, st.none() | st.lists(texts, max_size=2).map(tuple)),
)
turns: st.SearchStrategy[Turn] = st.one_of(
    *(
        st.builds(kind, st.lists(blocks, max_size=3).map(tuple))
        for kind in (UserTurn, AssistantTurn, ToolTurn)
    )
)


@given(turns, st.none() | texts, st.integers(0, 2**63))
def test_a_node_comes_back_as_it_was_settled(turn: Turn, parent: str | None, created_at: int) -> None:
    settled, _ = settled_turn(turn)
    node = SessionNode("id", parent, settled, created_at)
    line = encode_line(node_record(node))
    assert line.count(b"\n") == 1
    again = node_from_record(json.loads(line))
    assert again.turn == settled
    assert again.created_at == created_at
    assert settled_turn(again.turn)[0] is again.turn
