"""A handle on one session: prompt, follow, wait, compact, undo.

It holds an id and a position in the session's events, and nothing of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

from sidecar.protocol import messages as m
from sidecar.protocol.codec import from_wire
from sidecar.protocol.messages import Compaction, ContextFile, ContextUsage, CostBudget, Plan
from sidecar_client.errors import EventsLost, SidecarClientError
from sidecar_client.events import GAP, ClientEvent, EventStream, is_unread

if TYPE_CHECKING:
    from sidecar_client.client import SidecarClient

Prompt: TypeAlias = str | Sequence[Mapping[str, Any]]
"""Text, or content blocks as the protocol has them."""


class TurnLimits(TypedDict, total=False):
    """Limits of one turn, for that turn alone.

    Attributes:
        max_model_calls: the most calls of the model.
        allow: rules for actions that need no question, such as ``npm run *`` and ``edit: docs/**``.
        budget: the most that it may cost, such as ``CostBudget(usd=0.5)``; then it ends with ``budget``.
    """

    max_model_calls: int
    allow: tuple[str, ...]
    budget: CostBudget


_TURN_ENDS = frozenset({"settled", "faulted"})


class Session:
    """A handle on the session *sid*; ``seq`` is the number of the last event that its owner has read."""

    def __init__(self, client: SidecarClient, sid: str, seq: int) -> None:
        self.client = client
        self.sid = sid
        self.seq = seq

    async def prompt(
        self,
        prompt: Prompt,
        *,
        when_busy: Literal["queue", "steer", "reject"] = "queue",
        **limits: Unpack[TurnLimits],
    ) -> m.TurnStartResult:
        """Send a prompt and return at once; follow it with :meth:`wait_for` or :meth:`events`."""
        started = await self.client.turn_start(self.sid, _blocks(prompt), when_busy=when_busy, **limits)
        self.seq = max(self.seq, started.seq)
        return started

    async def run(self, prompt: Prompt, **limits: Unpack[TurnLimits]) -> m.TurnRunResult:
        """Send a prompt and wait for the end of its turn. Raises SidecarRequestError when the turn fails."""
        ran = await self.client.turn_run(self.sid, _blocks(prompt), **limits)
        self.seq = max(self.seq, ran.seq)
        return ran

    async def stream(self, prompt: Prompt, **limits: Unpack[TurnLimits]) -> AsyncIterator[ClientEvent]:
        """Send a prompt and yield the events of its turn, and gaps; ``settled`` or ``faulted`` is the last.

        Leaving early does not stop the turn; :meth:`interrupt` does.
        """
        events = self.client.events(self.sid)
        turn_id = (await self.prompt(prompt, **limits)).turn_id
        async for event in events:
            _raise_if_unread(event)
            if event.turn_id == turn_id or event.kind == GAP:
                self.seq = max(self.seq, event.seq)
                yield event
            if event.turn_id == turn_id and event.kind in _TURN_ENDS:
                return
        raise _early_end(self.sid, "end of the turn")

    async def interrupt(self, turn_id: str | None = None) -> m.InterruptResult:
        """Stop *turn_id*, else the running turn; with none running nothing happens."""
        return await self.client.turn_interrupt(self.sid, turn_id)

    async def preview(self, engine: str | None = None) -> Plan:
        """Return the plan of a compaction, without calling a model."""
        return await self.client.compact_preview(self.sid, engine=engine, mode="force")

    async def compact(self, engine: str | None = None, *, instructions: str | None = None) -> Compaction:
        """Compact and wait for the outcome; see its ``status``."""
        events = self.client.events(self.sid)
        started = await self.client.compact_start(self.sid, engine=engine, instructions=instructions)

        def is_outcome(event: ClientEvent) -> bool:
            is_ours: bool = event.data["compactionId"] == started.compaction_id
            return is_ours and event.data["status"] != "in_progress"

        outcome = await self._find(events, "compaction", is_outcome)
        return from_wire(Compaction, outcome.data)

    async def undo(self, compaction_id: str | None = None, *, force: bool = False) -> m.CompactUndoResult:
        """Undo a compaction, by default the newest; with *force* even if the result exceeds the window."""
        return await self.client.compact_undo(self.sid, compaction_id, force=force)

    async def usage(self) -> ContextUsage:
        """Return how full the window is, by kind of content."""
        return await self.client.context_usage(self.sid, detail=True)

    async def files(self) -> tuple[ContextFile, ...]:
        """Return the files the model has read."""
        return (await self.client.context_files(self.sid)).files

    async def close(self) -> None:
        """Close the session; it stays stored."""
        await self.client.session_close(self.sid)

    def events(self, after_seq: int | None = None) -> EventStream:
        """Return the session's events after *after_seq*, by default after the last one that was read."""
        return self.client.events(self.sid, self.seq if after_seq is None else after_seq)

    async def wait_for(
        self,
        kind: str | None = None,
        where: Callable[[ClientEvent], bool] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> ClientEvent:
        """Return the next event of a kind; the handle has then read up to it.

        Args:
            kind: the kind, None for any.
            where: accepts or rejects an event, None accepts all.
            timeout_s: the longest wait in seconds, None without a limit.

        Raises:
            TimeoutError: it has not come in *timeout_s* seconds.
            EventsLost: it may have come and be lost.
            ConnectionLost: the daemon is gone.
        """
        try:
            async with asyncio.timeout(timeout_s):
                event = await self._find(self.events(), kind, where)
        except TimeoutError:
            raise TimeoutError(f"no {kind or 'such'} event of {self.sid!r} in {timeout_s} s") from None
        self.seq = max(self.seq, event.seq)
        return event

    async def _find(
        self, events: EventStream, kind: str | None, where: Callable[[ClientEvent], bool] | None
    ) -> ClientEvent:
        async for event in events:
            if kind != GAP:
                _raise_if_unread(event)
            if kind in (None, event.kind) and (where is None or where(event)):
                return event
        raise _early_end(self.sid, f"{kind or 'such'} event")


def _blocks(prompt: Prompt) -> tuple[Mapping[str, Any], ...]:
    return ({"type": "text", "text": prompt},) if isinstance(prompt, str) else tuple(prompt)


def _early_end(sid: str, awaited: str) -> SidecarClientError:
    return SidecarClientError(f"session {sid!r}, or this client, was closed and no {awaited} had come")


def _raise_if_unread(event: ClientEvent) -> None:
    if is_unread(event):
        raise EventsLost(event.sid, event.data["from"], event.data["to"])
