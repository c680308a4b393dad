"""A session as a room: its turns as room events, and room events back as turns.

The memory providers of ``sidecar.rooms`` choose among events, while a model is sent turns. One event is a
prompt, or an answer together with the results of its tool calls::

    turns    user   assistant(call 1, call 2)   tool(result 1, result 2)   assistant(text)   user
    events   0      1 ........................................................ 3              4

The id of an event is the index of its first turn. The invariant: a result is in the event of its call, so a
cut between two events never separates them. A memory may also shorten an event; then the longest texts of its
turns are cut to the same size, once, so that the same event is always sent as the same turns. A new turn
costs the size of its event; the events before it are not looked at again.

Nothing here decides which events are sent. The settings of both engines of the rooms are read here too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from sidecar._internal.values import Value
from sidecar.conductor.engine import CompactionRequest, EngineInput, SessionEngine
from sidecar.conversation import Entry, Index
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
    join_texts,
)
from sidecar.rooms import (
    ChannelBinding,
    ChannelDirection,
    ChannelType,
    CompositeContent,
    EventContent,
    EventSource,
    MediaContent,
    Participant,
    Room,
    RoomContext,
    RoomEvent,
    SystemContent,
    TextContent,
    ToolCallContent,
)
from sidecar.rooms.memory.budget import MemoryLimits, fit_items, truncate_text
from sidecar.rooms.memory.estimate import CHARS_PER_TOKEN, IMAGE_TOKENS, event_tokens
from sidecar.text.clip import fair_cap, text_or_json

CLIENTS: Final = "clients"
"""The channel of prompts."""

MODEL: Final = "model"
"""The channel of answers."""

USER: Final = "user"
"""The participant for a prompt whose author is not known, such as one of an earlier process."""

HOST: Final = "host"
"""The participant for notes of the host, so that no summary takes them for the words of a user."""

_ENTRIES: Final = "entries"
_ROOM: Final = "session"
_CUT_ATTEMPTS: Final = 6
_MODEL_SOURCE: Final = EventSource(MODEL, ChannelType.AI, ChannelDirection.OUTBOUND)


_DEFAULTS: Final = MemoryLimits(1)
_LEAST_SHARE: Final = 10
"""One in so many parts of the window is the conversation's, however large the rest of a request is."""

_ANSWER_SHARE: Final = 4
_SUMMARY_SHARE: Final = 4


