"""What the hub asks of the place where sessions are kept. Values and a Protocol only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sidecar.conductor.history import GraphPort, JournalPort

__all__ = ["OpenedSession", "Report", "StorePort"]


@dataclass(frozen=True, slots=True)
class Report:
    """What the store found in a session's file: *repaired* was mended, *missing* could not be."""

    ok: bool = True
    repaired: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A stored session, opened for writing. *release* gives up its lock."""

    journal: JournalPort
    records: Sequence[Mapping[str, Any]]
    report: Report
    release: Callable[[], None]


class StorePort(Protocol):
    """Where sessions are kept. Boot adapts ``runtime.store.SessionStore`` to it."""

    async def open(self, sid: str, *, create: bool) -> OpenedSession:
        """Open *sid* for writing, locked. Raises SidecarError ``busy`` when another process has it."""
        ...

    async def open_in_memory(self, sid: str) -> OpenedSession:
        """Return a session that is kept nowhere."""
        ...

    async def exists(self, sid: str) -> bool:
        """Whether *sid* is stored."""
        ...

    async def graph(self, sid: str) -> GraphPort:
        """Return every branch of *sid* as it is stored; takes no lock."""
        ...

    async def records(self, sid: str) -> Sequence[Mapping[str, Any]]:
        """Return the records of *sid* that are no nodes; takes no lock."""
        ...

    async def delete(self, sid: str) -> bool:
        """Remove *sid* for good and say whether there was anything. Raises SidecarError ``busy``."""
        ...

    async def metas(self) -> Sequence[Mapping[str, Any]]:
        """Return the newest ``meta`` record of every stored session."""
        ...
