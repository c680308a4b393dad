"""The wiring of a session: its parts, made in order, each given the few others that it uses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.background import BackgroundCommands
from sidecar.capabilities.contract import PermissionDecision, PermissionQuestion
from sidecar.conductor.clients import SessionServers
from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.deps import CompactorDeps, SessionDeps
from sidecar.conductor.events import Notice
from sidecar.conductor.ports import SessionHost
from sidecar.conductor.record.compactions import CompactionLog
from sidecar.conductor.record.history import HistoryWriter
from sidecar.conductor.record.log import EventLog
from sidecar.conductor.record.queue import Job, JobQueue
from sidecar.conductor.record.records import SessionInfo, from_record
from sidecar.conductor.record.session_events import OneTimeNotices, SessionEvents, with_notices
from sidecar.conductor.record.session_meta import SessionMeta
from sidecar.conductor.turns.agent import SessionAgent
from sidecar.conductor.turns.changes import Changes
from sidecar.conductor.turns.commands import Commands
from sidecar.conductor.turns.options import Options
from sidecar.conductor.turns.prompts import Prompts
from sidecar.conductor.turns.runner import TurnRunner
from sidecar.conductor.window.compaction.compacting import Compactor
from sidecar.conductor.window.compaction.expanding import Expander
from sidecar.conductor.window.compaction.loss_reports import LossReports
from sidecar.conductor.window.compaction.planner import CompactionPlanner
from sidecar.conductor.window.compaction.preparing import SummaryPreparer
from sidecar.conductor.window.knowledge import Knowledge
from sidecar.conductor.window.meter import ContextMeter
from sidecar.conductor.window.pins import Pins
from sidecar.conductor.window.request import ContextGauge, EngineInputs, RequestHead
from sidecar.conductor.window.session_engines import PriceTrigger, SessionEngines
from sidecar.conductor.window.session_rules import SessionRules
from sidecar.conductor.workbench.checkpoints import Checkpoints
from sidecar.conductor.workbench.extensions import SessionExtensions
from sidecar.conductor.workbench.files import SessionFiles
from sidecar.conductor.workbench.permission_rules import PermissionRules
from sidecar.conductor.workbench.permissions import PermissionBroker
from sidecar.conductor.workbench.rule_files import RuleFiles
from sidecar.conductor.workbench.session_tools import make_tools
from sidecar.conductor.workbench.user_shell import UserShell
from sidecar.conversation import Entry
from sidecar.extensions.hooks import HookGuard
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders
from sidecar.rooms import Participant
from sidecar.runtime.store import SessionJournal

_PERMISSION_TIMEOUT_MS: Final = 300_000
"""How long a question waits for an answer."""


class WiredSession:
    """The parts of one session, wired to each other in four groups, each built on those before it.

    A part that needs a later one gets a function that looks it up when it is called.

    Attributes:
        log: the events.
        notices: the notices that are given once.
        history: the conversation and its nodes, for reading.
        files: the files that the model has seen.
        tools: the tools.
        servers: the tool servers that clients named.
        checkpoints: the kept files, for reading.
        extensions: the commands, skills, hooks and tool servers of the user and of the folder.
        permission_rules: the rules for permissions.
        compactions: the compactions.
        losses: the loss reports of the compactions.
        gauge: how full the model's window is.
        rules: the rules of the user, for reading.
        changes: the changes of the conversation; a change is made through the queue of the session.
        pins: the passages that the model always sees.
        options: the config options.
        prompts: the prompts, and the queue of them.
    """

    def __init__(
        self,
        info: SessionInfo,
        journal: SessionJournal,
        deps: SessionDeps,
        *,
        host: SessionHost,
        queue: JobQueue[Job],
    ) -> None:
        """Make the parts in order.

        Args:
            info: the session's values, as they are stored.
            journal: the writer of its file.
            deps: the parts of the daemon that every session uses.
            host: the hub, which knows the clients.
            queue: the session's jobs.
        """
        self._deps = deps
        self._host = host
        self._roots = (Path(info.cwd), *map(Path, info.roots))
        self._make_conversation(info, journal)
        self._make_tools(info)
        self._make_compactor(info.sid)
        self._make_prompts(queue)

    def _make_conversation(self, info: SessionInfo, journal: SessionJournal) -> None:
        """Make the event log, the history with its nodes, and everything else that is stored."""
        deps = self._deps
        self.log = EventLog(info.sid, deps.clock_ms, info.seq)
        events = self._events = SessionEvents(self.log, asyncio.get_running_loop().call_later)
        self.notices = OneTimeNotices(events.emit, deps.models.problems)

        def on_trouble(error: SidecarError) -> None:
            why = error.message.rstrip(".")
            text = f"{why}. The conversation goes on in memory and is stored once that works again."
            events.emit(Notice("error", "The session cannot be stored", text))

        def on_change(appended: tuple[Entry, ...] | None) -> None:
            shows_files = appended is None or bool(self.files.pending)
            for entry in appended or ():
                shows_files = shows_files or bool(entry.reads)
            if shows_files:
                self.files.sync()
            self.rules.follow()
            for entry in appended or ():
                if entry.kind == "user" and self.prompts.steered:
                    self.prompts.on_steered(entry)

        history = self.history = HistoryWriter(
            journal,
            on_trouble=on_trouble,
            on_change=on_change,
            on_branch=lambda: self._compactor.end_backstop(),
            on_load=lambda: (self.files.seen_paths, self._rule_files.reached.of(history.current)),
        )
        self._meter = ContextMeter(from_record(TokenCounts, info.session_total), info.cost, deps.factors)
        knowledge = self._knowledge = Knowledge(
            deps.library,
            info.sid,
            self._roots,
            history,
            events.emit,
            clock_ms=deps.clock_ms,
            is_kept=not info.ephemeral,
            timeout_s=deps.knowledge_timeout_s,
        )
        history.follow(knowledge)
        self._meta = SessionMeta(info, deps.models, self.log, history, self._meter, knowledge.ingest)

    def _make_tools(self, info: SessionInfo) -> None:
        """Make the files, the tools with their permissions, and the extensions: the head of each request."""
        deps, roots, host, events, history = self._deps, self._roots, self._host, self._events, self.history
        self.files = SessionFiles(
            info.sid,
            deps.workspace,
            roots,
            history,
            resolve=lambda path: deps.resolve(path, roots[0]),
            emit=events.emit,
        )
        self._rule_files = RuleFiles(
            roots,
            deps.home,
            deps.workspace,
            self.files,
            self.notices,
            history=history,
            effects=lambda: self.tools.effects(),
            window=lambda: self._meta.window,
        )
        user_settings = deps.permission_rules
        read_rules = None if user_settings is None else user_settings.read
        self._policy = Policy(SessionFolders(roots, deps.home), read_rules=read_rules)
        permissions = self._permissions = PermissionBroker(
            info.sid, host, deps.new_id, deps.clock_ms, _PERMISSION_TIMEOUT_MS, self._policy
        )

        async def ask(question: PermissionQuestion) -> PermissionDecision:
            return await permissions.ask(question, events.turn_id)

        self.checkpoints = Checkpoints(
            info.sid,
            roots,
            history,
            deps.workspace,
            None if info.ephemeral else deps.contents,
            seen=lambda: self.files.seen_paths,
            turn_id=lambda: events.turn_id,
            new_id=deps.new_id,
            clock_ms=deps.clock_ms,
        )
        self._background = BackgroundCommands()
        guard = HookGuard(lambda: self.extensions.hooks)
        self.tools, self._prompt_context = make_tools(
            self._meta,
            deps,
            roots,
            files=self.files,
            rules=self._rule_files,
            events=events,
            policy=self._policy,
            ask=deps.ask or ask,
            host=host,
            background=self._background,
            checkpoints=self.checkpoints,
            meter=self._meter,
            guard=lambda: guard if self.extensions.found.hooks else None,
            server_tools=lambda: self.servers.tools,
            history=history,
        )
        self.permission_rules = PermissionRules(self._policy, self.tools, user_settings)
        self.servers = SessionServers(deps, roots[0], self.tools, events.emit, info.mcp_servers)
        self._head = RequestHead(
            lambda: deps.surroundings(roots),
            self._meta,
            self._rule_files,
            self.tools,
        )
        self.extensions = SessionExtensions(
            info.sid,
            roots,
            deps,
            tools=self.tools,
            servers=self.servers,
            policy=self._policy,
            head=self._head,
            notices=self.notices,
            emit=events.emit,
            ask=deps.ask or ask,
        )

    def _make_compactor(self, sid: str) -> None:
        """Make the engines with their input, the compactions, and the gauge of the window."""
        deps, meta, history, events, meter = self._deps, self._meta, self.history, self._events, self._meter
        compactions = self.compactions = CompactionLog(sid)
        prices = PriceTrigger(
            lambda: history.current,
            compactions,
            lambda: meta.card,
            overhead_tokens=lambda: self._head.overhead().total,
            is_prefix_cached=deps.compaction.same_prefix,
        )
        engines = self._engines = SessionEngines(
            deps.engines, meta, prices if deps.compaction.by_price else None
        )

        def participants() -> tuple[Participant, ...]:
            clients = self._host.listeners(sid)
            return tuple(Participant(each.client_id, each.name) for each in clients)

        self._inputs = EngineInputs(
            meta,
            history,
            meter,
            self._head,
            self._knowledge,
            self.files,
            self.tools,
            participants=participants,
            rules=lambda: self.rules.texts,
        )
        self.losses = LossReports(history, self._inputs.make, self._head.system, meta.pins)
        compactor_deps = CompactorDeps(
            session=deps,
            engine_input=self._inputs.make,
            engines=engines,
            files=self.files,
            losses=self.losses,
            summarizer=lambda: with_notices(*deps.models.summarizer(meta.info.model), self.notices),
            cached=lambda: self._agent.cached_request(),
            count=lambda usage: meter.add(
                usage, deps.models.card(deps.models.summarizer_id(meta.info.model))
            ),
            on_summary=lambda summary, of: self.rules.propose(summary, of),
            refuse=self.extensions.refuse_compaction,
        )
        planner = self._planner = CompactionPlanner(sid, history, compactor_deps)
        self._preparer = SummaryPreparer(history, events, planner, compactor_deps)
        self._compactor = Compactor(
            sid, history, events, compactions, planner, self._preparer, compactor_deps
        )
        self.gauge = ContextGauge(meta, self._inputs, history, meter, planner, engines, self._head)
        self.rules = self._head.user_rules = SessionRules(meta, history, events.emit, deps.clock_ms)

    def _make_prompts(self, queue: JobQueue[Job]) -> None:
        """Make the agent, the changes that clients ask for, and the runner of the prompts."""
        deps, meta, history, events = self._deps, self._meta, self.history, self._events
        compactor, planner, engines = self._compactor, self._planner, self._engines
        self._agent = SessionAgent(
            meta,
            deps,
            history=history,
            engines=engines,
            compactor=compactor,
            planner=planner,
            inputs=self._inputs,
            head=self._head,
            servers=self.servers,
            tools=self.tools,
            knowledge=self._knowledge,
            gauge=self.gauge,
            events=events,
            notices=self.notices,
            rules=self.rules,
            context=self._prompt_context,
        )
        expander = Expander(
            meta.info.sid, history, events, self.compactions, planner, compactor, engines, deps.new_id
        )
        self.changes = Changes(
            meta,
            history,
            events,
            compactor,
            expander,
            self.files,
            self.checkpoints,
            self.gauge,
            deps,
            self.tools.effects,
        )
        self.pins = Pins(meta, history, events, self.compactions, self.losses)
        self.options = Options(
            meta, deps.models, engines, deps.library.names, self._policy, events, self.gauge
        )
        commands = Commands(
            meta,
            history=history,
            engines=engines,
            compactions=self.compactions,
            planner=planner,
            losses=self.losses,
            pins=self.pins,
            changes=self.changes,
            checkpoints=self.checkpoints,
            options=self.options,
            gauge=self.gauge,
            rules=self.rules,
            extensions=self.extensions,
            permission_rules=self.permission_rules,
            shell=UserShell(meta, history, self.tools, self._permissions, self.checkpoints, deps),
            fork=self._host.fork_of,
            new_id=deps.new_id,
        )
        self._runner = TurnRunner(
            meta,
            deps,
            history=history,
            events=events,
            notices=self.notices,
            gauge=self.gauge,
            agent=self._agent,
            policy=self._policy,
            run_command=commands.run,
            extensions=self.extensions,
            options=self.options,
            context=self._prompt_context,
            background=self._background,
        )
        self.prompts = Prompts(
            meta,
            queue,
            self._runner,
            agent=self._agent,
            history=history,
            events=events,
            gauge=self.gauge,
            extensions=self.extensions,
            new_id=deps.new_id,
        )