class SessionRoom:
    """One conversation as the events of a room: the state of an index, which adds each new entry.

    Attributes:
        events: the events, oldest first.
        starts: the index of the first turn of each event.
        before: the tokens before each event by the rooms' own meter, and at the end the total; one longer
            than *events*.
        prompts: the indices of the prompts' events.
        n_turns: the number of turns behind the events.
    """

    def __init__(self) -> None:
        self.events: list[RoomEvent] = []
        self.starts: list[int] = []
        self.before: list[int] = [0]
        self.prompts: list[int] = []
        self.n_turns = 0
        self._n_front = 0
        self._first: Entry | None = None
        self._shortened: dict[int, tuple[EventContent, tuple[Turn, ...]]] = {}

    def copy(self) -> SessionRoom:
        """Return the same room, which goes on by itself."""
        copy = SessionRoom()
        copy.events, copy.starts, copy.before = [*self.events], [*self.starts], [*self.before]
        copy.prompts, copy.n_turns, copy._shortened = [*self.prompts], self.n_turns, {**self._shortened}
        copy._n_front, copy._first = self._n_front, self._first
        return copy

    @property
    def prompt(self) -> int | None:
        """The index of the newest prompt's event, None when there is none."""
        return self.prompts[-1] if self.prompts else None

    def at_turn(self, turn_index: int) -> int:
        """Return the index of the first event that begins at turn *turn_index* or after it."""
        return bisect_left(self.starts, turn_index)

    def turn_of(self, event_index: int) -> int:
        """Return the index of an event's first turn, or the number of turns behind the last event."""
        return self.starts[event_index] if event_index < len(self.starts) else self.n_turns

    def front(self) -> int:
        """Return the index of the first event behind the summary and the files at the beginning."""
        return self.at_turn(self._n_front)

    def summary(self) -> str | None:
        """Return the text of the summary at the beginning, None for none."""
        if self._first is None or self._first.kind != "summary":
            return None
        return join_texts(self._first.turn.blocks)

    def context(self, recent: Sequence[RoomEvent], participants: tuple[Participant, ...]) -> RoomContext:
        """Return the context of a memory provider; *recent* is the tail of the events."""
        bindings = (ChannelBinding(CLIENTS, ChannelType.WEBSOCKET), ChannelBinding(MODEL, ChannelType.AI))
        return RoomContext(Room(_ROOM), bindings, participants, recent)

    def turns_to_send(self, event: RoomEvent) -> tuple[Turn, ...]:
        """Return the turns to send for *event*, one of these events or a shortened copy of one.

        A shortened event is turned into the same turns every time.
        """
        original = self.events[self.at_turn(event.index)]
        if event.content is original.content:
            return turns_of(original)
        known = self._shortened.get(event.index)
        if known is None or known[0] != event.content:

            def weigh(turns: Sequence[Turn]) -> int:
                return event_tokens(replace(original, content=_content_of(turns)))

            short = shorten_turns(turns_of(original), weigh, event_tokens(event))
            known = self._shortened[event.index] = (event.content, short)
        return known[1]

    def tokens(self, start: int, stop: int | None = None) -> int:
        """Return the tokens of the events from *start* to *stop*, or to the end for None."""
        return self.before[-1 if stop is None else stop] - self.before[start]

    def tokens_to_send(self, event: RoomEvent) -> int:
        """Return the tokens of the turns to send for *event*."""
        if event.content is self.events[self.at_turn(event.index)].content:
            return event_tokens(event)
        return event_tokens(replace(event, content=_content_of(self.turns_to_send(event))))

    def share_of_newest(self, tokens: int) -> int:
        """Return the most that one event may take, so that the newest prompt and another fit in *tokens*."""
        newest = [at for at in range(self.front(), len(self.events)) if at != self.prompt][-1:]
        asked = [] if self.prompt is None else [self.prompt]
        costs = [self.tokens(at, at + 1) for at in asked + newest]
        half = max(1, tokens // 2)
        return max(half, *costs) if costs and sum(costs) <= tokens else half

    def add(self, entry: Entry, in_view: bool = True) -> SessionRoom:
        """Add one entry of the conversation."""
        self._first = self._first or entry
        if self._n_front == self.n_turns and entry.kind in ("summary", "file"):
            self._n_front += 1
        unit: tuple[Entry, ...] = (entry,)
        if self.events and joins(entry.turn, turns_of(self.events[-1])):
            unit = (*_entries_of(self.events.pop()), entry)
            self.before.pop()
        else:
            self.starts.append(self.n_turns)
        self.n_turns += 1
        if entry.kind == "user":
            self.prompts.append(len(self.events))
        source, start = _MODEL_SOURCE, self.starts[-1]
        if isinstance(unit[0].turn, UserTurn):
            author = unit[0].author or (HOST if unit[0].kind == "note" else USER)
            source = EventSource(CLIENTS, ChannelType.WEBSOCKET, participant_id=author)
        event = RoomEvent(
            id=str(start),
            room_id=_ROOM,
            source=source,
            content=_content_of([each.turn for each in unit]),
            index=start,
            channel_data={_ENTRIES: unit},
        )
        self.events.append(event)
        self.before.append(self.before[-1] + event_tokens(event))
        return self


class RoomCut(Value):
    """The events that stay of a room: those from *start* on, and the newest prompt where that is before it.

    One of more than *item_tokens* is shortened.
    """

    room: SessionRoom
    start: int
    item_tokens: int

    @property
    def cut(self) -> int:
        """The index of the first entry kept."""
        return self.room.turn_of(self.start)

    @property
    def pinned(self) -> tuple[int, ...]:
        """The turn of the newest prompt where it stays in front of the cut."""
        prompt = self.room.prompt
        return (self.room.turn_of(prompt),) if prompt is not None and prompt < self.start else ()

    @property
    def events(self) -> list[RoomEvent]:
        """The events that stay, as they are kept, oldest first."""
        events = self.room.events
        stay = (*(events[self.room.at_turn(turn)] for turn in self.pinned), *events[self.start :])
        return [fit_event(event, self.item_tokens) for event in stay]

    @property
    def tokens(self) -> int:
        """Their tokens, as they are sent: a shortened one may take less than it was given."""
        return sum(map(self.room.tokens_to_send, self.events))

    def turns(self) -> list[Turn]:
        """Return their turns."""
        return [turn for event in self.events for turn in self.room.turns_to_send(event)]


class RoomEngine(SessionEngine):
    """An engine that sees its session as a room."""

    def __init__(self) -> None:
        self.index: Index[SessionRoom] = Index(SessionRoom, SessionRoom.add)

    def apart(self) -> Self:
        """Return a copy, for a thread: a plan looks at every event."""
        copy = type(self)()
        copy.index = self.index.apart(SessionRoom.copy)
        return copy

    def weigh(self, entries: Sequence[Entry]) -> int:
        """Return the tokens of *entries*."""
        room = SessionRoom()
        for entry in entries:
            room.add(entry)
        return room.tokens(0)


def turns_of(event: RoomEvent) -> tuple[Turn, ...]:
    """Return the turns behind an event of a :class:`SessionRoom`."""
    return tuple(entry.turn for entry in _entries_of(event))


def _entries_of(event: RoomEvent) -> tuple[Entry, ...]:
    entries: tuple[Entry, ...] = event.channel_data[_ENTRIES]
    return entries


def joins(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether *turn* belongs to the event of *unit*: it holds results, or more of an unfinished answer."""
    if not isinstance(unit[0], AssistantTurn) or isinstance(turn, UserTurn):
        return False
    return isinstance(turn, ToolTurn) or bool(_calls(unit) - set(_results(unit)))


def _calls(unit: Sequence[Turn]) -> set[str]:
    return {block.id for turn in unit for block in turn.blocks if isinstance(block, ToolCallBlock)}


def _results(unit: Sequence[Turn]) -> dict[str, ToolResultBlock]:
    blocks = (block for turn in unit for block in turn.blocks)
    return {block.call_id: block for block in blocks if isinstance(block, ToolResultBlock)}


def _content_of(unit: Sequence[Turn]) -> EventContent:
    """Return the content of an event with the turns *unit*, each result together with its call."""
    results, called = _results(unit), _calls(unit)
    parts: list[EventContent] = []
    for turn in unit:
        for block in turn.blocks:
            if not isinstance(block, ToolResultBlock) or block.call_id not in called:
                parts.extend(_content(block, results))
    return parts[0] if len(parts) == 1 else CompositeContent(tuple(parts) or (TextContent(""),))


def _content(block: Block, results: Mapping[str, ToolResultBlock]) -> Iterator[EventContent]:
    match block:
        case TextBlock(text=text):
            yield TextContent(text)
        case ThinkingBlock(text=text):
            yield SystemContent(text, code="thinking")
        case ImageBlock(media_type=media_type, data_base64=data):
            # The length of the payload is such that the rooms' meter counts the price of an image.
            yield MediaContent(
                f"data:{media_type};base64,{data[: IMAGE_TOKENS * CHARS_PER_TOKEN]}", media_type
            )
        case ToolCallBlock(id=call_id, name=name, input=arguments):
            yield _tool(name, call_id, arguments, results.get(call_id))
        case ToolResultBlock(call_id=call_id):
            yield _tool("", call_id, {}, block)


def _tool(name: str, call_id: str, arguments: Any, result: ToolResultBlock | None) -> ToolCallContent:
    given = arguments if isinstance(arguments, Mapping) else {"input": arguments}
    if result is None:
        return ToolCallContent(name, call_id, given)
    if result.is_error:
        return ToolCallContent(name, call_id, given, status="failed", error=str(result.output))
    return ToolCallContent(name, call_id, given, result.output, "completed")


def shorten_turns(
    turns: Sequence[Turn], weigh: Callable[[Sequence[Turn]], int], max_tokens: int
) -> tuple[Turn, ...]:
    """Return *turns* with their longest texts cut, visibly, until *weigh* counts at most *max_tokens*.

    Text, unsigned thinking, tool results and the string arguments of calls are cut. Images and signed
    thinking are not, so turns that consist of those may stay too large. Every call keeps its result.

    >>> from sidecar.llmgateway.contract import UserTurn
    >>> turns = (UserTurn((TextBlock("x" * 90), TextBlock("short"))),)
    >>> short = shorten_turns(turns, lambda turns: sum(len(b.text) // 4 for t in turns for b in t.blocks), 15)
    >>> [block.text for block in short[0].blocks]
    ['xxxxxxxxxxxxxxxxxxxxxxxx\\n[... truncated from 90 chars ...]', 'short']
    """
    sizes = [len(text) for turn in turns for block in turn.blocks for text in cuttable_texts(block)]
    shorter, budget = tuple(turns), sum(sizes)
    for _ in range(_CUT_ATTEMPTS):
        excess = weigh(shorter) - max_tokens
        if excess <= 0 or budget <= 0:
            break
        budget -= excess * CHARS_PER_TOKEN
        cap = fair_cap(sizes, max(0, budget))
        shorter = tuple(
            replace(turn, blocks=tuple(cut_block(block, cap) for block in turn.blocks)) for turn in turns
        )
    return shorter


def cuttable_texts(block: Block) -> Iterator[str]:
    """Yield the texts of *block* that :func:`cut_block` may cut."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text, signature=None):
            yield text
        case ToolResultBlock(output=output):
            yield text_or_json(output)
        case ToolCallBlock(input=Mapping() as arguments):
            yield from (value for value in arguments.values() if isinstance(value, str))


def cut_block(block: Block, cap: int) -> Block:
    """Return *block* with each of its texts cut to *cap* characters."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text, signature=None):
            return replace(block, text=_cut_text(text, cap))
        case ToolResultBlock(output=output) if len(text_or_json(output)) > cap:
            return replace(block, output=_cut_text(text_or_json(output), cap))
        case ToolCallBlock(input=Mapping() as arguments):
            cut = {name: _cut_text(text, cap) for name, text in arguments.items() if isinstance(text, str)}
            return replace(block, input={**arguments, **cut})
    return block


def _cut_text(text: str, cap: int) -> str:
    """Return *text* cut to *cap* characters, or *text* itself where the cut one with its marker is longer."""
    return min(text, truncate_text(text, cap), key=len)


def read_setting(policy: Mapping[str, float], name: str, default: float, *, least: float) -> float:
    """Return the value of *name* in *policy*, never below *least*.

    >>> read_setting({"maxEvents": 0}, "maxEvents", 50, least=2), read_setting({}, "maxEvents", 50, least=2)
    (2, 50)
    """
    return max(least, policy.get(name, default))


def limits_of(given: EngineInput, request: CompactionRequest) -> MemoryLimits | None:
    """Return the part of the window for the conversation, None where no window is known.

    The overhead and room for the answer are taken off. The policy names ``reserveTokens``, ``tier2Ratio`` (or
    ``triggerRatio``), ``summaryMaxTokens`` and ``minEvents``.
    The kept events are stored, so they are not truncated.
    """
    if given.card is None or given.card.context_window <= 0:
        return None
    window, policy = given.card.context_window, request.policy
    answer = min(given.card.max_output_tokens, window // _ANSWER_SHARE)
    reserve = read_setting(policy, "reserveTokens", answer, least=0)
    room = max(int(window - reserve - given.overhead_tokens), window // _LEAST_SHARE, 1)
    trigger = policy.get("triggerRatio", _DEFAULTS.tier2_ratio)
    summary = read_setting(policy, "summaryMaxTokens", _DEFAULTS.summary_max_tokens, least=1)
    return MemoryLimits(
        room,
        tier1_ratio=1.0,
        tier2_ratio=min(1.0, read_setting(policy, "tier2Ratio", trigger, least=0)),
        summary_max_tokens=max(1, min(int(summary), room // _SUMMARY_SHARE)),
        min_events=int(read_setting(policy, "minEvents", _DEFAULTS.min_events, least=0)),
    )


def fit_event(event: RoomEvent, max_tokens: int) -> RoomEvent:
    """Return *event*, or its beginning with a marker where it alone takes more than *max_tokens*."""
    return fit_items([], [event], max_tokens)[1][0]
