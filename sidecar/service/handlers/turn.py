"""``sidecar/turn/*`` and ``sidecar/queue/*``: send prompts, wait for them, steer, stop, and edit the queue.

Every one of them takes effect when it is called, and only its answer may have to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, ClassVar

from sidecar._internal.errors import SidecarError
from sidecar.conductor.contract import Author
from sidecar.conductor.jobs import SubmitReceipt, TurnFault, TurnOutcome
from sidecar.conductor.session import Session
from sidecar.protocol.messages import (
    InterruptParams,
    InterruptResult,
    QueueEditParams,
    QueueRemoveParams,
    QueueResult,
    SidParams,
    TurnParams,
    TurnRunResult,
    TurnStartResult,
    TurnSteerParams,
    TurnSteerResult,
)
from sidecar.service.partial import stream_answer
from sidecar.service.progress import show_turn

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = [
    "TurnFailed",
    "interrupt",
    "queue_edit",
    "queue_list",
    "queue_remove",
    "run",
    "start",
    "steer",
]


class TurnFailed(SidecarError):
    """The turn faulted; *kind* is that of the fault, such as ``modelFailed``."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, sid: str, turn_id: str, fault: TurnFault) -> None:
        super().__init__(fault.message, sid=sid, turnId=turn_id)
        self.kind = fault.kind  # type: ignore[misc]  # one class for every RunErrorKind


def start(connection: Connection, params: TurnParams) -> Awaitable[TurnStartResult]:
    """Send a prompt; the events tell the rest."""
    session = connection.hub.session(params.sid)
    return _started(session, _take(connection, session, params))


def run(connection: Connection, params: TurnParams) -> Awaitable[TurnRunResult]:
    """Send a prompt and wait until it is answered. Cancelling the request does not stop the turn."""
    session = connection.hub.session(params.sid)
    return _settled(session, _take(connection, session, params))


def steer(connection: Connection, params: TurnSteerParams) -> TurnSteerResult:
    """Say something to the turn that runs."""
    session = connection.hub.session(params.sid)
    steered = session.prompts.steer(params.input, params.expect_turn_id, _author(connection))
    return TurnSteerResult(steered.outcome, steered.turn_id, session.log.seq)


def interrupt(connection: Connection, params: InterruptParams) -> InterruptResult:
    """Stop a turn."""
    done = connection.hub.session(params.sid).interrupt(params.turn_id, params.queue)
    return InterruptResult(done.accepted, done.returned)


def queue_list(connection: Connection, params: SidParams) -> QueueResult:
    """List the prompts that wait."""
    return _queue(connection.hub.session(params.sid))


def queue_edit(connection: Connection, params: QueueEditParams) -> QueueResult:
    """Change a prompt that waits."""
    session = connection.hub.session(params.sid)
    session.prompts.edit(params.item_id, params.input)
    return _queue(session)


def queue_remove(connection: Connection, params: QueueRemoveParams) -> QueueResult:
    """Take a prompt out of the queue."""
    session = connection.hub.session(params.sid)
    session.prompts.remove(params.item_id)
    return _queue(session)


def _take(connection: Connection, session: Session, params: TurnParams) -> SubmitReceipt:
    seq = session.log.seq
    started = session.prompts.take(
        params.input,
        when_busy=params.when_busy,
        expect_head=params.expect_head,
        idempotency_key=params.idempotency_key,
        author=_author(connection),
    )
    if started.disposition != "steered":
        show_turn(session, started, connection.link.progress(params.work_done_token), seq)
    if (token := params.partial_result_token) is not None:
        tell = connection.link.send_part
        stream_answer(
            session.log, started.turn_id, lambda part, is_last: tell(token, part, is_last=is_last), seq
        )
    return started


def _author(connection: Connection) -> Author:
    return Author(connection.client_id, connection.name)


async def _started(session: Session, taken: SubmitReceipt) -> TurnStartResult:
    started = await session.prompts.entered(taken)
    return TurnStartResult(
        started.turn_id, started.user_node_id, started.disposition, session.log.seq, started.position
    )


async def _settled(session: Session, taken: SubmitReceipt) -> TurnRunResult:
    outcome: TurnOutcome = await asyncio.shield(taken.outcome)
    if outcome.fault is not None:
        raise TurnFailed(session.sid, outcome.turn_id, outcome.fault)
    return TurnRunResult(
        outcome.turn_id, outcome.stop_reason, outcome.head, outcome.usage, outcome.text, session.log.seq
    )


def _queue(session: Session) -> QueueResult:
    return QueueResult(session.prompts.items(), session.log.seq)
