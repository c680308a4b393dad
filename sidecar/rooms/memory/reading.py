"""Sorting out what one retrieve knows: what may be sent as it is, and what a summary must take in first.

Pure functions from the inner provider's result, the room and the chain of summaries to a :class:`Reading`,
and from that to the view. They ask no model and keep nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.rooms.ai import AIMessage
from sidecar.rooms.content import DeleteContent, EditContent
from sidecar.rooms.events import RoomEvent
from sidecar.rooms.memory.budget import Limits, Load, fit_items, plan_cut, truncate_older
from sidecar.rooms.memory.chain import Chain, carried, reconciled, refreshed
from sidecar.rooms.memory.estimate import event_tokens, message_tokens
from sidecar.rooms.memory.marks import summary_body, summary_message, summary_text
from sidecar.rooms.memory.prompt import Line, event_line, speaker_names
from sidecar.rooms.memory.provider import MemoryResult
from sidecar.rooms.room import RoomContext

__all__ = ["Known", "Reading", "read", "remembered", "view_after", "view_as_is"]

DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Known:
    """Every event one retrieve has seen, by id, as it reads now: edits applied.

    *marks* are content fingerprints, :data:`DELETED` for what was taken back; *speakers* are the names
    needed.
    """

    events: Mapping[str, RoomEvent]
    marks: Mapping[str, str]
    speakers: Mapping[str, str]

    def line(self, event: RoomEvent) -> Line:
        """Return the summariser's line for *event*: the whole of it, whatever the view has truncated."""
        whole = self.events[event.id]
        return event_line(whole, whole.content, self.speakers.get(event.id))


@dataclass(frozen=True, slots=True)
class Reading:
    """One retrieve, sorted out.

    Attributes:
        chain: the conversation's summaries, as far as they still hold.
        injected: the inner provider's messages that are not summaries.
        priors: the texts of those that are, and that the chain has not taken in.
        shown: the inner provider's messages without what the chain has taken in, in their order.
        window: the inner provider's events that no summary covers, truncated as tier 1 says, oldest first.
        backlog: events that no summary covers and the inner provider did not return, oldest first.
        known: the whole events behind all of these.
        room_tokens: what the view may cost.
        cut: how many of *window*, beside all of *backlog*, a summary must take in now; None for no summary.
    """

    chain: Chain
    injected: tuple[AIMessage, ...]
    priors: tuple[str, ...]
    shown: tuple[AIMessage, ...]
    window: tuple[RoomEvent, ...]
    backlog: tuple[RoomEvent, ...]
    known: Known
    room_tokens: int
    cut: int | None

    @property
    def material(self) -> tuple[RoomEvent, ...]:
        """The events that a summary must take in now."""
        return () if self.cut is None else (*self.backlog, *self.window[: self.cut])

    @property
    def standing(self) -> tuple[str, ...]:
        """The summaries there are, oldest first: the inner provider's, then our own."""
        return self.priors if self.chain.text is None else (*self.priors, self.chain.text)

    @property
    def key(self) -> str:
        """A fingerprint of everything that goes into the summary (fact K8, failure B-K4)."""
        events = (f"{event.id}={self.known.marks[event.id]}" for event in self.material)
        return _digest("\0".join((*self.standing, "", *events)))


def read(
    inner: MemoryResult,
    context: RoomContext,
    current: RoomEvent,
    chain: Chain,
    *,
    limits: Limits,
    is_fresh: Callable[[float], bool],
) -> Reading:
    """Sort out one retrieve. *is_fresh* says whether a summary made at a moment may still be used.

    >>> from sidecar.rooms import EventSource, Room, TextContent
    >>> said = RoomEvent(room_id="r", source=EventSource("c", "sms"), content=TextContent("hi"))
    >>> inner, room = MemoryResult(events=[said]), RoomContext(Room("r"))
    >>> reading = read(inner, room, said, Chain(), limits=Limits(1000), is_fresh=lambda made_at: True)
    >>> reading.cut is None, view_as_is(reading) == inner
    (True, True)
    """
    known = _know(inner, context, current, chain)
    in_sight = {event.id for event in (*inner.events, *context.recent_events)}
    priors = [text for message in inner.messages if (text := summary_text(message)) is not None]
    usable = _still_good(chain, {each: known.marks[each] for each in in_sight}, priors, is_fresh)
    left = () if priors else _left_behind(context.recent_events, inner.events, current.id)
    backlog = _sifted((*carried(chain.uncovered, in_sight), *left), known, usable.covered)
    window = _sifted(_first_tier(inner, limits), known, usable.covered)
    shown = [message for message in inner.messages if summary_text(message) not in usable.absorbed]
    room_tokens = limits.room_beside(0 if _holds(inner.events, current) else event_tokens(current))
    reading = Reading(
        chain=usable,
        injected=tuple(message for message in shown if summary_text(message) is None),
        priors=tuple(text for text in priors if text not in usable.absorbed),
        shown=tuple(shown),
        window=window,
        backlog=backlog,
        known=known,
        room_tokens=room_tokens,
        cut=None,
    )
    return replace(reading, cut=plan_cut(_load(reading), limits))


