"""One conversation of the daemon: what may be asked of it, and its queue.

Prompts, compactions and other changes wait in one queue and run one after another, so that none ever runs
beside another. A call decides before it returns, so that calls take effect in the order they are made; how it
went is told by the log, and by what the call lets one wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, Unpack

from sidecar.capabilities.contract import ToolActivity
from sidecar.capabilities.mcp.contract import McpServer
from sidecar.conductor.changes import Changes, HeadChange
from sidecar.conductor.commands import Commands
from sidecar.conductor.content import Content
from sidecar.conductor.contract import (
    Compaction,
    ContextFile,
    ContextUsage,
    Plan,
    SessionSnapshot,
)
from sidecar.conductor.core import Core
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engines.contract import CompactionRequest
from sidecar.conductor.errors import SessionBusyError
from sidecar.conductor.events import CommandsChanged, InfoChanged
from sidecar.conductor.history import HistoryWriter, JournalPort
from sidecar.conductor.log import EventLog
from sidecar.conductor.options import Options, check_policy
from sidecar.conductor.ports import SessionHost, StoreReport
from sidecar.conductor.prompts import InterruptResult, Prompts, SubmitOptions
from sidecar.conductor.queue import (
    ChangeJob,
    CompactJob,
    CompactReceipt,
    Job,
    JobQueue,
    PromptJob,
    SubmitReceipt,
)
from sidecar.conductor.records import SessionInfo
from sidecar.conductor.restoring import Restoration
from sidecar.conductor.slash import COMMANDS
from sidecar.conductor.turns import TurnRunner, resolve
from sidecar.conductor.watching import watch_files
from sidecar.runtime.contract import ToolCall
from sidecar.workspace.contract import Dispose

T = TypeVar("T")


class Session:
    """One loaded session. Made by the hub: :meth:`start` first, :meth:`aclose` last.

    Attributes:
        prompts: what is asked of the model, and the queue of it.
        options: the session's knobs.
    """

    def __init__(self, info: SessionInfo, journal: JournalPort, deps: SessionDeps, host: SessionHost) -> None:
        self._core = Core(info, journal, deps, host)
        self._queue: JobQueue[Job] = JobQueue(self._run, host.changed)
        self._changes = Changes(self._core)
        self.options = Options(self._core)
        commands = Commands(self._core, self._changes, self.options)
        self._runner = TurnRunner(self._core, commands.run)
        self.prompts = Prompts(self._core, self._queue, self._runner)
        self._watches: list[Dispose] = []

    async def start(self, records: Sequence[Mapping[str, Any]], report: StoreReport) -> None:
        """Load what is stored of this session.

        *records* are the store's records that are no nodes, *report* is what it found wrong with all of it.
        """
        await self._core.load(records, report)

    async def aclose(self) -> None:
        """Stop what runs, store what is to be stored, let go of everything."""
        for job in self._queue.waiting:
            self._queue.remove(job)
            self._settle_unrun(job)
        if self._queue.current is not None:
            self._runner.stop()
        try:
            await self._queue.wait_idle()
        finally:
            await self._core.servers.aclose()
        self._core.events.flush()
        await self._core.store_meta(self.log.seq)
        await self._core.knowledge.aclose()
        self._core.files.close()
        for dispose in self._watches:
            dispose()

    # What a client may look at.

    @property
    def sid(self) -> str:
        """The session's id."""
        return self._core.info.sid

    @property
    def info(self) -> SessionInfo:
        """What is known of the session besides its turns."""
        return self._core.info

    @property
    def log(self) -> EventLog:
        """The session's events."""
        return self._core.log

    @property
    def history(self) -> HistoryWriter:
        """The conversation and its nodes; for reading."""
        return self._core.history

    @property
    def is_running(self) -> bool:
        """Whether a turn or a compaction is under way."""
        return self._queue.current is not None

    @property
    def is_busy(self) -> bool:
        """Whether a prompt would have to wait."""
        return self._queue.is_busy

    @property
    def compactions(self) -> tuple[Compaction, ...]:
        """Every compaction so far, oldest first."""
        return self._core.compactor.compactions

    def snapshot(self) -> SessionSnapshot:
        """Return the session as it is now."""
        info, running = self.info, self.prompts.running
        return SessionSnapshot(
            sid=info.sid,
            cwd=info.cwd,
            roots=info.roots,
            title=info.title,
            model=info.model,
            engine=info.engine,
            phase=self._core.events.phase,
            head=self.history.head,
            messages=len(self.history.current),
            seq=self.log.seq,
            created_at=info.created_at,
            updated_at=info.updated_at,
            turn_id=running.turn_id if running is not None else None,
            queue=self.prompts.items(),
            parent=info.parent,
            archived=info.archived,
            ephemeral=info.ephemeral,
            plan=self._core.plan(),
        )

    def usage(self, *, detail: bool = False) -> ContextUsage:
        """Return how full the window is."""
        return self._core.usage(detail=detail)

    def context_files(self) -> tuple[ContextFile, ...]:
        """Return the files the model has read."""
        return self._core.files.in_context()

    async def settle_fork(self) -> None:
        """Store what is known of a session that was forked."""
        await self._core.store_meta(self.log.seq)

    @property
    def servers(self) -> tuple[McpServer, ...]:
        """The tool servers that a client named for the session."""
        return self._core.servers.named

    def connect(self, servers: Sequence[McpServer]) -> None:
        """Let *servers* be among the session's tool servers from now on; they start in the background."""
        self._core.connect(servers)

    def watch(self, globs: Sequence[str], tell: Callable[[Sequence[str]], None]) -> Dispose:
        """Tell of files in the session's folders that change, until disposed or closed."""
        dispose = watch_files(self._core.deps.workspace, self._core.roots, globs, tell)
        self._watches.append(dispose)
        return dispose

    def describe(self, call: ToolCall) -> ToolActivity:
        """Return what a client is shown of a tool call as it begins."""
        return self._core.tools.describe(call)

    def introduce(self) -> None:
        """Tell whoever begins to follow what they may do here, and how full the window is."""
        self._core.events.emit(CommandsChanged(COMMANDS))
        self._core.events.emit(self.usage())

    # What a client may ask for.

    async def submit(self, content: Content, **options: Unpack[SubmitOptions]) -> SubmitReceipt:
        """Take a prompt; return once it runs, waits, or was given to the running turn."""
        return await self.prompts.wait_until_entered(self.prompts.submit(content, **options))

    def interrupt(self, turn_id: str | None, queue: Literal["keep", "drop", "return"]) -> InterruptResult:
        """Stop a turn; see :meth:`Prompts.interrupt`."""
        return self.prompts.interrupt(turn_id, queue)

    async def choose(self, config_id: str, value: str) -> None:
        """Set one knob; on disk when this returns. Raises InvalidInput, ModelNotFound."""
        await self.options.prepare(config_id, value)
        self.options.choose(config_id, value)
        if config_id == "knowledge":
            await self._core.open_knowledge()
        await self._core.store_meta(self.log.seq)

    def amend(self, change: Callable[[SessionInfo], SessionInfo]) -> Awaitable[None]:
        """Change the session's title or place in the list at once; on disk when awaited."""
        info = self._core.info = change(self._core.info)
        self._core.events.emit(InfoChanged(info.title, info.updated_at, info.archived))
        return self._core.store_meta(self.log.seq)

    def compare(self, request: CompactionRequest) -> Plan:
        """Return what a compaction would do if its engine were the session's own."""
        resolved = self._resolve_request(request)
        return self._core.compactor.plan(resolved.engine or "", resolved)

    def preview(self, request: CompactionRequest) -> Plan:
        """Return what a compaction would do; no model is called and nothing changes."""
        resolved = self._resolve_request(request)
        return self._core.compactor.preview(resolved.engine or "", resolved)

    def compacting_engines(self) -> tuple[str, ...]:
        """Return the engines that ever compact."""
        return tuple(name for name in self._core.deps.engines if self._core.engine(name).compacts)

    def compact(self, request: CompactionRequest) -> CompactReceipt:
        """Take a compaction; it runs before the prompts that wait, and is declined at once when pointless."""
        core, busy = self._core, self.is_busy
        core.check_head(request.expect_head)
        resolved = self._resolve_request(request)
        if request.plan_id is not None:
            resolved = core.compactor.planned(request.plan_id)
        engine = core.engine_name(resolved.engine)
        if busy and request.reject_when_busy:
            raise self._busy('use whenBusy "afterTurn"')
        job = CompactJob(core.deps.new_id(), engine, resolved, asyncio.get_running_loop().create_future())
        noop = None if busy else core.compactor.nothing_to_do(engine, resolved)
        if noop is not None:
            job.outcome.set_result(core.compactor.decline(job.compaction_id, engine, noop))
            return CompactReceipt(job.compaction_id, "noop", noop.reason, job.outcome)
        self._queue.put(job, first=True)
        return CompactReceipt(job.compaction_id, "queued" if busy else "started", None, job.outcome)

    def cancel_compaction(self, compaction_id: str) -> bool:
        """Stop a compaction, running or waiting; False when there is no such one."""
        for job in self._queue.waiting:
            if isinstance(job, CompactJob) and job.compaction_id == compaction_id:
                self._queue.remove(job)
                self._settle_unrun(job)
                return True
        return self._core.compactor.cancel(compaction_id)

    def find_compaction(self, compaction_id: str) -> Compaction:
        """Return one compaction. Raises CompactionNotFound."""
        return self._core.compactor.find(compaction_id)

    def undo(
        self, compaction_id: str | None, *, force: bool, expect_head: str | None
    ) -> Awaitable[Compaction]:
        """Take a compaction back, the newest for None. Only between turns, as all that follows."""
        return self._change(lambda: self._changes.undo(compaction_id, force=force), expect_head)

    def rewind(self, to_node: str | None, *, expect_head: str | None) -> Awaitable[HeadChange]:
        """Let the conversation end at a node; before everything for None."""
        return self._change(lambda: self._changes.rewind(to_node), expect_head)

    def drop(self, node_ids: Sequence[str], *, expect_head: str | None) -> Awaitable[HeadChange]:
        """Go on without some nodes of the conversation."""
        return self._change(lambda: self._changes.drop(node_ids), expect_head)

    def rehydrate(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Awaitable[Restoration]:
        """Put files before the model's eyes again, as they are now; None are those that need it."""
        return self._change(lambda: self._changes.rehydrate(uris, budget_tokens), None)

    async def restoration(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Restoration:
        """Return what :meth:`rehydrate` would put there."""
        return await self._changes.restoration(uris, budget_tokens)

    def _resolve_request(self, request: CompactionRequest) -> CompactionRequest:
        """Return *request* with its engine named and the session's policy below its own."""
        policy = {**self.info.policy, **check_policy(request.policy)}
        return replace(request, engine=self._core.engine_name(request.engine), policy=policy)

    def _change(self, change: Callable[[], Awaitable[T]], expect_head: str | None) -> Awaitable[T]:
        self._core.check_head(expect_head)
        if any(isinstance(job, PromptJob) for job in (self._queue.current, *self._queue.waiting)):
            raise self._busy("wait for the turn to settle")
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(ChangeJob(change, expect_head, outcome))
        return asyncio.shield(outcome)

    def _busy(self, hint: str) -> SessionBusyError:
        return SessionBusyError(f"session {self.sid!r} is busy", hint=hint, sid=self.sid)

    # The jobs.

    async def _run(self, job: Job) -> None:
        try:
            await self._carry_out(job)
        except Exception as error:
            # Whatever went wrong, nobody waits for ever: who asked is told, and then the queue.
            if isinstance(job, PromptJob):
                resolve(job.entered, None)
            if not job.outcome.done():
                job.outcome.set_exception(error)
            raise

    async def _carry_out(self, job: Job) -> None:
        match job:
            case PromptJob():
                self.prompts.on_begin()
                try:
                    await self._runner.run(job)
                finally:
                    self.prompts.on_end()
            case CompactJob():
                done = await self._changes.compact(job.compaction_id, job.engine, job.request)
                job.outcome.set_result(done)
            case ChangeJob():
                await self._run_change(job)

    async def _run_change(self, job: ChangeJob) -> None:
        try:
            self._core.check_head(job.expect_head)
            job.outcome.set_result(await job.change())
        except Exception as error:
            # Whoever asked is told; the queue goes on with what waits behind.
            job.outcome.set_exception(error)

    def _settle_unrun(self, job: Job) -> None:
        """End a job that never ran."""
        match job:
            case PromptJob():
                self.prompts.settle_unrun(job)
            case CompactJob():
                job.outcome.set_result(self._core.compactor.decline(job.compaction_id, job.engine, None))
            case ChangeJob():
                job.outcome.set_exception(SessionBusyError(f"session {self.sid!r} is closing", sid=self.sid))
