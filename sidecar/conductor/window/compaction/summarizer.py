"""The model that writes the summaries of a session, and the conversation that its provider has in a cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Final

from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engine import SessionEngine
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.compaction.checked_model import CheckedModel
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.window.rule_changes import RULES_MARK
from sidecar.conversation import History
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    StreamOptions,
    TextEmission,
    Usage,
    emissions_of,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.runtime.wire import build_conversation
from sidecar.window_budget.contract import CachedRequest

_PASSAGE_CHARS: Final = 400
"""The length of a passage of a summary that clients are sent while it is written."""


class Summarizer:
    """The summarising model of one session."""

    def __init__(self, record: SessionRecord, deps: SessionDeps, head: RequestHead) -> None:
        self._record = record
        self._models = deps.models
        self._asks_behind = deps.compaction.same_prefix
        self._head = head

    @property
    def card(self) -> ModelCard | None:
        """The card that its prompts must fit, None for unknown and where there is no model."""
        return self._models.summarizer(self._record.info.model)[1]

    def invoker(self, on_text: Callable[[str], object] = lambda _: None) -> ModelInvoker | None:
        """Return the model, with a notice of each retry, fallback and failure; None where there is none.

        *on_text* is called with each further passage that it writes, in an answer that is no summary too, but
        not with its block about rules.
        """
        invoke, notices = self._models.summarizer(self._record.info.model)[0], self._record.notices
        if invoke is None:
            return None

        def on_retry(attempt: int, max_attempts: int, delay_ms: int, error: GatewayError) -> None:
            notices.on_warning(f"the summary is tried again ({attempt} of {max_attempts}): {error.message}")

        async def emissions(
            conversation: Conversation, options: StreamOptions
        ) -> AsyncGenerator[Emission, None]:
            notifying = replace(options, on_retry=on_retry, on_warning=notices.on_warning)
            passage, is_over = "", False
            async with emissions_of(invoke(conversation, notifying)) as inner:
                async for emission in inner:
                    if isinstance(emission, TextEmission) and not is_over:
                        passage, mark, _ = f"{passage}{emission.delta}".partition(RULES_MARK)
                        is_over = mark != ""
                    is_last = is_over or isinstance(emission, DoneEmission)
                    if passage and (len(passage) >= _PASSAGE_CHARS or is_last):
                        begins = len(passage) if is_last else begin_of_mark(passage)
                        on_text(passage[:begins])
                        passage = passage[begins:]
                    if isinstance(emission, ErrorEmission) and emission.error.kind != "aborted":
                        notices.on_warning(f"no model wrote the summary: {emission.error.message}")
                    yield emission

        def call(conversation: Conversation, options: StreamOptions) -> Channel:
            return channel_of(lambda: emissions(conversation, options))

        return call

    def check_answers(
        self, engine: SessionEngine, history: History, on_text: Callable[[str], object] = lambda _: None
    ) -> CheckedModel | None:
        """Return the model for a compaction of *history* by *engine*, its answers checked; None for none.

        *on_text* is that of :meth:`invoker`.
        """
        invoke = self.invoker(on_text) if engine.writes else None
        if invoke is None:
            return None
        return CheckedModel.of(invoke, engine, history, self._head.user_rules.standing, self.count)

    def cached_request(self) -> CachedRequest | None:
        """Return the request that continues the newest one, None where the provider has that not in a cache.

        A summary is written by the session's own model then, and behind the whole conversation.
        """
        config, model = self._head.config, self._record.info.model
        card = self._models.card(model)
        caches = card is not None and card.cost.cache_read_per_mtok is not None
        is_own = config is not None and config.model == model == self._models.summarizer_id(model)
        if config is None or not (self._asks_behind and caches and is_own):
            return None
        request = self._head.complete(build_conversation(self._record.history.turns, config))
        return CachedRequest(request, config.thinking)

    def count(self, usage: Usage) -> None:
        """Count the usage of a call."""
        model = self._models.summarizer_id(self._record.info.model)
        self._record.spending.add(usage, self._models.card(model))


def begin_of_mark(passage: str) -> int:
    """Return where the mark of the block about rules may begin at the end of *passage*, else its length.

    >>> begin_of_mark("done.\\n<ru"), begin_of_mark("a < b")
    (6, 5)
    """
    at = passage.rfind("<")
    return at if at >= 0 and RULES_MARK.startswith(passage[at:]) else len(passage)
