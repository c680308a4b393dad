"""The agent of a session: its setup from turn to turn, and the model calls that it makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Final, get_args

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.apply_patch import APPLY_PATCH
from sidecar.conductor.content import Content, prompt_text
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import Notice, Retry
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.knowledge import with_knowledge
from sidecar.conductor.window.window import SessionWindow
from sidecar.conductor.workbench.workbench import Workbench
from sidecar.conversation import History
from sidecar.llmgateway.catalog import family_of
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    CallMemory,
    Channel,
    Conversation,
    Emission,
    GatewayError,
    StreamOptions,
    ThinkingLevel,
    Turn,
    Usage,
    UserTurn,
    emissions_of,
)
from sidecar.runtime import AgentConfig, AgentDeps, create_agent
from sidecar.runtime.contract import NO_COMPACTION, NO_LIMIT, CompactionPolicy, RunSnapshot
from sidecar.text.calls import NO_EFFECTS

THINKING_LEVELS: Final[tuple[ThinkingLevel, ...]] = get_args(ThinkingLevel)
_CALLS_PER_NOTICE: Final = 50
_MOST_FAILED_ALIKE: Final = 5
"""A turn in which a call has failed so often in a row, with the same words, is the user's to go on with."""

_MOST_SAME_RESULTS: Final = 10
"""So is one in which a call has so often had the same result, with nothing new in between."""

_MENTIONS_S: Final = 2.0
"""How long a running turn waits for the content of the mentions in a message to it."""

_HOW_TO_LIMIT: Final = "it goes on until the work is done; max_model_calls in config.toml sets a limit"
_LEVELS: Final[dict[str, ThinkingLevel]] = {level: level for level in THINKING_LEVELS}
_LAST_RESORT: Final = CompactionPolicy(trigger_ratio=1.2, keep_recent=8)
"""The agent counts by characters, and up to a fifth more than the session's meter, which judges before it."""


