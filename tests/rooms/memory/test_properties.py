"""Random rooms through all providers: nothing is lost silently, the budget holds, and twice is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.rooms import (
    AIContext,
    AIProvider,
    AIResponse,
    EventSource,
    KnowledgeResult,
    MockKnowledgeSource,
    Room,
    RoomContext,
    RoomEvent,
    TextContent,
)
from sidecar.rooms.memory import (
    MemoryProvider,
    MemoryResult,
    RetrievalMemory,
    SlidingWindowMemory,
    SummarizingMemory,
)
from sidecar.rooms.memory.estimate import event_tokens, message_tokens

MAX_TOKENS = 2000
SUMMARY_TOKENS = 100
SOURCES = (EventSource("ws", "websocket", participant_id="ann"), EventSource("ai", "ai"))


@dataclass(frozen=True)
class Conversation:
    """A random conversation and the settings of the memory that follows it.

    *sizes* are characters, one event a turn; *answers* says of each summariser call whether it succeeds;
    *edits* names for some turns the earlier event that is edited before it.
    """

    sizes: Sequence[int]
    window: int
    tail: int
    min_events: int
    context_window: int | None
    answers: Sequence[bool]
    edits: Sequence[int]
    knowledge: Sequence[str]


CONVERSATIONS = st.builds(
    Conversation,
    sizes=st.lists(st.one_of(st.integers(30, 400), st.integers(30, 9000)), min_size=1, max_size=30),
    window=st.integers(2, 20),
    tail=st.integers(20, 40),
    min_events=st.integers(0, 6),
    context_window=st.sampled_from([None, 1500, 20_000]),
    answers=st.lists(st.booleans(), max_size=6).map(lambda some: [*some, True]),
    edits=st.lists(st.integers(0, 60), max_size=4),
    knowledge=st.lists(st.text(max_size=300), max_size=3),
)


@dataclass
class Scribe(AIProvider):
    """A model that keeps what it was asked, fails when told to, and never forgets a fact."""

    answers: Sequence[bool]
    window: int | None
    prompts: list[str] = field(default_factory=list)

    @property
    def model_name(self) -> str:
        return "scribe"

    @property
    def context_window(self) -> int | None:
        return self.window

    async def generate(self, context: AIContext) -> AIResponse:
        self.prompts.append(str(context.messages[0].content))
        if not self.answers[min(len(self.prompts), len(self.answers)) - 1]:
            raise RuntimeError("overloaded")
        return AIResponse(f"note {len(self.prompts)}")


NOW = RoomEvent(id="now", room_id="r", source=SOURCES[0], content=TextContent("what is next?"))


def event(number: int, size: int, version: int = 0) -> RoomEvent:
    """Event *number*: its number and *version* at both ends of its body."""
    mark = f"{number}v{version}"
    body = f"<{mark}|" + "x " * (size // 2) + f"|{mark}>"
    return RoomEvent(id=f"e{number}", room_id="r", source=SOURCES[number % 2], content=TextContent(body))


def edited(events: list[RoomEvent], target: int, version: int) -> None:
    number = target % len(events)
    events[number] = replace(events[number], content=event(number, 60, version).content)


def marks(events: Sequence[RoomEvent]) -> dict[str, tuple[str, str]]:
    """For each event what its body begins and ends with."""
    bodies = {each.id: str(getattr(each.content, "body", "")) for each in events}
    return {name: (body[: body.index("|") + 1], body[body.rindex("|") :]) for name, body in bodies.items()}


async def follow(talk: Conversation, provider: Scribe) -> list[tuple[MemoryResult, list[RoomEvent]]]:
    """Retrieve at every turn, and return each result with the events before it, as they read then."""
    source = MockKnowledgeSource([KnowledgeResult(text, 0.5, "docs") for text in talk.knowledge])
    retrieval: MemoryProvider = RetrievalMemory([source], SlidingWindowMemory(talk.window), max_tokens=200)
    memory = SummarizingMemory(
        retrieval,
        provider,
        MAX_TOKENS,
        summary_max_tokens=SUMMARY_TOKENS,
        min_events=talk.min_events,
        clock=lambda: 0.0,
    )
    events: list[RoomEvent] = []
    turns = []
    for number, size in enumerate(talk.sizes):
        if number and number < len(talk.edits):
            edited(events, talk.edits[number], number)
        events.append(event(number, size))
        await memory.ingest("r", events[-1])
        context = RoomContext(room=Room(id="r"), recent_events=events[-talk.tail :])
        turns.append((await memory.retrieve("r", NOW, context), list(events)))
    await memory.close()
    return turns


@cases(60)
@given(CONVERSATIONS)
def test_nothing_is_lost_silently(talk: Conversation) -> None:
    """Once the room is full and the model answers, every event is in the view or was shown to it whole."""
    provider = Scribe(talk.answers, talk.context_window)
    filled = replace(talk, sizes=[*talk.sizes, *[5 * MAX_TOKENS] * (1 + len(talk.answers))])
    result, events = asyncio.run(follow(filled, provider))[-1]
    shown = "".join(provider.prompts)
    kept = {each.id for each in result.events}
    ends = marks(events)
    assert [name for name in ends if name not in kept and not all(end in shown for end in ends[name])] == []


@cases(60)
@given(CONVERSATIONS)
def test_the_budget_holds(talk: Conversation) -> None:
    """Every view fits beside its current event, and holds the newest events without a gap."""
    for result, events in asyncio.run(follow(talk, Scribe(talk.answers, talk.context_window))):
        cost = sum(map(message_tokens, result.messages)) + sum(map(event_tokens, result.events))
        assert cost + event_tokens(NOW) <= MAX_TOKENS
        newest = events[len(events) - len(result.events) :]
        assert [each.id for each in result.events] == [each.id for each in newest]
        assert result.events
