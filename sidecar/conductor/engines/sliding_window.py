"""``slidingWindow``: the model gets the newest events of the room, and nothing is ever condensed.

The newest prompt stays in sight however many rounds of tools follow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.engines.contract import (
    CompactionRequest,
    EngineDeps,
    EngineInput,
    EngineMarks,
    FreshFile,
    View,
)
from sidecar.conductor.engines.room_view import fit_event, limits_of, setting, view_of
from sidecar.conductor.room import SessionRoom
from sidecar.rooms import RoomEvent
from sidecar.rooms.memory import SlidingWindowMemory
from sidecar.rooms.memory.budget import fit_items, tail_cut
from sidecar.rooms.memory.estimate import event_tokens

_MAX_EVENTS: Final = 50
_LEAST_EVENTS: Final = 2
"""The newest prompt and the newest event: with fewer a model would not see its tool results."""


class SlidingWindowEngine:
    """``SlidingWindowMemory`` at work in one session. The policy names ``maxEvents``."""

    name: ClassVar[str] = "slidingWindow"
    marks: ClassVar[EngineMarks] = EngineMarks()
    compacts = False
    commits_view = False

    def __init__(self) -> None:
        self._room = SessionRoom()

    def gate(self, given: EngineInput, request: CompactionRequest) -> Gate:
        """Return the weight of the window; it is never over, for it slides."""
        limits = limits_of(given, request)
        tokens = sum(map(event_tokens, self._window(given, request)))
        window = given.card.context_window if given.card and limits else 0
        shown = min(tokens, limits.max_context_tokens) if limits else tokens
        return Gate(shown + given.overhead_tokens, window, window, over=False)

    def plan(
        self,
        given: EngineInput,
        request: CompactionRequest,
        fresh: Mapping[str, FreshFile] | None = None,
    ) -> NoOp:
        """Return why nothing would be done."""
        text = (
            f"a sliding window condenses nothing: the model is sent the newest {max_events(request)} events"
        )
        return NoOp(f"{text}, and the stored conversation stays whole")

    async def compact(self, given: EngineInput, request: CompactionRequest, deps: EngineDeps) -> NoOp:
        """Return why nothing is done."""
        return self.plan(given, request)

    def view(self, given: EngineInput, request: CompactionRequest) -> View:
        """Return the newest events and the newest prompt, as many as the model's window holds.

        An event that alone takes more than half of it is cut, visibly.
        """
        window, limits = self._window(given, request), limits_of(given, request)
        room_tokens = limits.max_context_tokens if limits else 0
        if room_tokens and sum(map(event_tokens, window)) > room_tokens:
            window = self._fit_window(window, room_tokens)
        elif len(window) == len(self._room.events):
            return View(given.history, is_whole=True)
        prompt = None if self._room.prompt is None else self._room.starts[self._room.prompt]
        others = [event.index for event in window if event.index != prompt]
        first = min(others, default=len(given.history))
        return view_of(self._room, (), window, first)

    def _window(self, given: EngineInput, request: CompactionRequest) -> list[RoomEvent]:
        """Return the events in sight, the newest prompt last."""
        self._room.sync(given.history, given.participants)
        n_events = max_events(request)
        recent = self._room.events[-n_events - 1 :]
        memory = SlidingWindowMemory(n_events)
        if self._room.prompt is None:
            return memory.window(recent, "")
        prompt = self._room.events[self._room.prompt]
        others = [event for event in recent if event is not prompt]
        return [*memory.window([*others, prompt], prompt.id), prompt]

    def _fit_window(self, window: list[RoomEvent], room_tokens: int) -> list[RoomEvent]:
        """Return the end of *window* that takes at most *room_tokens*, the newest prompt with it."""
        *others, newest = [fit_event(event, max(1, room_tokens // 2)) for event in window]
        left = room_tokens - event_tokens(newest)
        kept = others[tail_cut([event_tokens(event) for event in others], left) :]
        return [*fit_items([], kept, left)[1], newest]


def max_events(request: CompactionRequest) -> int:
    return int(setting(request.policy, "maxEvents", _MAX_EVENTS, least=_LEAST_EVENTS))
