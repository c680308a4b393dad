"""The hub: creates, loads, lists, forks and closes all sessions of the daemon, and knows its clients.

Both front ends reach every session through it. A stored session has one writer: it is locked while loaded.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from sidecar._internal.async_cancel import keep_until_done, wait_shielded
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput, LeaseLostError, log_fault
from sidecar._internal.values import Value
from sidecar.capabilities.contract import SubagentEnd, SubagentTask, ToolContext
from sidecar.capabilities.mcp.contract import McpServer
from sidecar.capabilities.worktree import has_worktrees
from sidecar.conductor.clients import Audience, ClientPort, ParentCall, Terminals
from sidecar.conductor.content import prompt_text, prompt_title
from sidecar.conductor.contract import Compaction, SessionSummary
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.errors import ModelNotFound, SessionNotFound, TooManySessionsError
from sidecar.conductor.events import Notice
from sidecar.conductor.record.branching import digest_left, entries_for_fork
from sidecar.conductor.record.shelf import OpenedSession, SessionShelf
from sidecar.conductor.records import (
    FileRename,
    SessionInfo,
    find_renames,
    from_record,
    newest_info,
    to_record,
)
from sidecar.conductor.session import Session
from sidecar.conductor.spending import Spending
from sidecar.conductor.subagents import child_info, run_child, unmerged_work
from sidecar.conductor.window.knowledge import check_sources
from sidecar.conductor.window.session_engines import check_policy
from sidecar.conductor.window.weights import entry_tokens
from sidecar.conductor.workbench.files import existing_folder, existing_folders
from sidecar.conductor.workbench.kept_changes import find_changes
from sidecar.conversation import Entry
from sidecar.extensions.contract import WithoutServers
from sidecar.llmgateway.registry import ModelRegistry
from sidecar.runtime.store import IntegrityReport, SessionGraph
from sidecar.runtime.store.place import ALL_SESSIONS, SessionQuery

if TYPE_CHECKING:
    from sidecar.importing.contract import ImportedCompaction, ImportedSession


_log = logging.getLogger(__name__)

MAX_LOADED: Final = 400
"""The most sessions in memory: each has a lock, and systems allow a process about 1,000 open files."""

_MAX_BRIEF_CHARS: Final = 20_000
_MAX_RENAMES: Final = 1_000
"""Older renames are forgotten: a session that is loaded later no longer knows their files."""


class NewSession(Value):
    """A request for a new session; None leaves a choice to the hub."""

    cwd: str
    roots: tuple[str, ...] = ()
    title: str | None = None
    model: str | None = None
    engine: str | None = None
    policy: Mapping[str, float] = field(default_factory=dict)
    knowledge: tuple[str, ...] = ()
    ephemeral: bool = False
    parent: str | None = None
    servers: tuple[McpServer, ...] = ()
    brief: str = ""


class ForkOf(Value):
    """A request for a fork of *sid*, with its turns up to *at_node*, or up to its head for None.

    A field that is None is copied from *sid*; the tool servers are copied only if *sid* is in memory.
    """

    sid: str
    at_node: str | None = None
    title: str | None = None
    cwd: str | None = None
    servers: tuple[McpServer, ...] | None = None
    roots: tuple[str, ...] | None = None
    brief: str | None = None


class Loaded(Value):
    """A session in memory, and the state of its file."""

    session: Session
    report: IntegrityReport


class Hub:
    """The sessions of one daemon. *default_engine* is used when a client names none.

    Attributes:
        audience: the connected clients.
        terminals: the terminals that clients lend to sessions.
    """

    def __init__(self, store: SessionShelf, deps: SessionDeps, default_engine: str) -> None:
        self.audience = Audience()
        self.terminals = Terminals()
        self._store = store
        self._deps = deps
        self._default_engine = default_engine
        self._sessions: dict[str, Session] = {}
        self._releases: dict[str, Callable[[], Awaitable[None]]] = {}
        self._loading: dict[str, asyncio.Task[Loaded]] = {}
        self.lost: dict[str, str] = {}  # by session: the daemon that took it over
        self._renames: deque[FileRename] = deque(maxlen=_MAX_RENAMES)
        deps.workspace.on_rename(self._keep_rename)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions in memory."""
        return tuple(self._sessions.values())

    @property
    def engines(self) -> tuple[str, ...]:
        """The names of the engines on offer."""
        return tuple(self._deps.engines)

    def session(self, sid: str) -> Session:
        """Return a session in memory. Raises SessionNotFound, or LeaseLostError."""
        if sid not in self._sessions:
            raise LeaseLostError(sid, self.lost[sid]) if sid in self.lost else SessionNotFound(sid)
        return self._sessions[sid]

    async def new(self, wanted: NewSession) -> Session:
        """Start a session.

        Raises FolderNotFound, ModelNotFound, or InvalidInput for an unknown engine, source or threshold.
        """
        info, models = await self._new_info(wanted)
        session = await self._add(info, await self._open(info), models)
        if wanted.model is None and models.remark is not None:
            session.record.notices.add(Notice("info", "Model", models.remark))
        session.connect(wanted.servers)
        self.announce_change(session.summary())
        return session

    async def import_session(self, imported: ImportedSession, wanted: NewSession) -> SessionInfo:
        """Store a session of another agent, which is not loaded; raises as :meth:`new`."""
        info, _ = await self._new_info(wanted)
        info, records = await asyncio.to_thread(describe_import, info, imported, self._deps.new_id)
        opened = await self._adopt(info, records, imported.entries, imported.leaf)
        await opened.release()
        self.announce_change(info.summary())
        return info

    async def fork(self, wanted: ForkOf) -> Session:
        """Start a session with the turns of another, which is not changed.

        The fork has cost nothing yet, knows the files that its turns have read, and asks before changes.
        Raises SessionNotFound, NodeNotFound, FolderNotFound, FolderUnknownError.
        """
        source, graph = await self.info(wanted.sid), await self.graph(wanted.sid)
        leaf = wanted.at_node or graph.leaf
        entries, n_turns = await asyncio.to_thread(entries_for_fork, leaf, graph, wanted.sid)
        now, tells = self._deps.clock_ms(), self._deps.compaction.branch_digests
        info = replace(
            source.as_fork(self._deps.new_id(), now, n_turns),
            cwd=source.cwd if wanted.cwd is None else existing_folder(wanted.cwd),
            roots=source.roots if wanted.roots is None else existing_folders(wanted.roots),
            title=wanted.title or source.title,
            brief=source.brief if wanted.brief is None else check_brief(wanted.brief),
            fork_digest=await asyncio.to_thread(digest_left, graph, graph.leaf, leaf) if tells else "",
        )
        info.check_folder()
        loaded, servers = self._sessions.get(wanted.sid), wanted.servers
        if loaded is None:
            records = await self._store.records(wanted.sid)
            changes, renames = find_changes(records), find_renames(records)
        else:
            changes = [*loaded.workbench.checkpoints.changes.values()]
            renames = loaded.record.history.renames
        kept = [to_record("rename", rename) for rename in renames]
        opened = await self._adopt(info, kept, entries, leaf)
        session = await self._add(info, replace(opened, records=kept))
        await session.workbench.checkpoints.adopt(changes, wanted.sid)
        await session.record.store()
        session.connect(servers or (loaded.workbench.servers.named if loaded and servers is None else ()))
        self.announce_change(session.summary())
        return session

    async def fork_of(self, sid: str) -> str:
        """Fork *sid* at its head and return the id of the fork."""
        return (await self.fork(ForkOf(sid))).sid

    async def new_like(self, sid: str) -> str:
        """Start an empty session with the settings of *sid*, which is in memory, and return its id."""
        source = self.session(sid)
        info = source.info
        wanted = NewSession(
            cwd=info.cwd,
            roots=info.roots,
            model=info.model,
            engine=info.engine,
            policy=info.policy,
            knowledge=info.knowledge,
            ephemeral=info.ephemeral,
            servers=source.workbench.servers.named,
            brief=info.brief,
        )
        session = await self.new(wanted)
        session.record.amend(lambda made: replace(made, thinking=info.thinking, budget=info.budget))
        session.record.spending.choose(info.budget, source.record.spending.settings)
        session.workbench.policy.mode = source.workbench.policy.mode
        return session.sid

    async def run_subagent(
        self, sid: str, task: SubagentTask, context: ToolContext, cancel: CancelToken
    ) -> SubagentEnd:
        """Run a sub-agent for a call of session *sid*. Raises SidecarError where it cannot begin."""
        parent = self.session(sid)
        child = await self.open_child(await child_info(parent, task, context.call_id), parent)
        try:
            return await run_child(child, parent, task, context, cancel, self.audience.listeners(sid))
        finally:
            await self.leave_child(child)

    async def open_child(self, info: SessionInfo, parent: Session) -> Session:
        """Start a sub-agent of *parent* with its models. Raises TooManySessionsError."""
        assert info.tool_call_id is not None
        above = parent.record
        child = await self._add(info, await self._open(info), above.models, above.spending)
        child.record.work.above = above.work
        self.audience.parent_calls[child.sid] = ParentCall(parent.sid, info.tool_call_id)
        return child

    async def leave_child(self, child: Session) -> None:
        """Close a sub-agent after its call; one that a client has opened is stored and goes on."""
        if self._sessions.get(child.sid) is not child:
            return  # it was closed meanwhile
        if self.audience.openers(child.sid):
            self.audience.parent_calls.pop(child.sid, None)
            child.record.work.above = None
            await child.record.store()
            return
        for client in self.audience.listeners(child.sid):
            client.unfollow(child.sid)
        await self.close(child.sid, keeps_queue=True)

    def ask_newcomer(self, client: ClientPort, session: Session) -> None:
        """Put the open questions of a session and of its sub-agents to a client that took control of it."""
        calls = self.audience.parent_calls
        for each in self.sessions:
            if each is session or (each.sid in calls and calls[each.sid].sid == session.sid):
                each.workbench.board.ask_newcomer(client)

    async def load(
        self,
        sid: str,
        cwd: str | None = None,
        servers: Sequence[McpServer] | None = None,
        roots: Sequence[str] | None = None,
    ) -> Loaded:
        """Return a session, loaded from the store unless it is in memory.

        Args:
            sid: the session.
            cwd: the new working folder, used only when the session is loaded now; None keeps the stored one.
            servers: tool servers to add.
            roots: the new further folders, used as *cwd* is.

        Raises:
            SessionNotFound: no such session is stored.
            FolderNotFound, FolderUnknownError: a folder does not exist, or the stored one is lost.
        """
        if sid not in self._sessions and sid not in self._loading:
            task = asyncio.ensure_future(self._load(sid, cwd, roots))
            task.add_done_callback(lambda _: self._loading.pop(sid, None))
            self._loading[sid] = task
        if sid in self._loading:
            loaded = await wait_shielded(self._loading[sid])
        else:
            loaded = Loaded(self._sessions[sid], IntegrityReport())
        if servers is not None:
            loaded.session.connect(servers)
        return loaded

    async def close(self, sid: str, *, keeps_queue: bool = False) -> int:
        """Stop a session, which stays stored, with *keeps_queue* its queue, too; return its last ``seq``."""
        session = self.session(sid)
        del self._sessions[sid]
        try:
            await session.aclose(keeps_queue=keeps_queue)
        finally:
            self.audience.dismiss(sid)
            await self._releases.pop(sid)()
        self.announce_change(session.info.summary(n_messages=len(session.record.history.turns)))
        return session.info.seq

    async def delete(self, sid: str) -> None:
        """Stop a session and delete it from the store, and then its sub-agents.

        The worktree of a sub-agent goes, too, unless it has work that was not merged: a notice to the session
        that it worked for says where, or else the log.
        Raises SessionNotFound, or SidecarError ``busy`` when another process has it loaded.
        """
        children = await self.list(SessionQuery(parent=sid))
        found = await self.list(SessionQuery(ids=frozenset((sid,))))
        if sid in self._sessions:
            await self.close(sid)
        elif not await self._store.place.exists(sid):
            raise SessionNotFound(sid)
        await self._store.delete(sid)
        self._deps.library.forget(sid)
        self.announce_change(removed=sid)
        for notice in await unmerged_work(found, discards=True):
            if (above := self._sessions.get(found[0].parent or "")) is not None:
                above.record.events.emit(notice)
            else:
                _log.warning(
                    "a deleted sub-agent leaves work; git branch --list 'sidecar/*' names its branch"
                )
        for child in children:
            with suppress(SessionNotFound):  # it ended with its parent, and was never stored
                await self.delete(child.sid)

    async def amend(self, sid: str, change: Callable[[SessionInfo], SessionInfo]) -> int:
        """Change the ``meta`` record of a session, in memory or stored, and return its newest ``seq``.

        Raises SessionNotFound, or SidecarError ``busy`` when another process has it loaded.
        """
        if (session := self._sessions.get(sid)) is not None:
            await session.amend(change)
            info, summary = session.info, session.summary()
        else:
            opened = await (await self._store_of(sid)).open(sid, create=False)
            try:
                info = change(self._info_in(sid, opened.records))
                summary = info.summary()
                await opened.journal.append_records([to_record("meta", info)])
            finally:
                await opened.release()
        self.announce_change(summary)
        return info.seq

    async def aclose(self) -> None:
        """Close every session concurrently, with its queue stored, then the models."""
        closing = [self.close(sid, keeps_queue=True) for sid in self._sessions]
        await asyncio.gather(*closing, return_exceptions=True)
        await self._store.place.aclose()
        await self._deps.models.aclose()

    async def list(self, query: SessionQuery = ALL_SESSIONS, content: str = "") -> Sequence[SessionSummary]:
        """Return the sessions that *query* asks for with the words of *content*, in memory and stored."""
        if words := content.split():
            query = replace(query, ids=await self._store.place.search(words))
        stored = await self._store.list(query.widen(len(self._sessions)))
        summaries = [each.summary() for each in self.sessions]
        summaries += [summary for summary in stored if summary.sid not in self._sessions]
        return query.select(summaries)

    async def info(self, sid: str) -> SessionInfo:
        """Return the ``meta`` record of a session. Raises SessionNotFound, as all readers do."""
        if sid in self._sessions:
            return self._sessions[sid].info
        return self._info_in(sid, await (await self._store_of(sid)).records(sid))

    async def graph(self, sid: str) -> SessionGraph:
        """Return every branch of a session, without loading or locking it."""
        if sid in self._sessions:
            return self._sessions[sid].record.history.graph
        return await (await self._store_of(sid)).graph(sid)

    async def page(self, sid: str, page: range, *, of_path: bool) -> Sequence[Entry]:
        """Return the nodes with the numbers *page*, on the path to the head or of all branches."""
        if (session := self._sessions.get(sid)) is None:
            return await (await self._store_of(sid)).place.page(sid, page, of_path=of_path)
        entries = (
            session.record.history.current
            if of_path
            else tuple(session.record.history.graph.entries.values())
        )
        return entries[page.start : page.stop]

    async def compactions(self, sid: str) -> Sequence[Compaction]:
        """Return every compaction of a session, oldest first."""
        if sid in self._sessions:
            return self._sessions[sid].record.compactions.all
        records = await (await self._store_of(sid)).records(sid)
        found = [from_record(Compaction, record) for record in records]
        return tuple({done.compaction_id: done for done in found if done is not None}.values())

    def announce_change(self, *changed: SessionSummary, removed: str | None = None) -> None:
        """Notify every client of the lines of the list of sessions that *changed*, or of one *removed*.

        Sub-agents are no part of that list.
        """
        listed = tuple(each for each in changed if each.kind is None)
        if len(listed) == len(changed):
            for client in self.audience.clients:
                client.sessions_changed(listed, () if removed is None else (removed,))

    async def _new_info(self, wanted: NewSession) -> tuple[SessionInfo, ModelRegistry]:
        """Return the record of a new session, and the models of its folder; raises as :meth:`new`."""
        cwd = existing_folder(wanted.cwd)
        models = await self._deps.models.at(Path(cwd), is_chosen=wanted.model is not None)
        if wanted.model is None and models.undecided is not None:
            raise InvalidInput(models.undecided, hint="correct the file, or choose a model with --model")
        model = wanted.model or models.default
        await models.ready(model)
        if (why := models.why_not(model)) is not None:
            raise ModelNotFound(model, tuple(models.names()), why)
        engine = wanted.engine or self._default_engine
        if engine not in self.engines:
            raise InvalidInput(f"no engine {engine!r}", hint=f"known engines: {', '.join(self.engines)}")
        now = self._deps.clock_ms()
        info = SessionInfo(
            sid=self._deps.new_id(),
            cwd=cwd,
            model=model,
            engine=engine,
            created_at=now,
            updated_at=now,
            roots=existing_folders(wanted.roots),
            title=wanted.title or "",
            policy=check_policy(wanted.policy, engine),
            knowledge=check_sources(wanted.knowledge, self._deps.library.names),
            ephemeral=wanted.ephemeral,
            parent=wanted.parent,
            brief=check_brief(wanted.brief),
        )
        return info, models

    async def _open(self, info: SessionInfo) -> OpenedSession:
        if info.ephemeral:
            return await self._store.open_in_memory(info.sid)
        return await self._store.open(info.sid, create=True)

    async def _adopt(
        self,
        info: SessionInfo,
        records: Iterable[Mapping[str, Any]],
        entries: Sequence[Entry],
        leaf: str | None,
    ) -> OpenedSession:
        """Store a session with the entries of another one, and return it opened."""
        opened = await self._open(info)
        try:
            await opened.journal.adopt([*records, to_record("meta", info)], entries, leaf)
        except BaseException:
            await opened.release()
            raise
        return opened

    async def _load(self, sid: str, cwd: str | None, roots: Sequence[str] | None) -> Loaded:
        folders: dict[str, Any] = {} if cwd is None else {"cwd": existing_folder(cwd)}
        if roots is not None:
            folders["roots"] = existing_folders(roots)
        opened = await (await self._store_of(sid)).take_over(sid)
        self.lost.pop(sid, None)
        stored = self._info_in(sid, opened.records)
        info = replace(stored.as_loaded(), **folders)
        session = await self._add(info, opened)
        if stored.cwd not in ("", info.cwd) and not await asyncio.to_thread(os.path.isdir, stored.cwd):
            # Its folder was moved, or it comes from another machine: its files are those of the new folder.
            await session.workbench.follow_rename(Path(stored.cwd), Path(info.cwd))
        for rename in tuple(self._renames):
            if rename.at >= stored.updated_at:
                await session.workbench.follow_rename(Path(rename.path), Path(rename.to_path))
        await session.record.store()  # before the first event: its number must not be used again
        if await asyncio.to_thread(has_worktrees, Path(info.cwd)):
            agents = [info.summary(), *await self.list(SessionQuery(parent=sid))]
            interrupted = [each for each in agents if each.task == "interrupted"]
            session.left_behind = await unmerged_work(interrupted, discards=False)
        return Loaded(session, opened.journal.integrity)

    async def _keep_rename(self, old: Path, new: Path) -> None:
        """Keep a rename for sessions that are not loaded: they follow it when they are."""
        self._renames.append(FileRename(at=self._deps.clock_ms(), path=str(old), to_path=str(new)))

    async def _store_of(self, sid: str) -> SessionShelf:
        if not await self._store.place.exists(sid):
            raise SessionNotFound(sid)
        return self._store

    def _info_in(self, sid: str, records: Sequence[Mapping[str, Any]]) -> SessionInfo:
        """Return the newest ``meta`` record of *records*, or defaults when the file has lost it.

        Then it has no folder, and its events begin at a number that no count has reached. The file may be a
        copy under another id, or name an engine of another build: the id is set to *sid* and the engine to
        one on offer.
        """
        model, now = self._deps.models.default, self._deps.clock_ms()
        lost = SessionInfo(sid=sid, cwd="", model=model, engine="", created_at=now, updated_at=now, seq=now)
        found = newest_info(records) or lost
        engine = found.engine if found.engine in self.engines else self._default_engine
        return replace(found, sid=sid, engine=engine)

    async def _add(
        self,
        info: SessionInfo,
        opened: OpenedSession,
        models: ModelRegistry | None = None,
        above: Spending | None = None,
    ) -> Session:
        try:
            info.check_folder()
            if len(self._sessions) >= MAX_LOADED:
                raise TooManySessionsError(len(self._sessions))
            if models is None:
                models = await self._deps.models.at(Path(info.cwd), is_chosen=True)
                await models.ready(info.model)
            deps = replace(self._deps, models=models, spending=above)
            if info.kind is not None:  # its tools of servers are those of its parent
                deps = replace(deps, extensions=WithoutServers(deps.extensions))
            session = Session(info, opened.journal, deps, self)
            await session.start(opened.records, opened.journal.integrity)
        except BaseException:
            await opened.release()
            raise
        self._sessions[info.sid] = session
        self._releases[info.sid] = opened.release
        models.warm_up(info.model)
        return session


