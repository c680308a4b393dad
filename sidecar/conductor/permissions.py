"""Permissions: a tool's question is sent to the clients that control the session, and answered exactly once.

The question counts as rejected when no client controls the session, when no answer comes in time, when the
client disconnects, or when the answer is not one of the options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from sidecar.capabilities.contract import EDIT_SCOPE, PermissionQuestion
from sidecar.conductor.contract import (
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
)
from sidecar.conductor.ports import ClientPort, SessionHost

PermissionMode: TypeAlias = Literal["ask", "allowEdits", "allowAll"]
"""The actions that need no question: none, edits inside the session's folders, or all."""

PERMISSION_MODES: Final = get_args(PermissionMode)

_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow in this session", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
)
_ALLOWING = frozenset({"allow_once", "allow_always"})


@dataclass(slots=True)
class PermissionBroker:
    """The questions of one session; *timeout_ms* limits the wait for an answer.

    Controllers receive the question, and every listener is notified of the outcome. *mode* and answers
    "always" last as long as the session is loaded.
    """

    sid: str
    host: SessionHost
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    timeout_ms: int
    mode: PermissionMode = "ask"
    _always: set[str] = field(default_factory=set)

    async def ask(self, ask: PermissionQuestion, turn_id: str | None) -> bool:
        """Return whether the user allows *ask*; the first answer decides."""
        is_edit = self.mode == "allowEdits" and ask.scope == EDIT_SCOPE
        if self.mode == "allowAll" or is_edit or ask.scope in self._always:
            return True
        clients = tuple(self.host.controllers(self.sid))
        if not clients:
            return False
        diffs = tuple(
            {"path": str(diff.path), "oldText": diff.old_text, "newText": diff.new_text} for diff in ask.diffs
        )
        request = PermissionRequest(
            sid=self.sid,
            turn_id=turn_id,
            permission_id=self.new_id(),
            title=ask.title,
            subject=PermissionSubject(ask.subject, ask.call_id, ask.tool, ask.detail, diffs),
            options=_OPTIONS,
            expires_at=self.clock_ms() + self.timeout_ms,
        )
        option, by = "cancelled", "the tool call"
        try:
            option, by = await self._first_answer(clients, request)
        finally:
            # Also when the tool call was cancelled: no client may go on showing the question.
            for client in self.host.listeners(self.sid):
                client.permission_resolved(self.sid, request.permission_id, option, by)
        if option == "allow_always":
            self._always.add(ask.scope)
        return option in _ALLOWING

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
                        known = (each.option_id for each in _OPTIONS if each.option_id == answer.option_id)
                        return next(known, "reject_once"), by
        except TimeoutError:
            return "expired", "timeout"
        finally:
            for open_question in questions:
                open_question.cancel()
            await asyncio.gather(*questions, return_exceptions=True)
        return "cancelled", "no client"
