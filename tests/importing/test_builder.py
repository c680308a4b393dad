"""The builder pairs calls with results, whatever the order in which they were written down."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from imported_sessions import show
from sidecar.importing.builder import MAX_RESULT_CHARS, Added, ImportBuilder
from sidecar.importing.graph import build_session, entries_of
from sidecar.llmgateway.contract import TextBlock, ThinkingBlock, ToolCallBlock
from sidecar.runtime.wire import NO_RESULT

HI, OK = TextBlock("hi"), TextBlock("ok")


def call(call_id: str) -> ToolCallBlock:
    return ToolCallBlock(call_id, "ls", {})


def parallel(b: ImportBuilder) -> None:
    b.answer([call("1"), call("2")])
    b.result("2", "two")
    b.result("1", "one")


def late(b: ImportBuilder) -> None:
    b.answer([call("1")])
    b.prompt([HI])
    b.result("1", "one")


def in_pieces(b: ImportBuilder) -> None:
    b.answer([OK], group="m")
    b.answer([call("1")], group="m")
    b.result("1", "one")
    b.answer([call("2")], group="m")
    b.result("2", "two", is_error=True)


def again(b: ImportBuilder) -> None:
    parallel(b)
    b.result("1", "again")


def without_id(b: ImportBuilder) -> None:
    b.answer([call("")])
    b.result("", "one")


def reused(b: ImportBuilder) -> None:
    for text in ("one", "two"):
        b.answer([call("1"), call("1")])
        b.result("1", text)
        b.result("1", f"{text}!")


@pytest.mark.parametrize(
    ("write", "expected", "notes"),
    [
        pytest.param(parallel, ["assistant: ls#1 | ls#2", "tool: #1=one | #2=two"], {}, id="out of order"),
        pytest.param(late, ["assistant: ls#1", "tool: #1=one", "user: hi"], {}, id="after the next prompt"),
        pytest.param(
            in_pieces, ["assistant: ok | ls#1 | ls#2", "tool: #1=one | #2!two"], {}, id="an answer in pieces"
        ),
        pytest.param(
            reused,
            [
                "assistant: ls#1 | ls#1_2",
                "tool: #1=one | #1_2=one!",
                "assistant: ls#1_3 | ls#1_4",
                "tool: #1_3=two | #1_4=two!",
            ],
            {"renamedCall": 3},
            id="one id for several calls",
        ),
        pytest.param(
            lambda b: b.answer([call("1")]),
            ["assistant: ls#1", f"tool: #1!{NO_RESULT}"],
            {"danglingCall": 1},
            id="without a result",
        ),
        pytest.param(lambda b: b.result("9", "?"), [], {"orphanResult": 1}, id="a result without a call"),
        pytest.param(
            again,
            ["assistant: ls#1 | ls#2", "tool: #1=one | #2=two"],
            {"duplicate": 1},
            id="a result twice",
        ),
        pytest.param(lambda b: b.answer([ThinkingBlock(" ")]), [], {"emptyAnswer": 1}, id="an empty answer"),
        pytest.param(lambda b: b.prompt([TextBlock("")]), [], {}, id="an empty prompt"),
        pytest.param(
            without_id,
            ["assistant: ls#call", "tool: #call=one"],
            {"renamedCall": 1},
            id="a call without an id",
        ),
    ],
)
def test_calls_and_results_are_paired(
    write: Callable[[ImportBuilder], object], expected: list[str], notes: dict[str, int]
) -> None:
    builder = ImportBuilder()
    write(builder)
    items = [step.item for step in builder.steps() if isinstance(step, Added)]
    assert [show(entry) for item in items for entry in entries_of(item, ())] == expected
    assert {reason: n for reason, n in builder.notes.items() if n} == notes


def test_a_result_that_is_huge_loses_its_middle() -> None:
    builder = ImportBuilder()
    builder.answer([call("1")])
    builder.result("1", "a" * MAX_RESULT_CHARS + "z" * 10)
    item = builder.path[0]
    output = item.results["1"].output
    assert output.endswith("z" * 10)
    assert "[10 characters left out]" in output
    assert builder.notes["cutResult"] == 1


def test_a_compaction_is_a_branch_whose_summary_knows_what_it_stands_for() -> None:
    builder = ImportBuilder()
    builder.prompt([HI], key="a", at_ms=1)
    builder.answer([OK], at_ms=2)
    builder.prompt([TextBlock("more")], key="b", at_ms=3)
    builder.fold("# So far", kept=builder.items_from("b"), at_ms=4)
    builder.answer([TextBlock("done")], at_ms=5)
    session = build_session(builder, "test")
    entries = session.entries
    assert [show(entry) for entry in entries] == [
        "user: hi",
        "assistant: ok",
        "user: more",
        "summary: # So far",
        "user: more",
        "assistant: done",
    ]
    done = session.compactions[0]
    ids = [entry.node_id for entry in entries]
    assert entries[3].origin == (ids[0], ids[1])
    assert (done.before, done.after) == (tuple(ids[:3]), tuple(ids[3:5]))
    assert (done.kept_from, entries[3].parent, session.leaf) == (ids[2], None, ids[5])
    assert [entry.created_at for entry in entries] == [1, 2, 3, 4, 3, 5]


def test_a_rewind_keeps_the_other_branch() -> None:
    builder = ImportBuilder()
    builder.prompt([HI], key="a")
    builder.prompt([TextBlock("no")], key="b")
    builder.rewind_to("a")
    builder.prompt([TextBlock("yes")])
    session = build_session(builder, "test")
    hi, no, yes = session.entries
    assert (no.parent, yes.parent, session.leaf) == (hi.node_id, hi.node_id, yes.node_id)
    assert session.report.notes == {"rewound": 1}


def test_a_summary_without_words_folds_nothing() -> None:
    builder = ImportBuilder()
    builder.prompt([HI])
    builder.fold("")
    assert [item.kind for item in builder.path] == ["user"]
    assert builder.notes["opaqueSummary"] == 1
