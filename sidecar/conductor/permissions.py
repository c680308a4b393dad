"""Questions to the user: asked of the clients that control a session, answered once, never left hanging.

No client, no answer in time, a client that left, or an answer nobody offered: each counts as a rejection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sidecar.capabilities.contract import Diff, PermissionAsk
from sidecar.conductor.contract import (
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    PermissionSubject,
)
from sidecar.conductor.ports import ClientPort

__all__ = ["PermissionDesk"]

_OPTIONS = (
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow in this session", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
)
_ALLOWING = frozenset({"allow_once", "allow_always"})


@dataclass(slots=True)
class PermissionDesk:
    """The questions of one session. *clients* returns those that may answer; *timeout_ms* bounds the wait."""

    sid: str
    clients: Callable[[], Sequence[ClientPort]]
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    timeout_ms: int
    _always: set[str] = field(default_factory=set)

    async def ask(self, ask: PermissionAsk, turn_id: str | None) -> bool:
        """Return whether the user allows *ask*; the first client to answer decides for all."""
        if ask.scope in self._always:
            return True
        clients = tuple(self.clients())
        if not clients:
            return False
        request = self._request(ask, turn_id)
        option, by = await self._first_answer(clients, request)
        if option == "allow_always":
            self._always.add(ask.scope)
        for client in self.clients():
            client.permission_resolved(self.sid, request.permission_id, option, by)
        return option in _ALLOWING

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
