"""The loop of a run: it carries out the effects of the reducer, and feeds the results back as signals.

:class:`AgentDeps` are the collaborators of an agent, and their defaults.

One model stream or one round of tools runs at a time, each in tasks that are awaited here. A step that
raises, refuses to end or stalls ends the run in a fault, never in silence. The loop itself decides nothing.

:class:`Backstop` is the last guard before each model call: a history near the window is condensed first. Each
call weighs only the turns since the last one. ``runtime.memory`` decides where to cut and writes the summary.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias, TypeVar
from uuid import uuid4

from msgspec import Struct, field, structs

from sidecar._internal.async_cancel import run_until_cancelled
from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import bug
from sidecar._internal.values import Value
from sidecar.conversation import AppendOnlySeq
from sidecar.llmgateway.channel import contain_cancellation
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    ModelCard,
    StreamOptions,
    ToolDescriptor,
    Turn,
    Usage,
)
from sidecar.runtime.cadence import RunMessages, Transition, cadence, replace_history, start_tools
from sidecar.runtime.conductor.journal import (
    Journal,
    JournalStore,
    JournalWriter,
    NodeStore,
    StoreErrorHandler,
)
from sidecar.runtime.contract import (
    DEFAULT_MAX_TURNS,
    AbortSignalInput,
    AgentConfig,
    CompactedSignal,
    CompactEffect,
    Effect,
    FaultedEvent,
    FaultSignal,
    InvokeModelEffect,
    ModelInvoker,
    PersistEffect,
    PublishEffect,
    RunError,
    RunErrorKind,
    RunSnapshot,
    RunToolEffect,
    SettledEvent,
    Signal,
    SnapshotEvent,
    SubmitSignal,
    ToolCall,
    ToolSettledSignal,
)
from sidecar.runtime.dispatch import DEFAULT_GRACE_S, CallOrder, Scheduler, is_independent
from sidecar.runtime.ledger import RunLedger, notify
from sidecar.runtime.memory import (
    IMAGE_CHARS,
    LiveCompaction,
    TurnKinds,
    compact_live,
    is_due,
    plan_live_cut,
    serialize,
    tokens_of,
    turn_chars,
)
from sidecar.runtime.turn import drive_turn

CardLookup: TypeAlias = Callable[[str], ModelCard | None]
"""Returns the card of a model. An exception ends the run in a fault; None means: never compact."""

KindLookup: TypeAlias = Callable[[Sequence[Turn]], TurnKinds]
"""Returns the kind of each turn of a history, None for a turn of which nothing is known; empty for none."""

CompactionHandler: TypeAlias = Callable[[LiveCompaction], None]
"""Called with a compaction that has just been made. Contract: an exception of it is swallowed."""

RoomMaker: TypeAlias = Callable[[], Coroutine[object, object, None] | None]
"""Called before each model call, when the journal holds the whole conversation. Returns None where nothing is
to be done; else the work may move the journal to a shorter one, which the agent follows. An exception ends
the run in a fault."""

T = TypeVar("T")
_Work: TypeAlias = InvokeModelEffect | tuple[ToolCall, ...]
"""An effect that takes time: one model call, or one round of tools."""

_AT_REST = frozenset({"idle", "settled", "faulted"})


def catalog_card(model_id: str) -> ModelCard | None:
    """Look *model_id* up in the gateway's catalogue."""
    # Imported on first use: an agent with models of its own needs no gateway.
    from sidecar.llmgateway.catalog import get_card

    return get_card(model_id)


def gateway_invoker(model_id: str) -> ModelInvoker:
    """Return how to call *model_id* through the gateway."""

    def invoke(conversation: Conversation, options: StreamOptions) -> Channel:
        from sidecar.llmgateway import stream

        return stream(model_id, conversation, options)

    return invoke


