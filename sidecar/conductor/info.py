"""What is known of a session besides its turns: the ``meta`` record of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["SessionInfo"]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session's name, place and choices; times are epoch milliseconds.

    *policy* overrides the engine's thresholds by their wire names. As of the last store: *seq* is the last
    number of the event log, *messages* and *tokens* the size of the conversation, *session_total* the tokens
    of all its model calls (a ``TokenCounts``), *cost* what they came to in US dollars, where that is known,
    *plan* the model's todo list, *mcp_servers* the tool servers that clients named for it, without what may
    be secret of them.
    """

    sid: str
    cwd: str
    model: str
    engine: str
    created_at: int
    updated_at: int
    roots: tuple[str, ...] = ()
    title: str = ""
    policy: Mapping[str, float] = field(default_factory=dict)
    knowledge: tuple[str, ...] = ()
    thinking: str = "default"
    archived: bool = False
    ephemeral: bool = False
    parent: str | None = None
    seq: int = 0
    messages: int = 0
    tokens: int = 0
    last_compaction_at: int | None = None
    session_total: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    plan: tuple[Mapping[str, Any], ...] = ()
    mcp_servers: tuple[Mapping[str, Any], ...] = ()

    def forked(self, sid: str, now_ms: int, n_messages: int) -> SessionInfo:
        """Return what is known of a fork *sid* of it with *n_messages* turns; it has cost nothing yet."""
        return replace(
            self,
            sid=sid,
            created_at=now_ms,
            updated_at=now_ms,
            parent=self.sid,
            archived=False,
            seq=0,
            messages=n_messages,
            last_compaction_at=None,
            session_total={},
            cost=None,
        )
