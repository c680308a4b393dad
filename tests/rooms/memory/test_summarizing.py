"""SummarizingMemory keeps another memory in bounds and loses nothing on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from room_events import make_event
from sidecar.rooms import (
    AIContext,
    AIMessage,
    AIResponse,
    DeleteContent,
    EditContent,
    EventSource,
    MediaContent,
    MockAIProvider,
    Room,
    RoomContext,
    RoomEvent,
    TextContent,
)
from sidecar.rooms.memory import MemoryResult, MockMemoryProvider, SlidingWindowMemory, SummarizingMemory
from sidecar.rooms.memory.estimate import event_tokens, message_tokens

HEADER = "[Conversation summary — earlier messages compacted]"


def sized(number: int, tokens: int) -> RoomEvent:
    """Event *number* of *tokens* tokens, with its number at both ends."""
    start, end = f"<{number}|", f"|{number}>"
    return make_event(f"e{number}", start + "x" * (4 * tokens - 1 - len(start) - len(end)) + end)


NOW = make_event("now", "go on")


def summary(text: str) -> AIMessage:
    """The message that stands for what was summarised."""
    return AIMessage(role="user", content=f"{HEADER}\n{text}")


def prompts(provider: MockAIProvider) -> list[str]:
    """What the summariser was asked, call by call."""
    return [str(call.messages[0].content) for call in provider.calls]


def shown(provider: MockAIProvider) -> list[int]:
    """The numbers of the events whose beginning and end the summariser saw."""
    text = "".join(prompts(provider))
    return [number for number in range(300) if f"<{number}|" in text and f"|{number}>" in text]


def cost(result: MemoryResult) -> int:
    return sum(map(message_tokens, result.messages)) + sum(map(event_tokens, result.events))


class Chat:
    """A room, a summarising memory over a fixed inner result, and what to ask them."""

    def __init__(
        self,
        events: Sequence[RoomEvent],
        *responses: str | AIResponse | Exception,
        max_tokens: int = 10_000,
        messages: Sequence[AIMessage] = (),
        window: int | None = None,
        context_window: int | None = None,
    ) -> None:
        self.events = list(events)
        self.now_s = 0.0
        self.errors: list[Exception] = []
        self.provider = MockAIProvider(responses or ["notes"], context_window=context_window)
        self.fixed = MockMemoryProvider(messages, events)
        self.memory = SummarizingMemory(
            self.fixed if window is None else SlidingWindowMemory(window),
            self.provider,
            max_tokens,
            clock=lambda: self.now_s,
            on_error=self.errors.append,
        )

    async def ask(self, current: RoomEvent = NOW, *, channel_id: str | None = None) -> MemoryResult:
        self.fixed.events = list(self.events)
        context = RoomContext(room=Room(id="r"), recent_events=self.events)
        return await self.memory.retrieve("r", current, context, channel_id=channel_id)


def ids(result: MemoryResult) -> list[str]:
    return [event.id for event in result.events]


def named(*numbers: int) -> list[str]:
    return [f"e{number}" for number in numbers]


# --- tiers -----------------------------------------------------------------------------------------------


async def test_what_fits_is_passed_on() -> None:
    chat = Chat([sized(number, 1000) for number in range(5)])
    assert await chat.ask() == MemoryResult([], chat.events)
    assert chat.provider.calls == []


async def test_tier_1_truncates_the_older_half() -> None:
    chat = Chat([sized(number, 1000) for number in range(6)])
    result = await chat.ask()
    bodies = [str(getattr(event.content, "body", "")) for event in result.events]
    assert [len(body) for body in bodies] == [2000] * 3 + [3999] * 3
    assert bodies[0].endswith("x\n[... truncated from 3999 chars ...]")
    assert (chat.provider.calls, chat.events[0].content) == ([], sized(0, 1000).content)


async def test_tier_2_summarises_the_oldest() -> None:
    """Of twenty events of 1000 tokens twelve give way to one message at the end of the messages."""
    chat = Chat([sized(number, 1000) for number in range(20)])
    result = await chat.ask()
    assert result == MemoryResult([summary("notes")], chat.events[12:])
    assert shown(chat.provider) == list(range(12))
    assert len(chat.provider.calls) == 1


async def test_other_calls_are_passed_to_the_inner_memory() -> None:
    """What is not retrieval goes to the inner memory; closing closes it first, then the model."""
    inner, provider = MockMemoryProvider(), MockAIProvider()
    memory = SummarizingMemory(SlidingWindowMemory(), provider, 100)
    assert memory.name == "SummarizingMemory(SlidingWindowMemory)"
    memory = SummarizingMemory(inner, provider, 100)
    await memory.ingest("r", NOW, channel_id="ai")
    await memory.clear("r")
    await memory.close()
    assert (inner.ingest_calls, inner.clear_calls) == ([("r", NOW, "ai")], ["r"])
    assert (inner.closed, provider.closed) == (True, True)


async def test_a_failing_inner_memory_does_not_keep_the_model_open() -> None:
    class Stuck(MockMemoryProvider):
        async def close(self) -> None:
            raise RuntimeError("stuck")

    provider = MockAIProvider()
    with pytest.raises(RuntimeError, match="stuck"):
        await SummarizingMemory(Stuck(), provider, 100).close()
    assert provider.closed


# --- nothing is lost -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "max_tokens", "n_kept"),
    [
        pytest.param([1000] * 10 + [6000] + [1000] * 7, 10_000, 7, id="a giant in the middle"),
        pytest.param([1000] * 6, 1000, 1, id="a window of one event"),
        pytest.param([9000], 1000, 1, id="one event alone"),
    ],
)
async def test_every_event_is_kept_or_shown(sizes: list[int], max_tokens: int, n_kept: int) -> None:
    chat = Chat([sized(number, size) for number, size in enumerate(sizes)], max_tokens=max_tokens)
    result = await chat.ask()
    n_dropped = len(sizes) - n_kept
    assert ids(result) == named(*range(n_dropped, len(sizes)))
    assert shown(chat.provider) == list(range(n_dropped))
    assert cost(result) + event_tokens(NOW) <= max_tokens


async def test_calls_grow_with_what_is_new() -> None:
    """120 turns: a dozen calls and not one a turn, each event put before the summariser once."""
    chat = Chat([], window=50)
    for number in range(120):
        chat.events.append(sized(number, 250))
        result = await chat.ask(chat.events[-1])
        assert cost(result) <= 10_000
    asked = prompts(chat.provider)
    assert len(asked) <= 12
    assert all(sum(f"<{number}|" in prompt for prompt in asked) <= 1 for number in range(120))
    kept = {int(name[1:]) for name in ids(result)}
    assert set(shown(chat.provider)) | kept == set(range(119))
    assert sum(map(len, asked)) < 150_000


async def test_own_summaries_are_chained() -> None:
    """The next summary is made from the last one and the new events."""
    chat = Chat([sized(number, 1000) for number in range(20)], "first notes", "second notes")
    await chat.ask()
    chat.events += [sized(number, 1000) for number in range(20, 24)]
    result = await chat.ask()
    assert result.messages == [summary("second notes")]
    assert "first notes" in prompts(chat.provider)[1]
    assert [number for number in range(24) if f"<{number}|" in prompts(chat.provider)[1]] == [12, 13, 14, 15]


async def test_the_whole_body_reaches_the_summariser() -> None:
    """Also what tier 1 has cut out of the view, and what is no text by its words."""
    body = "\n".join(f"fact {number}" + "." * 3000 for number in range(3))
    picture = MediaContent("data:image/png;base64," + "A" * 9000, "image/png", caption="the plan")
    chat = Chat(
        [make_event("a", body), make_event("b", picture), *(sized(number, 2000) for number in range(6))]
    )
    await chat.ask()
    (prompt,) = prompts(chat.provider)
    assert body in prompt
    assert "[media image/png: the plan, data:image/png;base64 (9022 characters)]" in prompt


async def test_in_pieces_where_the_summariser_is_small() -> None:
    """Each with the notes on those before, each within its window; the end of a long body is not lost."""
    chat = Chat(
        [sized(0, 9000), *(sized(number, 1000) for number in range(1, 20))],
        *(f"notes {number}" for number in range(20)),
        context_window=5000,
    )
    result = await chat.ask()
    asked = prompts(chat.provider)
    assert len(asked) > 3
    assert all(len(prompt) / 4 + 1000 <= 5000 for prompt in asked)
    assert all(f"notes {number}" in asked[number + 1] for number in range(len(asked) - 1))
    assert result.messages == [summary(f"notes {len(asked) - 1}")]
    kept = [int(name[1:]) for name in ids(result)]
    assert sorted([*shown(chat.provider), *kept]) == list(range(20))


async def test_all_prior_summaries_are_chained() -> None:
    """Several of the inner memory's become one; a message that quotes the mark stays where it is."""
    quoting = AIMessage("user", f"[Relevant context from knowledge sources]\n- they wrote {HEADER}")
    chat = Chat(
        [sized(number, 1000) for number in range(20)],
        messages=[summary("day one"), quoting, summary("day two")],
    )
    result = await chat.ask()
    assert result.messages == [quoting, summary("notes")]
    assert f"{HEADER}\nday one\n\n{HEADER}\nday two" in prompts(chat.provider)[0]