class AgentDeps(Value):
    """The collaborators of an agent; every field has a default.

    Attributes:
        invoke_model: how to call the model; the gateway unless given.
        store: where sessions are kept: a store that hands out the journal of a session, or that takes nodes.
        ledger: publishes the events of the run; a ledger of the agent's own unless given.
        journal: where this session is kept; it goes before *store*.
        session_id: the session's id; a new id unless given.
        get_card: returns the card of a model; from the gateway's catalogue unless given. Without a card
            no compaction happens.
        new_id: makes the ids of runs and sessions.
        abort_grace_s: seconds that a tool or stream gets to end by itself after an abort.
        find_stop: returns why no further model call is to be made for a prompt, None where one is.
        on_usage: called once with the usage of each model call, when the call is over.
        may_change: whether a tool call may change something, so that the calls after it wait for its end;
            unless given, all calls of one message run at the same time.
        make_room: shortens the history before a model call in the host's own way; see :data:`RoomMaker`.
        get_kinds: the kinds of the turns of a history; by default the first words of a text decide.
        on_compaction: called after each compaction by the agent itself, where the host had made no room.
        on_store_error: called when storing fails, once until it works again.
    """

    invoke_model: ModelInvoker | None = None
    store: JournalStore | NodeStore | None = None
    ledger: RunLedger | None = None
    journal: Journal | None = None
    session_id: str | None = None
    get_card: CardLookup = catalog_card
    new_id: Callable[[], str] = lambda: uuid4().hex
    abort_grace_s: float = DEFAULT_GRACE_S
    may_change: CallOrder = is_independent
    make_room: RoomMaker | None = None
    find_stop: Callable[[], str | None] = lambda: None
    get_kinds: KindLookup = lambda turns: ()
    on_usage: Callable[[Usage], None] | None = None
    on_compaction: CompactionHandler | None = None
    on_store_error: StoreErrorHandler | None = None


