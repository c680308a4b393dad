"""The two tiers of the rooms over one session's window: events as they are, truncated, or replaced by notes.

Making a scene is cheap. Sorting its events costs as much as the events without notes, and is done once. No
model is asked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Final

from sidecar.conductor.window.engines.contract import StandingSummary, View
from sidecar.conductor.window.engines.room import SessionRoom
from sidecar.conductor.window.engines.room_view import fit_event, view_of
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.rooms import AIMessage, EventSource, RoomEvent, TextContent
from sidecar.rooms.memory import MemoryResult
from sidecar.rooms.memory.budget import MemoryLimits
from sidecar.rooms.memory.estimate import event_tokens, message_tokens
from sidecar.rooms.memory.plan import RetrievePlan, plan_retrieve, view_with_summary, view_without_cut
from sidecar.rooms.memory.summaries import SummaryChain, SummaryLink, summary_message
from sidecar.rooms.memory.summarizer import SummaryProgress, render_summary

PINNED: Final = "pinnedPrompt"
"""In a standing's info: the turn of a prompt before its cut that the notes do not cover."""

_NOBODY: Final = RoomEvent(id="", room_id="", source=EventSource("", ""), content=TextContent(""))
_WORTH: Final = 2
"""Events are worth notes when they take so many times what the notes may take."""

_ITEM_SHARE: Final = 2
"""An item that takes more than one in so many tokens of the room is cut in the view."""


class Scene:
    """A conversation at one moment: the events that no notes cover, the newest prompt apart, and the notes.

    Attributes:
        first: the index of the first event behind the notes.
        tokens: the tokens of the whole scene, untouched.
    """

    def __init__(self, room: SessionRoom, limits: MemoryLimits, standing: StandingSummary | None) -> None:
        self.room = room
        self.limits = limits
        self.notes = standing.summary if standing is not None else None
        self.first = room.at_turn(standing.cut) if standing is not None else 0
        pinned = None if standing is None else standing.info.get(PINNED)
        self._extra = {room.prompt, None if pinned is None else room.at_turn(pinned)} - {None}
        before = sum(room.tokens(each, each + 1) for each in self._before())
        self.tokens = self._notes_tokens + before + room.tokens(self.first)
        self._made_of = (standing, room.events, room.n_turns)

    def is_still(self, limits: MemoryLimits, standing: StandingSummary | None) -> bool:
        """Whether nothing has changed since the scene was set."""
        known, events, n_turns = self._made_of
        unchanged = events is self.room.events and n_turns == self.room.n_turns
        return unchanged and limits == self.limits and standing == known

    @property
    def threshold(self) -> int:
        """Above this events must give way: tier 2 before the first notes, the whole room after them."""
        most = self.limits.max_context_tokens
        return most if self.notes is not None else min(most, self.limits.tier2_tokens)

    @property
    def is_roomy(self) -> bool:
        """Whether all of it can be shown untouched."""
        return self.tokens <= min(self.limits.tier1_tokens, self.threshold)

    @property
    def is_due(self) -> bool:
        """Whether events must give way to notes before the next request."""
        return not self.is_roomy and self.cut is not None

    @property
    def prompt(self) -> RoomEvent | None:
        """The newest prompt, or its beginning where it alone takes too much of the room."""
        if self.room.prompt is None:
            return None
        return self._fit_event(self.room.prompt)

    @cached_property
    def reading(self) -> RetrievePlan:
        """The events sorted: shown as they are, truncated, or to be replaced by notes."""
        places = [each for each in (*self._before(), *self._behind()) if each != self.room.prompt]
        whole = [self.room.events[each] for each in places]
        chain = (
            SummaryChain()
            if self.notes is None
            else SummaryChain((SummaryLink(self.notes, {}, partial=True),))
        )
        return plan_retrieve(
            MemoryResult(events=[self._fit_event(each) for each in places]),
            self.room.context(whole),
            self.prompt or _NOBODY,
            chain,
            limits=self.limits,
            is_fresh=lambda made_at: True,
        )

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """The tokens of each event of the reading's window."""
        return tuple(map(event_tokens, self.reading.window))

    @cached_property
    def cut(self) -> int | None:
        """The number of events that must give way now, None for none.

        The rooms' memory decides it, unless notes would hardly be shorter than those events: then more of
        them give way, or none as long as everything still fits.
        """
        cut = self.reading.cut
        worth = bisect_left(list(accumulate(self.costs)), self.limits.summary_max_tokens * _WORTH) + 1
        if cut is None or cut >= worth:
            return cut
        if worth <= len(self.costs) - self.limits.min_events:
            return worth
        fits = self.sent_tokens() <= self.limits.max_context_tokens
        return None if fits else max(cut, min(worth, len(self.costs) - 1))

    @property
    def shown_tokens(self) -> int:
        """The tokens of the view in which nothing more gives way to notes."""
        return self.tokens if self.is_roomy else self.sent_tokens()

    def sent_tokens(self) -> int:
        """Return the tokens of the view with every event of the window."""
        prompt = self.prompt
        asked = event_tokens(prompt) if prompt is not None else 0
        return self._notes_tokens + sum(self.costs) + asked

    def turn_behind(self, folded: Sequence[RoomEvent]) -> int:
        """Return the turn from which the conversation is shown once notes cover *folded* as well."""
        last = self.room.at_turn(folded[-1].index) + 1 if folded else 0
        return self.room.turn_of(max(self.first, last))

    def view(self) -> View:
        """Return the view.

        A placeholder stands for notes that are due and could not be made, once not everything fits any more.
        """
        if self.is_roomy:
            events = [self.room.events[each] for each in (*self._before(), *self._behind())]
            notes = [] if self.notes is None else [summary_message(self.notes)]
            return view_of(self.room, _as_turns(notes), events, self.room.turn_of(self.first))
        reading = self.reading
        if self.cut is None or self.sent_tokens() <= self.limits.max_context_tokens:
            return self._view(view_without_cut(reading), ())
        due = replace(reading, cut=self.cut)
        missing = render_summary(due, SummaryProgress(failure="raised"))
        return self._view(view_with_summary(due, missing), due.to_summarize)

    def _view(self, result: MemoryResult, folded: Sequence[RoomEvent]) -> View:
        prompt = self.prompt
        events = result.events if prompt is None else [*result.events, prompt]
        return view_of(self.room, _as_turns(result.messages), events, self.turn_behind(folded))

    @property
    def _notes_tokens(self) -> int:
        return message_tokens(summary_message(self.notes)) if self.notes is not None else 0

    def _before(self) -> list[int]:
        """Return the events before the notes' end that are shown all the same, oldest first."""
        return sorted(each for each in self._extra if each is not None and each < self.first)

    def _behind(self) -> range:
        return range(self.first, len(self.room.events))

    def _fit_event(self, place: int) -> RoomEvent:
        most = max(1, self.limits.max_context_tokens // _ITEM_SHARE)
        event = self.room.events[place]
        return event if self.room.tokens(place, place + 1) <= most else fit_event(event, most)


def _as_turns(messages: Sequence[AIMessage]) -> list[UserTurn]:
    return [
        UserTurn((TextBlock(each.content if isinstance(each.content, str) else ""),)) for each in messages
    ]
