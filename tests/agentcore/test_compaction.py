"""The transform: one summary for each crossing, updated by the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

import pytest

from chat_model import ScriptedChatModel
from sidecar._internal.cancel import CancelledByToken
from sidecar.agentcore.memory import (
    CompactionConfig,
    CompactionInfo,
    CompactionSummary,
    HistoryCompactor,
    estimate_total,
    fit_budget,
    new_compaction,
)
from sidecar.agentcore.messages import (
    AgentMessage,
    Message,
    Usage,
    call_block,
    compaction_convert_to_llm,
    repair_message_sequence,
    text_block,
    text_message,
    tool_message,
)
from sidecar.agentcore.summaries import LOCAL_HEADING

Draw = Callable[..., list[AgentMessage]]
Clock = Callable[[], datetime]
Feed = Literal["raw", "view"]
CONFIG = CompactionConfig(ScriptedChatModel(), 1000, 200, 100)
FEEDS = [pytest.param("raw", id="fed the raw history"), pytest.param("view", id="fed its own view")]


class Run:
    """A compactor of threshold 800 and tail 100, driven as an agent loop drives it."""

    def __init__(
        self,
        clock: Clock,
        *,
        feed: Feed = "raw",
        model: ScriptedChatModel | None = None,
        config: CompactionConfig | None = None,
    ) -> None:
        self.model = model or ScriptedChatModel()
        self.infos: list[CompactionInfo] = []
        base = config or CompactionConfig(self.model, 1000, 200, 100)
        self.transform = new_compaction(replace(base, on_compaction=self.infos.append), clock=clock)
        self.history: list[AgentMessage] = []
        self.view: list[AgentMessage] = []
        self._feed = feed

    async def say(self, *messages: AgentMessage) -> list[AgentMessage]:
        """Add *messages* and return the view for the next model call."""
        self.history.extend(messages)
        if self._feed == "raw":
            self.view = list(await self.transform(self.history))
        else:
            self.view = list(await self.transform([*self.view, *messages]))
        return self.view

    async def say_each(self, messages: Sequence[AgentMessage], step: int = 1) -> None:
        for start in range(0, len(messages), step):
            await self.say(*messages[start : start + step])


def pair(index: int, tokens: int = 20) -> list[AgentMessage]:
    call = Message(
        "assistant", (text_block("on it"), call_block(f"c{index}", "read", f'{{"path":"f{index}"}}'))
    )
    return [call, tool_message(f"c{index}", "y" * 4 * tokens)]


def summary_of(view: Sequence[AgentMessage]) -> CompactionSummary:
    summary = view[0]
    assert isinstance(summary, CompactionSummary)
    return summary


@pytest.mark.parametrize(
    ("letters", "config"),
    [
        pytest.param("", CONFIG, id="no messages"),
        pytest.param("ua" * 100, replace(CONFIG, model=None), id="no model"),
        pytest.param("ua" * 100, replace(CONFIG, context_window=0), id="no window"),
        pytest.param("ua" * 100, replace(CONFIG, reserve_tokens=1000), id="a reserve over the window"),
        pytest.param("ua" * 40, CONFIG, id="not over the threshold"),
        pytest.param("x" * 100, CONFIG, id="nothing that is sent"),
    ],
)
async def test_the_very_input_comes_back(draw: Draw, letters: str, config: CompactionConfig) -> None:
    messages = draw(letters)
    assert await new_compaction(config)(messages) is messages


async def test_a_compaction_and_its_record(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    messages = draw("ua" * 41)
    view = await run.say(*messages)
    summary = CompactionSummary("summary 1", 820, (), (), datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert view == [summary, *messages[72:]]
    assert run.infos == [
        CompactionInfo(
            tokens_before=820,
            tokens_after=103,
            messages_before=82,
            messages_after=11,
            compacted_count=72,
            kept_count=10,
            is_split_turn=False,
            is_incremental=False,
            summary_len=9,
            duration=timedelta(seconds=2),
            summary_source="model",
        )
    ]


async def test_what_an_observer_raises_is_ignored(draw: Draw, clock: Clock) -> None:
    def observe(info: CompactionInfo) -> None:
        raise RuntimeError("display is gone")

    transform = new_compaction(CompactionConfig(ScriptedChatModel(), 1000, 200, 100, observe), clock=clock)
    assert len(await transform(draw("ua" * 41))) == 11


async def test_the_example_of_the_seed_document_runs(clock: Clock) -> None:
    """The transform before the conversion, at the defaults: one summary call, as long as the seed says."""
    model = ScriptedChatModel(["the summary"])
    transform = new_compaction(CompactionConfig(model=model, context_window=128_000), clock=clock)
    messages: list[AgentMessage] = [
        text_message("user", "go"),
        *[m for i in range(120) for m in pair(i, 1000)],
    ]
    sent = compaction_convert_to_llm(await transform(messages))
    told = "No prior history.\n\n---\n\n**Turn Context (split turn):**\n\nthe summary\n\n<read-files>\n"
    assert sent[0].text_content().startswith(f"<context-summary>\n{told}")
    assert sent[1:] == [messages[0], *messages[-40:]]
    assert [(call.max_tokens, call.thinking) for call in model.calls] == [(8192, None)]


@pytest.mark.parametrize("feed", FEEDS)
async def test_one_summary_a_crossing_and_the_next_updates_it(draw: Draw, clock: Clock, feed: Feed) -> None:
    run = Run(clock, feed=feed)
    await run.say_each(draw("ua" * 41))
    assert (len(run.infos), len(run.model.calls)) == (1, 1)
    await run.say_each(draw("ua" * 20))
    assert len(run.model.calls) == 1
    await run.say_each(draw("ua" * 41))
    assert (len(run.infos), len(run.model.calls)) == (2, 2)
    assert [info.is_incremental for info in run.infos] == [False, True]
    assert run.model.calls[1].prompt.count("summary 1") == 1
    assert [m for m in run.view if isinstance(m, CompactionSummary)] == [summary_of(run.view)]
    assert summary_of(run.view).summary == "summary 2"


@pytest.mark.parametrize("feed", FEEDS)
async def test_the_view_is_stable_between_crossings(draw: Draw, clock: Clock, feed: Feed) -> None:
    """What a provider has cached stays the beginning of the next prompt; a caller may build it anew."""
    run = Run(clock, feed=feed)
    await run.say_each(draw("ua" * 41))
    assert list(await run.transform(draw("ua" * 41))) == run.view
    for message in draw("ua" * 10):
        before = list(run.view)
        view = await run.say(message)
        assert view[: len(before)] == before


async def test_a_rewind_behind_the_cut_keeps_the_summary(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    messages = draw("ua" * 41)
    view = await run.say(*messages)
    branch = [*messages[:75], text_message("user", "another way")]
    assert await run.transform(branch) == [view[0], *branch[72:]]
    assert len(run.model.calls) == 1


EDITS = {
    "rewound in front of the cut": lambda m: m[:40],
    "edited in the middle": lambda m: [*m[:40], text_message("user", "edited"), *m[41:79]],
    "its beginning taken away": lambda m: m[1:80],
    "another conversation": lambda m: [text_message("user", "other talk")],
    "reordered": lambda m: [m[1], m[0], *m[2:79]],
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_never_the_summary_of_another_or_an_edited_conversation(
    draw: Draw, clock: Clock, edit: Callable[[list[AgentMessage]], list[AgentMessage]]
) -> None:
    run = Run(clock)
    messages = draw("ua" * 41)
    await run.say(*messages)
    edited = edit(messages)
    assert await run.transform(edited) is edited
    assert len(run.model.calls) == 1
    messages[3] = text_message("assistant", "edited in place")
    assert summary_of(await run.transform(messages)).summary == "summary 2"
    assert not run.infos[1].is_incremental


async def test_conversations_may_share_a_transform(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    one, two = draw("ua" * 41), draw("s" + "ua" * 41)
    for _ in range(3):
        assert summary_of(await run.transform(one)).summary == "summary 1"
        assert summary_of(await run.transform(two)).summary == "summary 2"
        one, two = [*one, *draw("ua")], [*two, *draw("ua")]
    assert len(run.model.calls) == 2


@pytest.mark.parametrize("n_words", [1, 170])
@pytest.mark.parametrize("feed", FEEDS)
async def test_a_tool_loop_compacts_again_and_again_and_keeps_its_prompt(
    clock: Clock, feed: Feed, n_words: int
) -> None:
    run = Run(clock, feed=feed)
    prompt = text_message("user", "do it all" * n_words)
    await run.say(prompt)
    for index in range(100):
        view = await run.say(*pair(index))
        assert estimate_total(view) <= 800
        assert prompt in view
        sent = compaction_convert_to_llm(view)
        assert repair_message_sequence(sent) == sent
    assert len(run.infos) > 2
    assert run.view[1] == prompt
    assert all(info.is_split_turn for info in run.infos)
    assert [info.is_incremental for info in run.infos] == [False, *[True] * (len(run.infos) - 1)]
    assert len(run.model.calls) == len(run.infos)
    assert run.model.calls[2].prompt.count("summary 2") == 1
    assert summary_of(run.view).summary.startswith(
        "No prior history.\n\n---\n\n**Turn Context (split turn):**"
    )


@pytest.mark.parametrize("window", [8192, 16_384, 36_000])
async def test_small_windows_neither_starve_nor_thrash(clock: Clock, window: int) -> None:
    """Every view fits, and between two crossings lies at least an eighth of the threshold in new messages."""
    run = Run(clock, config=CompactionConfig(ScriptedChatModel(["x" * 1500] * 99), window))
    budget = fit_budget(window)
    crossed_at = [0]
    await run.say(text_message("user", "go"))
    for index in range(120):
        n_infos = len(run.infos)
        view = await run.say(*pair(index, 400))
        assert estimate_total(view) <= budget.threshold
        if len(run.infos) > n_infos:
            crossed_at.append(index)
            assert estimate_total(view) <= budget.soft
    steps = [later - earlier for earlier, later in pairwise(crossed_at)]
    assert steps
    assert min(steps) * 412 >= budget.threshold // 8


@pytest.mark.parametrize("feed", FEEDS)
async def test_file_lists_are_united_over_compactions(clock: Clock, feed: Feed) -> None:
    run = Run(clock, feed=feed)
    await run.say(text_message("user", "go"))
    for index in range(60):
        await run.say(*pair(index))
    edit = Message("assistant", (call_block("e", "edit", '{"path":"f0"}'),))
    await run.say(edit, tool_message("e", "done"))
    for index in range(60, 100):
        await run.say(*pair(index))
    summary = summary_of(run.view)
    assert len(run.infos) > 2
    assert summary.modified_files == ("f0",)
    assert set(summary.read_files) >= {f"f{i}" for i in range(1, 60)}
    assert "f0" not in summary.read_files
    assert summary.summary.count("<read-files>") == 1
    assert summary.summary.endswith("<modified-files>\nf0\n</modified-files>")
    assert not any("read-files" in call.prompt for call in run.model.calls)


@pytest.mark.parametrize("feed", FEEDS)
async def test_a_failing_summariser_never_fails_the_run(draw: Draw, clock: Clock, feed: Feed) -> None:
    run = Run(clock, feed=feed, model=ScriptedChatModel(["kept summary", *[RuntimeError("down")] * 99]))
    await run.say_each(draw("ua" * 150))
    assert [info.summary_source for info in run.infos] == ["model", *["local"] * (len(run.infos) - 1)]
    assert len(run.infos) > 3
    summary = summary_of(run.view).summary
    assert summary.startswith("kept summary")
    assert LOCAL_HEADING in summary
    assert estimate_total(run.view) <= 800


async def test_after_three_failures_only_every_fifth_crossing_asks(draw: Draw, clock: Clock) -> None:
    run = Run(clock, model=ScriptedChatModel([RuntimeError("down")] * 4))
    asked = []
    for number in range(14):
        n_calls = len(run.model.calls)
        await run.transform([text_message("user", f"talk {number}"), *draw("ua" * 41)])
        asked.append(len(run.model.calls) > n_calls)
    assert "".join("A" if a else "." for a in asked) == "AAA....A....AA"
    assert run.infos[-1].summary_source == "model"


async def test_cancellation_changes_nothing(draw: Draw, clock: Clock) -> None:
    run = Run(clock, model=ScriptedChatModel([CancelledByToken("esc"), "the summary"]))
    messages = draw("ua" * 41)
    with pytest.raises(CancelledByToken):
        await run.transform(messages)
    assert run.infos == []
    assert summary_of(await run.transform(messages)).summary == "the summary"


class Gate(ScriptedChatModel):
    """A model that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def pause(self) -> None:
        self.asked.set()
        await self.may_answer.wait()


