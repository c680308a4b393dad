"""The prompts of one client: each waits for the last event of its turn, and may be taken back at any time.

A prompt that was cancelled ends with the stop reason ``cancelled`` and never with an error, wherever it was
when that happened: not begun, waiting behind another, or being answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from sidecar._internal.errors import SidecarError
from sidecar.acp.sessions import Ask
from sidecar.conductor.events import Event, Faulted, Settled
from sidecar.conductor.log import EventLog
from sidecar.conductor.queue import TurnFault
from sidecar.protocol.codec import to_wire
from sidecar.protocol.jsonrpc import Id
from sidecar.service.contract import Answer
from sidecar.service.handlers.turn import TurnFailed

__all__ = ["Prompt", "PromptAnswer", "Prompts", "answer_at_the_end", "taken_back"]

PromptAnswer: TypeAlias = Callable[[Event, str], dict[str, Any] | None]
"""``(event, turn_id)`` to the result of a prompt, None where the event is no answer. Raises SidecarError."""

_OUT_OF_REQUESTS: Final = "turnBudget"


class Prompt:
    """One ``session/prompt``; *turn_id* is None until the session has told it."""

    def __init__(self, log: EventLog, given: Mapping[str, Any]) -> None:
        self.log = log
        self.given = given
        self.turn_id: str | None = None
        self.is_sent = False
        self.is_cancelled = False

    @property
    def sid(self) -> str:
        """The session it is for."""
        return self.log.sid


class Prompts:
    """The prompts that wait for their answer, by the id of their request.

    *answer* finds it among the events; *taken_back* makes the one of a prompt that was never sent.
    """

    def __init__(
        self,
        ask: Ask,
        interrupt: Callable[[dict[str, Any]], None],
        answer: PromptAnswer,
        taken_back: Callable[[], dict[str, Any]],
    ) -> None:
        self._ask = ask
        self._interrupt = interrupt
        self._answer = answer
        self._taken_back = taken_back
        self._open: dict[Id, Prompt] = {}

    def begin(self, request_id: Id, log: EventLog, given: Mapping[str, Any]) -> Awaitable[Answer]:
        """Send a prompt, as *given*, to its session; the awaitable is the answer to the request."""
        prompt = self._open[request_id] = Prompt(log, given)
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
            return Answer(self._taken_back() if prompt.is_cancelled else await self._sent(prompt))
        finally:
            del self._open[request_id]

    async def _sent(self, prompt: Prompt) -> dict[str, Any]:
        """Send a prompt and return its answer once the session has told it."""
        seq = prompt.log.seq
        prompt.is_sent = True
        started = await self._ask("sidecar/turn/start", {**prompt.given, "sid": prompt.sid})
        turn_id: str = started.value["turnId"]
        prompt.turn_id = turn_id
        if prompt.is_cancelled:
            self._interrupt({"sid": prompt.sid, "turnId": turn_id})
        return await _found(prompt.log, seq, lambda event: self._answer(event, turn_id))


def taken_back() -> dict[str, Any]:
    """Return the answer to a prompt that was cancelled before it was sent."""
    return {"stopReason": "cancelled"}


def answer_at_the_end(event: Event, turn_id: str) -> dict[str, Any] | None:
    """Return what a turn's last event makes of its prompt. Raises SidecarError for a turn that failed."""
    data = event.data
    if not isinstance(data, Settled | Faulted) or data.turn_id != turn_id:
        return None
    if isinstance(data, Settled):
        stop_reason: str = data.stop_reason
    else:
        if data.error_kind != _OUT_OF_REQUESTS:
            raise TurnFailed(event.sid, data.turn_id, TurnFault(data.error_kind, data.message))
        stop_reason = "max_turn_requests"
    told = to_wire(data) | {"seq": event.seq}
    return {"stopReason": stop_reason, "_meta": {"sidecar": told}}


async def _found(
    log: EventLog, after_seq: int, look_at: Callable[[Event], dict[str, Any] | None]
) -> dict[str, Any]:
    """Return what *look_at* first makes of an event of *log* after *after_seq*, or raise what it raises."""
    found: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    cursor = after_seq

    def look(log: EventLog) -> None:
        nonlocal cursor
        while not found.done() and (events := log.after(cursor)):
            for event in events:
                cursor = event.seq
                _try(found, look_at, event)
                if found.done():
                    return

    stop = log.follow(look)
    try:
        look(log)
        return await found
    finally:
        stop()


def _try(
    found: asyncio.Future[dict[str, Any]], look_at: Callable[[Event], dict[str, Any] | None], event: Event
) -> None:
    try:
        answer = look_at(event)
    except SidecarError as error:
        found.set_exception(error)
    else:
        if answer is not None:
            found.set_result(answer)
