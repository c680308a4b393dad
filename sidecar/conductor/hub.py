"""All sessions of the daemon: made, loaded, listed, read, closed; and the clients attached to them.

Both faces reach every session through here. One writer a session: a stored session is locked while loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.core import SessionParts
from sidecar.conductor.errors import FolderNotFound, ModelNotFound, SessionNotFound
from sidecar.conductor.history import JournalPort
from sidecar.conductor.info import SessionInfo
from sidecar.conductor.ports import ClientPort
from sidecar.conductor.records import from_record
from sidecar.conductor.session import Session
from sidecar.runtime.contract import SessionNode

__all__ = ["Hub", "Loaded", "NewSession", "OpenedSession", "Report", "StorePort"]


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

    async def nodes(self, sid: str) -> tuple[Sequence[SessionNode], str | None]:
        """Return every node of *sid* in the order they were stored, and its head; takes no lock."""
        ...

    async def records(self, sid: str) -> Sequence[Mapping[str, Any]]:
        """Return the records of *sid* that are no nodes; takes no lock."""
        ...

    async def metas(self) -> Sequence[Mapping[str, Any]]:
        """Return the newest ``meta`` record of every stored session."""
        ...


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session as a client asks for it; None leaves a choice to the hub."""

    cwd: str
    roots: tuple[str, ...] = ()
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    policy: Mapping[str, float] = field(default_factory=dict)
    ephemeral: bool = False
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A session that is in memory now, and how its file was found."""

    session: Session
    report: Report


class Hub:
    """The sessions of one daemon. *default_engine* is used when a client names none."""

    def __init__(self, store: StorePort, parts: SessionParts, default_engine: str) -> None:
        self._store = store
        self._parts = replace(parts, clients=self.controllers, changed=self._changed)
        self._default_engine = default_engine
        self._sessions: dict[str, Session] = {}
        self._releases: dict[str, Callable[[], None]] = {}
        self._loading: dict[str, asyncio.Task[Loaded]] = {}
        self._attached: dict[str, dict[str, ClientPort]] = {}
        self._clients: dict[str, ClientPort] = {}

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions in memory."""
        return tuple(self._sessions.values())

    @property
    def engines(self) -> tuple[str, ...]:
        """The names of the engines on offer."""
        return tuple(self._parts.engines)

    def session(self, sid: str) -> Session:
        """Return a session in memory. Raises SessionNotFound."""
        if sid not in self._sessions:
            raise SessionNotFound(sid)
        return self._sessions[sid]

    async def new(self, wanted: NewSession) -> Session:
        """Start a session."""
        cwd = _folder(wanted.cwd)
        roots = tuple(map(_folder, wanted.roots))
        model = wanted.model or self._parts.models.default
        if model not in self._parts.models.names() and self._parts.models.card(model) is None:
            raise ModelNotFound(model, tuple(self._parts.models.names()))
        engine = wanted.engine or self._default_engine
        if engine not in self.engines:
            raise InvalidInput(f"no engine {engine!r}", hint=f"known engines: {', '.join(self.engines)}")
        now = self._parts.clock_ms()
        info = SessionInfo(
            sid=self._parts.new_id(),
            cwd=cwd,
            model=model,
            engine=engine,
            created_at=now,
            updated_at=now,
            roots=roots,
            title=wanted.title or "",
            policy=dict(wanted.policy),
            ephemeral=wanted.ephemeral,
            parent=wanted.parent,
        )
        opened = await self._open(info)
        session = await self._add(info, opened)
        self._changed()
        return session

    async def load(self, sid: str, cwd: str | None = None) -> Loaded:
        """Return a stored session, loading it when it is not in memory. Raises SessionNotFound."""
        if sid in self._sessions:
            return Loaded(self._sessions[sid], Report())
        if sid not in self._loading:
            task = asyncio.ensure_future(self._load(sid, cwd))
            task.add_done_callback(lambda _: self._loading.pop(sid, None))
            self._loading[sid] = task
        return await asyncio.shield(self._loading[sid])

    async def close(self, sid: str) -> None:
        """Close a session; it stays stored."""
        session = self.session(sid)
        del self._sessions[sid]
        try:
            await session.aclose()
        finally:
            self._releases.pop(sid)()
            self._attached.pop(sid, None)
        self._changed()

    async def aclose(self) -> None:
        """Close every session, all at once."""
        await asyncio.gather(*(self.close(sid) for sid in tuple(self._sessions)), return_exceptions=True)

    async def list(self) -> tuple[SessionSummary, ...]:
        """Return every session, in memory and stored, the newest first."""
        stored = [from_record(SessionInfo, meta) for meta in await self._store.metas()]
        infos = {info.sid: info for info in stored if info is not None}
        infos |= {session.sid: session.info for session in self.sessions}
        newest_first = sorted(infos.values(), key=lambda info: (info.updated_at, info.sid), reverse=True)
        return tuple(self._summary(info) for info in newest_first)

    async def nodes(self, sid: str) -> tuple[Sequence[SessionNode], str | None]:
        """Return the stored nodes of *sid* and its head, without loading or locking it."""
        if not await self._store.exists(sid):
            raise SessionNotFound(sid)
        return await self._store.nodes(sid)

    async def records(self, sid: str) -> Sequence[Mapping[str, Any]]:
        """Return the stored records of *sid* that are no nodes."""
        if not await self._store.exists(sid):
            raise SessionNotFound(sid)
        return await self._store.records(sid)

    # The clients.

    def join(self, client: ClientPort) -> None:
        """Add a client."""
        self._clients[client.client_id] = client

    def leave(self, client: ClientPort) -> None:
        """Remove a client, from its sessions too."""
        self._clients.pop(client.client_id, None)
        for attached in self._attached.values():
            attached.pop(client.client_id, None)

    def attach(self, client: ClientPort, sid: str) -> None:
        """Let *client* answer the questions of a session."""
        self.session(sid)
        self._attached.setdefault(sid, {})[client.client_id] = client

    def detach(self, client: ClientPort, sid: str) -> None:
        """Take *client* off a session."""
        self._attached.get(sid, {}).pop(client.client_id, None)

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may answer a session's questions."""
        return tuple(self._attached.get(sid, {}).values())

    def _changed(self) -> None:
        for client in tuple(self._clients.values()):
            client.sessions_changed()

    def _summary(self, info: SessionInfo) -> SessionSummary:
        live = self._sessions.get(info.sid)
        return SessionSummary(
            sid=info.sid,
            cwd=info.cwd,
            title=info.title,
            updated_at=info.updated_at,
            phase=live.snapshot().phase if live else "idle",
            messages=len(live.history.turns) if live else info.messages,
            tokens=info.tokens,
            last_compaction_at=info.last_compaction_at,
            archived=info.archived,
        )

    async def _open(self, info: SessionInfo) -> OpenedSession:
        if info.ephemeral:
            return await self._store.open_in_memory(info.sid)
        return await self._store.open(info.sid, create=True)

    async def _load(self, sid: str, cwd: str | None) -> Loaded:
        if not await self._store.exists(sid):
            raise SessionNotFound(sid)
        opened = await self._store.open(sid, create=False)
        metas = [record for record in opened.records if record.get("type") == "meta"]
        found = from_record(SessionInfo, metas[-1]) if metas else None
        info = found or self._unknown_info(sid)
        if cwd is not None:
            info = replace(info, cwd=_folder(cwd))
        return Loaded(await self._add(info, opened), opened.report)

    def _unknown_info(self, sid: str) -> SessionInfo:
        """Return what to assume of a stored session whose ``meta`` record is gone."""
        now = self._parts.clock_ms()
        model = self._parts.models.default
        return SessionInfo(sid, str(Path.home()), model, self._default_engine, now, now)

    async def _add(self, info: SessionInfo, opened: OpenedSession) -> Session:
        try:
            session = Session(info, opened.journal, self._parts)
            await session.start(opened.records)
        except BaseException:
            opened.release()
            raise
        self._sessions[info.sid] = session
        self._releases[info.sid] = opened.release
        return session


def _folder(path: str) -> str:
    """Return *path* resolved. Raises FolderNotFound."""
    given = Path(path).expanduser()
    if not given.is_absolute():
        raise FolderNotFound(path, "it is not absolute")
    if not given.exists():
        raise FolderNotFound(path, "there is no such folder")
    if not given.is_dir():
        raise FolderNotFound(path, "it is not a folder")
    return str(given.resolve())
