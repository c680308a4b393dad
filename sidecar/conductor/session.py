"""One conversation of the daemon: its queue, and the verbs that its clients use.

Prompts, compactions and other changes wait in one queue and run one after another, so that none ever runs
beside another. A method decides before it returns, so that calls take effect in the order they are made. The
outcome is in the log, and in the future that the method returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from sidecar.capabilities.mcp.contract import McpServer
from sidecar.conductor.content import Content
from sidecar.conductor.contract import Compaction, NoOp, Plan, SessionSnapshot, SessionSummary
from sidecar.conductor.deps import SessionDeps, SessionHost
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import SessionBusyError
from sidecar.conductor.events import CommandsChanged, Event, InfoChanged, Notice, Payload, RulesChanged
from sidecar.conductor.record.queue import (
    ChangeJob,
    CompactJob,
    CompactReceipt,
    Job,
    JobQueue,
    PromptJob,
    SubmitReceipt,
)
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.records import SessionInfo
from sidecar.conductor.turns.changes import HeadChange, UndoneCompaction
from sidecar.conductor.turns.prompts import SubmitOptions
from sidecar.conductor.turns.runner import resolve
from sidecar.conductor.turns.turns import Turns
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.conductor.window.compaction.restoring import Restoration
from sidecar.conductor.window.session_rules import SessionRules
from sidecar.conductor.window.window import SessionWindow
from sidecar.conductor.workbench.kept_changes import FileRestore
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.runtime.store import IntegrityReport, SessionJournal

T = TypeVar("T")


class Session:
    """One loaded session. Made by the hub: :meth:`start` first, :meth:`aclose` last.

    Its four parts stand on each other, each on those before it.

    Attributes:
        record: everything that is kept of it.
        workbench: its files, its tools and its permissions.
        window: the next request, and the compactions that keep it inside the model's window.
        turns: the prompts, the agent and the changes between turns.
    """

    def __init__(
        self, info: SessionInfo, journal: SessionJournal, deps: SessionDeps, host: SessionHost
    ) -> None:
        self._n_restored = 0
        self.left_behind: tuple[Notice, ...] = ()
        self._library = deps.library
        self._jobs: JobQueue[Job] = JobQueue(self._run)
        self.record = SessionRecord(info, journal, deps, self._jobs)
        self.record.work.follow(lambda _question: host.announce_change(self.summary()))
        self.workbench = Workbench(self.record, deps, host)
        self.window = SessionWindow(self.record, self.workbench, deps)
        self.turns = Turns(self.record, self.workbench, self.window, deps, host)

    async def start(self, records: Sequence[Mapping[str, Any]], report: IntegrityReport) -> None:
        """Load the stored session.

        Args:
            records: the store's records that are no nodes.
            report: the defects that the store found in the session's file.
        """
        record = self.record
        record.notices.add_report(report)
        await record.history.load()
        record.compactions.load(records)
        record.work.load(records)
        await self.workbench.load(records)
        await self.window.head.open()
        await self.workbench.extensions.load()
        await self.window.load()
        self.turns.prompts.restore(records)
        await self.turns.answers.restore()
        self._n_restored = len(self.turns.prompts.items())
        await self._open_knowledge()

    async def aclose(self, *, keeps_queue: bool = False) -> None:
        """Stop the running job, store the session, and release everything.

        The waiting prompts end as cancelled; with *keeps_queue* they stay stored and are restored with the
        session.
        """
        record = self.record
        record.queue.is_frozen = keeps_queue
        for job in self._jobs.waiting:
            self._jobs.remove(job)
            self._settle_unrun(job)
        for held in record.queue.held:  # they stay stored
            self._settle_unrun(held)
        if self._jobs.current is not None:
            self.turns.runner.stop()
        try:
            await self._jobs.wait_idle()
            await self.turns.answers.aclose()
            await record.store_queue()
            await self.workbench.questions.store()
        finally:
            self.turns.agent.close()
            await self.window.aclose()
            await self.workbench.aclose()
        record.events.flush()
        await self.window.knowledge.aclose()
        await record.store(seq_is_last=True)
        await asyncio.to_thread(record.history.forget)

    @property
    def sid(self) -> str:
        """The session's id."""
        return self.info.sid

    @property
    def info(self) -> SessionInfo:
        """The session's name, place and choices."""
        return self.record.info

    @property
    def is_running(self) -> bool:
        """Whether a turn or a compaction is under way."""
        return self._jobs.current is not None

    @property
    def is_busy(self) -> bool:
        """Whether a prompt would have to wait."""
        return self._jobs.is_busy

    def snapshot(self) -> SessionSnapshot:
        """Return the session as it is now."""
        info, running, compacting = self.info, self.record.queue.running, self.record.compactions.running
        work = self.record.work.state
        return SessionSnapshot(
            sid=info.sid,
            cwd=info.cwd,
            roots=info.roots,
            title=info.title,
            model=info.model,
            engine=info.engine,
            phase=self.record.events.phase,
            head=self.record.history.head,
            messages=len(self.record.history.current),
            seq=self.record.log.seq,
            created_at=info.created_at,
            updated_at=info.updated_at,
            turn_id=running.turn_id if running is not None else None,
            compaction_id=compacting.compaction_id if compacting is not None else None,
            queue=self.turns.prompts.items(),
            queued_compactions=self.record.queue.compactions,
            parent=info.parent,
            archived=info.archived,
            ephemeral=info.ephemeral,
            plan=self.record.plan_items(),
            state=work.state,
            since=work.since,
            waiting_for=work.waiting_for,
            text=work.text or None,
            open_questions=self.workbench.questions.open,
            kind=info.kind,
        )

    def summary(self) -> SessionSummary:
        """Return the session as a list shows it."""
        record = self.record
        return self.info.summary(record.events.phase, len(record.history.turns), record.work.state)

    def connect(self, servers: Sequence[McpServer]) -> None:
        """Add *servers* to the session's tool servers; they start in the background."""
        self.workbench.servers.add(servers)
        kept = tuple(server.without_secrets() for server in self.workbench.servers.named)
        self.record.amend(lambda info: replace(info, mcp_servers=kept))

    def introduction(self) -> tuple[Event, ...]:
        """Return the commands, the usage and the rules for one more client; such events have the number 0."""
        payloads: list[Payload] = [
            CommandsChanged(self.workbench.extensions.commands),
            self.window.request.usage(),
        ]
        if self.window.rules.standing:
            payloads.append(RulesChanged(self.window.rules.standing))
        return tuple(Event(self.sid, 0, 0, payload) for payload in payloads)

    def introduce(self) -> None:
        """Emit the introduction of a session that was made or loaded, and the notices about its past."""
        for event in self.introduction():
            self.record.events.emit(event.data)
        n_restored, self._n_restored = self._n_restored, 0
        if n_restored:
            self.turns.prompts.emit_queue()
            text = f"When the daemon ended, {n_restored} waited. They run with the next prompt."
            self.record.events.emit(Notice("warning", "Prompts are queued again", text))
        left, self.left_behind = self.left_behind, ()
        for notice in left:
            self.record.events.emit(notice)

    async def submit(self, content: Content, **options: Unpack[SubmitOptions]) -> SubmitReceipt:
        """Accept a prompt; return once it runs, waits, or was given to the running turn."""
        return await self.turns.prompts.wait_until_entered(self.turns.prompts.submit(content, **options))

    async def choose(self, config_id: str, value: str) -> None:
        """Set one config option; on disk when this returns. Raises InvalidInput, ModelNotFound."""
        await self.turns.options.prepare(config_id, value)
        self.turns.options.choose(config_id, value)
        self.window.preparer.cancel()
        if config_id == "knowledge":
            await self._open_knowledge()
        await self.record.store()

    async def change_rules(self, change: Callable[[SessionRules], T]) -> T:
        """Return the result of *change*; on disk when this returns. Raises InvalidInput."""
        changed = change(self.window.rules)
        await self.record.store()
        return changed

    def amend(self, change: Callable[[SessionInfo], SessionInfo]) -> Awaitable[None]:
        """Change the session's title or place in the list at once; on disk when awaited."""
        info = self.record.amend(change)
        self.record.events.emit(InfoChanged(info.title, info.updated_at, info.archived))
        return self.record.store()

    async def compare(self, request: CompactionRequest, *, detail: bool) -> Plan:
        """Return the effect of a compaction if its engine were the session's own, in *detail* or short."""
        resolved = self.window.engines.resolve(request)
        host = self.window.engines.make(resolved.engine)
        return await self.window.planner.compare(resolved, host, detail=detail)

    async def read_prompt(self, done: Compaction) -> str:
        """Return the prompt of the summary of *done*, made again; empty where no model wrote the summary."""
        if done.summary_source != "model":
            return ""
        before, _ = await self.window.losses.around(done)
        request = self.window.engines.resolve(CompactionRequest(engine=done.engine, force=True))
        return await self.window.planner.write_prompt(request, self.window.engines.make(done.engine), before)

    async def preview(self, request: CompactionRequest) -> Plan:
        """Return the effect of a compaction; no model is called and nothing changes."""
        return await self.window.planner.preview(self.window.engines.resolve(request))

    def compacting_engines(self) -> tuple[str, ...]:
        """Return the engines that ever compact."""
        return tuple(name for name in self.window.engines.names if self.window.engines.get(name).compacts)

    async def judge(self, request: CompactionRequest) -> NoOp | None:
        """Return why a compaction would do nothing now; None where it would, or has to wait its turn."""
        resolved = self._resolve(request)
        return None if self.is_busy else await self.window.planner.nothing_to_do(resolved)

    def compact(self, request: CompactionRequest, noop: NoOp | None = None) -> CompactReceipt:
        """Accept a compaction, which runs before the prompts that wait.

        With *noop*, as :meth:`judge` has just returned it, it is declined.
        """
        is_busy, resolved = self.is_busy, self._resolve(request)
        if is_busy and request.reject_when_busy:
            raise self._busy('use whenBusy "afterTurn"')
        self.turns.prompts.check_room()
        job = CompactJob(self.record.new_id(), resolved, asyncio.get_running_loop().create_future())
        if noop is not None and not is_busy:
            job.outcome.set_result(self.window.compactor.decline(job.compaction_id, resolved.engine, noop))
            return CompactReceipt(job.compaction_id, "noop", noop.reason, job.outcome)
        self._jobs.put(job, first=True)
        if is_busy:
            self.turns.prompts.emit_queue()
        return CompactReceipt(job.compaction_id, "queued" if is_busy else "started", None, job.outcome)

    def _resolve(self, request: CompactionRequest) -> CompactionRequest:
        self.record.check_head(request.expect_head)
        if request.plan_id is not None:
            planned = self.window.planner.find_planned(request.plan_id)
            return replace(planned.request, plan_id=request.plan_id)
        return self.window.engines.resolve(request)

    def cancel_compaction(self, compaction_id: str) -> bool:
        """Stop a compaction, running or waiting; False when it is over, is being stored, or never was."""
        for job in self._jobs.waiting:
            if isinstance(job, CompactJob) and job.compaction_id == compaction_id:
                self._jobs.remove(job)
                self._settle_unrun(job)
                self.turns.prompts.emit_queue()
                return True
        return self.window.compactor.cancel(compaction_id)

    def undo(
        self, compaction_id: str | None, *, force: bool, expect_head: str | None, restores_files: bool = False
    ) -> Awaitable[UndoneCompaction]:
        """Take a compaction back, the newest for None. Only between turns."""
        return self._change(
            lambda: self.turns.changes.undo(compaction_id, force=force, restores_files=restores_files),
            expect_head,
        )

    def expand(self, request: ExpandRequest, *, expect_head: str | None) -> Awaitable[Compaction]:
        """Bring originals behind a summary back into view. Only between turns."""
        return self._change(lambda: self.turns.changes.expand(request), expect_head)

    def rewind(
        self, to_node: str | None, *, expect_head: str | None, restores_files: bool = False
    ) -> Awaitable[HeadChange]:
        """Let the conversation end at a node, or before everything for None. Only between turns."""
        return self._change(
            lambda: self.turns.changes.rewind(to_node, restores_files=restores_files), expect_head
        )

    def restore_files(
        self, checkpoint_id: str, uris: Sequence[str] | None
    ) -> Awaitable[tuple[FileRestore, ...]]:
        """Take files back to a checkpoint, *uris* or all. Only between turns. Raises InvalidInput."""
        wanted = self.workbench.checkpoints.since(checkpoint_id, uris)
        return self._change(lambda: self.turns.changes.restore_files(wanted), None)

    def drop(self, node_ids: Sequence[str], *, expect_head: str | None) -> Awaitable[HeadChange]:
        """Go on without some nodes of the conversation. Only between turns."""
        return self._change(lambda: self.turns.changes.drop(node_ids), expect_head)

    def rehydrate(self, uris: Sequence[str] | None, budget_tokens: int | None) -> Awaitable[Restoration]:
        """Restore files as they are now, *uris* or all that the model does not see so. Only between turns."""
        return self._change(lambda: self.turns.changes.rehydrate(uris, budget_tokens), None)

    def _change(self, change: Callable[[], Awaitable[T]], expect_head: str | None) -> Awaitable[T]:
        self.record.check_head(expect_head)
        if any(isinstance(job, PromptJob) for job in (self._jobs.current, *self._jobs.waiting)):
            raise self._busy("wait for the turn to settle")
        self.turns.prompts.check_room()
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(ChangeJob(change, expect_head, outcome))
        return asyncio.shield(outcome)

    def _busy(self, hint: str) -> SessionBusyError:
        return SessionBusyError(f"session {self.sid!r} is busy", hint=hint, sid=self.sid)

    # The jobs.

    async def _run(self, job: Job) -> None:
        try:
            match job:
                case PromptJob():
                    self.turns.prompts.on_begin()
                    if job.command is not None:  # it is never run twice, not even after a crash
                        await self.record.store_queue()
                    try:
                        await self.turns.runner.run(job)
                    finally:
                        self.turns.prompts.on_end()
                    await self.record.store_queue()
                    if not self._jobs.waiting:
                        self.window.preparer.on_settled()
                case CompactJob():
                    self.turns.prompts.emit_queue_if_changed()
                    done = await self.turns.changes.compact(job.compaction_id, job.request)
                    job.outcome.set_result(done)
                case ChangeJob():
                    self.window.preparer.cancel()
                    try:
                        self.record.check_head(job.expect_head)
                        job.outcome.set_result(await job.change())
                    except Exception as error:
                        # The caller gets the error; the queue goes on.
                        job.outcome.set_exception(error)
        except Exception as error:
            # The caller gets the error first, so that it never waits for ever.
            if isinstance(job, PromptJob):
                resolve(job.entered, None)
            if not job.outcome.done():
                job.outcome.set_exception(error)
            raise

    def _settle_unrun(self, job: Job) -> None:
        """End a job that never ran."""
        match job:
            case PromptJob():
                self.turns.prompts.settle_unrun(job)
            case CompactJob():
                declined = self.window.compactor.decline(job.compaction_id, job.request.engine, None)
                job.outcome.set_result(declined)
            case ChangeJob():
                job.outcome.set_exception(SessionBusyError(f"session {self.sid!r} is closing", sid=self.sid))

    async def _open_knowledge(self) -> None:
        """Open the chosen knowledge sources, as far as they are on offer."""
        on_offer = self._library.names
        await self.window.knowledge.open([name for name in self.info.knowledge if name in on_offer])
