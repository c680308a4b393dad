"""Prepares the summary of a compaction before it is needed, while the user reads or types.

A compaction that waits for a model makes a turn wait. So once a turn has settled and the gate is three
quarters full, the head that a compaction would fold now is summarised in a task of its own. The compaction
itself goes on from that summary: a model reads only the part that is new since then. The clients are notified
once, so that a user may still steer the compaction.

A prepared summary holds for one path: it names the first node that it does not cover, and any move of the
conversation other than growth discards it. At most one task works at a time, and :meth:`aclose` waits for
its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sidecar._internal.cancel import CancelledByToken, CancelToken
from sidecar._internal.errors import log_fault
from sidecar.conductor.checked_model import CheckedModel
from sidecar.conductor.compaction_planner import CompactionPlanner
from sidecar.conductor.deps import CompactorDeps
from sidecar.conductor.engines.contract import (
    CompactionRequest,
    EngineDeps,
    PreparedSummary,
    PreparingEngine,
)
from sidecar.conductor.events import CompactionNear
from sidecar.conductor.history import HistoryWriter
from sidecar.conductor.session_events import SessionEvents
from sidecar.conversation import History

NEAR_SHARE: Final = 0.75
"""How full the gate is when the summary is prepared, as a share of its limit."""


class SummaryPreparer:
    """Prepares the summaries of one session's own engine; *automatic* returns the request of the gate."""

    def __init__(
        self,
        history: HistoryWriter,
        events: SessionEvents,
        planner: CompactionPlanner,
        deps: CompactorDeps,
        automatic: Callable[[], CompactionRequest],
    ) -> None:
        self._history = history
        self._events = events
        self._planner = planner
        self._deps = deps
        self._automatic = automatic
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancel = CancelToken()
        self._base: History | None = None
        self._made: PreparedSummary | None = None
        self._was_near = False

    def on_settled(self) -> None:
        """Notify the clients once when the gate becomes three quarters full, and begin to prepare."""
        request = self._automatic()
        engine = request.engine or ""
        gate = self._planner.gate(engine, request)
        is_near = gate.limit > 0 and gate.tokens >= NEAR_SHARE * gate.limit
        if is_near and not self._was_near and self._deps.engine(engine).compacts:
            self._events.emit(CompactionNear(gate.tokens, gate.limit, gate.window))
        if self._base is not None and self._history.current.since(self._base) is None:
            self.cancel()
        self._was_near = is_near
        if is_near and self._deps.prepares and self._base is None:
            self._base, self._cancel = self._history.current, CancelToken()
            task = asyncio.create_task(self.prepare(engine, request, self._base, self._cancel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        """Stop preparing, and discard the summary. A limit that is near after that is announced anew."""
        self._base = self._made = None
        self._was_near = False
        self._cancel.cancel("no longer needed")
        for task in self._tasks:
            task.cancel()

    async def take(self, engine: str) -> PreparedSummary | None:
        """Return the summary that was prepared for *engine*, once it is ready; None for none."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        return self._made if self._made is not None and self._made.engine == engine else None

    async def aclose(self) -> None:
        """Stop preparing, and return when that has ended."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def prepare(
        self, name: str, request: CompactionRequest, base: History, cancel: CancelToken
    ) -> None:
        """Prepare the summary of *base*. Never raises for a failure: the compaction does without then.

        Args:
            name: the engine.
            request: the request of the gate.
            base: the conversation; a summary of it is kept unless it was discarded meanwhile.
            cancel: ends the work.
        """
        engine = self._deps.engine(name)
        if not isinstance(engine, PreparingEngine):
            return
        invoke, card = self._deps.summarizer()
        given = replace(self._planner.engine_input(name), summarizer_card=card, cached=self._deps.cached())
        checked = None
        if invoke is not None:
            checked = CheckedModel.of(invoke, engine, replace(given, history=base), self._deps.count)
        try:
            async with asyncio.timeout(2 * self._deps.deadline_s):
                made = await engine.prepare(
                    given, request, EngineDeps(checked, self._deps.fresh, cancel, self._deps.deadline_s)
                )
        except (CancelledByToken, TimeoutError):
            return
        except Exception as error:
            log_fault("the preparation of a compaction", error)
            return
        if base is self._base:
            self._made = made
