"""The assembly of an answer out of the pieces that a provider streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sidecar.llmgateway.contract import (
    DoneEmission,
    Emission,
    Reply,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
)
from sidecar.llmgateway.providers.assembly import MAX_CALLS, Assembly, MalformedAnswerError, join_deltas


def assembled(*steps: Sequence[Any]) -> tuple[list[Emission], Reply]:
    assembly = Assembly()
    told: list[Emission] = []
    for name, *arguments in steps:
        told += getattr(assembly, name)(*arguments) or ()
    *_, done = assembly.finish("m")
    assert isinstance(done, DoneEmission)
    assert isinstance(done.reply, Reply)
    return told, done.reply


def test_a_call_is_emitted_once_it_has_a_name() -> None:
    """Some servers send the name behind the id, and arguments before either."""
    told, reply = assembled(
        ("open_call", 0, "c1", ""),
        ("add_arguments", 0, "{"),
        ("open_call", 0, "", "ls"),
        ("add_arguments", 0, "}"),
    )
    assert told == [
        ToolCallStartEmission("c1", "ls"),
        ToolCallDeltaEmission("c1", "{"),
        ToolCallDeltaEmission("c1", "}"),
    ]
    assert reply.blocks == (ToolCallBlock("c1", "ls", {}),)


def test_the_name_of_a_call_ends_before_a_special_token() -> None:
    assembly = Assembly()
    assert assembly.open_call(0, "c1", "read<|channel|>commentary") == (ToolCallStartEmission("c1", "read"),)


def test_calls_without_number_are_refused() -> None:
    assembly = Assembly()
    for n in range(MAX_CALLS):
        assembly.open_call(n, f"c{n}", "ls")
    with pytest.raises(MalformedAnswerError, match="more than 1000 tool calls"):
        assembly.open_call(MAX_CALLS, "last", "ls")


def test_calls_without_ids_or_with_the_same_get_ids_of_their_own() -> None:
    _, reply = assembled(
        ("open_call", 0, "", "a"),
        ("open_call", 1, "", "b"),
        ("open_call", 2, "x", "c"),
        ("open_call", 3, "x", "d"),
    )
    ids = [block.id for block in reply.blocks if isinstance(block, ToolCallBlock)]
    assert len(set(ids)) == 4
    assert all(ids)


def test_blocks_keep_the_order_in_which_they_were_made() -> None:
    _, reply = assembled(
        ("add_thinking", "a"),
        ("sign", "s1"),
        ("add_text", "b"),
        ("open_call", 0, "c", "ls"),
        ("add_thinking", "d"),
        ("add_text", "e"),
    )
    assert reply.blocks == (
        ThinkingBlock("a", "s1"),
        TextBlock("b"),
        ToolCallBlock("c", "ls", {}),
        ThinkingBlock("d"),
        TextBlock("e"),
    )


def test_reasoning_blocks_are_kept_apart_by_their_signatures() -> None:
    _, reply = assembled(
        ("open_thinking",),
        ("add_thinking", "a"),
        ("sign", "s1"),
        ("open_thinking",),
        ("sign", "s2"),
        ("open_thinking",),
    )
    assert reply.blocks == (ThinkingBlock("a", "s1"), ThinkingBlock("", "s2"))


def test_argument_text_of_an_unknown_call_is_let_go() -> None:
    assert assembled(("add_arguments", 9, "{}"))[1].blocks == ()


def test_deltas_are_joined_and_come_before_a_failure_behind_them() -> None:
    first, second = ToolCallDeltaEmission("c1", "{"), ToolCallDeltaEmission("c2", "{}")

    def emissions() -> Iterator[Emission]:
        yield from (TextEmission("Hel"), TextEmission("lo"), ThinkingEmission("hm"), first, first, second)
        raise ValueError("malformed")

    joined = join_deltas(emissions())
    assert [next(joined) for _ in range(4)] == [
        TextEmission("Hello"),
        ThinkingEmission("hm"),
        ToolCallDeltaEmission("c1", "{{"),
        second,
    ]
    with pytest.raises(ValueError, match="malformed"):
        next(joined)