async def test_concurrent_calls_share_one_summary(draw: Draw, clock: Clock) -> None:
    model = Gate()
    run = Run(clock, model=model)
    messages = draw("ua" * 41)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_awaited(run.transform, messages))
        await model.asked.wait()
        second = group.create_task(_awaited(run.transform, [*messages, *draw("u")]))
        other = group.create_task(_awaited(run.transform, draw("au")))
        model.may_answer.set()
    assert second.result() == [*first.result(), *draw("u")]
    assert other.result() == draw("au")
    assert (len(model.calls), model.n_running_most) == (1, 1)


async def test_a_cancelled_task_lets_the_next_one_in(draw: Draw, clock: Clock) -> None:
    model = Gate()
    run = Run(clock, model=model)
    messages = draw("ua" * 41)
    task = asyncio.ensure_future(_awaited(run.transform, messages))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    model.may_answer.set()
    assert len(await run.transform(messages)) == 11
    assert len(run.infos) == 1


async def _awaited(transform: HistoryCompactor, messages: list[AgentMessage]) -> list[AgentMessage]:
    return list(await transform(messages))


def answer(index: int, usage: Usage | None) -> Message:
    said_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=index)
    return Message("assistant", (text_block("a" * 40),), usage=usage, timestamp=said_at)


async def test_reported_usage_and_the_last_output_open_the_gate(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    asked = [*draw("ua" * 20), *draw("u")]
    messages = [*asked, answer(0, Usage(input=700, output=100))]
    assert await run.transform(messages) is messages
    longer = [*asked, answer(0, Usage(input=700, output=101))]
    assert summary_of(await Run(clock).transform(longer)).summary == "summary 1"
    messages = [*messages, *draw("u"), answer(1, Usage(input=790, output=5)), *draw("u")]
    assert summary_of(await run.transform(messages)).summary == "summary 1"


@pytest.mark.parametrize("feed", FEEDS)
async def test_usage_of_kept_messages_does_not_compact_again(draw: Draw, clock: Clock, feed: Feed) -> None:
    """The kept answers report the prompt that was just compacted; some have no time to tell it by."""
    run = Run(clock, feed=feed)
    kept = [*draw("u"), replace(answer(0, Usage(input=900)), timestamp=None)]
    await run.say(*draw("ua" * 30), *kept)
    assert len(run.infos) == 1
    for message in draw("ua" * 10):
        await run.say(message)
    assert len(run.infos) == 1
    await run.say(*draw("u"), answer(99, Usage(input=820)))
    assert len(run.infos) == 2


async def test_overhead_counts_where_no_usage_is_reported(draw: Draw, clock: Clock) -> None:
    config = CompactionConfig(ScriptedChatModel(), 1000, 200, 100, overhead_tokens=300)
    view = await new_compaction(config, clock=clock)(draw("ua" * 26))
    assert estimate_total(view) <= 500


async def test_an_overhead_over_the_threshold_does_not_thrash(draw: Draw, clock: Clock) -> None:
    """The messages keep a quarter of the threshold; compacting below that would win nothing."""
    run = Run(clock, config=CompactionConfig(ScriptedChatModel(), 1000, 200, 100, overhead_tokens=900))
    for message in draw("ua" * 60):
        await run.say(message)
    assert len(run.infos) <= 12


async def test_an_item_larger_than_the_window_is_cut_in_the_view_alone(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    call, result = pair(0, 5000)
    messages = [*draw("ua" * 3), *draw("u"), call, result]
    view = await run.say(*messages)
    assert view[:-1] == messages[:-1]
    assert "characters left out" in view[-1].text_content()
    assert estimate_total(view) <= 800
    assert run.history[-1] is result
    assert (run.infos, run.model.calls) == ([], [])
    assert await run.say(*draw("u")) == [*view, *draw("u")]


async def test_the_summariser_reads_the_original_of_a_cut_item(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    fact = "x" * 4000 + " the secret is 42 " + "y" * 4000
    await run.say(text_message("user", fact))
    assert "the secret is 42" not in run.view[0].text_content()
    await run.say_each(draw("au" * 60))
    assert any("the secret is 42" in call.prompt for call in run.model.calls)


async def test_compact_now_needs_no_threshold(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    messages = draw("ua" * 20)
    outcome = await run.transform.compact_now(messages, "keep the numbers")
    assert outcome is not None
    view, info = outcome
    assert view == [summary_of(view), *messages[30:]]
    assert info == run.infos[0]
    assert "keep the numbers" in run.model.calls[0].prompt
    assert await run.transform([*messages, *draw("u")]) == [*view, *draw("u")]
    assert await run.transform([*view, *draw("u")]) == [*view, *draw("u")]
    again = await run.transform.compact_now([*messages, *draw("ua" * 9)])
    assert again is not None
    assert (again[1].is_incremental, summary_of(again[0]).summary) == (True, "summary 2")


async def test_compact_now_asks_although_the_breaker_is_open(draw: Draw, clock: Clock) -> None:
    run = Run(clock, model=ScriptedChatModel([RuntimeError("down")] * 3))
    for number in range(4):
        await run.transform([text_message("user", f"talk {number}"), *draw("ua" * 41)])
    assert len(run.model.calls) == 3
    outcome = await run.transform.compact_now(draw("ua" * 20))
    assert outcome is not None
    assert outcome[1].summary_source == "model"


@pytest.mark.parametrize("letters", ["", "u", "ua", "Sua"])
async def test_compact_now_says_when_there_is_nothing_to_do(draw: Draw, clock: Clock, letters: str) -> None:
    run = Run(clock)
    assert await run.transform.compact_now(draw(letters)) is None
    assert run.model.calls == []


async def test_a_preview_tells_what_will_happen_and_asks_nobody(draw: Draw, clock: Clock) -> None:
    run = Run(clock)
    messages = draw("ua" * 41)
    preview = run.transform.preview(messages)
    assert (preview.tokens, preview.limit, preview.window) == (820, 800, 1000)
    assert preview.plan is not None
    assert (preview.plan.cut, preview.plan.dropped_tokens, preview.plan.kept_tokens) == (72, 720, 100)
    assert (run.model.calls, run.infos) == ([], [])
    view = await run.transform(messages)
    assert estimate_total(view) <= preview.plan.kept_tokens + preview.plan.summary_tokens
    after = run.transform.preview(messages)
    assert (after.tokens, after.plan) == (estimate_total(view), None)
    forced = run.transform.preview(messages, force=True)
    assert forced.plan is not None
    assert forced.plan.is_incremental


async def test_a_model_that_is_back_reads_what_local_digests_left_out(draw: Draw, clock: Clock) -> None:
    """The text by the model stands, and the messages behind two local digests are shown to it once."""
    down = RuntimeError("down")
    run = Run(clock, model=ScriptedChatModel(["the first hour", down, down]))

    async def cross(name: str) -> None:
        n_before = len(run.infos)
        while len(run.infos) == n_before:
            await run.say(text_message("user", f"{name} " + "x" * 300), text_message("assistant", "ok " * 90))

    for name in ("early", "middle", "late", "newest"):
        await cross(name)
    assert [info.summary_source for info in run.infos] == ["model", "local", "local", "model"]
    prompt = run.model.calls[-1].prompt
    assert "the first hour" in prompt
    assert LOCAL_HEADING not in prompt
    asked = "".join(call.prompt for call in (run.model.calls[0], run.model.calls[-1]))
    dropped = run.history[: len(run.history) - run.infos[-1].kept_count]
    said = [message.text_content() for message in dropped if message.get_role() == "user"]
    assert [text for text in said if text not in asked] == []
    assert summary_of(run.view).summary == "summary 4"
    assert summary_of(run.view).unread is None


async def test_a_summary_takes_less_than_three_quarters_of_what_it_stands_for(clock: Clock) -> None:
    run = Run(clock, model=ScriptedChatModel(["long " * 3000] * 9))
    await run.say(text_message("user", "short"), text_message("assistant", "x" * 900))
    await run.say(text_message("user", "y" * 2400))
    (info,) = run.infos
    assert info.tokens_before - info.tokens_after >= 900 // 4 // 4
    assert estimate_total(run.view) <= 800
