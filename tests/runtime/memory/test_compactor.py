"""The compactor: its documented rules, and live transcripts that stay safe, bounded and with their prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    ImageBlock,
    ModelCard,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    Usage,
    UserTurn,
)
from sidecar.llmgateway.scripted import Call, Say, ScriptedModel
from sidecar.runtime.contract import CompactionPolicy
from sidecar.runtime.memory import (
    DEFAULT_POLICY,
    DISTILL_INSTRUCTION,
    LiveCut,
    compact,
    compact_live,
    find_cut_point,
    live_tokens,
    plan_live_cut,
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


POLICY = CompactionPolicy(0.8, 8)


def plan(
    turns: Any, card: Any, letters: str, *, size: int, keep: int = 8, window: int = 8_000
) -> LiveCut | None:
    return plan_live_cut(turns.spelled(letters, size), card(window), CompactionPolicy(0.8, keep))


def separates(history: Sequence[Turn], cut: int) -> bool:
    """Whether a call before *cut* has its result behind it."""
    before = {b.id for turn in history[:cut] for b in turn.blocks if isinstance(b, ToolCallBlock)}
    behind = {b.call_id for turn in history[cut:] for b in turn.blocks if isinstance(b, ToolResultBlock)}
    return bool(before & behind)


def test_the_wanted_turns_are_kept_where_they_fit(turns: Any, card: Any) -> None:
    cut = plan(turns, card, "ua" * 20, size=800, keep=8)
    assert cut is not None
    assert (cut.cut, cut.kept_prompt) == (32, ())


def test_the_tail_is_bounded_in_tokens_too(turns: Any, card: Any) -> None:
    cut = plan(turns, card, "uauauaua", size=4_000, keep=8)
    assert cut is not None
    assert cut.cut == 5
    assert cut.tail_tokens <= 8_000 * 0.8 / 2


def test_a_tool_loop_keeps_its_prompt_pinned(turns: Any, card: Any) -> None:
    history = turns.spelled("u" + "ct" * 20, 800)
    cut = plan_live_cut(history, card(8_000), POLICY)
    assert cut is not None
    assert cut.kept_prompt == history[0].blocks
    assert not separates(history, cut.cut)


def test_the_tail_and_the_prompt_it_leaves_behind_fit_together(turns: Any, card: Any) -> None:
    """A long prompt and a long newest result are not both kept: the result is quoted then."""
    history = [turns.user("x" * 14_000), *turns.spelled("ctct", 300), *turns.spelled("ct", 14_000)]
    cut = plan_live_cut(history, card(8_000), POLICY)
    assert cut is not None
    assert cut.kept_prompt == history[0].blocks
    assert cut.tail_tokens + live_tokens(history[:1]) <= cut.room_tokens


def test_results_that_came_after_a_steering_prompt_stay_with_their_call(turns: Any, card: Any) -> None:
    pair = [turns.calls("late", path="x"), turns.user("and also this"), turns.results("late")]
    history = [*turns.spelled("ua" * 10, 1_500), *pair]
    cut = plan_live_cut(history, card(8_000), CompactionPolicy(0.8, 2))
    assert cut is not None
    assert cut.cut == 20


def test_the_newest_results_are_kept_even_if_the_policy_wants_fewer_turns(turns: Any, card: Any) -> None:
    history = turns.spelled("ua" * 10 + "uct", 1_500)
    assert find_cut_point(history, 1) == len(history)
    cut = plan_live_cut(history, card(8_000), CompactionPolicy(0.8, 1))
    assert cut is not None
    assert (cut.cut, cut.kept_prompt) == (21, history[20].blocks)


def test_a_blank_turn_at_the_end_is_looked_through(turns: Any, card: Any) -> None:
    history = [*turns.spelled("ua" * 10 + "u", 1_500), AssistantTurn(())]
    cut = plan_live_cut(history, card(8_000), CompactionPolicy(0.8, 1))
    assert cut is not None
    assert (cut.cut, cut.kept_prompt) == (20, ())


def test_an_image_never_triggers_a_compaction_again_and_again(turns: Any, card: Any) -> None:
    photo = UserTurn((TextBlock("what is this?"), ImageBlock("image/png", "x" * 1_400_000)))
    history = [*turns.spelled("ua" * 5, 40), photo]
    assert should_compact(history, card(32_000))
    assert plan_live_cut(history, card(32_000)) is None


def test_a_huge_prompt_alone_is_left_as_it_is(turns: Any, card: Any) -> None:
    assert plan_live_cut([turns.user("x" * 100_000)], card(8_000)) is None
    assert plan_live_cut([*turns.spelled("ua", 40), turns.user("x" * 100_000)], card(8_000)) is None


def test_an_overhead_above_the_trigger_does_not_compact_on_every_call(turns: Any, card: Any) -> None:
    small = turns.spelled("uau", 40)
    assert plan_live_cut(small, card(8_000), POLICY, overhead_tokens=7_000) is None
    large = turns.spelled("ua" * 10, 400)
    assert plan_live_cut(large, card(8_000), POLICY, overhead_tokens=7_000) is not None


async def test_the_result_is_smaller_and_does_not_compact_again(turns: Any, card: Any) -> None:
    history = turns.spelled("u" + "ct" * 20, 800)
    model = ScriptedModel([[Say("the gist")]], when_exhausted="repeat")
    cut = plan_live_cut(history, card(8_000), POLICY)
    assert cut is not None
    done = await compact_live(history, cut, model, model=card(8_000))
    assert done is not None
    assert done.summary == UserTurn((TextBlock("[condensed earlier context]\nthe gist"), *history[0].blocks))
    after = (done.summary, *history[done.cut :])
    assert done.tokens_after == live_tokens(after) < done.tokens_before == live_tokens(history)
    assert plan_live_cut(after, card(8_000), POLICY) is None


async def test_the_pinned_prompt_survives_a_second_compaction(turns: Any, card: Any) -> None:
    prompt = turns.user("the prompt")
    model = ScriptedModel([[Say("gist")]], when_exhausted="repeat")
    history: tuple[Turn, ...] = (prompt, *turns.spelled("u" + "ct" * 20, 800)[1:])
    for _ in range(3):
        cut = plan_live_cut(history, card(8_000), POLICY)
        assert cut is not None
        done = await compact_live(history, cut, model, model=card(8_000))
        assert done is not None
        assert done.summary.blocks == (TextBlock("[condensed earlier context]\ngist"), *prompt.blocks)
        history = (done.summary, *history[done.cut :], *turns.spelled("ct" * 20, 800))


async def test_a_giant_newest_result_is_quoted_in_part(turns: Any, card: Any) -> None:
    result = "HEAD" + "x" * 100_000 + "TAIL"
    history = [turns.user("go"), turns.calls("c1", path="a.py"), turns.results("c1", output=result)]
    cut = plan_live_cut(history, card(8_000), POLICY)
    assert cut is not None
    assert (cut.cut, cut.kept_prompt) == (3, history[0].blocks)
    done = await compact_live(
        history, cut, ScriptedModel([[Say("gist")]], when_exhausted="repeat"), model=card(8_000)
    )
    assert done is not None
    text = done.summary.blocks[0].text  # type: ignore[union-attr]  # a text block
    assert "# Newest results\nHEADxxx" in text
    assert text.endswith("xxxTAIL")
    assert "of 100008 characters left out" in text
    assert plan_live_cut((done.summary,), card(8_000), POLICY) is None


async def test_a_gist_that_is_too_long_is_replaced_by_the_local_one(turns: Any, card: Any) -> None:
    history = turns.spelled("ua" * 20, 800)
    cut = plan_live_cut(history, card(8_000), POLICY)
    assert cut is not None
    done = await compact_live(history, cut, ScriptedModel([[Say("blah " * 5_000)]]), model=card(8_000))
    assert done is not None
    assert done.source == "local"
    assert done.tokens_after < 8_000 * 0.8


async def test_a_cancelled_compaction_changes_nothing(turns: Any, card: Any) -> None:
    history = turns.spelled("ua" * 20, 800)
    cut = plan_live_cut(history, card(8_000), POLICY)
    assert cut is not None
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledByToken):
        await compact_live(history, cut, ScriptedModel([[Say("x")]]), model=card(8_000), cancel=token)


letters = st.lists(st.sampled_from(["u", "a", "ct", "bpq", "uct"]), max_size=30).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(letters, st.integers(0, 12), st.integers(1, 2_000), st.integers(200, 6_000), st.data())
async def test_any_live_compaction_is_safe(
    turns: Any, card: Any, spelled: str, keep: int, size: int, window: int, data: st.DataObject
) -> None:
    history = turns.spelled("u" + spelled, size)
    policy = CompactionPolicy(0.8, keep)
    cut = plan_live_cut(history, card(window), policy, overhead_tokens=data.draw(st.integers(0, window)))
    if cut is None:
        return
    assert 1 <= cut.cut <= len(history)
    assert not separates(history, cut.cut)
    newest = max(i for i, turn in enumerate(history) if isinstance(turn, UserTurn))
    assert cut.cut <= newest or cut.kept_prompt == history[newest].blocks
    gist = data.draw(st.sampled_from(["", "short", "long " * 400]))
    done = await compact_live(
        history, cut, ScriptedModel([[Say(gist)]], when_exhausted="repeat"), model=card(window)
    )
    if done is not None:
        assert live_tokens((done.summary, *history[done.cut :])) == done.tokens_after < live_tokens(history)
