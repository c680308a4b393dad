"""Permissions: a tool's question is sent to the clients that control the session, and answered exactly once.

The question counts as rejected when no client controls the session, when no answer comes in time, when the
client disconnects, or when the answer is not one of the options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from sidecar.capabilities.contract import PermissionDecision, PermissionQuestion
from sidecar.conductor.contract import (
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
)
from sidecar.conductor.ports import ClientPort, SessionHost
from sidecar.permissions.policy import Policy, Verdict

_ALLOWING = frozenset({"allow_once", "allow_always"})


class PermissionBroker(Struct):
    """The questions of one session; *timeout_ms* limits the wait for an answer.

    A question that *policy* decides is not asked.
    Controllers receive the question, and every listener is notified
    of the outcome. The mode and the answers "always" last as long as the session is loaded.
    """

    sid: str
    host: SessionHost
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    timeout_ms: int
    policy: Policy
    _unasked: set[str] = field(default_factory=set)

    @contextmanager
    def skip_question(self, call_id: str) -> Iterator[None]:
        """Ask nobody for the tool call *call_id* inside the block; a refusal of the policy holds."""
        self._unasked.add(call_id)
        try:
            yield
        finally:
            self._unasked.discard(call_id)

    async def ask(self, ask: PermissionQuestion, turn_id: str | None) -> PermissionDecision:
        """Return whether *ask* is allowed; where the user is asked, the first answer decides."""
        verdict = await asyncio.to_thread(self.policy.judge, ask.access)
        if verdict.outcome != "ask":
            is_allowed = verdict.outcome == "allow"
            return PermissionDecision(is_allowed, None if is_allowed else verdict.why)
        if ask.call_id in self._unasked:
            return PermissionDecision(True)
        clients = tuple(self.host.controllers(self.sid))
        if not clients:
            return PermissionDecision(False)
        diffs = tuple(
            {"path": str(diff.path), "oldText": diff.old_text, "newText": diff.new_text} for diff in ask.diffs
        )
        request = PermissionRequest(
            sid=self.sid,
            turn_id=turn_id,
            permission_id=self.new_id(),
            title=ask.title,
            subject=PermissionSubject(ask.subject, ask.call_id, ask.tool, ask.detail, diffs),
            options=make_options(verdict),
            expires_at=self.clock_ms() + self.timeout_ms,
            description=f"{verdict.why[:1].upper()}{verdict.why[1:]}.",
        )
        option, by = "cancelled", "the tool call"
        try:
            option, by = await self._first_answer(clients, request)
        finally:
            # Also when the tool call was cancelled: no client may go on showing the question.
            for client in self.host.listeners(self.sid):
                client.permission_resolved(self.sid, request.permission_id, option, by)
        if option == "allow_always":
            self.policy.grant(verdict)
        return PermissionDecision(option in _ALLOWING)

    async def _first_answer(
        self, clients: Sequence[ClientPort], request: PermissionRequest
    ) -> tuple[str, str]:
        """Return the id of the chosen option, and the client that chose it."""

        async def put(client: ClientPort) -> tuple[PermissionAnswer, str]:
            return await client.request_permission(request), client.name

        questions = [asyncio.ensure_future(put(client)) for client in clients]
        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                for question in asyncio.as_completed(questions):
                    answer, by = await question
                    if answer.outcome == "selected":
                        offered = (each.option_id for each in request.options)
                        return next((each for each in offered if each == answer.option_id), "reject_once"), by
        except TimeoutError:
            return "expired", "timeout"
        finally:
            for open_question in questions:
                open_question.cancel()
            await asyncio.gather(*questions, return_exceptions=True)
        return "cancelled", "no client"


def make_options(verdict: Verdict) -> tuple[PermissionOption, ...]:
    """Return the answers on offer; "always" names its scope, and is left out without one."""
    always = PermissionOption("allow_always", f"Always allow {verdict.label} in this session", "allow_always")
    return (
        PermissionOption("allow_once", "Allow", "allow_once"),
        *((always,) if verdict.keys else ()),
        PermissionOption("reject_once", "Reject", "reject_once"),
    )