class RunLoop:
    """The live state of one agent, and the effects that are still to be carried out."""

    def __init__(
        self,
        config: AgentConfig,
        deps: AgentDeps,
        ledger: RunLedger,
        journal: JournalWriter,
        snapshot: RunSnapshot,
    ) -> None:
        self.journal = journal
        self.snapshot = snapshot
        self._deps = deps
        self._ledger = ledger
        self._effects: deque[Effect] = deque()
        self._token = CancelToken()
        self._n_calls = 0
        self._invoke = deps.invoke_model or gateway_invoker(config.model)
        self._backstop = Backstop(config, self._invoke, deps.get_card, deps.get_kinds)
        self.configure(config)

    def configure(self, config: AgentConfig) -> None:
        """Go by *config* from the next step on."""
        self._config = config
        self._step = cadence(config)
        self._invoke = self._deps.invoke_model or gateway_invoker(config.model)
        self._backstop = structs.replace(self._backstop, config=config, invoke=self._invoke)
        self._scheduler: Scheduler | None = None

    def prepare(self, turns: AppendOnlySeq[Turn]) -> None:
        """Take in *turns*, to which the journal is about to move, while the run is at rest; for a thread."""
        self._backstop.weigh(self.journal.prepare(turns).finished)

    def follow_journal(self) -> None:
        """Go on from the journal's turns where the host has moved them while the run was at rest."""
        moved = self.journal.follow(RunMessages.of(self.snapshot.messages))
        if moved is not None:
            self.snapshot = replace(self.snapshot, messages=moved)

    def abort(self) -> None:
        """End the prompt that is at work; one that is only queued is not touched."""
        self._token.cancel("the run was aborted")

    def feed(self, signal: Signal) -> None:
        """Take one step of the state machine, and publish its leading events."""
        try:
            transition = self._step(self.snapshot, signal)
        except Exception as error:
            transition = end_after_raise(self.snapshot, error)
        self._take(transition)

    def _take(self, transition: Transition) -> None:
        self.snapshot = transition.state
        self._effects.extend(transition.effects)
        self._publish_leading()

    async def run_to_end(self) -> RunSnapshot:
        """Go on until the run is at rest and nothing is left to do; return how it ended."""
        try:
            while await self._advance():
                pass
        except asyncio.CancelledError:
            self.feed(AbortSignalInput())
            raise
        return self.snapshot

    async def _advance(self) -> bool:
        """Carry out the next effects. Returns whether there may be more."""
        work = await self._carry_out()
        if self.snapshot.phase in _AT_REST:
            return False
        if self._token.cancelled:
            self.feed(AbortSignalInput())
        elif work is None:
            self._fault("invalid_state", "the run stalled: nothing is left that could move it")
        else:
            try:
                await (
                    self._call_model(work) if isinstance(work, InvokeModelEffect) else self._run_tools(work)
                )
            except Exception as error:
                # An exception that nothing above foresaw must still end the run and free its callers.
                self._fault("invalid_state", describe_error(error), error)
        return True

    async def _carry_out(self) -> _Work | None:
        """Publish and persist in order; return the work among the effects, if any.

        A persist leaves the queue when it is done, so no later event is published before it.
        """
        work: _Work | None = None
        while self._effects:
            match self._effects[0]:
                case PersistEffect(snapshot=snapshot):
                    await self.journal.store(snapshot.messages)
                case RunToolEffect(call=call):
                    work = (*work, call) if isinstance(work, tuple) else (call,)
                case InvokeModelEffect() as invocation:
                    work = invocation
                case CompactEffect():
                    bug("the reducer asked for a compaction; they happen before a model call, unasked")
                case PublishEffect():
                    self._publish_leading()
                    continue
            self._effects.popleft()
        return work

    def _publish_leading(self) -> None:
        while self._effects and isinstance(effect := self._effects[0], PublishEffect):
            self._effects.popleft()
            if isinstance(effect.event, SettledEvent | FaultedEvent):
                # An abort of the prompt that is over must not reach the next one.
                self._token = CancelToken()
                self._n_calls = 0
            self._ledger.publish(effect.event)

    async def _call_model(self, invocation: InvokeModelEffect) -> None:
        self._n_calls += 1
        limit = DEFAULT_MAX_TURNS if self._config.max_turns is None else self._config.max_turns
        if self._n_calls > limit:
            self._fault("turn_budget", f"the run may make {limit} model calls and needs another")
            return
        if (why := self._deps.find_stop()) is not None:
            self._fault("turn_budget", why)
            return
        await self.journal.store(self.snapshot.messages)
        call: InvokeModelEffect | None = invocation
        try:
            if self._deps.make_room is not None and (work := self._deps.make_room()) is not None:
                call = await self._make_room(invocation, work)
            history = RunMessages.of(self.snapshot.messages).finished
            if call is not None and self._backstop.is_due(history, call.conversation):
                call = await self._relieve(call, history)
        except Exception as error:
            self._fault("compaction_failed", describe_error(error), error)
            return
        if call is not None and not (self._effects or self._token.cancelled):
            await self._run_cancellable(self._stream(call), "model_failed")

    async def _make_room(
        self, invocation: InvokeModelEffect, work: Coroutine[object, object, object]
    ) -> InvokeModelEffect | None:
        """Let the host shorten the history. Returns the call over it, None when the run is over."""
        await self._run_cancellable(work, "compaction_failed")
        is_over = bool(self._effects) or self._token.cancelled
        moved = None if is_over else self.journal.follow(RunMessages.of(self.snapshot.messages))
        if moved is None:
            return None if is_over else invocation
        self._take(replace_history(self._config, self.snapshot, moved))
        return await self._next_call()

    async def _relieve(
        self, invocation: InvokeModelEffect, history: AppendOnlySeq[Turn]
    ) -> InvokeModelEffect | None:
        """Compact *history*, if that helps. Returns the call over it, None when the run is over."""
        relief = self._backstop.relieve(history, invocation.conversation, self._token)
        compaction = await self._run_cancellable(relief, "compaction_failed")
        if compaction is None:
            return invocation
        self.feed(CompactedSignal(compaction.summary, compaction.cut))
        notify(self._deps.on_compaction, compaction)
        return await self._next_call()

    async def _next_call(self) -> InvokeModelEffect | None:
        work = await self._carry_out()
        return work if isinstance(work, InvokeModelEffect) else None

    async def _stream(self, invocation: InvokeModelEffect) -> None:
        """Feed the signals of the model, until the stream or the run is over."""
        token, usage = self._token, None
        channel = self._invoke(invocation.conversation, replace(invocation.options, cancel=token))
        try:
            async with aclosing(drive_turn(channel)) as signals:
                async for signal in signals:
                    if token.cancelled:
                        break
                    self.feed(signal)
                    usage = self.snapshot.call_usage or usage
                    if self._effects:
                        break
        finally:
            if usage is not None:
                notify(self._deps.on_usage, usage)

    async def _run_tools(self, calls: tuple[ToolCall, ...]) -> None:
        runner = None if self._config.tools is None else self._config.tools.runner
        if runner is None:
            names = ", ".join(sorted({call.name for call in calls}))
            lacks = "tools" if self._config.tools is None else "runner for its tools"
            self._fault("tool_failed", f"the model asked for {names}, and this agent has no {lacks}")
            return
        if self._scheduler is None:

            def show_started(calls: Sequence[ToolCall]) -> None:
                self.show(start_tools(self.snapshot, frozenset(call.id for call in calls)))

            self._scheduler = Scheduler(
                runner,
                grace_s=self._deps.abort_grace_s,
                on_start=show_started,
                may_change=self._deps.may_change,
            )
        late: list[ToolSettledSignal] = []
        async with aclosing(self._scheduler.run(calls, self._token)) as outcomes:
            async for outcome in outcomes:
                if self._token.cancelled:
                    late.append(outcome)
                else:
                    self.feed(outcome)
        if late:
            # The last results of the tools go on record first; queued prompts are let in after the abort.
            queued = self.snapshot.queued
            self.snapshot = replace(self.snapshot, queued=())
            signals: list[Signal] = [*late, AbortSignalInput(), *map(SubmitSignal, queued)]
            for signal in signals:
                self.feed(signal)

    def show(self, snapshot: RunSnapshot) -> None:
        """Go on from *snapshot*, which no signal led to, and publish it."""
        self.snapshot = snapshot
        self._effects.append(PublishEffect(SnapshotEvent(snapshot)))
        self._publish_leading()

    def _fault(self, kind: RunErrorKind, message: str, cause: BaseException | None = None) -> None:
        self.feed(FaultSignal(RunError(kind, message, cause)))

    async def _run_cancellable(self, work: Coroutine[object, object, T], kind: RunErrorKind) -> T | None:
        """Run *work* in a task of its own, so that an abort can end it wherever it waits.

        Returns:
            The result; None after an abort, and after an exception, which faults the run with *kind*.
        """
        if self._token.cancelled:
            work.close()
            return None
        task = await run_until_cancelled(work, self._token, self._deps.abort_grace_s)
        if task is None:
            return None
        if task.cancelled():
            self._fault(kind, "the model call was cancelled from within")
            return None
        error = task.exception()
        if error is None:
            return task.result()
        self._fault(kind, describe_error(error), error)
        return None


