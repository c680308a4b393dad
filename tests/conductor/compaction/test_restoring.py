"""The room that restored files take beside a summary, and the files that may come back."""

from __future__ import annotations

import pytest

from histories import entry_of, history_of
from model_cards import card
from sidecar.boot import ENGINES
from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engine import (
    WOULD_NOT_SHRINK,
    CompactionPlan,
    FreshFile,
    PlannedCompaction,
)
from sidecar.conductor.window.compaction.file_use import FileUse
from sidecar.conductor.window.compaction.planner import weigh_plan
from sidecar.conductor.window.compaction.restoring import (
    files_budget,
    find_gone,
    project_files,
    rank_kept,
    restore_uses,
    restored_entry,
)
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conversation import Entry, FileRead, History
from sidecar.text.touches import Touch
from talks import FORCED, input_of
from turns import assistant, user

CARD = card(100_000)
READ = Touch(path="a.py", kind="read")


def gate_of(limit: int, tokens: int = 0) -> Gate:
    return Gate(tokens=tokens, limit=limit, window=limit, over=False)


def plan_of(low: int, usual: int, high: int, *, before: int = 1_000, cut: int = 1) -> CompactionPlan:
    return CompactionPlan(
        cut=cut,
        pre_tokens=before,
        dropped_tokens=before - 100,
        kept_tokens=100,
        projected_tokens=usual,
        low_tokens=low,
        high_tokens=high,
    )


@pytest.mark.parametrize(
    ("found", "weighed"),
    [
        pytest.param(plan_of(999, 999, 999), plan_of(999, 999, 999), id="a token is saved"),
        pytest.param(plan_of(1_000, 1_000, 1_000), WOULD_NOT_SHRINK, id="nothing is saved"),
        pytest.param(plan_of(999, 999, 1_000), plan_of(999, 999, 1_200), id="a long summary saves nothing"),
        pytest.param(plan_of(999, 1_300, 1_400), plan_of(999, 1_200, 1_200), id="a usual one saves nothing"),
    ],
)
def test_a_plan_that_may_save_nothing_says_so(found: CompactionPlan, weighed: CompactionPlan | NoOp) -> None:
    """Then the request stays as large as the gate says."""
    assert weigh_plan(found, gate_of(8_000, tokens=1_200)) == weighed


@pytest.mark.parametrize(
    ("limit", "before", "after", "tokens"),
    [
        pytest.param(200_000, 150_000, 20_000, 8_000, id="at most the tokens of the settings"),
        pytest.param(50_300, 40_000, 10_000, 7_500, id="a share of the room beside the overhead"),
        pytest.param(50_300, 60_000, 48_300, 1_000, id="half of what is left below the limit"),
        pytest.param(50_300, 12_000, 10_000, 1_000, id="half of what is saved"),
        pytest.param(50_300, 60_000, 51_000, 0, id="none where the limit is passed"),
    ],
)
def test_the_budget_of_restored_files(limit: int, before: int, after: int, tokens: int) -> None:
    assert files_budget(input_of(History(), CARD, 300), gate_of(limit), before, after) == tokens


READ_A = FileRead(path="a.py", uri="file:///a.py", hash="h", source="disk")


@pytest.mark.parametrize(
    "line", [pytest.param(" " * 60 + "x\n", id="indented"), pytest.param("解析器\n", id="Chinese")]
)
def test_the_most_that_files_take_holds_for_the_engine_and_for_the_meter(line: str) -> None:
    """Of indented lines an engine counts four times the tokens of the meter, of Chinese ones half of them."""
    history = history_of([user("w" * 4_000), assistant("done"), user("go on")])
    plan = plan_of(500, 2_000, 4_000, before=20_000, cut=2)
    planned = PlannedCompaction(
        ENGINES["windowBudget"](), FORCED, input_of(history, CARD), gate_of(60_000), plan
    )
    fresh = {"a.py": FreshFile("file:///a.py", line * 40, READ_A)}
    found = restore_uses([FileUse("a.py", touches=[READ])], fresh, 8_000)
    projected, tokens = project_files(planned, found, fresh)
    entry = restored_entry(found.pieces[0], fresh["a.py"])
    assert tokens == {"a.py": entry_tokens(entry)}
    assert projected.projected_tokens == plan.projected_tokens + entry_tokens(entry)
    assert projected.high_tokens == plan.high_tokens + max(entry_tokens(entry), planned.engine.weigh([entry]))


def test_a_file_of_the_last_entry_before_the_cut_comes_back_and_one_behind_it_is_in_view() -> None:
    prompt = Entry(user("the file"), "user", reads=(READ_A,), node_id="1")
    given = input_of(History([prompt, entry_of(assistant("Seen.")), entry_of(user("go on"))]), CARD)
    in_view = [len(use.shown) for cut in (1, 0) for use in rank_kept(given, plan_of(1, 1, 1, cut=cut))]
    assert in_view == [0, 1]


@pytest.mark.parametrize(
    ("use", "problem", "gone"),
    [
        pytest.param(FileUse("a.py", is_known=True), "notFound", [("a.py", "deleted")], id="a file, read"),
        pytest.param(FileUse("a.py", is_known=True), None, [], id="one that is still there"),
        pytest.param(FileUse("a.py"), "notFound", [], id="a word of a command line"),
        pytest.param(
            FileUse("a.py", is_known=True, shown=[(READ, "x")]), "notFound", [], id="one that is in view"
        ),
    ],
)
def test_a_file_is_named_as_gone_where_it_was_one_and_is_out_of_view(
    use: FileUse, problem: str | None, gone: list[tuple[str, str]]
) -> None:
    assert [*find_gone([use], {"a.py": FreshFile("file:///a.py", problem=problem)})] == gone