async def test_who_spoke_is_kept() -> None:
    speakers = [EventSource("ws", "websocket", participant_id=name) for name in ("ann", "bob")]
    events = [make_event("a", "yes" + "." * 4000, speakers[0]), make_event("b", "no", speakers[1])]
    chat = Chat([*events, *(sized(number, 2000) for number in range(6))])
    await chat.ask()
    assert "[user]: (ann) yes" in prompts(chat.provider)[0]
    assert "[user]: (bob) no" in prompts(chat.provider)[0]


async def test_an_event_that_exceeds_the_window_is_cut_in_the_view() -> None:
    """Visibly; its original stays whole, and whole it reaches the summariser later."""
    chat = Chat([sized(0, 20_000)])
    result = await chat.ask()
    assert cost(result) + event_tokens(NOW) <= 10_000
    assert str(getattr(result.events[0].content, "body", "")).endswith("[... truncated from 79999 chars ...]")
    chat.events.append(sized(1, 9500))
    assert ids(await chat.ask()) == named(1)
    assert shown(chat.provider) == [0]


# --- staleness and failure -------------------------------------------------------------------------------


async def test_the_same_conversation_is_summarised_once() -> None:
    chat = Chat([sized(number, 1000) for number in range(20)])
    first = await chat.ask()
    chat.now_s = 1799.0
    assert await chat.ask() == first
    assert len(chat.provider.calls) == 1
    await chat.ask(channel_id="other")
    assert len(chat.provider.calls) == 2
    chat.now_s = 1800.0
    assert await chat.ask() == first
    assert len(chat.provider.calls) == 3


