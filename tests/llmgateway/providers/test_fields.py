"""What was written for the turns of a conversation holds for its next call, as far as these are the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sidecar.llmgateway.contract import (
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
)
from sidecar.llmgateway.providers.fields import TurnMemo, find_tool, join_roles
from sidecar.llmgateway.providers.openai_chat import MessageWriter
from sidecar.llmgateway.providers.quirks import dialect_of
from turns import assistant, calling, user

A, B, C, D = map(user, "abcd")


@pytest.mark.parametrize(
    ("before", "after", "made"),
    [
        pytest.param((A, B), (A, B, C), "c", id="a conversation that grew"),
        pytest.param((A, B), (A, B), "", id="the same one"),
        pytest.param((A, B, C), (A, D, C), "dc", id="from the first change on"),
        pytest.param((A, B, C), (A,), "", id="a shorter one"),
        pytest.param((A, B), (user("a"), B), "ab", id="an equal turn is another one"),
    ],
)
def test_only_what_follows_the_first_change_is_written_again(
    before: tuple[Turn, ...], after: tuple[Turn, ...], made: str
) -> None:
    memo: TurnMemo[str] = TurnMemo()
    written: list[str] = []

    def write(turns: tuple[Turn, ...], index: int) -> str:
        (block,) = turns[index].blocks
        assert isinstance(block, TextBlock)
        written.append(block.text)
        return block.text

    memo.write(before, lambda at: write(before, at))
    written.clear()
    results = memo.write(after, lambda at: write(after, at))
    assert results == [write(after, at) for at in range(len(after))]
    assert "".join(written[: -len(after)]) == made


def test_neighbours_of_one_role_are_joined_and_nothing_that_was_written_changes() -> None:
    answer, results = assistant("x"), ToolTurn((ToolResultBlock("1", "y"),))
    written: list[list[dict[str, Any]]] = [[{"n": 0}], [{"n": 1}], [{"n": 2}], [], [{"n": 4}]]
    joined = list(join_roles((results, A, B, answer, C), written))
    assert joined == [("user", [{"n": 0}, {"n": 1}, {"n": 2}]), ("user", [{"n": 4}])]
    assert [len(each) for each in written] == [1, 1, 1, 0, 1]


def test_the_tool_of_a_result_is_that_of_the_last_call_with_its_id_before_it() -> None:
    turns = (
        calling(ToolCallBlock("call_0", "read", {})),
        ToolTurn((ToolResultBlock("call_0", "x"),)),
        calling(ToolCallBlock("call_0", "grep", {}), ToolCallBlock("call_1", "ls", {})),
        ToolTurn((ToolResultBlock("call_0", "y"),)),
    )
    assert [find_tool(turns, 1, "call_0"), find_tool(turns, 3, "call_0")] == ["read", "grep"]
    assert [find_tool(turns, 3, "call_1"), find_tool(turns, 1, "call_1")] == ["ls", "unknown"]


def test_a_request_looks_at_the_length_of_new_turns_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[object] = []
    encode = msgspec.json.encode

    def count(value: object) -> bytes:
        encoded.append(value)
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", count)
    memo: TurnMemo[Any] = TurnMemo()
    sizes = []
    for turns in ((A, B, C), (A, B, C, D)):
        encoded.clear()
        writer = MessageWriter(dialect_of(None, "openai", "m"), "m", memo)
        messages = list(writer.write("Be brief.", turns))
        sizes.append(len(encoded))
        assert abs(writer.n_bytes - len(encode(messages))) < 2 * len(messages)
    assert sizes == [1 + 3, 1 + 1]
