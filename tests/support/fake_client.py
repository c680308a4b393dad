"""A connected client, as the hub and the permission broker see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from sidecar.conductor.contract import (
    Elicitation,
    ElicitationAnswer,
    PermissionAnswer,
    PermissionRequest,
    SessionSummary,
)


@dataclass
class FakeClient:
    """Answers every question with *answer*, or never for None, and records its notifications.

    Attributes:
        requests: the questions that it was sent.
        resolved: outcome and author of each question that was resolved.
        n_list_changes: the number of notifications about the list of sessions.
        lines: the lines of the list that have changed, in their order.
        removed: the sessions that were removed.
        was_asked: set with the first question.
        was_cancelled: whether a question that it never answered was taken back.
    """

    name: str = "editor"
    answer: PermissionAnswer | None = None
    requests: list[PermissionRequest] = field(default_factory=list)
    resolved: list[tuple[str, str]] = field(default_factory=list)
    n_list_changes: int = 0
    lines: list[SessionSummary] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    was_cancelled: bool = False

    @property
    def client_id(self) -> str:
        return self.name

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        self.requests.append(request)
        self.was_asked.set()
        if self.answer is not None:
            return self.answer
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # never set
        finally:
            self.was_cancelled = True

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        self.resolved.append((outcome, by))

    async def elicit(self, form: Elicitation) -> ElicitationAnswer | None:
        return None

    def elicit_resolved(self, sid: str, elicitation_id: str, action: str, by: str) -> None:
        self.resolved.append((action, by))

    def sessions_changed(self, changed: Sequence[SessionSummary], removed: Sequence[str]) -> None:
        self.n_list_changes += 1
        self.lines += changed
        self.removed += removed

    def follow_child(self, sid: str) -> None:
        """Follow no sub-agents."""

    def unfollow(self, sid: str) -> None:
        """Follow nothing."""