async def test_an_old_summary_is_not_thrown_away_for_its_age() -> None:
    """What it says of events out of reach is said again in the new one."""
    chat = Chat([sized(number, 1000) for number in range(20)], "old notes", "new notes")
    await chat.ask()
    chat.events = [*chat.events[10:], *(sized(number, 1000) for number in range(20, 26))]
    chat.now_s = 1800.0
    result = await chat.ask()
    assert "old notes" in prompts(chat.provider)[1]
    assert "<10|" in prompts(chat.provider)[1]
    assert result.messages == [summary("new notes")]


async def test_at_most_200_conversations_are_remembered() -> None:
    chat = Chat([sized(number, 1000) for number in range(20)])
    for number in range(201):
        await chat.ask(channel_id=str(number))
    await chat.ask(channel_id="1")
    assert len(chat.provider.calls) == 201
    await chat.ask(channel_id="0")
    assert len(chat.provider.calls) == 202


FAILED_ANSWERS = {
    "raised": (RuntimeError("overloaded"), "[Earlier conversation with 12 messages — summary unavailable]"),
    "empty": (" \n", "[Summary generation failed]"),
}


@pytest.mark.parametrize(("answer", "placeholder"), FAILED_ANSWERS.values(), ids=FAILED_ANSWERS)
async def test_failures_are_not_remembered(answer: str | Exception, placeholder: str) -> None:
    """The placeholder stands for the events until the next retrieve tries again."""
    chat = Chat([sized(number, 1000) for number in range(20)], answer, "notes")
    assert (await chat.ask()).messages == [summary(placeholder)]
    assert [str(error) for error in chat.errors] == (["overloaded"] if isinstance(answer, Exception) else [])
    assert (await chat.ask()).messages == [summary("notes")]
    assert shown(chat.provider) == list(range(12))


