"""The plan of one retrieve: the events to send as they are, and the events that need a summary first.

Pure functions from the inner provider's result, the room and the chain of summaries to a
:class:`RetrievePlan`, and from that to the view. They call no model and keep nothing.

Every event of the room is in exactly one place: covered by the chain, in the window, in the backlog, deleted,
or not seen by the inner provider on purpose. The plan's cut moves events from window and backlog into a
summary; no event leaves by any other way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sidecar._internal.values import Value
from sidecar.rooms.ai import AIMessage
from sidecar.rooms.events import DeleteContent, EditContent, RoomContext, RoomEvent
from sidecar.rooms.memory.budget import MemoryLimits, MemoryLoad, fit_items, plan_cut, truncate_older
from sidecar.rooms.memory.estimate import event_tokens, message_tokens, write_out
from sidecar.rooms.memory.prompt import PromptLine, event_line, speaker_names
from sidecar.rooms.memory.provider import MemoryResult
from sidecar.rooms.memory.summaries import (
    SummaryChain,
    drop_renewable_links,
    drop_stale_links,
    find_slid_events,
    summary_body,
    summary_message,
    summary_text,
)

DELETED = "deleted"


class KnownEvents(Value):
    """Every event one retrieve has seen, by id, as it reads now: edits applied.

    *fingerprints* identify contents, :data:`DELETED` marks deleted events; *speakers* are the names needed.
    """

    events: Mapping[str, RoomEvent]
    fingerprints: Mapping[str, str]
    speakers: Mapping[str, str]

    def line(self, event: RoomEvent) -> PromptLine:
        """Return the summariser's line for *event*: the whole of it, even where the view truncates it."""
        whole = self.events[event.id]
        return event_line(whole, whole.content, self.speakers.get(event.id))


class RetrievePlan(Value, kw_only=True):
    """The plan of one retrieve.

    Attributes:
        chain: the conversation's summaries, as far as they still hold.
        injected: the inner provider's messages that are not summaries.
        priors: texts of its summaries that the chain has not absorbed.
        shown: its messages without the absorbed summaries, in their order.
        window: its events that no summary covers, truncated by tier 1, oldest first.
        backlog: events that no summary covers and the inner provider did not return, oldest first.
        known: the whole events behind all of these.
        room_tokens: the most that the view may cost.
        cut: how many of *window*, beside all of *backlog*, a summary must cover now; None for no summary.
    """

    chain: SummaryChain
    injected: tuple[AIMessage, ...]
    priors: tuple[str, ...]
    shown: tuple[AIMessage, ...]
    window: tuple[RoomEvent, ...]
    backlog: tuple[RoomEvent, ...]
    known: KnownEvents
    room_tokens: int
    cut: int | None

    @property
    def to_summarize(self) -> tuple[RoomEvent, ...]:
        """The events that a summary must cover now."""
        return () if self.cut is None else (*self.backlog, *self.window[: self.cut])

    @property
    def summaries(self) -> tuple[str, ...]:
        """The summaries there are, oldest first: the inner provider's, then our own."""
        return self.priors if self.chain.text is None else (*self.priors, self.chain.text)

    @property
    def load(self) -> MemoryLoad:
        """The sizes of all these, in tokens."""
        return MemoryLoad(
            room=self.room_tokens,
            injected=sum(map(message_tokens, self.injected)),
            summaries=sum(message_tokens(summary_message(summary_body(text))) for text in self.summaries),
            backlog=sum(map(event_tokens, self.backlog)),
            window=tuple(map(event_tokens, self.window)),
            folded=self.chain.text is not None,
        )

    @property
    def key(self) -> str:
        """A fingerprint of everything that goes into the summary: summaries, event ids and contents."""
        events = (f"{event.id}={self.known.fingerprints[event.id]}" for event in self.to_summarize)
        return _fingerprint("\0".join((*self.summaries, "", *events)))


