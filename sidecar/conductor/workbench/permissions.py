"""Permissions: a tool's question is sent to the clients that control the session, and answered exactly once.

The question counts as rejected when no client controls the session, when no answer comes in time, when the
client disconnects, or when the answer is not one of the options. A client that takes control of the session
meanwhile is asked as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
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


class _OpenQuestion:
    """A question that waits for its first answer."""

    def __init__(self, request: PermissionRequest) -> None:
        self._request = request
        self._asked: dict[str, asyncio.Task[tuple[PermissionAnswer, str]]] = {}
        self._done: asyncio.Queue[asyncio.Task[tuple[PermissionAnswer, str]]] = asyncio.Queue()
        self._n_open = 0

    def put(self, client: ClientPort) -> None:
        """Ask *client*, unless it is being asked."""
        asked = self._asked.get(client.client_id)
        if asked is None or asked.done():
            self._n_open += 1
            asked = self._asked[client.client_id] = asyncio.create_task(self._ask(client))
            asked.add_done_callback(self._done.put_nowait)

    async def first_answer(self) -> tuple[str, str]:
        """Return the id of the chosen option, and the client that chose it."""
        while self._n_open:
            answer, by = (await self._done.get()).result()
            self._n_open -= 1
            if answer.outcome == "selected":
                offered = (each.option_id for each in self._request.options)
                return next((each for each in offered if each == answer.option_id), "reject_once"), by
        return "cancelled", "no client"

    async def withdraw(self) -> None:
        """Ask nobody any more."""
        for asked in self._asked.values():
            asked.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def _ask(self, client: ClientPort) -> tuple[PermissionAnswer, str]:
        return await client.request_permission(self._request), client.name


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
    _open: list[_OpenQuestion] = field(default_factory=list)

    def ask_newcomer(self, client: ClientPort) -> None:
        """Put the open questions to *client*, which has just taken control of the session."""
        for question in self._open:
            question.put(client)

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
        self, clients: Iterable[ClientPort], request: PermissionRequest
    ) -> tuple[str, str]:
        """Return the id of the chosen option, and the client that chose it."""
        question = _OpenQuestion(request)
        for client in clients:
            question.put(client)
        self._open.append(question)
        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                return await question.first_answer()
        except TimeoutError:
            return "expired", "timeout"
        finally:
            self._open.remove(question)
            await question.withdraw()


def make_options(verdict: Verdict) -> tuple[PermissionOption, ...]:
    """Return the answers on offer; "always" names its scope, and is left out without one."""
    always = PermissionOption("allow_always", f"Always allow {verdict.label} in this session", "allow_always")
    return (
        PermissionOption("allow_once", "Allow", "allow_once"),
        *((always,) if verdict.keys else ()),
        PermissionOption("reject_once", "Reject", "reject_once"),
    )