async def test_the_prior_summary_stays_beside_the_placeholder() -> None:
    chat = Chat(
        [sized(number, 1000) for number in range(20)],
        "own notes",
        RuntimeError("overloaded"),
        messages=[summary("inner notes")],
    )
    await chat.ask()
    chat.events += [sized(number, 1000) for number in range(20, 24)]
    unavailable = "[Earlier conversation with 4 messages — summary unavailable]"
    assert (await chat.ask()).messages == [summary(f"own notes\n\n{unavailable}")]
    fresh = Chat(chat.events, RuntimeError("overloaded"), messages=[summary("inner notes")])
    text = str((await fresh.ask()).messages[0].content)
    assert text.startswith(f"{HEADER}\ninner notes\n\n[Earlier conversation with ")


async def test_the_pieces_before_a_failure_count() -> None:
    chat = Chat(
        [sized(number, 1000) for number in range(20)],
        "first half",
        RuntimeError("overloaded"),
        "all of it",
        context_window=13_000,
    )
    text = str((await chat.ask()).messages[0].content)
    n_seen = len([number for number in range(12) if f"|{number}>" in prompts(chat.provider)[0]])
    assert 0 < n_seen < 12
    assert text == (
        f"{HEADER}\nfirst half\n\n[Earlier conversation with {12 - n_seen} messages — summary unavailable]"
    )
    assert (await chat.ask()).messages == [summary("all of it")]
    assert "first half" in prompts(chat.provider)[2]
    assert "<0|" not in prompts(chat.provider)[2]


def edited_in_place(events: list[RoomEvent]) -> list[RoomEvent]:
    """The third event says something else now."""
    return [*events[:3], replace(events[3], content=TextContent("changed")), *events[4:]]


def edited_by_event(events: list[RoomEvent]) -> list[RoomEvent]:
    """A later event says what the third says now."""
    return [*events, make_event("edit", EditContent("e3", TextContent("changed")))]


def deleted_by_event(events: list[RoomEvent]) -> list[RoomEvent]:
    return [*events, make_event("delete", DeleteContent("e3"))]


def deleted_in_place(events: list[RoomEvent]) -> list[RoomEvent]:
    return [*events[:3], *events[4:]]


@pytest.mark.parametrize(
    ("change", "says_changed"),
    [(edited_in_place, True), (edited_by_event, True), (deleted_by_event, False), (deleted_in_place, False)],
)
async def test_a_changed_event_is_not_served_from_a_stale_summary(
    change: Callable[[list[RoomEvent]], list[RoomEvent]], says_changed: bool
) -> None:
    """The summary is made again, without the old words and without the old summary."""
    chat = Chat([sized(number, 1000) for number in range(20)], "stale notes", "fresh notes")
    await chat.ask()
    chat.events = change(chat.events)
    result = await chat.ask()
    prompt = prompts(chat.provider)[1]
    assert result.messages == [summary("fresh notes")]
    assert "stale notes" not in prompt
    assert "<3|" not in prompt
    assert ("[user]: changed" in prompt) is says_changed
    assert "e3" not in ids(result)


async def test_only_the_summaries_after_the_change_are_made_again() -> None:
    """An edit of a recent event does not cost the whole conversation."""
    chat = Chat([sized(number, 1000) for number in range(20)], "first", "second", "third")
    await chat.ask()
    chat.events += [sized(number, 1000) for number in range(20, 24)]
    await chat.ask()
    chat.events[13] = replace(chat.events[13], content=TextContent("changed"))
    assert (await chat.ask()).messages == [summary("third")]
    prompt = prompts(chat.provider)[2]
    assert "first" in prompt
    assert "second" not in prompt
    assert "<0|" not in prompt


async def test_a_changed_prior_summary_is_not_ignored() -> None:
    chat = Chat([sized(number, 1000) for number in range(20)], messages=[summary("day one")])
    await chat.ask()
    chat.fixed.messages = [summary("day one, corrected")]
    await chat.ask()
    assert "day one, corrected" in prompts(chat.provider)[1]
    await chat.ask()
    assert len(chat.provider.calls) == 2


# --- concurrency -----------------------------------------------------------------------------------------


