"""The compactor: its documented rules, and live transcripts that stay safe, bounded and with their prompt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_cards import card
from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    ImageBlock,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    Usage,
    UserTurn,
)
from sidecar.llmgateway.scripted import Call, Say, ScriptedModel, Step
from sidecar.runtime.contract import CompactionPolicy
from sidecar.runtime.memory import (
    DEFAULT_POLICY,
    DISTILL_INSTRUCTION,
    LiveCompaction,
    LiveCut,
    compact,
    compact_live,
    find_cut_point,
    live_tokens,
    plan_live_cut,
    should_compact,
    summarize,
)
from turns import assistant, spell_turns, texts, tool_call, tool_result, user

GIST = user("[condensed earlier context]\ngist")


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
def test_cut_points_keep_the_recent_turns_and_no_orphan_result(letters: str, keep: float, cut: int) -> None:
    assert find_cut_point(spell_turns(letters), keep) == cut


@pytest.mark.parametrize(
    ("window", "policy", "is_due"),
    [
        pytest.param(1004, CompactionPolicy(1.0, 8), True, id="reached counts"),
        pytest.param(1005, CompactionPolicy(1.0, 8), False, id="not reached"),
        pytest.param(0, CompactionPolicy(0.8, 8), False, id="no window"),
        pytest.param(-1, CompactionPolicy(0.8, 8), False, id="a negative window"),
        pytest.param(1255, None, True, id="no policy means the default policy"),
        pytest.param(1256, None, False, id="and not less"),
    ],
)
def test_a_history_is_due_at_its_share_of_the_window(
    window: int, policy: CompactionPolicy | None, is_due: bool
) -> None:
    assert should_compact([user("x" * 4000)], card(window), policy) is is_due
    assert CompactionPolicy(0.8, 8) == DEFAULT_POLICY


async def test_the_summary_is_a_user_turn_with_the_heading() -> None:
    model = ScriptedModel([[Say("  gist \n", n_deltas=3)]])
    assert await summarize(spell_turns("uct"), model) == GIST
    transcript = 'user:\nu0..\n\nassistant:\ntool_call read({"path":"c1.."})\n\ntool:\ntool_result -> t2..'
    expected = Conversation((user(transcript),), system=DISTILL_INSTRUCTION)
    assert [(call.conversation, call.options) for call in model.calls] == [(expected, StreamOptions())]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [
                Say("streamed"),
                DoneEmission(assistant("gi", ToolCallBlock("c", "read", {}), "st"), Usage(1, 1)),
            ],
            id="a done reply wins over the deltas",
        ),
        pytest.param([Call("read", {}), Say("gist")], id="tool calls are ignored"),
    ],
)
async def test_the_text_of_the_reply_is_the_gist(steps: Sequence[Step]) -> None:
    assert await summarize(spell_turns("u"), ScriptedModel([steps])) == GIST


@pytest.mark.parametrize(
    ("letters", "policy", "compacted"),
    [
        pytest.param("uauau", CompactionPolicy(0.8, 2), (GIST, *spell_turns("uauau")[3:]), id="a tail"),
        pytest.param("uct", CompactionPolicy(0.8, 1), (GIST,), id="everything may be condensed"),
        pytest.param("uau", None, tuple(spell_turns("uau")), id="nothing to condense"),
    ],
)
async def test_compacting_gives_a_summary_and_the_tail(
    letters: str, policy: CompactionPolicy | None, compacted: tuple[Turn, ...]
) -> None:
    model = ScriptedModel([[Say("gist")]])
    assert await compact(spell_turns(letters), card(32_000), policy, model) == compacted


def plan(history: Sequence[Turn], keep: int = 8) -> LiveCut:
    """Return the cut that is due in a window of 8000 tokens."""
    cut = plan_live_cut(history, card(8_000), CompactionPolicy(0.8, keep))
    assert cut is not None
    return cut


def is_due(history: Sequence[Turn], window: int = 8_000, overhead_tokens: int = 0) -> bool:
    return plan_live_cut(history, card(window), DEFAULT_POLICY, overhead_tokens=overhead_tokens) is not None


async def condense(
    history: Sequence[Turn], gist: str = "gist", cancel: CancelToken | None = None
) -> LiveCompaction:
    model = ScriptedModel([[Say(gist)]], when_exhausted="repeat")
    done = await compact_live(history, plan(history), model, model=card(8_000), cancel=cancel)
    assert done is not None
    return done


def separates(history: Sequence[Turn], cut: int) -> bool:
    """Whether a call before *cut* has its result behind it."""
    before = {b.id for turn in history[:cut] for b in turn.blocks if isinstance(b, ToolCallBlock)}
    behind = {b.call_id for turn in history[cut:] for b in turn.blocks if isinstance(b, ToolResultBlock)}
    return bool(before & behind)


LATE_PAIR = [tool_call("late", path="x"), user("and also this"), tool_result("late")]


KEPT = {
    "the wanted turns where they fit": (spell_turns("ua" * 20, 800), 8, 32, None),
    "the tail is bounded in tokens too": (spell_turns("uauauaua", 4_000), 8, 5, None),
    "a tool loop keeps its prompt pinned": (spell_turns("u" + "ct" * 20, 800), 8, 33, 0),
    "a late result stays": ([*spell_turns("ua" * 10, 1_500), *LATE_PAIR], 2, 20, None),
    "so do the newest results": (spell_turns("ua" * 10 + "uct", 1_500), 1, 21, 20),
    "behind a blank turn": ([*spell_turns("ua" * 10 + "u", 1_500), AssistantTurn(())], 1, 20, None),
}


@pytest.mark.parametrize(("history", "keep", "cut", "kept_prompt"), KEPT.values(), ids=KEPT)
def test_what_is_kept(history: list[Turn], keep: int, cut: int, kept_prompt: int | None) -> None:
    planned = plan(history, keep)
    prompt = () if kept_prompt is None else history[kept_prompt].blocks
    assert (planned.cut, planned.kept_prompt) == (cut, prompt)
    assert planned.tail_tokens <= 8_000 * 0.8 / 2
    assert not separates(history, planned.cut)


def test_the_tail_and_the_prompt_it_leaves_behind_fit_together() -> None:
    """A long prompt and a long newest result are not both kept: the result is quoted then."""
    history = [user("x" * 14_000), *spell_turns("ctct", 300), *spell_turns("ct", 14_000)]
    cut = plan(history)
    assert cut.kept_prompt == history[0].blocks
    assert cut.tail_tokens + live_tokens(history[:1]) <= cut.room_tokens


def test_what_no_compaction_helps_is_left_as_it_is() -> None:
    photo = UserTurn((TextBlock("what is this?"), ImageBlock("image/png", "x" * 1_400_000)))
    with_photo = [*spell_turns("ua" * 5, 40), photo]
    assert should_compact(with_photo, card(32_000))
    assert not is_due(with_photo, 32_000)
    huge = user("x" * 100_000)
    assert not is_due([huge])
    assert not is_due([*spell_turns("ua", 40), huge])
    assert not is_due(spell_turns("uau", 40), overhead_tokens=7_000)
    assert is_due(spell_turns("ua" * 10, 400), overhead_tokens=7_000)


async def test_the_pinned_prompt_survives_and_the_result_does_not_compact_again() -> None:
    prompt = user("the prompt")
    history: tuple[Turn, ...] = (prompt, *spell_turns("u" + "ct" * 20, 800)[1:])
    for _ in range(3):
        done = await condense(history)
        assert done.summary == UserTurn((*GIST.blocks, *prompt.blocks))
        after = (done.summary, *history[done.cut :])
        assert done.tokens_after == live_tokens(after) < done.tokens_before == live_tokens(history)
        assert not is_due(after)
        history = (*after, *spell_turns("ct" * 20, 800))


async def test_a_giant_newest_result_is_quoted_in_part() -> None:
    result = "HEAD" + "x" * 100_000 + "TAIL"
    history: list[Turn] = [user("go"), tool_call("c1", path="a.py"), tool_result("c1", result)]
    assert (plan(history).cut, plan(history).kept_prompt) == (3, history[0].blocks)
    done = await condense(history)
    text = texts([done.summary])[0]
    assert "# Newest results\nHEADxxx" in text
    assert text.endswith("xxxTAIL")
    assert "of 100008 characters left out" in text
    assert not is_due((done.summary,))


async def test_a_gist_that_is_too_long_is_replaced_by_the_local_one() -> None:
    done = await condense(spell_turns("ua" * 20, 800), "blah " * 5_000)
    assert done.source == "local"
    assert done.tokens_after < 8_000 * 0.8


async def test_a_cancelled_compaction_changes_nothing() -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledByToken):
        await condense(spell_turns("ua" * 20, 800), cancel=token)


letters = st.lists(st.sampled_from(["u", "a", "ct", "bpq", "uct"]), max_size=30).map("".join)


@given(letters, st.integers(0, 12), st.integers(1, 2_000), st.integers(200, 6_000), st.data())
async def test_any_live_compaction_is_safe(
    spelled: str, keep: int, size: int, window: int, data: st.DataObject
) -> None:
    history = spell_turns("u" + spelled, size)
    policy = CompactionPolicy(0.8, keep)
    cut = plan_live_cut(history, card(window), policy, overhead_tokens=data.draw(st.integers(0, window)))
    if cut is None:
        return
    assert 1 <= cut.cut <= len(history)
    assert not separates(history, cut.cut)
    newest = max(i for i, turn in enumerate(history) if isinstance(turn, UserTurn))
    assert cut.cut <= newest or cut.kept_prompt == history[newest].blocks
    gist = data.draw(st.sampled_from(["", "short", "long " * 400]))
    model = ScriptedModel([[Say(gist)]], when_exhausted="repeat")
    done = await compact_live(history, cut, model, model=card(window))
    if done is not None:
        assert live_tokens((done.summary, *history[done.cut :])) == done.tokens_after < live_tokens(history)
