"""What one session is made of, bound together: conversation, meter, files, tools, agent, compactor.

No queue and no order of events here; :mod:`sidecar.conductor.session` has the queue,
:mod:`sidecar.conductor.turns` the course of one turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, get_args

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.capabilities.contract import PermissionQuestion, PlanEntry, ToolContext
from sidecar.capabilities.mcp.contract import McpServer, ServerHost
from sidecar.conductor.bridge import HOST_MARKS
from sidecar.conductor.clients import SessionServers
from sidecar.conductor.compacting import Compactor, backstop_of
from sidecar.conductor.context import ContextMeter, Overhead, Weights, overhead_of, turn_tokens
from sidecar.conductor.contract import ContextUsage, EngineView, PlanItem, TokenCounts
from sidecar.conductor.deps import CompactorDeps, SessionDeps
from sidecar.conductor.engines.contract import CompactionRequest, EngineInput, SessionEngine
from sidecar.conductor.errors import HeadMovedError
from sidecar.conductor.events import Notice, PlanChanged, Retry, UserMessage
from sidecar.conductor.files import SessionFiles
from sidecar.conductor.history import HistoryWriter, JournalPort
from sidecar.conductor.knowledge import Knowledge, with_knowledge
from sidecar.conductor.log import EventLog
from sidecar.conductor.model_calls import (
    RULE_FILE_LIMIT_BYTES,
    RULE_FILES,
    call_when_ready,
    system_prompt,
    with_idle_timeout,
)
from sidecar.conductor.permissions import PermissionBroker
from sidecar.conductor.ports import SessionHost, SessionTools, StoreReport
from sidecar.conductor.queue import PromptJob
from sidecar.conductor.records import SessionInfo, from_record, to_record
from sidecar.conductor.room import Participants
from sidecar.conductor.session_events import OneTimeNotices, SessionEvents
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    GatewayError,
    ModelCard,
    StreamOptions,
    ThinkingLevel,
    ToolDescriptor,
    Usage,
    UserTurn,
)
from sidecar.rooms import Participant
from sidecar.runtime import Agent, AgentConfig, AgentDeps, create_agent
from sidecar.runtime.wire import Outgoing
from sidecar.workspace.contract import FileAccessError

THINKING_LEVELS: Final[tuple[ThinkingLevel, ...]] = get_args(ThinkingLevel)


class Core:
    """The inside of one session.

    Attributes:
        notices: what the user is told once.
        permissions: where the user is asked.
        entering: the prompt that is about to enter, which a gate must count.
        servers: the tool servers that clients named for the session.
    """

    def __init__(self, info: SessionInfo, journal: JournalPort, deps: SessionDeps, host: SessionHost) -> None:
        self.info = info
        self.deps = deps
        self.host = host
        self.log = EventLog(info.sid, deps.clock_ms, info.seq)
        self.events = SessionEvents(self.log, asyncio.get_running_loop().call_later)
        self.history = HistoryWriter(
            journal,
            on_trouble=self._on_store_trouble,
            on_change=self._on_history,
            on_branch=lambda: self.compactor.end_backstop(),
        )
        self.meter = ContextMeter(from_record(TokenCounts, info.session_total), info.cost)
        self.entering: UserTurn | None = None
        self.on_steered: Callable[[Entry], None] = lambda entry: None
        stored_plan = (from_record(PlanEntry, entry) for entry in info.plan)
        self._todo = tuple(entry for entry in stored_plan if entry is not None)
        self._engines: dict[str, SessionEngine] = {}
        self._rules = ""
        self.notices = OneTimeNotices(self.events.emit, deps.models.problems)
        self._weighed: tuple[str, Sequence[ToolDescriptor], Overhead] | None = None
        self.cwd = Path(info.cwd)
        self.roots = (self.cwd, *map(Path, info.roots))
        self.files = SessionFiles(
            info.sid,
            deps.workspace,
            self.roots,
            self.history,
            resolve=lambda path: deps.resolve(path, self.cwd),
            emit=self.events.emit,
        )
        self.permissions = PermissionBroker(
            info.sid, host, deps.new_id, deps.clock_ms, deps.permission_timeout_ms
        )
        self.tools: SessionTools = deps.toolbox(self._tool_context, self.events.on_tool)
        self.servers = SessionServers(deps.tool_servers, self._server_host(), info.mcp_servers)
        self.knowledge = Knowledge(
            deps.library,
            info.sid,
            self.roots,
            self.events.emit,
            is_kept=not info.ephemeral,
            timeout_s=deps.knowledge_timeout_s,
        )
        self.compactor = Compactor(info.sid, self.history, self.events, self._compactor_deps())
        self._turn_engine = info.engine
        self._configured = self._agent_config()
        self.agent: Agent = self._make_agent()

    @property
    def card(self) -> ModelCard | None:
        """What is known of the session's model."""
        return self.deps.models.card(self.info.model)

    async def load(self, records: Sequence[Mapping[str, object]], report: StoreReport) -> None:
        """Take over what is stored, and what is wrong with it."""
        self.notices.add_report(report)
        await self.refresh_rules()
        await self.history.load()
        self.compactor.load([record for record in records if record.get("type") == "compaction"])
        await self.open_knowledge()

    async def open_knowledge(self) -> None:
        """Open the sources that the session is set up with, as far as they are on offer."""
        on_offer = self.deps.library.names
        await self.knowledge.open([name for name in self.info.knowledge if name in on_offer])

    def connect(self, servers: Sequence[McpServer]) -> None:
        """Let *servers* be among the session's tool servers from now on. Returns at once."""
        self.servers.add(servers)
        kept = tuple(server.without_secrets() for server in self.servers.named)
        self.info = replace(self.info, mcp_servers=kept)

    def configure_agent(self) -> None:
        """Give the agent the setup as it is now. An unchanged one is not given again: it would weigh anew."""
        self._turn_engine = self.info.engine
        config = self._agent_config()
        if config != self._configured:
            self._configured = config
            self.agent.configure(config)

    def _agent_config(self) -> AgentConfig:
        system, thinking, policy = self.system(), self._thinking(), backstop_of(self.engine(self.info.engine))
        return AgentConfig(self.info.model, system, self.tools, thinking=thinking, compaction=policy)

    def _thinking(self) -> ThinkingLevel | None:
        """Return how hard the model is to think; None, which leaves that to it, for one that cannot."""
        can_think = self.card is not None and self.card.reasoning
        levels = (level for level in THINKING_LEVELS if level == self.info.thinking)
        return next(levels, None) if can_think else None

    def system(self) -> str:
        """Return the system prompt, with the rules as they were last read."""
        return system_prompt(self.cwd, self._rules)

    async def refresh_rules(self) -> None:
        """Read the project's rules as they are now, the editor's unsaved text included."""
        view = self.deps.workspace.view_project_file
        for name in RULE_FILES:
            try:
                found = await view(self.cwd / name, self.roots, limit_bytes=RULE_FILE_LIMIT_BYTES)
            except FileAccessError as problem:
                if problem.problem != "notFound":
                    self.notices.add_refused_file(name, problem)
                continue
            self._rules = found.text
            return
        self._rules = ""

    def overhead(self) -> Overhead:
        """Weigh what every request carries; weighed again only when the system prompt or the tools change."""
        system, tools = self.system(), self.tools.descriptors()
        if self._weighed is None or self._weighed[:2] != (system, tools):
            self._weighed = (system, tools, overhead_of(system, tools))
        return self._weighed[2]

    def engine_input(self) -> EngineInput:
        """Return the conversation as an engine is to judge it, the entering prompt included."""
        history, overhead = self.history.current, self.overhead()
        entering = turn_tokens(self.entering) if self.entering is not None else 0
        beside, finds = overhead.total + entering, self.knowledge.max_tokens(self._window())
        weights, known = self._anchored(self.meter.weigh(history)), 0
        if not self.engine(self.info.engine).commits_view:
            # Not all of this is sent, so the provider's figure tells only how far the estimate is off.
            beside += max(finds, weights.surplus(overhead))
        else:
            beside += finds
            if weights.anchor is not None:
                known = weights.occupancy(overhead) + entering
        clients = self.host.listeners(self.info.sid)
        return EngineInput(
            history=history,
            card=self.card,
            overhead_tokens=beside,
            context_tokens=known,
            participants=Participants(
                self.info.sid, tuple(Participant(each.client_id, each.name) for each in clients)
            ),
            same_file=self.files.uri_of,
        )

    def usage(self, *, detail: bool = False) -> ContextUsage:
        """Return how full the window is."""
        gate = self.compactor.gate(self.info.engine, self.ask(force=False))
        return self.meter.usage(
            self._weigh(),
            self.overhead(),
            card=self.card,
            views={self.info.engine: EngineView(gate.tokens, gate.limit)},
            limit=gate.limit,
            node=self.history.head,
            detail=detail,
        )

    def plan(self) -> tuple[PlanItem, ...]:
        """Return the model's todo list."""
        return tuple(PlanItem(entry.content, entry.status, entry.priority) for entry in self._todo)

    def ask(
        self,
        *,
        force: bool,
        policy: Mapping[str, float] | None = None,
        instructions: str | None = None,
    ) -> CompactionRequest:
        """Return how to compact, the session's own policy underneath."""
        return CompactionRequest(
            force=force, instructions=instructions, policy={**self.info.policy, **(policy or {})}
        )

    def engine(self, name: str) -> SessionEngine:
        """Return this session's own instance of the engine *name*.

        A compaction that another build stored may name one that is not on offer here: then it is the
        session's own that judges.
        """
        if name not in self._engines:
            engines = self.deps.engines
            self._engines[name] = engines.get(name, engines[self.info.engine])()
        return self._engines[name]

    def engine_name(self, engine: str | None) -> str:
        """Return the engine meant, the session's own for None. Raises InvalidInput for an unknown one."""
        name = engine or self.info.engine
        if name not in self.deps.engines:
            known = ", ".join(self.deps.engines)
            raise InvalidInput(f"no engine {name!r}", hint=f"known engines: {known}")
        return name

    def check_head(self, expected: str | None) -> None:
        """Raise HeadMovedError unless the session stands at *expected*; None is anywhere."""
        if expected is not None and expected != self.history.head:
            raise HeadMovedError(self.info.sid, expected, self.history.head)

    async def store_meta(self, seq: int) -> None:
        """Store what is known of the session, *seq* being the last event it will have told by then."""
        total = asdict(self.meter.session_total)
        plan, cost = tuple(map(asdict, self._todo)), self.meter.cost
        self.info = replace(self.info, seq=seq, session_total=total, cost=cost, plan=plan)
        await self.history.append_records(to_record("meta", self.info))
        self.knowledge.ingest(self.history.current, self.deps.clock_ms())

    def _make_agent(self) -> Agent:
        deps = AgentDeps(
            invoke_model=self._invoke,
            journal=self.history,
            session_id=self.info.sid,
            new_id=self.deps.new_id,
            get_card=self.deps.models.card,
            marks=HOST_MARKS,
            make_room=lambda: self.compactor.compact_between_calls(self._turn_engine, self.ask(force=False)),
            on_usage=self._on_usage,
            on_compaction=self.compactor.begin_backstop,
        )
        agent = create_agent(self._configured, deps)
        agent.subscribe(self.events.on_run_event)
        return agent

    def _weigh(self) -> Weights:
        """Weigh the entries that the next request shows."""
        view = self.compactor.view(self.info.engine, self.ask(force=False))
        history = self.history.current
        return self._anchored(
            self.meter.weigh(history) if view.is_whole else self.meter.weigh_view(view.entries, history)
        )

    def _anchored(self, weights: Weights) -> Weights:
        """Return *weights* with the provider's newest figure, that of an answer not stored yet included."""
        return replace(weights, anchor=self.history.pending_anchor or weights.anchor)

    def emit_prompt(self, node: str | None, job: PromptJob) -> None:
        """Tell a prompt and whose it is; *node* is None for one that is not stored yet, or never."""
        self.events.emit(UserMessage(node, job.content, job.author))

    def _invoke(self, conversation: Conversation, options: StreamOptions) -> Channel:
        self.notices.on_request(conversation.turns, self.history.turns)

        def call(prepared: Conversation) -> Channel:
            notifying = replace(options, on_retry=self._on_retry, on_repair=self.notices.on_repair)
            channel = self.deps.models.invoker(self.agent.snapshot().model)(prepared, notifying)
            return with_idle_timeout(channel, self.deps.model_idle_timeout_s)

        if self.engine(self._turn_engine).commits_view and not self.knowledge.is_on:
            return call(conversation)
        return call_when_ready(lambda: self._prepare(conversation), call)

    async def _prepare(self, conversation: Conversation) -> Conversation:
        """Return what is sent of *conversation*, by the engine that the turn began with, finds included."""
        engine, ask = self._turn_engine, self.ask(force=False)
        if not self.engine(engine).commits_view:
            await self.compactor.compact_if_over_limit(engine, ask)
        view, turns = self.compactor.view(engine, ask), conversation.turns
        if not view.is_whole:
            turns = Outgoing().extend(entry.turn for entry in view.entries).turns()
        found = await self.knowledge.recall(self.history.current, view, self._window())
        return replace(conversation, turns=with_knowledge(turns, found, view))

    def _window(self) -> int:
        return self.card.context_window if self.card is not None else 0

    def _on_retry(self, attempt: int, max_attempts: int, delay_ms: int, error: GatewayError) -> None:
        self.events.emit(Retry(attempt, max_attempts, delay_ms, error.message))

    def _on_usage(self, usage: Usage) -> None:
        card = self.deps.models.card(self.agent.snapshot().model)
        anchor = self.meter.count(usage, card, self._weigh())
        if anchor is not None:
            self.history.note_usage(anchor)
        self.events.emit(self.usage())

    def _on_history(self, appended: tuple[Entry, ...]) -> None:
        self.files.sync()
        for entry in appended:
            if entry.kind == "user":
                self.on_steered(entry)

    def _compactor_deps(self) -> CompactorDeps:
        return CompactorDeps(
            engine_input=self.engine_input,
            own_engine=lambda: self.info.engine,
            engine=self.engine,
            summarizer=lambda: self.deps.models.summarizer(self.info.model),
            fresh=self.files.look,
            uri_of=self.files.uri_of,
            is_stale=self.files.is_stale,
            new_id=self.deps.new_id,
            clock_ms=self.deps.clock_ms,
            deadline_s=self.deps.summary_deadline_s,
        )

    def _server_host(self) -> ServerHost:
        return ServerHost(
            self.cwd,
            offer=lambda tools: self.tools.set_extra_tools(tools),
            warn=lambda title, text: self.events.emit(Notice("warning", title, text)),
            child_started=self.deps.child_started,
        )

    def _tool_context(self, call_id: str) -> ToolContext:
        return ToolContext(
            session_id=self.info.sid,
            call_id=call_id,
            cwd=self.cwd,
            roots=self.roots,
            workspace=self.deps.workspace,
            reads=self.files,
            ask=self._ask_user,
            progress=lambda text: None,
            plan=lambda: self._todo,
            set_plan=self._set_todo,
            child_started=self.deps.child_started,
            max_output_chars=self.deps.max_output_chars,
            terminal=self.host.terminal(self.info.sid),
        )

    async def _ask_user(self, ask: PermissionQuestion) -> bool:
        return await self.permissions.ask(ask, self.events.turn_id)

    def _set_todo(self, entries: tuple[PlanEntry, ...]) -> None:
        self._todo = entries
        self.events.emit(PlanChanged(self.plan()))

    def _on_store_trouble(self, error: SidecarError) -> None:
        why = error.message.rstrip(".")
        text = f"{why}. The conversation goes on in memory and is stored once that works again."
        self.events.emit(Notice("error", "The session cannot be stored", text))
