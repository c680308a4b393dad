"""The prompts of one client: each waits for the end of its turn, and may be cancelled at any time.

A cancelled prompt ends with the stop reason ``cancelled`` and never with an error. A cancellation has an
effect for each state of a prompt:

- not sent yet: it is never sent;
- sent, but the session has not named its turn: the running turn is stopped if it must be this one, that is if
  no earlier prompt of the session waits, and the turn is stopped once it is named;
- in a turn: that turn is stopped, and the prompt ends with the turn's last event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar.acp.sessions import Request
from sidecar.acp.shapes import stop_reason_of
from sidecar.conductor.events import Event, Faulted, Settled
from sidecar.conductor.record.log import EventLog
from sidecar.protocol.codec import to_wire
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer
from sidecar.service.handlers.turn import TurnFailed
from sidecar.service.streaming import follow_events

PromptAnswer: TypeAlias = Callable[[Event, str], dict[str, Any] | None]
"""Takes ``(event, turn_id)``; returns the result of a prompt, None for other events. Raises SidecarError."""


class PendingPrompt:
    """One ``session/prompt``; *turn_id* is None until the session has named its turn."""

    def __init__(self, log: EventLog, params: Mapping[str, Any]) -> None:
        self.log = log
        self.params = params
        self.turn_id: str | None = None
        self.is_sent = False
        self.is_cancelled = False


class PendingPrompts:
    """The prompts that wait for their answer, by the id of their request.

    Args:
        request: sends a request to the service.
        interrupt: takes the params of ``sidecar/turn/interrupt``.
        prompt_answer: reads the result of a prompt from the events.
        withdrawn_answer: makes the result of a prompt that was never sent.
    """

    def __init__(
        self,
        request: Request,
        interrupt: Callable[[dict[str, Any]], None],
        prompt_answer: PromptAnswer,
        withdrawn_answer: Callable[[], dict[str, Any]],
    ) -> None:
        self._request = request
        self._interrupt = interrupt
        self._prompt_answer = prompt_answer
        self._withdrawn_answer = withdrawn_answer
        self._open: dict[Id, PendingPrompt] = {}

    def start(self, request_id: Id, log: EventLog, params: Mapping[str, Any]) -> Awaitable[Answer]:
        """Send a prompt to its session.

        Args:
            request_id: the request of the client; it may be cancelled before the prompt is sent.
            log: the log of the session.
            params: the params of ``sidecar/turn/start``, without the session.

        Returns:
            The answer to the request. Raises SidecarError when awaited.
        """
        prompt = self._open[request_id] = PendingPrompt(log, params)

        async def answer() -> Answer:
            try:
                return Answer(self._withdrawn_answer() if prompt.is_cancelled else await self._send(prompt))
            finally:
                del self._open[request_id]

        return answer()

    def cancel_session(self, sid: str) -> None:
        """Stop the turn of a session, and drop the prompts that wait in it."""
        self._interrupt({"sid": sid, "queue": "drop"})
        for prompt in self._prompts_of(sid):
            self._cancel(prompt)

    def cancel_request(self, request_id: Any) -> bool:
        """Cancel one prompt by the id of its request; return False when there is none."""
        prompt = self._open.get(request_id) if isinstance(request_id, int | str) else None
        if prompt is not None:
            self._cancel(prompt)
        return prompt is not None

    def _prompts_of(self, sid: str) -> list[PendingPrompt]:
        return [prompt for prompt in self._open.values() if prompt.log.sid == sid]

    def _cancel(self, prompt: PendingPrompt) -> None:
        if prompt.is_cancelled:
            return
        prompt.is_cancelled = True
        sid = prompt.log.sid
        if prompt.turn_id is not None:
            self._interrupt({"sid": sid, "turnId": prompt.turn_id})
        elif prompt.is_sent and self._prompts_of(sid)[0] is prompt:
            # The session makes room for the prompt and has not named its turn yet, but that turn is running.
            self._interrupt({"sid": sid})

    async def _send(self, prompt: PendingPrompt) -> dict[str, Any]:
        """Send a prompt and return its result once an event brings it."""
        seq, sid = prompt.log.seq, prompt.log.sid
        prompt.is_sent = True
        started = await self._request("sidecar/turn/start", {**prompt.params, "sid": sid})
        turn_id: str = started.value["turnId"]
        prompt.turn_id = turn_id
        if prompt.is_cancelled:
            self._interrupt({"sid": sid, "turnId": turn_id})
        result: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def is_last(event: Event) -> bool:
            try:
                answer = self._prompt_answer(event, turn_id)
            except SidecarError as error:
                if not result.done():
                    result.set_exception(error)
                return True
            if answer is not None and not result.done():
                result.set_result(answer)
            return result.done()

        stop = follow_events(prompt.log, seq, is_last)
        try:
            return await result
        finally:
            stop()


def answer_without_turn() -> dict[str, Any]:
    """Return the result of a prompt that was cancelled before it was sent."""
    return {"stopReason": "cancelled"}


def answer_at_end(event: Event, turn_id: str) -> dict[str, Any] | None:
    """Return the result of a prompt at its turn's last event. Raises TurnFailed for a turn that failed."""
    data = event.data
    if not isinstance(data, Settled | Faulted) or data.turn_id != turn_id:
        return None
    end = to_wire(data)
    stop_reason = stop_reason_of(end)
    if isinstance(data, Faulted) and stop_reason is None:
        raise TurnFailed(event.sid, data)
    return {"stopReason": stop_reason, "_meta": {"sidecar": end | {"seq": event.seq}}}