class Waiting(MockAIProvider):
    """A model that answers when it is let go."""

    def __init__(self, *responses: str) -> None:
        super().__init__(responses or ["notes"])
        self.let_go = asyncio.Event()
        self.asked = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def generate(self, context: AIContext) -> AIResponse:
        self.asked.set()
        response = await super().generate(context)
        try:
            await self.let_go.wait()
        finally:
            self.has_ended.set()
        return response


def waiting_chat(provider: Waiting | None = None) -> tuple[Chat, Waiting]:
    """A chat that is due for a summary, and its model."""
    chat, provider = Chat([sized(number, 1000) for number in range(20)]), provider or Waiting()
    chat.memory = SummarizingMemory(chat.fixed, provider, 10_000)
    return chat, provider


async def test_concurrent_retrieves_share_one_call() -> None:
    chat, provider = waiting_chat()
    tasks = [asyncio.create_task(chat.ask()) for _ in range(5)]
    await provider.asked.wait()
    provider.let_go.set()
    results = await asyncio.gather(*tasks)
    assert results == [MemoryResult([summary("notes")], chat.events[12:])] * 5
    assert len(provider.calls) == 1
    results[0].events.clear()
    assert len(results[1].events) == 8


class Deaf(Waiting):
    """A model that answers also when it is cancelled."""

    async def generate(self, context: AIContext) -> AIResponse:
        try:
            return await super().generate(context)
        except asyncio.CancelledError:
            return AIResponse("late")


async def test_a_cancelled_waiter_cancels_nobody_else_and_the_last_one_takes_the_call_along() -> None:
    chat, provider = waiting_chat(Deaf())
    first, second = (asyncio.create_task(chat.ask()) for _ in range(2))
    await provider.asked.wait()
    first.cancel()
    await asyncio.wait([first])
    assert not provider.has_ended.is_set()
    second.cancel()
    await asyncio.wait([second])
    await provider.has_ended.wait()
    provider.let_go.set()
    assert (await chat.ask()).messages == [summary("notes")], "and what comes late is not kept"


async def test_a_later_state_of_the_room_waits_for_the_call_under_way() -> None:
    chat, provider = waiting_chat()
    first = asyncio.create_task(chat.ask())
    await provider.asked.wait()
    chat.events.append(sized(20, 500))
    second = asyncio.create_task(chat.ask())
    provider.let_go.set()
    assert ids(await first) == named(*range(12, 20))
    assert ids(await second) == named(*range(12, 21))
    assert len(provider.calls) == 1


async def test_clearing_a_room_leaves_the_others() -> None:
    events = [sized(number, 1000) for number in range(20)]
    provider = MockAIProvider(["notes"])
    memory = SummarizingMemory(MockMemoryProvider(events=events), provider, 10_000)
    context = RoomContext(room=Room(id="r"), recent_events=events)
    for room_id in ("a", "b"):
        await memory.retrieve(room_id, NOW, context)
    await memory.clear("a")
    await memory.retrieve("b", NOW, context)
    assert len(provider.calls) == 2
    await memory.retrieve("a", NOW, context)
    assert len(provider.calls) == 3


async def test_a_summary_under_way_does_not_survive_a_clear() -> None:
    chat, provider = waiting_chat(Waiting("old", "new"))
    task = asyncio.create_task(chat.ask())
    await provider.asked.wait()
    await chat.memory.clear("r")
    provider.let_go.set()
    assert (await task).messages == [summary("old")]
    assert (await chat.ask()).messages == [summary("new")]


async def test_close_during_a_call() -> None:
    chat, provider = waiting_chat()
    task = asyncio.create_task(chat.ask())
    await provider.asked.wait()
    await chat.memory.close()
    unavailable = "[Earlier conversation with 12 messages — summary unavailable]"
    assert (await task).messages == [summary(unavailable)]


async def test_an_event_behind_the_inner_window_is_shown_until_a_summary_covers_it() -> None:
    """However few tokens have gathered there: nothing waits out of sight."""
    chat = Chat([], window=4, max_tokens=2_000)
    for number in range(60):
        chat.events.append(sized(number, 60))
        result = await chat.ask()
        seen = {*shown(chat.provider), *(int(name[1:]) for name in ids(result))}
        assert seen == set(range(number + 1))
        assert cost(result) <= 2_000
    assert chat.provider.calls