class SessionAgent:
    """The agent of one session. It follows the session's history, and keeps its setup during a turn."""

    def __init__(
        self, record: SessionRecord, workbench: Workbench, window: SessionWindow, deps: SessionDeps
    ) -> None:
        self._record = record
        self._history = record.history
        self._events = record.events
        self._max_model_calls = deps.max_model_calls
        self._n_calls = 0
        self._memory = CallMemory()
        self._head = window.head
        self._request = window.request
        self._engines = window.engines
        self._compactor = window.compactor
        self._knowledge = window.knowledge
        self._servers = workbench.servers
        self._tools = workbench.tools
        self._context = workbench.prompt_context
        self._mentioning: list[tuple[UserTurn, Content]] = []
        self._turn_engine = self._engines.own_name
        self._offer_patches()
        self._config = self._head.config = self._make_config()
        agent_deps = AgentDeps(
            invoke_model=self._invoke,
            journal=self._history,
            session_id=record.sid,
            new_id=deps.new_id,
            get_card=record.card_of,
            get_kinds=self._history.kinds_of,
            # A call of a tool that is gone changes nothing: it is refused.
            may_change=lambda call: (
                self._tools.effects().get(call.name, NO_EFFECTS).of(call.input).may_change
            ),
            make_room=self._make_room_between_calls,
            find_stop=self._find_stop,
            on_usage=self._on_usage,
            on_compaction=self._compactor.note_backstop,
        )
        self._agent = create_agent(self._config, agent_deps)
        self._agent.subscribe(self._events.on_run_event)
        self._history.follow(self)

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._agent.is_running

    async def make_room(self, prompt: UserTurn, on_compact: Callable[[], None]) -> None:
        """Compact if the history with *prompt* is over the limit; *on_compact* is called before that."""
        await self._head.refresh()
        self._request.entering = prompt
        try:
            request = self._engines.automatic()
            if self._request.gate(request).over:
                on_compact()
                await self._compactor.compact_if_over_limit(request)
        finally:
            self._request.entering = None

    async def answer(self, stop: CancelToken, max_model_calls: int | None) -> RunSnapshot | None:
        """Answer the newest prompt of the history; None when *stop* fired before the run began.

        The session's choices of now hold for the turn. An unchanged setup keeps its weights.
        """
        self._turn_engine = self._record.info.engine
        config = self._make_config(max_model_calls)
        if config != self._config:
            if config.model != self._config.model:
                self._offer_patches()
                self._memory.clear()
            self._config = self._head.config = config
            self._agent.configure(config)
        await self._servers.ready(stop)
        if stop.cancelled:
            return None
        self._tools.begin_turn()
        return await self._submit()

    async def go_on(self, max_model_calls: int | None) -> RunSnapshot | None:
        """Call the model again in the turn under way; None where the limit of its model calls is reached."""
        config = self._make_config(max_model_calls)
        n_left = (config.max_turns or NO_LIMIT) - self._n_calls
        if n_left < 1:
            return None
        self._agent.configure(replace(config, max_turns=n_left))
        try:
            return await self._agent.submit(())
        finally:
            self._agent.configure(self._config)

    async def answer_after_overflow(self, stop: CancelToken) -> RunSnapshot | None:
        """Compact after the provider refused the size, and answer again; None without an answer."""
        is_smaller = await self._compactor.compact_after_overflow(self._engines.automatic())
        if not is_smaller or stop.cancelled:
            return None
        return await self._submit()

    async def _submit(self) -> RunSnapshot:
        """Let the agent answer the newest prompt, with nothing left from an answer before."""
        self._n_calls = 0
        self._mentioning.clear()
        return await self._agent.submit(())

    def steer(self, turn: UserTurn, content: Content) -> None:
        """Give *turn* to the run that is under way; it enters at the next safe step.

        The files and more that it mentions are read then, before the model is called; *content* is the prompt
        as its client sent it.
        """
        self._agent.steer((turn,))
        if "@" in prompt_text(turn.blocks):
            self._mentioning.append((turn, content))

    def take_back_queued(self) -> Sequence[Turn]:
        """Return the steered turns that have not entered the run, taken back from it."""
        return [turn for turns in self._agent.take_back_queued() for turn in turns]

    def stop(self) -> None:
        """Stop the prompt that is answered now, and a compaction that runs."""
        self._compactor.cancel()
        self._agent.abort()

    def prepare(self, history: History) -> None:
        """Take in *history*, to which the conversation is about to move."""
        self._agent.prepare(history.turns)

    def forget(self) -> None:
        """Let go of the conversation."""
        self._agent.forget()

    def close(self) -> None:
        """Let the models forget the session's conversation."""
        self._memory.clear()

    def _offer_patches(self) -> None:
        """Offer the tool for patches where the model of the session is trained on them."""
        card = self._record.card
        family = family_of(card.wire_id if card is not None else self._record.info.model)
        self._tools.offer("patches", (APPLY_PATCH,) if family is not None and family.patches else ())

    def _make_config(self, max_model_calls: int | None = None) -> AgentConfig:
        info, card, engine = self._record.info, self._record.card, self._engines.get()
        return AgentConfig(
            info.model,
            self._head.system(),
            self._tools,
            # Without a level the choice is left to the model; one that cannot think gets none.
            thinking=_LEVELS.get(info.thinking) if card is not None and card.reasoning else None,
            # The agent compacts by itself only where the engine had its chance before and made no room.
            compaction=_LAST_RESORT if engine.compacts else NO_COMPACTION,
            max_turns=max_model_calls or self._max_model_calls or NO_LIMIT,
        )

    def _find_stop(self) -> str | None:
        """Return why the turn ends without another model call: it repeats a call, and learns nothing."""
        if self._n_calls == 0:
            return None
        n_failed, n_same = self._tools.n_failed_alike, self._tools.n_same_results
        if n_failed >= _MOST_FAILED_ALIKE:
            return f"the same call of a tool has failed {n_failed} times in a row; say how to go on"
        if n_same >= _MOST_SAME_RESULTS:
            return (
                f"the same call of a tool has had the same result {n_same} times, with nothing new in between"
                "; say how to go on"
            )
        return None

    def _make_room_between_calls(self) -> Coroutine[object, object, None] | None:
        request = self._engines.automatic(self._turn_engine)
        if self._mentioning:
            return self._bring_mentions(request)
        if not self._request.gate(request).over:
            return None
        return self._compactor.compact_between_calls(request)

    async def _bring_mentions(self, request: CompactionRequest) -> None:
        """Append the content that steered prompts mention once they have entered; then compact if over."""
        in_history = {id(entry.turn) for entry in self._history.current}
        entered = [each for each in self._mentioning if id(each[0]) in in_history]
        for prompt in entered:
            self._mentioning.remove(prompt)
            try:
                async with asyncio.timeout(_MENTIONS_S):
                    entries = await self._context.read_mentions(*prompt)
            except TimeoutError:
                text = f"Reading it took more than {_MENTIONS_S:g} seconds, and the turn went on."
                self._events.emit(
                    Notice("warning", "A mention in a message to the running turn brought nothing", text)
                )
            else:
                if entries:
                    await self._history.append(*entries)
        await self._compactor.compact_between_calls(request)

    def _invoke(self, conversation: Conversation, options: StreamOptions) -> Channel:
        self._record.notices.on_request(conversation.turns, self._history.turns)
        self._n_calls += 1
        if self._n_calls % _CALLS_PER_NOTICE == 0:
            self._events.emit(Notice("info", f"{self._n_calls} model calls for this prompt", _HOW_TO_LIMIT))

        def on_retry(attempt: int, max_attempts: int, delay_ms: int, error: GatewayError) -> None:
            withdrawn = self._events.withdraw_message()
            self._events.emit(Retry(attempt, max_attempts, delay_ms, error.message, withdrawn))

        def call(prepared: Conversation) -> Channel:
            notifying = replace(
                options,
                on_retry=on_retry,
                on_repair=self._record.notices.on_repair,
                on_warning=self._record.notices.on_warning,
                memory=self._memory,
            )
            invoke = self._record.models.invoker(self._config.model)
            card = self._record.card_of(self._config.model)
            n_tokens = self._request.make_input().context_tokens
            return self._record.spending.meter(lambda: invoke(prepared, notifying), card, n_tokens)

        if self._knowledge.sources:
            return call_when_ready(lambda: self._add_knowledge(conversation), call)
        return call(self._make_request(conversation.turns, conversation))

    async def _add_knowledge(self, conversation: Conversation) -> Conversation:
        """Return the request for *conversation* with the knowledge found."""
        card = self._record.card_of(self._config.model)
        window = card.context_window if card is not None else 0
        history = self._history.current
        found = await self._knowledge.recall(history, window)
        prompt = next((entry.turn for entry in reversed(history) if entry.kind == "user"), None)
        return self._make_request(with_knowledge(conversation.turns, found, prompt), conversation)

    def _make_request(self, turns: Sequence[Turn], conversation: Conversation) -> Conversation:
        """Return *conversation* with *turns*, the head of now, and a newest prompt that fits the window."""
        cut = self._request.too_long_prompt(self._engines.automatic(self._turn_engine))
        if cut is not None:
            self._record.notices.on_cut_prompt(cut.whole)
            turns = [cut.short.turn if turn is cut.whole.turn else turn for turn in turns]
        return self._head.complete(replace(conversation, turns=tuple(turns)))

    def _on_usage(self, usage: Usage) -> None:
        self._record.look_up_card()
        self._request.count(usage, self._record.card_of(self._config.model))
        self._events.emit(self._request.usage())


def call_when_ready(
    prepare: Callable[[], Awaitable[Conversation]], call: Callable[[Conversation], Channel]
) -> Channel:
    """Return the channel of a *call* that is made once *prepare* has returned the conversation to send.

    An exception of either one ends the channel.
    """

    async def emissions() -> AsyncGenerator[Emission, None]:
        async with emissions_of(call(await prepare())) as inner:
            async for emission in inner:
                yield emission

    return channel_of(emissions)