def check_brief(brief: str) -> str:
    """Return *brief*, a text for the system prompt. Raises InvalidInput for one that is too long."""
    if len(brief) > _MAX_BRIEF_CHARS:
        hint = "put the rest into a file, and name the file in the brief"
        found = f"the brief has {len(brief):,} characters, and may have {_MAX_BRIEF_CHARS:,}"
        raise InvalidInput(found, hint=hint)
    return brief.strip()


class Takeovers:
    """Closes the sessions of *hub* that other daemons have taken over, and idle ones that they ask for."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._closing: set[asyncio.Task[None]] = set()

    def lose(self, sid: str, holder: str) -> None:
        """Close *sid*, which *holder* has taken over: its turn ends, and nothing more is written."""
        text = (
            f"{holder} has taken this session over. This daemon stopped writing it; a turn that was not "
            "stored by then is not in it. Load the session again once it is idle there."
        )
        self._close(sid, holder, Notice("error", "Session", text))

    def hand_over(self, sid: str, wanted_by: str) -> bool:
        """Close *sid* for another daemon if it is idle, and return whether it is."""
        session = next((each for each in self._hub.sessions if each.sid == sid), None)
        if session is None or session.is_busy:
            return False
        text = f"This session goes on in {wanted_by}. Load it again to take it back once it is idle there."
        self._close(sid, wanted_by, Notice("info", "Session", text))
        return True

    def _close(self, sid: str, holder: str, notice: Notice) -> None:
        keep_until_done(asyncio.ensure_future(self._notify_and_close(sid, holder, notice)), self._closing)

    async def _notify_and_close(self, sid: str, holder: str, notice: Notice) -> None:
        try:
            notices = self._hub.session(sid).record.notices
            notices.add(notice)
            notices.emit_pending()
            self._hub.lost[sid] = holder
            await self._hub.close(sid)
        except (SessionNotFound, LeaseLostError):
            return  # it was closed meanwhile
        except Exception as error:
            log_fault("close a session that was taken over", error)


def describe_import(
    info: SessionInfo, imported: ImportedSession, new_id: Callable[[], str]
) -> tuple[SessionInfo, list[dict[str, Any]]]:
    """Return *info* with the sizes, time and title of *imported*, and a record for each of its compactions.

    Costs the length of the session. *new_id* makes the ids of the compactions.
    """
    tokens = {entry.node_id: entry_tokens(entry) for entry in imported.entries}
    parents = {entry.node_id: entry.parent for entry in imported.entries}
    path: list[str] = []
    node = imported.leaf
    while node is not None:
        path.append(node)
        node = parents[node]
    prompts = (entry.turn.blocks for entry in imported.entries if entry.kind == "user")
    first = next((blocks for blocks in prompts if prompt_text(blocks).strip()), ())
    info = replace(
        info,
        title=info.title or imported.title or (prompt_title(first) if first else ""),
        created_at=imported.created_at,
        imported_at=info.updated_at,
        messages=len(path),
        tokens=sum(tokens[node] for node in path),
    )
    compactions = (describe_compaction(new_id(), info.engine, each, tokens) for each in imported.compactions)
    return info, [to_record("compaction", each) for each in compactions]


def describe_compaction(
    compaction_id: str, engine: str, done: ImportedCompaction, tokens: Mapping[str, int]
) -> Compaction:
    """Return the record of a compaction that another agent made; it can be undone like any other.

    Args:
        compaction_id: its new id.
        engine: the engine of the session, which weighs the conversation at an undo.
        done: the compaction.
        tokens: the tokens of each node.
    """
    n_before, n_after = len(done.before), len(done.after)
    cut = n_before if done.kept_from is None else done.before.index(done.kept_from)
    return Compaction(
        compaction_id=compaction_id,
        engine=engine,
        trigger="auto",
        status="completed",
        pre_tokens=sum(tokens[node] for node in done.before),
        pre_count=n_before,
        post_tokens=sum(tokens[node] for node in done.after),
        post_count=n_after,
        dropped_count=n_before - (n_after - 1),
        cut=cut,
        kept_from=done.kept_from,
        microcompacted=0,
        before_head=done.before[-1],
        after_head=done.after[-1],
        undoable=True,
        summary_source="model",
        summary=done.summary,
        info={"isImported": True},
    )
