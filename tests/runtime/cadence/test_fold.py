"""Folding on plain values: R5 emissions into blocks, R6 arguments into JSON, R7 usage into totals."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
)
from sidecar.runtime.cadence import Draft, add_usage, fold_all, fold_blocks, fold_turn, seal_tool_args

IDS = st.sampled_from(["", "a", "b"])
DELTAS = st.sampled_from(["", "x", "{", "}", '"k":1'])
FINAL_BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, DELTAS),
    st.builds(ThinkingBlock, DELTAS, st.sampled_from([None, "sig"])),
    st.builds(ToolCallBlock, IDS, st.just("ls"), st.sampled_from([{}, {"k": 1}, "raw", None])),
)
EMISSIONS: st.SearchStrategy[Emission] = st.one_of(
    st.builds(TextEmission, DELTAS),
    st.builds(ThinkingEmission, DELTAS),
    st.builds(ToolCallStartEmission, IDS, st.just("ls")),
    st.builds(ToolCallDeltaEmission, IDS, DELTAS),
    st.just(UsageEmission(Usage(1, 1))),
    st.just(StopEmission("complete")),
    st.builds(
        DoneEmission, st.builds(AssistantTurn, st.lists(FINAL_BLOCKS, max_size=3).map(tuple)), st.none()
    ),
)


def text(delta: str) -> TextEmission:
    return TextEmission(delta)


def think(delta: str) -> ThinkingEmission:
    return ThinkingEmission(delta)


def start(call_id: str, name: str = "ls") -> ToolCallStartEmission:
    return ToolCallStartEmission(call_id, name)


def args(call_id: str, delta: str) -> ToolCallDeltaEmission:
    return ToolCallDeltaEmission(call_id, delta)


FOLDS = {
    "text extends text": ([], [text("a"), text("b")], [TextBlock("ab")]),
    "another kind opens a block": (
        [],
        [text("a"), think("b"), text("c")],
        [TextBlock("a"), ThinkingBlock("b"), TextBlock("c")],
    ),
    "an empty delta opens a block too": ([], [text("")], [TextBlock("")]),
    "a call in between keeps texts apart": (
        [],
        [text("a"), start("c"), text("b")],
        [TextBlock("a"), ToolCallBlock("c", "ls", ""), TextBlock("b")],
    ),
    "a start opens a raw buffer": ([], [start("c")], [ToolCallBlock("c", "ls", "")]),
    "argument text concatenates": (
        [],
        [start("c"), args("c", '{"a'), args("c", '":1}')],
        [ToolCallBlock("c", "ls", '{"a":1}')],
    ),
    "an unknown id opens a nameless call": ([], [args("x", "{")], [ToolCallBlock("x", "", "{")]),
    "parallel calls grow side by side": (
        [],
        [start("a"), start("b"), args("a", "1"), args("b", "2"), args("a", "3")],
        [ToolCallBlock("a", "ls", "13"), ToolCallBlock("b", "ls", "2")],
    ),
    "argument text goes to the newest of twins": (
        [],
        [start("a"), args("a", "1"), start("a", "rm"), args("a", "2")],
        [ToolCallBlock("a", "ls", "1"), ToolCallBlock("a", "rm", "2")],
    ),
    "a sealed input restarts its buffer": (
        [ToolCallBlock("a", "ls", {"k": 1})],
        [args("a", "2"), args("a", "3")],
        [ToolCallBlock("a", "ls", "23")],
    ),
    "a signature stays": ([ThinkingBlock("a", "sig")], [think("b")], [ThinkingBlock("ab", "sig")]),
    "a done turn replaces": (
        [TextBlock("a")],
        [text("b"), DoneEmission(AssistantTurn((TextBlock("final"),)))],
        [TextBlock("final")],
    ),
    "a done reply replaces, and may be extended": (
        [TextBlock("a")],
        [DoneEmission(Reply("m", (TextBlock("x"),), Usage(1, 1), "complete")), text("y")],
        [TextBlock("xy")],
    ),
    "usage, stop and error are no blocks": (
        [TextBlock("a")],
        [UsageEmission(Usage(1, 1)), StopEmission("complete"), ErrorEmission(GatewayError("http", "x"))],
        [TextBlock("a")],
    ),
}


@pytest.mark.parametrize(("before", "emissions", "after"), FOLDS.values(), ids=FOLDS)
def test_emissions_fold_into_blocks(
    before: list[Block], emissions: list[Emission], after: list[Block]
) -> None:
    assert list(fold_all(before, emissions)) == after
    assert list(reduce(fold_turn, emissions, AssistantTurn(tuple(before))).blocks) == after


@given(st.lists(FINAL_BLOCKS, max_size=3).map(tuple), st.lists(EMISSIONS, max_size=12))
def test_folding_all_at_once_is_folding_one_by_one(
    before: tuple[Block, ...], emissions: list[Emission]
) -> None:
    one_by_one = before
    for emission in emissions:
        one_by_one = fold_blocks(one_by_one, emission)
    assert fold_all(before, emissions) == one_by_one


@given(st.lists(EMISSIONS, min_size=1, max_size=12))
def test_an_older_draft_never_hears_of_later_emissions(emissions: list[Emission]) -> None:
    drafts = [Draft()]
    for emission in emissions:
        drafts.append(drafts[-1].fold(emission))
    expected = [reduce(fold_turn, emissions[:n], AssistantTurn(())).blocks for n in range(len(drafts))]
    assert [draft.turn.blocks for draft in drafts] == expected


@pytest.mark.parametrize(
    ("raw", "sealed"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param(" \n", {}, id="blank"),
        pytest.param('{"a": [1, "é"]}', {"a": [1, "é"]}, id="an object"),
        pytest.param("[1]", [1], id="a non-object is kept"),
        pytest.param('"text"', "text", id="a JSON string is a string"),
        pytest.param("null", None, id="null"),
        pytest.param(' {"a" ', {"__unparsed": ' {"a" '}, id="bad JSON is kept untrimmed"),
        pytest.param("NaN", {"__unparsed": "NaN"}, id="NaN is no JSON"),
        pytest.param("[-Infinity]", {"__unparsed": "[-Infinity]"}, id="nor is Infinity"),
        pytest.param("[" * 100_000, {"__unparsed": "[" * 100_000}, id="nesting without end"),
        pytest.param("9" * 5_000, {"__unparsed": "9" * 5_000}, id="a number without end"),
        pytest.param({"a": 1}, {"a": 1}, id="a sealed input stays"),
        pytest.param(None, None, id="no input stays none"),
    ],
)
def test_sealing_parses_argument_text(raw: object, sealed: object) -> None:
    """An input that is no text stays, and with it the very turn."""
    turn = AssistantTurn((TextBlock("t"), ToolCallBlock("c", "ls", raw)))
    assert seal_tool_args(turn) == AssistantTurn((TextBlock("t"), ToolCallBlock("c", "ls", sealed)))
    assert (seal_tool_args(turn) is turn) is not isinstance(raw, str)


SEALED = {
    "streamed text is parsed": ([start("c"), args("c", '{"a":1}')], [{"a": 1}]),
    "a string of a done reply is a string": (
        [start("c"), args("c", "{"), DoneEmission(AssistantTurn((ToolCallBlock("c", "ls", "plain"),)))],
        ["plain"],
    ),
    "what is streamed after it is parsed": (
        [DoneEmission(AssistantTurn((ToolCallBlock("c", "ls", "7"),))), start("d"), args("d", "7")],
        ["7", 7],
    ),
    "what restarts a buffer of it is parsed": (
        [DoneEmission(AssistantTurn((ToolCallBlock("c", "ls", {}),))), args("c", "7")],
        [7],
    ),
}


@pytest.mark.parametrize(("emissions", "inputs"), SEALED.values(), ids=SEALED)
def test_a_draft_seals_streamed_arguments_alone(emissions: list[Emission], inputs: list[object]) -> None:
    turn = reduce(Draft.fold, emissions, Draft()).seal()
    assert [block.input for block in turn.blocks if isinstance(block, ToolCallBlock)] == inputs


TOTALS = {
    "fields add up": (Usage(1, 2), Usage(3, 4), Usage(4, 6)),
    "tiers add up": (Usage(1, 1, 2, None), Usage(1, 1, 3, 4), Usage(2, 2, 5, 4)),
    "a tier of 0 is None": (Usage(0, 0, 0, 0), Usage(1, 0, 0, None), Usage(1, 0, None, None)),
    "nothing is nothing": (Usage(5, 5, 5, 5), Usage(0, 0), Usage(5, 5, 5, 5)),
}


@pytest.mark.parametrize(("total", "usage", "expected"), TOTALS.values(), ids=TOTALS)
def test_usage_adds_up_field_by_field(total: Usage, usage: Usage, expected: Usage) -> None:
    assert add_usage(total, usage) == expected