def view_as_is(reading: Reading) -> MemoryResult:
    """Return the view for which no new summary is needed."""
    own = reading.chain.text
    messages = reading.shown if own is None else (*reading.shown, summary_message(own))
    return MemoryResult(*fit_items(messages, reading.window, reading.room_tokens))


def view_after(reading: Reading, summary: str) -> MemoryResult:
    """Return the view in which *summary* stands for the reading's material."""
    messages = (*reading.injected, summary_message(summary))
    return MemoryResult(*fit_items(messages, reading.window[reading.cut :], reading.room_tokens))


def remembered(reading: Reading) -> Chain:
    """Return the reading's chain, knowing the events that are in no summary yet."""
    events = (*reading.backlog, *reading.window)
    return replace(reading.chain, uncovered=tuple(reading.known.events[event.id] for event in events))


def _know(inner: MemoryResult, context: RoomContext, current: RoomEvent, chain: Chain) -> Known:
    """Gather every event, edits applied; where one was given twice, the room's own copy is the whole one."""
    gathered = (*chain.uncovered, *inner.events, *context.recent_events, current)
    events = {event.id: event for event in gathered}
    marks = {event.id: _digest(repr(event.content)) for event in events.values()}
    for edit in (event.content for event in gathered if isinstance(event.content, EditContent)):
        if edit.target_event_id in events:
            target = events[edit.target_event_id]
            events[target.id] = replace(target, content=edit.new_content)
            marks[target.id] = _digest(repr(edit.new_content))
    marks |= {e.content.target_event_id: DELETED for e in gathered if isinstance(e.content, DeleteContent)}
    return Known(events, marks, speaker_names(events.values(), context.participants))


def _still_good(
    chain: Chain, in_sight: Mapping[str, str], priors: Sequence[str], is_fresh: Callable[[float], bool]
) -> Chain:
    sound = reconciled(chain, in_sight)
    if sound.absorbed.issuperset(priors) and is_fresh(sound.folded_at):
        return sound
    return refreshed(sound, in_sight)


def _left_behind(
    recent: Sequence[RoomEvent], window: Sequence[RoomEvent], current_id: str
) -> list[RoomEvent]:
    """Return the events of the room that are older than the inner provider's window (failure B-K9).

    Nothing is known to be left behind by an inner provider that returns no events, or none of the room's.
    """
    older: list[RoomEvent] = []
    for event in recent:
        if window and event.id == window[0].id:
            return older
        if event.id != current_id:
            older.append(event)
    return []


def _first_tier(inner: MemoryResult, limits: Limits) -> Sequence[RoomEvent]:
    """Return the inner provider's events, truncated where they are too many tokens (fact K4)."""
    total = sum(map(message_tokens, inner.messages)) + sum(map(event_tokens, inner.events))
    if total > limits.tier1_tokens and len(inner.events) > 1:
        return truncate_older(inner.events, limits.truncate_chars)
    return inner.events


def _sifted(events: Iterable[RoomEvent], known: Known, covered: frozenset[str]) -> tuple[RoomEvent, ...]:
    """Return *events* once each, without those that a summary covers or that were taken back."""
    once = {event.id: event for event in events}
    return tuple(e for e in once.values() if e.id not in covered and known.marks[e.id] != DELETED)


def _load(reading: Reading) -> Load:
    return Load(
        injected=sum(map(message_tokens, reading.injected)),
        summaries=sum(message_tokens(summary_message(summary_body(text))) for text in reading.standing),
        backlog=sum(map(event_tokens, reading.backlog)),
        window=tuple(map(event_tokens, reading.window)),
        room=reading.room_tokens,
        folded=reading.chain.text is not None,
    )


def _holds(events: Sequence[RoomEvent], event: RoomEvent) -> bool:
    return any(each.id == event.id for each in events)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
