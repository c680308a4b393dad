"""The nodes of a stored conversation (facts 1.2, R22 to R27)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sidecar.llmgateway.contract import Turn

__all__ = ["Migrator", "SessionHead", "SessionNode"]


@dataclass(frozen=True, slots=True)
class SessionNode:
    """One immutable node of the session graph.

    *id* is a hash of the other three; *parent* is None for a root; *created_at* is in epoch milliseconds.
    """

    id: str
    parent: str | None
    turn: Turn
    created_at: int


@dataclass(frozen=True, slots=True)
class SessionHead:
    """Where a session stands: the node *leaf*, or nowhere yet."""

    session_id: str
    leaf: str | None


class Migrator(Protocol):
    """One step of a schema upgrade, applied to every record on load."""

    @property
    def id(self) -> str:
        """The name of the step."""
        ...

    def upgrade(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return *raw* in the next schema; a record that needs nothing is returned as it is."""
        ...
