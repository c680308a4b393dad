"""The wiring of a session: its parts, made in order, each given the few others that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.background import BackgroundCommands
from sidecar.capabilities.contract import PermissionDecision, PermissionQuestion, Tool
from sidecar.capabilities.mcp.contract import ServerHost
from sidecar.capabilities.recall import RECALL
from sidecar.conductor.changes import Changes
from sidecar.conductor.checkpoints import Checkpoints
from sidecar.conductor.clients import SessionServers
from sidecar.conductor.commands import Commands
from sidecar.conductor.compacting import Compactor
from sidecar.conductor.compaction_planner import CompactionPlanner
from sidecar.conductor.compaction_records import CompactionLog
from sidecar.conductor.context import ContextMeter
from sidecar.conductor.contract import TokenCounts
from sidecar.conductor.deps import CompactorDeps, SessionDeps
from sidecar.conductor.engines.contract import View
from sidecar.conductor.events import Notice
from sidecar.conductor.expanding import Expander
from sidecar.conductor.files import SessionFiles
from sidecar.conductor.history import HistoryWriter
from sidecar.conductor.knowledge import Knowledge
from sidecar.conductor.log import EventLog
from sidecar.conductor.loss_reports import LossReports
from sidecar.conductor.loss_values import describe_pins
from sidecar.conductor.options import Options
from sidecar.conductor.permissions import PermissionBroker
from sidecar.conductor.pins import Pins
from sidecar.conductor.ports import JournalPort, SessionHost
from sidecar.conductor.preparing import SummaryPreparer
from sidecar.conductor.prompts import Prompts
from sidecar.conductor.queue import Job, JobQueue
from sidecar.conductor.records import SessionInfo, from_record
from sidecar.conductor.request import ContextGauge, EngineInputs, RequestHead
from sidecar.conductor.room import Participants
from sidecar.conductor.rule_files import RuleFiles
from sidecar.conductor.session_agent import SessionAgent
from sidecar.conductor.session_engines import PriceTrigger, SessionEngines
from sidecar.conductor.session_events import OneTimeNotices, SessionEvents, with_notices
from sidecar.conductor.session_extensions import SessionExtensions
from sidecar.conductor.session_meta import SessionMeta
from sidecar.conductor.session_rules import SessionRules
from sidecar.conductor.session_tools import make_tools
from sidecar.conductor.turns import PromptAnswerer, TurnRunner
from sidecar.conductor.user_shell import UserShell
from sidecar.conversation import Entry
from sidecar.extensions.hooks import HookGuard
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders
from sidecar.rooms import Participant


class WiredSession:
    """The parts of one session, wired to each other.

    Attributes:
        log: the events.
        notices: the notices that are given once.
        history: the conversation and its nodes, for reading.
        files: the files that the model has seen.
        tools: the tools.
        servers: the tool servers that clients named.
        compactions: the compactions.
        losses: the loss reports of the compactions.
        pins: the passages that the model always sees.
        gauge: how full the model's window is.
        changes: the changes of the conversation; a change is made through the queue of the session.
        checkpoints: the kept files, for reading.
        options: the config options.
        extensions: the commands, skills, hooks and tool servers of the user and of the folder.
        rules: the rules of the user, for reading.
        prompts: the prompts, and the queue of them.
    """

    def __init__(
        self,
        info: SessionInfo,
        journal: JournalPort,
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
        roots = (Path(info.cwd), *map(Path, info.roots))
        log = self.log = EventLog(info.sid, deps.clock_ms, info.seq)
        events = self._events = SessionEvents(log, asyncio.get_running_loop().call_later)
        notices = self.notices = OneTimeNotices(events.emit, deps.models.problems)

        def on_store_trouble(error: SidecarError) -> None:
            why = error.message.rstrip(".")
            text = f"{why}. The conversation goes on in memory and is stored once that works again."
            events.emit(Notice("error", "The session cannot be stored", text))

        def on_history(appended: tuple[Entry, ...] | None) -> None:
            shows_files = appended is None or bool(files.pending)
            for entry in appended or ():
                shows_files = shows_files or bool(entry.reads)
            if shows_files:
                files.sync()
            # A fork, or an imported session, begins with the summary of another one.
            path = history.current
            is_folded = compactions.has_folded or (len(path) > 0 and path[0].kind == "summary")
            tools.offer("recall", (RECALL,) if is_folded else ())
            user_rules.follow()
            for entry in appended or ():
                if entry.kind == "user" and prompts.steered:
                    prompts.on_steered(entry)

        history = self.history = HistoryWriter(
            journal,
            on_trouble=on_store_trouble,
            on_change=on_history,
            on_branch=lambda: compactor.end_backstop(),
            on_load=lambda: (files.seen_paths, rules.reached.of(history.current)),
            records_with=lambda turns: prompts.stored.records_with(turns),
        )
        meter = ContextMeter(from_record(TokenCounts, info.session_total), info.cost, deps.factors)
        knowledge = self._knowledge = Knowledge(
            deps.library,
            info.sid,
            roots,
            events.emit,
            is_kept=not info.ephemeral,
            timeout_s=deps.knowledge_timeout_s,
        )

        history.follow(knowledge)

        def on_store() -> None:
            if roots[0] in deps.library.in_use:
                knowledge.ingest(history.current, deps.clock_ms())

        meta = self._meta = SessionMeta(info, log, history, meter, on_store)

        def window() -> int:
            return card.context_window if (card := deps.models.card(meta.info.model)) else 0

        def own_view() -> View:
            return planner.view(engines.own_name, engines.automatic())

        files = self.files = SessionFiles(
            info.sid,
            deps.workspace,
            roots,
            history,
            resolve=lambda path: deps.resolve(path, roots[0]),
            emit=events.emit,
        )
        rules = RuleFiles(
            roots,
            deps.home,
            deps.workspace,
            files,
            notices,
            history=history,
            effects=lambda: tools.effects(),
            window=window,
        )
        policy = Policy(SessionFolders(roots, deps.home), deps.permission_rules)
        permissions = PermissionBroker(
            info.sid, host, deps.new_id, deps.clock_ms, deps.permission_timeout_ms, policy
        )

        checkpoints = self.checkpoints = Checkpoints(
            info.sid,
            roots,
            history,
            deps.workspace,
            None if info.ephemeral else deps.contents,
            seen=lambda: files.seen_paths,
            turn_id=lambda: events.turn_id,
            new_id=deps.new_id,
            clock_ms=deps.clock_ms,
        )
        background = self._background = BackgroundCommands()
        tools, prompt_context = make_tools(
            meta,
            deps,
            roots,
            files=files,
            rules=rules,
            events=events,
            permissions=permissions,
            host=host,
            own_view=own_view,
            background=background,
            checkpoints=checkpoints,
            meter=meter,
            guard=lambda: guard if extensions.found.hooks else None,
            server_tools=lambda: servers.tools,
            history=history,
        )
        self.tools = tools
        guard = HookGuard(lambda: extensions.hooks)

        def offer_server_tools(offered: Sequence[Tool]) -> None:
            servers.tools = tuple(offered)
            tools.offer("servers", offered)

        server_host = ServerHost(
            roots[0],
            offer=offer_server_tools,
            warn=lambda title, text: events.emit(Notice("warning", title, text)),
            child_started=deps.child_started,
        )
        servers = self.servers = SessionServers(deps.tool_servers, server_host, info.mcp_servers)
        head = self._head = RequestHead(
            lambda: deps.surroundings(roots),
            rules,
            tools,
            lambda: describe_pins(meta.pins()) if meta.info.pins else "",
            lambda: user_rules.tokens if user_rules.all else 0,
        )

        async def ask(question: PermissionQuestion) -> PermissionDecision:
            return await permissions.ask(question, events.turn_id)

        extensions = self.extensions = SessionExtensions(
            info.sid,
            roots,
            deps,
            tools=tools,
            servers=servers,
            policy=policy,
            head=head,
            notices=notices,
            emit=events.emit,
            ask=deps.ask or ask,
        )
        compactions = self.compactions = CompactionLog(info.sid)
        prices = PriceTrigger(
            lambda: history.current,
            compactions,
            lambda: deps.models.card(meta.info.model),
            overhead_tokens=lambda: head.overhead().total,
            is_prefix_cached=deps.compaction.same_prefix,
        )
        engines = self._engines = SessionEngines(
            deps.engines, lambda: meta.info, prices if deps.compaction.by_price else None
        )

        def participants() -> Participants:
            clients = host.listeners(info.sid)
            return Participants(info.sid, tuple(Participant(each.client_id, each.name) for each in clients))

        inputs = EngineInputs(
            history,
            meter,
            engines,
            head,
            knowledge,
            files,
            tools,
            card=lambda: deps.models.card(meta.info.model),
            participants=participants,
            rules=lambda: user_rules.texts,
        )
        losses = self.losses = LossReports(history, engines, inputs.make, head.system, meta.pins)
        compactor_deps = CompactorDeps(
            engine_input=inputs.make,
            own_engine=lambda: meta.info.engine,
            engine=engines.get,
            summarizer=lambda: with_notices(*deps.models.summarizer(meta.info.model), notices),
            cached=lambda: agent.cached_request(),
            count=lambda usage: meter.add(
                usage, deps.models.card(deps.models.summarizer_id(meta.info.model))
            ),
            on_summary=lambda summary, of: user_rules.propose(summary, of),
            with_loss=losses.with_counts,
            count_loss=losses.count,
            fresh=files.look,
            is_stale=files.is_stale,
            new_id=deps.new_id,
            clock_ms=deps.clock_ms,
            deadline_s=deps.summary_deadline_s,
            prepares=deps.compaction.prepare,
            refuse=extensions.refuse_compaction,
        )
        planner = self._planner = CompactionPlanner(info.sid, history, compactions, compactor_deps)
        preparer = self._preparer = SummaryPreparer(
            history, events, planner, compactor_deps, engines.automatic
        )
        compactor = self._compactor = Compactor(
            info.sid, history, events, compactions, planner, preparer, compactor_deps
        )
        gauge = self.gauge = ContextGauge(inputs, history, meter, planner, engines, head)
        user_rules = self.rules = SessionRules(meta, history, own_view, events.emit, deps.clock_ms)
        agent = SessionAgent(
            lambda: meta.info,
            deps,
            history=history,
            engines=engines,
            compactor=compactor,
            planner=planner,
            head=head,
            tools=tools,
            knowledge=knowledge,
            gauge=gauge,
            events=events,
            notices=notices,
            rules=user_rules,
            context=prompt_context,
        )
        expander = Expander(info.sid, history, events, compactions, planner, compactor, engines, deps.new_id)
        changes = self.changes = Changes(
            meta, history, events, compactor, expander, files, checkpoints, gauge, deps, tools.effects
        )
        pins = self.pins = Pins(
            meta,
            history,
            events,
            compactions,
            losses,
            view=lambda: own_view().entries,
            window=window,
        )
        options = self.options = Options(
            meta, deps.models, engines, deps.library.names, policy, events, gauge
        )
        commands = Commands(
            meta,
            history=history,
            engines=engines,
            compactions=compactions,
            planner=planner,
            losses=losses,
            pins=pins,
            changes=changes,
            checkpoints=checkpoints,
            options=options,
            gauge=gauge,
            rules=user_rules,
            extensions=extensions,
            shell=UserShell(meta, history, events, tools, permissions, checkpoints, deps),
            fork=host.fork_of,
            new_id=deps.new_id,
        )
        runner = self._runner = TurnRunner(
            meta,
            deps,
            history=history,
            events=events,
            notices=notices,
            gauge=gauge,
            answerer=PromptAnswerer(agent, compactor, planner, engines, inputs, head, servers),
            policy=policy,
            run_command=commands.run,
            extensions=extensions,
            options=options,
            context=prompt_context,
            take_news=lambda: background.take_news() if background.news else "",
        )
        prompts = self.prompts = Prompts(
            meta,
            queue,
            runner,
            agent=agent,
            history=history,
            events=events,
            gauge=gauge,
            extensions=extensions,
            new_id=deps.new_id,
        )
