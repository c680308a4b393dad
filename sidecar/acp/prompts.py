"""The prompts of one client: each waits for the last event of its turn, and may be taken back at any time.

A prompt that was cancelled ends with the stop reason ``cancelled`` and never with an error, wherever it was
when that happened: not begun, waiting behind another, or being answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sidecar.acp.sessions import Ask
from sidecar.conductor.events import Event, Faulted, Settled
from sidecar.conductor.jobs import TurnFault
from sidecar.conductor.log import EventLog
from sidecar.protocol.codec import to_wire
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer
from sidecar.service.handlers.turn import TurnFailed

__all__ = ["Prompt", "Prompts"]

_OUT_OF_REQUESTS: Final = "turnBudget"


class Prompt:
    """One ``session/prompt``; *turn_id* is None until the session has told it."""

    def __init__(self, log: EventLog, content: list[Any]) -> None:
        self.log = log
        self.content = content
        self.turn_id: str | None = None
        self.is_sent = False
        self.is_cancelled = False

    @property
    def sid(self) -> str:
        """The session it is for."""
        return self.log.sid


class Prompts:
    """The prompts that wait for their answer, by the id of their request."""

    def __init__(self, ask: Ask, interrupt: Callable[[dict[str, Any]], None]) -> None:
        self._ask = ask
        self._interrupt = interrupt
        self._open: dict[Id, Prompt] = {}

    def running(self, sid: str) -> Prompt | None:
        """Return the oldest prompt of a session that the session has taken and not answered."""
        return next((each for each in self._of(sid) if each.turn_id and not each.is_cancelled), None)

    def begin(self, request_id: Id, log: EventLog, content: list[Any]) -> Awaitable[Answer]:
        """Send a prompt to its session; the awaitable is the answer to the request."""
        prompt = self._open[request_id] = Prompt(log, content)
        return self._run(request_id, prompt)

    def cancel_session(self, sid: str) -> None:
        """Stop what a session does and drop what waits in it."""
        self._interrupt({"sid": sid, "queue": "drop"})
        for prompt in self._of(sid):
            self._cancel(prompt)

    def cancel_request(self, request_id: Any) -> bool:
        """Stop one prompt, by the id of its request; False when there is none."""
        prompt = self._open.get(request_id) if isinstance(request_id, int | str) else None
        if prompt is not None:
            self._cancel(prompt)
        return prompt is not None

    def _of(self, sid: str) -> list[Prompt]:
        return [prompt for prompt in self._open.values() if prompt.sid == sid]

    def _cancel(self, prompt: Prompt) -> None:
        if prompt.is_cancelled:
            return
        prompt.is_cancelled = True
        if prompt.turn_id is not None:
            self._interrupt({"sid": prompt.sid, "turnId": prompt.turn_id})
        elif prompt.is_sent and self._of(prompt.sid)[0] is prompt:
            # The session is making room for it, and has not told its turn yet: it is the one that runs.
            self._interrupt({"sid": prompt.sid})

    async def _run(self, request_id: Id, prompt: Prompt) -> Answer:
        try:
            if prompt.is_cancelled:
                return Answer({"stopReason": "cancelled"})
            return Answer(_result(await self._end(prompt)))
        finally:
            del self._open[request_id]

    async def _end(self, prompt: Prompt) -> Event:
        """Return the last event of the prompt's turn."""
        seq = prompt.log.seq
        prompt.is_sent = True
        given = {"sid": prompt.sid, "input": prompt.content}
        turn_id: str = (await self._ask("sidecar/turn/start", given)).value["turnId"]
        prompt.turn_id = turn_id
        if prompt.is_cancelled:
            self._interrupt({"sid": prompt.sid, "turnId": turn_id})
        return await _last_event(prompt.log, turn_id, seq)


def _result(event: Event) -> dict[str, Any]:
    """Return what a turn's last event makes of its prompt. Raises SidecarError for a turn that failed."""
    data = event.data
    if isinstance(data, Settled):
        stop_reason: str = data.stop_reason
    else:
        assert isinstance(data, Faulted)
        if data.error_kind != _OUT_OF_REQUESTS:
            raise TurnFailed(event.sid, data.turn_id, TurnFault(data.error_kind, data.message))
        stop_reason = "max_turn_requests"
    told = to_wire(data) | {"seq": event.seq}
    return {"stopReason": stop_reason, "_meta": {"sidecar": told}}


async def _last_event(log: EventLog, turn_id: str, after_seq: int) -> Event:
    """Return the ``settled`` or ``faulted`` event of a turn once it is in *log*."""
    found: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
    cursor = after_seq

    def look(log: EventLog) -> None:
        nonlocal cursor
        while not found.done() and (events := log.after(cursor)):
            cursor = events[-1].seq
            for event in events:
                if isinstance(event.data, Settled | Faulted) and event.data.turn_id == turn_id:
                    found.set_result(event)
                    return

    stop = log.follow(look)
    try:
        look(log)
        return await found
    finally:
        stop()
