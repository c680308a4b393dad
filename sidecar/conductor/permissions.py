"""Questions to the user: asked of the clients that control a session, answered once, never left hanging.

No client, no answer in time, a client that left, or an answer nobody offered: each counts as a rejection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from sidecar.capabilities.contract import Diff, PermissionAsk
from sidecar.capabilities.landing import EDIT_SCOPE
from sidecar.conductor.contract import (
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
)
from sidecar.conductor.ports import ClientPort, SessionHost

__all__ = ["PERMISSION_MODES", "PermissionBroker", "PermissionMode"]

PermissionMode: TypeAlias = Literal["ask", "allowEdits", "allowAll"]
"""What is allowed without a question: nothing, edits inside the session's folders, everything."""

PERMISSION_MODES: Final = get_args(PermissionMode)

_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow in this session", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
)
_ALLOWING = frozenset({"allow_once", "allow_always"})


@dataclass(slots=True)
class PermissionBroker:
    """The questions of one session; *timeout_ms* bounds the wait for an answer.

    *host* knows the clients: controllers are asked, listeners hear how it came out. *mode* lasts as long as
    the session is loaded, and so does an answer "always".
    """

    sid: str
    host: SessionHost
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    timeout_ms: int
    mode: PermissionMode = "ask"
    _always: set[str] = field(default_factory=set)

    async def ask(self, ask: PermissionAsk, turn_id: str | None) -> bool:
        """Return whether the user allows *ask*; the first client to answer decides for all."""
        if self._is_allowed(ask.scope):
            return True
        clients = tuple(self.host.controllers(self.sid))
        if not clients:
            return False
        request = self._request(ask, turn_id)
        option, by = "cancelled", "the tool call"
        try:
            option, by = await self._first_answer(clients, request)
        finally:
            # Also when nobody waits for the answer any more: no client may go on showing the question.
            for client in self.host.listeners(self.sid):
                client.permission_resolved(self.sid, request.permission_id, option, by)
        if option == "allow_always":
            self._always.add(ask.scope)
        return option in _ALLOWING

    def _is_allowed(self, scope: str) -> bool:
        if self.mode == "allowAll" or scope in self._always:
            return True
        return self.mode == "allowEdits" and scope == EDIT_SCOPE

    def _request(self, ask: PermissionAsk, turn_id: str | None) -> PermissionRequest:
        diffs = tuple(_diff(diff) for diff in ask.diffs)
        return PermissionRequest(
            sid=self.sid,
            turn_id=turn_id,
            permission_id=self.new_id(),
            title=ask.title,
            subject=PermissionSubject(ask.subject, ask.call_id, ask.tool, ask.detail, diffs),
            options=_OPTIONS,
            expires_at=self.clock_ms() + self.timeout_ms,
        )

    async def _first_answer(
        self, clients: Sequence[ClientPort], request: PermissionRequest
    ) -> tuple[str, str]:
        """Return the option chosen and who chose it."""
        questions = [asyncio.ensure_future(_put(client, request)) for client in clients]
        try:
            async with asyncio.timeout(self.timeout_ms / 1000):
                for question in asyncio.as_completed(questions):
                    answer, by = await question
                    if answer.outcome == "selected":
                        return _known_option(answer), by
        except TimeoutError:
            return "expired", "timeout"
        finally:
            for open_question in questions:
                open_question.cancel()
            await asyncio.gather(*questions, return_exceptions=True)
        return "cancelled", "no client"


async def _put(client: ClientPort, request: PermissionRequest) -> tuple[PermissionAnswer, str]:
    return await client.request_permission(request), client.name


def _known_option(answer: PermissionAnswer) -> str:
    known = {option.option_id for option in _OPTIONS}
    return answer.option_id if answer.option_id is not None and answer.option_id in known else "reject_once"


def _diff(diff: Diff) -> dict[str, str | None]:
    return {"path": str(diff.path), "oldText": diff.old_text, "newText": diff.new_text}
