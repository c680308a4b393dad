"""``sidecar/turn/*``: send a prompt, wait for it, stop it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from sidecar._internal.errors import SidecarError
from sidecar.conductor.jobs import TurnFault, TurnOutcome, TurnStarted
from sidecar.conductor.session import Session
from sidecar.protocol.messages import (
    InterruptParams,
    InterruptResult,
    TurnParams,
    TurnRunResult,
    TurnStartResult,
)
from sidecar.service.progress import show_turn

if TYPE_CHECKING:
    from sidecar.service.service import Connection

__all__ = ["TurnFailed", "interrupt", "run", "start"]


class TurnFailed(SidecarError):
    """The turn faulted; *kind* is that of the fault, such as ``modelFailed``."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, sid: str, turn_id: str, fault: TurnFault) -> None:
        super().__init__(fault.message, sid=sid, turnId=turn_id)
        self.kind = fault.kind  # type: ignore[misc]  # one class for every RunErrorKind


async def start(connection: Connection, params: TurnParams) -> TurnStartResult:
    """Send a prompt; the events tell the rest."""
    session = connection.hub.session(params.sid)
    started = await _submit(connection, session, params)
    return TurnStartResult(
        started.turn_id, started.user_node_id, started.disposition, session.log.seq, started.position
    )


async def run(connection: Connection, params: TurnParams) -> TurnRunResult:
    """Send a prompt and wait until it is answered. Cancelling the request does not stop the turn."""
    session = connection.hub.session(params.sid)
    started = await _submit(connection, session, params)
    outcome: TurnOutcome = await asyncio.shield(started.outcome)
    if outcome.fault is not None:
        raise TurnFailed(session.sid, outcome.turn_id, outcome.fault)
    return TurnRunResult(
        outcome.turn_id, outcome.stop_reason, outcome.head, outcome.usage, outcome.text, session.log.seq
    )


def interrupt(connection: Connection, params: InterruptParams) -> InterruptResult:
    """Stop a turn."""
    done = connection.hub.session(params.sid).interrupt(params.turn_id, params.queue)
    return InterruptResult(done.accepted, done.returned)


async def _submit(connection: Connection, session: Session, params: TurnParams) -> TurnStarted:
    seq = session.log.seq
    started = await session.submit(
        params.input,
        when_busy=params.when_busy,
        expect_head=params.expect_head,
        idempotency_key=params.idempotency_key,
    )
    if started.disposition != "steered":
        show_turn(session, started, connection.link.progress(params.work_done_token), seq)
    return started