def plan_retrieve(
    inner: MemoryResult,
    context: RoomContext,
    current: RoomEvent,
    chain: SummaryChain,
    *,
    limits: MemoryLimits,
    is_fresh: Callable[[float], bool],
) -> RetrievePlan:
    """Plan one retrieve.

    Args:
        inner: the result of the inner provider.
        context: the room as the channel sees it.
        current: the event to be answered.
        chain: the conversation's summaries so far.
        limits: the settings of the memory.
        is_fresh: returns whether a summary made at a time may still be used.

    >>> from sidecar.rooms import EventSource, Room, TextContent
    >>> event = RoomEvent(room_id="r", source=EventSource("c", "sms"), content=TextContent("hi"))
    >>> inner, room, limits = MemoryResult(events=[event]), RoomContext(Room("r")), MemoryLimits(1000)
    >>> plan = plan_retrieve(inner, room, event, SummaryChain(), limits=limits, is_fresh=lambda made_at: True)
    >>> plan.cut is None, view_without_cut(plan) == inner
    (True, True)
    """
    known = gather_events(inner, context, current, chain)
    in_sight = {event.id: known.fingerprints[event.id] for event in (*inner.events, *context.recent_events)}
    texts = [summary_text(message) for message in inner.messages]
    priors = [text for text in texts if text is not None]
    usable = drop_stale_links(chain, in_sight)
    if not (usable.absorbed.issuperset(priors) and is_fresh(usable.folded_at)):
        usable = drop_renewable_links(usable, in_sight)
    older = () if priors else find_older_events(context.recent_events, inner.events, current.id)
    shown = [m for m, text in zip(inner.messages, texts, strict=True) if text not in usable.absorbed]
    is_listed = any(event.id == current.id for event in inner.events)
    total = sum(map(message_tokens, inner.messages)) + sum(map(event_tokens, inner.events))
    is_tier1_due = total > limits.tier1_tokens and len(inner.events) > 1
    window = truncate_older(inner.events, limits.truncate_chars) if is_tier1_due else inner.events
    slid = find_slid_events(chain.uncovered, in_sight.keys())
    plan = RetrievePlan(
        chain=usable,
        injected=tuple(message for message in shown if summary_text(message) is None),
        priors=tuple(text for text in priors if text not in usable.absorbed),
        shown=tuple(shown),
        window=_drop_covered(window, known, usable.covered),
        backlog=_drop_covered((*slid, *older), known, usable.covered),
        known=known,
        room_tokens=limits.room_beside(0 if is_listed else event_tokens(current)),
        cut=None,
    )
    return replace(plan, cut=plan_cut(plan.load, limits))


def view_without_cut(plan: RetrievePlan) -> MemoryResult:
    """Return the view for which no new summary is needed. The backlog is shown until a summary covers it."""
    own = plan.chain.text
    messages = plan.shown if own is None else (*plan.shown, summary_message(own))
    return MemoryResult(*fit_items(messages, (*plan.backlog, *plan.window), plan.room_tokens))


def view_with_summary(plan: RetrievePlan, summary: str) -> MemoryResult:
    """Return the view in which *summary* stands for the events that the plan's cut names."""
    messages = (*plan.injected, summary_message(summary))
    return MemoryResult(*fit_items(messages, plan.window[plan.cut :], plan.room_tokens))


def chain_with_uncovered(plan: RetrievePlan) -> SummaryChain:
    """Return the plan's chain together with the events that are in no summary yet."""
    events = (*plan.backlog, *plan.window)
    return replace(plan.chain, uncovered=tuple(plan.known.events[event.id] for event in events))


def gather_events(
    inner: MemoryResult, context: RoomContext, current: RoomEvent, chain: SummaryChain
) -> KnownEvents:
    """Gather every event, edits applied; where one was given twice, the room's own copy is the whole one."""
    gathered = (*chain.uncovered, *inner.events, *context.recent_events, current)
    events = {event.id: event for event in gathered}
    fingerprints = {event.id: _fingerprint(write_out(event.content)) for event in events.values()}
    for edit in (event.content for event in gathered if isinstance(event.content, EditContent)):
        if edit.target_event_id in events:
            target = events[edit.target_event_id]
            events[target.id] = replace(target, content=edit.new_content)
            fingerprints[target.id] = _fingerprint(write_out(edit.new_content))
    deletions = [event.content for event in gathered if isinstance(event.content, DeleteContent)]
    fingerprints |= {content.target_event_id: DELETED for content in deletions}
    return KnownEvents(events, fingerprints, speaker_names(events.values(), context.participants))


def find_older_events(
    recent: Sequence[RoomEvent], window: Sequence[RoomEvent], current_id: str
) -> list[RoomEvent]:
    """Return the events of the room that are older than the inner provider's window.

    An inner provider that returns no events, or none of the room's, is not known to have left any behind.
    """
    older: list[RoomEvent] = []
    for event in recent:
        if window and event.id == window[0].id:
            return older
        if event.id != current_id:
            older.append(event)
    return []


def _drop_covered(
    events: Iterable[RoomEvent], known: KnownEvents, covered: frozenset[str]
) -> tuple[RoomEvent, ...]:
    """Return *events* once each, without covered and deleted ones."""
    once = {event.id: event for event in events}
    return tuple(e for e in once.values() if e.id not in covered and known.fingerprints[e.id] != DELETED)


def _fingerprint(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
