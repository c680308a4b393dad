"""Builds a daemon from its parts; the only room that names the concrete ones.

Nothing runs here, and nothing is decided that a client could decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from uuid import uuid4

from sidecar._internal.env import indusagi_home
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.mcp import SessionToolServers
from sidecar.capabilities.toolbox import SessionToolBox, default_tools
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engines.agentcore import AgentcoreEngine
from sidecar.conductor.engines.base import SessionEngine
from sidecar.conductor.engines.none import NoEngine
from sidecar.conductor.engines.runtime_memory import RuntimeEngine
from sidecar.conductor.engines.sliding_window import SlidingWindowEngine
from sidecar.conductor.engines.summarizing import SummarizingEngine
from sidecar.conductor.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.hub import Hub
from sidecar.conductor.knowledge import StoredSessions
from sidecar.conductor.ports import OpenedSession, StoreReport
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.rooms.knowledge.library import KnowledgeLibrary
from sidecar.runtime.store import (
    SessionGraph,
    SessionJournal,
    SessionStore,
    StoreUnavailable,
    journal_in_memory,
)
from sidecar.service.service import Service
from sidecar.service.stats import ProcessStats
from sidecar.service.tracing import Tracer
from sidecar.workspace.paths import resolve_path
from sidecar.workspace.workspace import Workspace

__all__ = ["Daemon", "SessionShelf", "build"]

DEFAULT_ENGINE: Final = "windowBudget"

Lifetime: TypeAlias = Literal["client", "shared"]
"""Whose a daemon is: it ends with its one client, or some time after the last of several."""

_LIFETIME_HINTS: Final[dict[Lifetime, str]] = {
    "client": 'for a shared one start "sidecar serve --shared"',
    "shared": 'for one of your own start "sidecar serve" without --shared',
}


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that is ready to be given clients."""

    service: Service
    workspace: Workspace
    models: ModelRegistry
    lifetime: Lifetime = "client"

    def configure(self, options: Mapping[str, Any]) -> None:
        """Take ``initializationOptions.sidecar`` of a client. Raises InvalidInput."""
        if not isinstance(options, Mapping):
            raise InvalidInput("initializationOptions.sidecar must be an object")
        self._check_lifetime(options.get("lifetime", self.lifetime))
        if "models" in options:
            self.models.add_scripted(options["models"])

    def _check_lifetime(self, wanted: Any) -> None:
        # By the time a client can ask, it is decided: whoever started the process has chosen.
        if wanted != self.lifetime:
            message = f"this daemon's lifetime is {self.lifetime!r}, not {wanted!r:.50}"
            raise InvalidInput(message, hint=_LIFETIME_HINTS[self.lifetime])


def build(
    home: Path | None = None, lifetime: Lifetime = "client", *, models: ModelRegistry | None = None
) -> Daemon:
    """Return a daemon that keeps its state below *home*, the state directory when None.

    *lifetime* says whether it is one client's, or shared by several. *models* are those of the user whose
    state is in *home*, when None.
    """
    home = home or indusagi_home()
    workspace, models = Workspace(), models or ModelRegistry(setup=ModelSetup.of_user(home))
    stats = ProcessStats(workspace, _clock_ms)
    shelf = SessionShelf(SessionStore(home / "sessions"))
    parts = SessionDeps(
        models=models,
        workspace=workspace,
        engines=_engines(),
        toolbox=lambda context, observe: SessionToolBox(default_tools(), context, observe),
        tool_servers=SessionToolServers,
        resolve=lambda path, cwd: resolve_path(path, cwd, ()).path,
        child_started=stats.children.add,
        clock_ms=_clock_ms,
        new_id=_new_id,
        library=KnowledgeLibrary(workspace, StoredSessions(shelf), home / "knowledge"),
    )
    tracer = Tracer(home / "traces", _clock_ms)
    service = Service(Hub(shelf, parts, DEFAULT_ENGINE), stats, tracer, _new_id)
    return Daemon(service, workspace, models, lifetime)


class SessionShelf:
    """``runtime.store`` as the hub wants it: opened under a lock for writing, read without one."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def open(self, sid: str, *, create: bool) -> OpenedSession:
        """Open *sid*, locked; a new one also where nothing can be stored now: its lines wait in memory."""
        try:
            release = self._store.lock(sid).release
        except StoreUnavailable:
            if not create:
                raise
            return await _opened(self._store.journal(sid), lambda: None)
        try:
            return await _opened(self._store.journal(sid), release)
        except BaseException:
            release()
            raise

    async def open_in_memory(self, sid: str) -> OpenedSession:
        """Return a session that is kept nowhere."""
        return await _opened(journal_in_memory(sid), lambda: None)

    async def exists(self, sid: str) -> bool:
        """Whether *sid* is stored."""
        return await self._store.exists(sid)

    async def graph(self, sid: str) -> SessionGraph:
        """Return every branch of *sid*."""
        return (await self._store.open(sid)).graph

    async def records(self, sid: str) -> Sequence[Mapping[str, Any]]:
        """Return the records of *sid* that are no nodes."""
        return (await self._store.open(sid)).records

    async def delete(self, sid: str) -> bool:
        """Remove *sid* for good."""
        return await self._store.delete(sid)

    async def metas(self) -> Sequence[Mapping[str, Any]]:
        """Return the newest ``meta`` record of every session."""
        stored = await self._store.summaries()
        return [{**found.meta, "sid": found.session_id} for found in stored if found.meta is not None]


async def _opened(journal: SessionJournal, release: Callable[[], None]) -> OpenedSession:
    await journal.load()
    found = journal.integrity
    report = StoreReport(found.ok, found.repaired, found.missing)
    return OpenedSession(journal, journal.take_records(), report, release)


def _engines() -> dict[str, Callable[[], SessionEngine]]:
    return {
        "windowBudget": WindowBudgetEngine,
        "runtime": RuntimeEngine,
        "agentcore": AgentcoreEngine,
        "slidingWindow": SlidingWindowEngine,
        "summarizing": SummarizingEngine,
        "none": NoEngine,
    }


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    return uuid4().hex
