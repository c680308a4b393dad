"""A session as a room: its conversation as events, each naming its source, and back to turns.

An event is what is said at once: a prompt; an answer together with the results of the tools it called. So no
cut between two events tears a result from its call. Pure; nothing is left out here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from sidecar.conductor.branching import node_kind
from sidecar.conductor.shortening import shortened
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
from sidecar.rooms.memory.estimate import CHARS_PER_TOKEN, IMAGE_TOKENS, event_tokens

__all__ = ["ALONE", "CLIENTS", "MODEL", "USER", "Participants", "SessionRoom", "turns_of"]

CLIENTS: Final = "clients"
"""The channel on which prompts come in."""

MODEL: Final = "model"
"""The channel on which the model speaks."""

USER: Final = "user"
"""The participant of a prompt that nobody can be named for, such as one of an earlier process."""

_TURNS: Final = "turns"
_MODEL_SOURCE: Final = EventSource(MODEL, ChannelType.AI, ChannelDirection.OUTBOUND)


def _somebody(turn: Turn) -> str:
    return USER


@dataclass(frozen=True, slots=True)
class Participants:
    """Who takes part in session *sid*: the clients attached, and who of them wrote a prompt."""

    sid: str = ""
    members: tuple[Participant, ...] = ()
    author_of: Callable[[Turn], str] = field(default=_somebody, compare=False)


ALONE: Final = Participants()


class SessionRoom:
    """One conversation as the events of a room. Pass it the same list while the conversation only grows.

    Attributes:
        events: oldest first; an event's id is the index of its first turn.
        starts: the index of the first turn of each event.
        before: the tokens before each event by the rooms' own meter, and behind them the total.
        prompt: the index of the newest prompt's event, None when there is none.
        n_turns: the turns that the events were made of.
    """

    def __init__(self) -> None:
        self._participants = ALONE
        self._turns: Sequence[Turn] = ()
        self.n_turns = 0
        self._begin()

    def sync(self, turns: Sequence[Turn], participants: Participants = ALONE) -> None:
        """Take in what is new in *turns*; another list is another conversation."""
        self._participants = participants
        if turns is not self._turns or len(turns) < self.n_turns:
            self._turns, self.n_turns = turns, 0
            self._begin()
        for index in range(self.n_turns, len(turns)):
            self._add(index, turns[index])
        self.n_turns = len(turns)

    def at_turn(self, turn_index: int) -> int:
        """Return the index of the first event that begins at turn *turn_index* or after it."""
        return bisect_left(self.starts, turn_index)

    def turn_of(self, event_index: int) -> int:
        """Return the index of the first turn of an event; behind the last event the number of turns."""
        return self.starts[event_index] if event_index < len(self.starts) else self.n_turns

    def context(self, recent: Sequence[RoomEvent]) -> RoomContext:
        """Return the room as a memory provider is shown it, *recent* being the tail of its events."""
        bindings = (ChannelBinding(CLIENTS, ChannelType.WEBSOCKET), ChannelBinding(MODEL, ChannelType.AI))
        return RoomContext(Room(self._participants.sid), bindings, self._participants.members, recent)

    def shown(self, event: RoomEvent) -> tuple[Turn, ...]:
        """Return the turns to send for *event*: one of these events, or what a memory has shortened it to.

        Shortened turns are made once, so that the same event is sent as the same turns.
        """
        original = self.events[self.at_turn(event.index)]
        if event.content is original.content:
            return turns_of(original)
        known = self._shown.get(event.index)
        if known is None or known[0] != event.content:
            weigh = partial(_weigh, original)
            short = shortened(turns_of(original), weigh, event_tokens(event))
            known = self._shown[event.index] = (event.content, short)
        return known[1]

    def tokens(self, start: int, stop: int | None = None) -> int:
        """Return the tokens of the events from *start* to *stop*, to the end for None."""
        return self.before[-1 if stop is None else stop] - self.before[start]

    def _begin(self) -> None:
        self.events: list[RoomEvent] = []
        self.starts: list[int] = []
        self.before: list[int] = [0]
        self.prompt: int | None = None
        self._shown: dict[int, tuple[EventContent, tuple[Turn, ...]]] = {}

    def _add(self, index: int, turn: Turn) -> None:
        unit: tuple[Turn, ...] = (turn,)
        if self.events and _joins(turn, turns_of(self.events[-1])):
            unit = (*turns_of(self.events.pop()), turn)
            self.before.pop()
        else:
            self.starts.append(index)
        if node_kind(turn) == "user":
            self.prompt = len(self.events)
        event = self._event(self.starts[-1], unit)
        self.events.append(event)
        self.before.append(self.before[-1] + event_tokens(event))

    def _event(self, start: int, unit: tuple[Turn, ...]) -> RoomEvent:
        source = _MODEL_SOURCE
        if isinstance(unit[0], UserTurn):
            author = self._participants.author_of(unit[0])
            source = EventSource(CLIENTS, ChannelType.WEBSOCKET, participant_id=author)
        return RoomEvent(
            id=str(start),
            room_id=self._participants.sid,
            source=source,
            content=_content_of(unit),
            index=start,
            channel_data={_TURNS: unit},
        )


def turns_of(event: RoomEvent) -> tuple[Turn, ...]:
    """Return the turns that an event of a :class:`SessionRoom` was made of."""
    turns: tuple[Turn, ...] = event.channel_data[_TURNS]
    return turns


def _weigh(event: RoomEvent, turns: Sequence[Turn]) -> int:
    return event_tokens(replace(event, content=_content_of(turns)))


def _joins(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether *turn* goes on with what *unit* began: results, or another part of an answer before them."""
    if not isinstance(unit[0], AssistantTurn) or isinstance(turn, UserTurn):
        return False
    return isinstance(turn, ToolTurn) or bool(_calls(unit) - set(_results(unit)))


def _calls(unit: Sequence[Turn]) -> set[str]:
    return {block.id for turn in unit for block in turn.blocks if isinstance(block, ToolCallBlock)}


def _results(unit: Sequence[Turn]) -> dict[str, ToolResultBlock]:
    blocks = (block for turn in unit for block in turn.blocks)
    return {block.call_id: block for block in blocks if isinstance(block, ToolResultBlock)}


def _content_of(unit: Sequence[Turn]) -> EventContent:
    parts = tuple(_parts(unit))
    return parts[0] if len(parts) == 1 else CompositeContent(parts or (TextContent(""),))


def _parts(unit: Sequence[Turn]) -> Iterator[EventContent]:
    """Yield what *unit* says; each result stands with its call."""
    results = _results(unit)
    called = _calls(unit)
    for turn in unit:
        for block in turn.blocks:
            if not isinstance(block, ToolResultBlock) or block.call_id not in called:
                yield from _content(block, results)


def _content(block: Block, results: Mapping[str, ToolResultBlock]) -> Iterator[EventContent]:
    match block:
        case TextBlock(text=text):
            yield TextContent(text)
        case ThinkingBlock(text=text):
            yield SystemContent(text, code="thinking")
        case ImageBlock(media_type=media_type, data_base64=data):
            # As much of the payload as makes the rooms' meter count what an image costs.
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
