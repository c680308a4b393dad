"""``slidingWindow``: the model gets the newest events of the room, and nothing is ever condensed.

The newest prompt stays in sight however many rounds of tools follow it. The window slides in steps: were its
first event another one at each request, the provider's cache of the prompt would never hold. So a full
window loses a quarter of its events, or of its tokens, at once, and stands until it is full again. Where it
begins follows from the events alone, so that a session that is loaded again sends the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import ClassVar, Final

from msgspec import Struct, field

from sidecar._internal.values import Value
from sidecar.conductor.contract import Gate, NoOp
from sidecar.conductor.window.engines.contract import (
    CompactionRequest,
    EngineDeps,
    EngineInput,
    EngineMarks,
    FreshFile,
    View,
)
from sidecar.conductor.window.engines.room import SessionRoom
from sidecar.conductor.window.engines.room_view import fit_event, limits_of, setting, view_of
from sidecar.rooms import RoomEvent
from sidecar.rooms.memory.estimate import event_tokens

_MAX_EVENTS: Final = 50
_STEPS: Final = 4
"""A full window loses one in so many of its events, or of its tokens."""

_LEAST_EVENTS: Final = 2
"""The newest prompt and the newest event: with fewer a model would not see its tool results."""


class SlidingWindowEngine:
    """The newest events of one session, as ``SlidingWindowMemory`` counts. The policy names ``maxEvents``."""

    name: ClassVar[str] = "slidingWindow"
    marks: ClassVar[EngineMarks] = EngineMarks()
    compacts = False
    commits_view = False

    def __init__(self) -> None:
        self._room = SessionRoom()
        self._walk = _Walk(self._room.events, _Size(0, 0))

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
        if self._walk.start == 0 and (not room_tokens or self._room.tokens(0) <= room_tokens):
            return View(given.history, is_whole=True)
        return view_of(self._room, (), window, self._room.starts[self._walk.start])

    def _window(self, given: EngineInput, request: CompactionRequest) -> list[RoomEvent]:
        """Return the events in sight, oldest first; an event that is too large is cut."""
        self._room.sync(given.history, given.participants())
        limits = limits_of(given, request)
        size = _Size(max_events(request), limits.max_context_tokens if limits else 0)
        if self._walk.events is not self._room.events or self._walk.size != size:
            self._walk = _Walk(self._room.events, size)
        self._walk.go_on(self._room)
        start, prompt = self._walk.start, self._room.prompt
        pinned = [] if prompt is None or prompt >= start else [self._room.events[prompt]]
        shown = [*pinned, *self._room.events[start:]]
        return [fit_event(event, size.item_tokens) for event in shown] if size.max_tokens else shown


class _Size(Value):
    """The size of a window: the most events, and the most tokens, 0 for any."""

    max_events: int
    max_tokens: int

    @property
    def item_tokens(self) -> int:
        """The most that one event takes: two of them always fit."""
        return max(1, self.max_tokens // 2)

    def holds(self, n_events: int, tokens: int) -> bool:
        """Whether so many events of so many tokens are no more than the window."""
        return n_events <= self.max_events and (not self.max_tokens or tokens <= self.max_tokens)

    def after_step(self) -> _Size:
        """Return the size of a window that has just slid."""
        step = max(1, self.max_events // _STEPS)
        return _Size(max(2, self.max_events + 1 - step), self.max_tokens - self.max_tokens // _STEPS)


class _Walk(Struct):
    """The walk of a window over *events*: it stands at *start* once the event before *n_seen* has come.

    The newest event may still grow, by results that join it, so it is looked at again.
    """

    events: list[RoomEvent]
    size: _Size
    start: int = 0
    n_seen: int = 0
    _settled: int = 0
    _before: list[int] = field(default_factory=lambda: [0])

    def go_on(self, room: SessionRoom) -> None:
        """Slide over the events that came since the last call."""
        self.n_seen, self.start = max(0, self.n_seen - 1), self._settled
        del self._before[self.n_seen + 1 :]
        for place in range(self.n_seen, len(self.events)):
            self._settled, tokens = self.start, room.tokens(place, place + 1)
            most = self.size.item_tokens if self.size.max_tokens else tokens
            self._before.append(self._before[-1] + min(tokens, most))
            if not self._is_held(room, place, self.size):
                lower = self.size.after_step()
                while self.start < place and not self._is_held(room, place, lower):
                    self.start += 1
        self.n_seen = len(self.events)

    def _is_held(self, room: SessionRoom, last: int, size: _Size) -> bool:
        """Whether *size* holds the events from the start to *last*, with the newest prompt of that moment."""
        at = bisect_right(room.prompts, last) - 1
        is_pinned = at >= 0 and room.prompts[at] < self.start
        tokens = self._before[last + 1] - self._before[self.start]
        if is_pinned:
            tokens += self._before[room.prompts[at] + 1] - self._before[room.prompts[at]]
        return size.holds(last + 1 - self.start + is_pinned, tokens)


def max_events(request: CompactionRequest) -> int:
    return int(setting(request.policy, "maxEvents", _MAX_EVENTS, least=_LEAST_EVENTS))
