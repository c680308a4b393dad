"""``sidecar/turn/*`` and ``sidecar/queue/*``: send prompts, wait for them, steer, stop, and edit the queue.

Every request takes effect when it is called; only its answer may have to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from sidecar._internal.errors import LeaseLostError, SidecarError
from sidecar.conductor.events import Faulted
from sidecar.conductor.record.queue import SubmitReceipt
from sidecar.conductor.session import Session
from sidecar.protocol import messages as m
from sidecar.service.handlers.session import answer_after
from sidecar.service.streaming import show_turn, stream_answer

if TYPE_CHECKING:
    from sidecar.service.contract import Handler
    from sidecar.service.service import Connection

T = TypeVar("T")


class TurnFailed(SidecarError):
    """The turn faulted; *kind* is that of the fault, such as ``modelFailed``."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, sid: str, fault: Faulted) -> None:
        super().__init__(fault.message, sid=sid, turnId=fault.turn_id)
        self.kind = fault.error_kind  # type: ignore[misc]  # one class for every RunErrorKind


def start(connection: Connection, params: m.TurnParams) -> Awaitable[m.TurnStartResult]:
    """Send a prompt; the events behind the ``seq`` of the answer report the rest.

    The turn may be under way when the answer is made: a waiting prompt may begin before the queue is stored.
    """
    session = connection.hub.session(params.sid)
    submitted = _submit(connection, session, params)
    log, seq = session.record.log, session.record.log.seq

    def seq_of(started: SubmitReceipt) -> int:
        """Return the number of the prompt's own event, or of its place in the queue."""
        if started.user_node_id is None:
            return seq
        own = (each for each in log.after(seq) if each.turn_id == started.turn_id)
        return next((each.seq for each in own if each.kind == "userMessage"), seq)

    return answer_after(
        session.turns.prompts.wait_until_entered(submitted),
        lambda started: m.TurnStartResult(
            turn_id=started.turn_id,
            user_node_id=started.user_node_id,
            disposition=started.disposition,
            seq=seq_of(started),
            position=started.position,
        ),
    )


def run(connection: Connection, params: m.TurnParams) -> Awaitable[m.TurnRunResult]:
    """Send a prompt and wait until it is answered. Cancelling the request does not stop the turn."""
    session = connection.hub.session(params.sid)
    submitted = _submit(connection, session, params)

    async def answer() -> m.TurnRunResult:
        done = await asyncio.shield(submitted.outcome)
        last = done.last
        if isinstance(last, Faulted):
            raise TurnFailed(session.sid, last)
        if last.stop_reason == "cancelled" and session.sid in connection.hub.lost:
            raise LeaseLostError(session.sid, connection.hub.lost[session.sid])
        return m.TurnRunResult(
            turn_id=last.turn_id,
            stop_reason=last.stop_reason,
            head=last.head,
            usage=last.usage,
            text=done.text,
            seq=session.record.log.seq,
        )

    return answer()


def steer(connection: Connection, params: m.TurnSteerParams) -> Awaitable[m.TurnSteerResult]:
    """Send a message to the turn that runs."""
    session = connection.hub.session(params.sid)
    steered = session.turns.prompts.steer(params.input, params.expect_turn_id, connection.author)
    return _after_storing(
        session, m.TurnSteerResult(steered.outcome, steered.turn_id, session.record.log.seq)
    )


def interrupt(connection: Connection, params: m.InterruptParams) -> m.InterruptResult:
    """Stop a turn."""
    session = connection.hub.session(params.sid)
    done = session.turns.prompts.interrupt(params.turn_id, params.queue)
    return m.InterruptResult(done.accepted, session.record.log.seq, done.returned)


def list_queue(connection: Connection, params: m.SidParams) -> m.QueueResult:
    """List the prompts that wait."""
    return _queue(connection.hub.session(params.sid))


def edit_queued(connection: Connection, params: m.QueueEditParams) -> Awaitable[m.QueueResult]:
    """Change a prompt that waits."""
    session = connection.hub.session(params.sid)
    session.turns.prompts.edit(params.item_id, params.input)
    return _after_storing(session, _queue(session))


def remove_queued(connection: Connection, params: m.QueueRemoveParams) -> Awaitable[m.QueueResult]:
    """Remove a prompt from the queue."""
    session = connection.hub.session(params.sid)
    session.turns.prompts.remove(params.item_id)
    return _after_storing(session, _queue(session))


async def _after_storing(session: Session, result: T) -> T:
    """Return *result* once the queue that it acknowledges is on disk."""
    await session.record.store_queue()
    return result


def _submit(connection: Connection, session: Session, params: m.TurnParams) -> SubmitReceipt:
    """Give a prompt to its session now, and show its turn where the client gave tokens for that."""
    seq, sink = session.record.log.seq, connection.sink
    started = session.turns.prompts.submit(
        params.input,
        when_busy=params.when_busy,
        expect_head=params.expect_head,
        idempotency_key=params.idempotency_key,
        author=connection.author,
        max_model_calls=params.max_model_calls,
        allow=params.allow or (),
        budget=params.budget,
    )
    if started.disposition != "steered" and (progress := sink.progress(params.work_done_token)) is not None:
        show_turn(session, started, progress, seq)
    if (token := params.partial_result_token) is not None:

        def send(part: dict[str, Any], is_last: bool) -> bool:
            return sink.send_part(token, part, is_last=is_last)

        stream_answer(session.record.log, started.turn_id, send, seq)
    return started


def _queue(session: Session) -> m.QueueResult:
    waiting = session.record.queue.compactions
    return m.QueueResult(session.turns.prompts.items(), session.record.log.seq, waiting)


HANDLERS: Final[dict[str, Handler]] = {
    "sidecar/turn/start": start,
    "sidecar/turn/run": run,
    "sidecar/turn/steer": steer,
    "sidecar/turn/interrupt": interrupt,
    "sidecar/queue/list": list_queue,
    "sidecar/queue/edit": edit_queued,
    "sidecar/queue/remove": remove_queued,
}