def describe_error(error: BaseException) -> str:
    return str(error) or type(error).__name__


def end_after_raise(state: RunSnapshot, cause: Exception) -> Transition:
    """End a run after a step that raised, without another step, for that might raise as well."""
    error = RunError("invalid_state", f"a step of the run failed: {describe_error(cause)}", cause)
    done = replace(state, phase="faulted", pending=(), error=error)
    return Transition(done, (PersistEffect(done), PublishEffect(FaultedEvent(error, done))))


class Backstop(Struct, eq=False):
    """The guard of one agent. It keeps the weights of history and tools: a call weighs new ones only."""

    config: AgentConfig
    invoke: ModelInvoker
    get_card: CardLookup
    get_kinds: KindLookup
    weighed: AppendOnlySeq[Turn] = field(default_factory=AppendOnlySeq)
    n_chars: int = 0
    weighed_tools: Sequence[ToolDescriptor] = ()
    n_tool_chars: int = 0

    def is_due(self, history: AppendOnlySeq[Turn], conversation: Conversation) -> bool:
        """Whether *history* is to be shortened before *conversation* is sent; never without a card."""
        card = self.get_card(self.config.model)
        if card is None:
            return False
        self.weigh(history)
        tokens = tokens_of(self.n_chars, len(history)) + self.overhead_tokens(conversation)
        return is_due(tokens, card, self.config.compaction)

    def weigh(self, history: AppendOnlySeq[Turn]) -> None:
        """Weigh *history*; one that grew out of the history before costs its new turns."""
        added = history.since(self.weighed)
        if added is None:
            added, self.n_chars = tuple(history), 0
        for turn in added:
            self.n_chars += turn_chars(turn, IMAGE_CHARS)
        self.weighed = history

    def overhead_tokens(self, conversation: Conversation) -> int:
        """Return the tokens of the window that the system prompt and the tools take."""
        tools = conversation.tools or ()
        if tools is not self.weighed_tools:
            self.weighed_tools, self.n_tool_chars = tools, 0
            for tool in tools:
                self.n_tool_chars += len(tool.name) + len(tool.description) + len(serialize(tool.parameters))
        return tokens_of(len(conversation.system or "") + self.n_tool_chars, 0)

    async def relieve(
        self, history: AppendOnlySeq[Turn], conversation: Conversation, cancel: CancelToken
    ) -> LiveCompaction | None:
        """Return how to shorten *history*, which is due, or None where a compaction would not help.

        Raises:
            CancelledByToken: *cancel* fired while the distiller was at work.
        """
        card = self.get_card(self.config.model)
        turns = tuple(history)
        kinds = self.get_kinds(turns)
        tokens, overhead = tokens_of(self.n_chars, len(turns)), self.overhead_tokens(conversation)
        policy = self.config.compaction
        if card is None:
            return None
        plan = plan_live_cut(turns, card, policy, tokens=tokens, overhead_tokens=overhead, kinds=kinds)
        if plan is None:
            return None
        invoke = contain_cancellation(self.invoke)
        return await compact_live(turns, plan, invoke, model=card, cancel=cancel, kinds=kinds)
