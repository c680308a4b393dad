"""The documented rules of the condensation (M9, M10, M12, M13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    ModelCard,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    Usage,
    UserTurn,
)
from sidecar.llmgateway.scripted import Call, Say, ScriptedModel
from sidecar.runtime.contract import NO_COMPACTION, CompactionPolicy
from sidecar.runtime.memory import (
    DEFAULT_POLICY,
    DISTILL_INSTRUCTION,
    compact,
    find_cut_point,
    should_compact,
    summarize,
)


@pytest.mark.parametrize(
    ("letters", "keep", "cut"),
    [
        pytest.param("uuu", 8, 0, id="everything fits"),
        pytest.param("uuu", -5, 3, id="a negative tail is none"),
        pytest.param("uuu", 0, 3, id="no tail"),
        pytest.param("uuuuu", 2.9, 3, id="a fraction is floored"),
        pytest.param("uctu", 2, 3, id="the tail never begins with results"),
        pytest.param("uct", 1, 3, id="everything is condensed rather than a pair split"),
        pytest.param("ubpqu", 3, 4, id="parallel results in turns of their own"),
        pytest.param("", 8, 0, id="nothing at all"),
        pytest.param("uuu", float("inf"), 0, id="an endless tail"),
    ],
)
def test_cut_points_keep_the_recent_turns_and_no_orphan_result(
    letters: str, keep: float, cut: int, turns: Any
) -> None:
    assert find_cut_point(turns.spelled(letters), keep) == cut


def test_a_result_is_recognised_by_its_block_and_not_by_its_role(turns: Any) -> None:
    odd = UserTurn(turns.results("c1").blocks)
    assert find_cut_point([turns.user("a"), turns.calls("c1"), odd, turns.user("b")], 2) == 3


@pytest.mark.parametrize(
    ("window", "ratio", "due"),
    [
        pytest.param(1004, 1.0, True, id="reached counts"),
        pytest.param(1005, 1.0, False, id="not reached"),
        pytest.param(0, 0.8, False, id="no window"),
        pytest.param(-1, 0.8, False, id="a negative window"),
    ],
)
def test_a_history_is_due_at_its_share_of_the_window(
    window: int, ratio: float, due: bool, turns: Any, card: Any
) -> None:
    assert should_compact([turns.user("x" * 4000)], card(window), CompactionPolicy(ratio, 8)) is due


def test_no_policy_means_the_default_policy(turns: Any, card: Any) -> None:
    assert CompactionPolicy(0.8, 8) == DEFAULT_POLICY
    assert should_compact([turns.user("x" * 4000)], card(1255))
    assert not should_compact([turns.user("x" * 4000)], card(1256))


def test_no_compaction_never_compacts(turns: Any, card: Any) -> None:
    assert not should_compact([turns.user("x" * 4000)], card(1), NO_COMPACTION)


async def test_the_summary_is_a_user_turn_with_the_heading(turns: Any) -> None:
    model = ScriptedModel([[Say("  the gist \n", n_deltas=3)]])
    summary = await summarize(turns.spelled("uct"), model)
    assert summary == turns.user("[condensed earlier context]\nthe gist")
    transcript = 'user:\nu0..\n\nassistant:\ntool_call read({"path":"c1.."})\n\ntool:\ntool_result -> t2..'
    expected = Conversation((turns.user(transcript),), system=DISTILL_INSTRUCTION)
    assert [(call.conversation, call.options) for call in model.calls] == [(expected, StreamOptions())]


async def test_the_done_reply_wins_over_the_deltas(turns: Any) -> None:
    blocks = (TextBlock("a"), ToolCallBlock("c", "read", {}), TextBlock("b"))
    done = DoneEmission(AssistantTurn(blocks), Usage(1, 1))
    summary = await summarize(turns.spelled("u"), ScriptedModel([[Say("streamed"), done]]))
    assert summary == turns.user("[condensed earlier context]\nab")


async def test_tool_calls_of_the_distiller_are_ignored(turns: Any) -> None:
    summary = await summarize(turns.spelled("u"), ScriptedModel([[Call("read", {}), Say("gist")]]))
    assert summary == turns.user("[condensed earlier context]\ngist")


Compact = Callable[[str, CompactionPolicy | None], Any]


@pytest.mark.parametrize(
    ("letters", "keep", "tail"),
    [
        pytest.param("uauau", 2, "au", id="the tail stays verbatim"),
        pytest.param("uct", 1, "", id="everything may be condensed"),
    ],
)
async def test_compacting_gives_a_summary_and_the_tail(
    letters: str, keep: int, tail: str, turns: Any, card: Any
) -> None:
    history = turns.spelled(letters)
    model: ModelCard = card(32_000)
    result = await compact(history, model, CompactionPolicy(0.8, keep), ScriptedModel([[Say("gist")]]))
    kept = history[len(history) - len(tail) :]
    assert result == (turns.user("[condensed earlier context]\ngist"), *kept)


async def test_nothing_to_condense_returns_the_history(turns: Any, card: Any) -> None:
    history = turns.spelled("uau")
    assert await compact(history, card(100), cfg=None, invoke=ScriptedModel([])) == tuple(history)
