"""The model that writes the summaries of a session, with its answers checked: for every engine alike.

A model that answers with no summary is asked once more and told the reason. Then the call fails, and the
engine goes on as it does without a model. Of an answer that stands, lines that cannot be true are dropped.
The request is the text that an answer must agree with: everything that the summary stands for is in it.

Each request also asks about the user's rules. The answer has a block about them behind the summary: it is
taken out, and no engine sees it. Where the provider has the conversation in its cache, the model is asked
behind the whole of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import Struct, field

from sidecar.conductor.content import text_of_turn
from sidecar.conductor.contract import RuleStatement, SessionRule
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engine import CompactionResult, SessionEngine
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.head import RequestHead
from sidecar.conductor.window.rule_changes import RULES_MARK, ask_about_rules, split_statements
from sidecar.conductor.window.weights import estimate_request_tokens
from sidecar.conversation import History
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    Reply,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    ToolCallBlock,
    ToolCallStartEmission,
    UserTurn,
    emissions_of,
    join_texts,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.runtime.wire import build_conversation
from sidecar.text.replies import ReplyReader
from sidecar.text.typed import hide_pasted_text
from sidecar.window_budget.contract import CachedRequest

_ATTEMPTS: Final = 2
_STOP_FAULTS: Final[dict[str, str]] = {
    "max_output": "it was cut off at its greatest length",
    "refusal": "it is a refusal",
}
LENGTH: Final = (
    "Write at most 600 words: the state of the work, its reasons, the next step. The conversation itself"
    " stays beside the summary, the older, the shorter."
)
_MOST_WEIGHED_TURNS: Final = 100
"""A request with more turns is weighed in a thread."""

_TYPED_CHARS: Final = 8_000
"""How much of the newest prompts tells the language of the user."""

_PASSAGE_CHARS: Final = 400
"""The length of a passage of a summary that clients are sent while it is written."""


class Summarizer:
    """The summarising model of one session."""

    def __init__(self, record: SessionRecord, deps: SessionDeps, head: RequestHead) -> None:
        self._record = record
        self._models = deps.models
        self._settings = deps.compaction
        self._head = head

    @property
    def card(self) -> ModelCard | None:
        """The card that its prompts must fit, None for unknown and where there is no model."""
        return self._models.summarizer(self._record.info.model)[1]

    def invoker(self, on_text: Callable[[str], object]) -> ModelInvoker | None:
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
            if len(conversation.turns) <= _MOST_WEIGHED_TURNS:
                n_tokens = estimate_request_tokens(conversation)
            else:
                n_tokens = await asyncio.to_thread(estimate_request_tokens, conversation)
            card = self._models.card(self._models.summarizer_id(self._record.info.model))
            counted = self._record.spending.meter(lambda: invoke(conversation, notifying), card, n_tokens)
            async with emissions_of(counted) as inner:
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

    def writes_note(self, engine: SessionEngine, instructions: str | None = None) -> bool:
        """Return whether a model writes a note in a compaction by *engine* with *instructions* of the user.

        By itself it does where the note is cheap: it costs nothing, the provider has a cache, or the settings
        name a model for it.
        """
        own, note = self._record.info.model, self._settings.note
        writer = self._models.summarizer_id(own)
        if not engine.writes or note == "never" or self._models.summarizer(own)[0] is None:
            return False
        if note == "always" or instructions or writer != own:
            return True
        card = self._models.card(writer)
        return card is None or not card.cost.input_per_mtok or card.cost.cache_read_per_mtok is not None

    def check_answers(
        self,
        engine: SessionEngine,
        history: History,
        on_text: Callable[[str], object] = lambda _: None,
        instructions: str | None = None,
    ) -> CheckedModel | None:
        """Return the model for a compaction of *history* by *engine*, its answers checked; None for none.

        *on_text* is that of :meth:`invoker`, *instructions* are the user's for this compaction.
        """
        invoke = self.invoker(on_text) if self.writes_note(engine, instructions) else None
        if invoke is None:
            return None
        rules = self._head.user_rules.standing
        return CheckedModel(invoke, engine.marks.headings, newest_words(history), rules)

    def cached_request(self) -> CachedRequest | None:
        """Return the request that continues the newest one, None where the provider has that not in a cache.

        A summary is written by the session's own model then, and behind the whole conversation.
        """
        config, model = self._head.config, self._record.info.model
        card = self._models.card(model)
        caches = card is not None and card.cost.cache_read_per_mtok is not None
        is_own = config is not None and config.model == model == self._models.summarizer_id(model)
        if config is None or not (self._settings.same_prefix and caches and is_own):
            return None
        request = self._head.complete(build_conversation(self._record.history.turns, config))
        return CachedRequest(request, config.thinking)


def begin_of_mark(passage: str) -> int:
    """Return where the mark of the block about rules may begin at the end of *passage*, else its length.

    >>> begin_of_mark("done.\\n<ru"), begin_of_mark("a < b")
    (6, 5)
    """
    at = passage.rfind("<")
    return at if at >= 0 and RULES_MARK.startswith(passage[at:]) else len(passage)


class CheckedModel(Struct):
    """An invoker around *invoke*.

    Attributes:
        invoke: the model.
        headings: the headings that the engine asks for, none for any form.
        typed: the newest words of the user, which tell the language.
        rules: the user's rules that hold, which no summary may turn round.
        fault: why the last answer was no summary, None where it was one.
        dropped: the lines that were dropped, each with the reason.
        shown: everything that the model was shown so far: a summary made in pieces may speak of all of them.
        statements: the statements of the answers about the user's rules.
    """

    invoke: ModelInvoker
    headings: Sequence[str] = ()
    typed: str = ""
    rules: Sequence[SessionRule] = ()
    fault: str | None = None
    dropped: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    statements: list[RuleStatement] = field(default_factory=list)

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        """Return the checked answer of the model, whole: its text comes as one piece."""
        return channel_of(lambda: self.ask(conversation, options))

    async def ask(self, conversation: Conversation, options: StreamOptions) -> AsyncGenerator[Emission, None]:
        """Yield the answer to *conversation*; raises GatewayError where the model wrote no summary."""
        from sidecar.conductor.window.compaction.check import (  # not above: it compiles for 3 ms
            drop_unfounded,
            find_fault,
            plain_text,
            shorten_note,
        )

        self.shown.append("\n".join(map(text_of_turn, conversation.turns)))
        conversation = with_question(conversation, f"{LENGTH}\n\n{ask_about_rules(self.rules)}")
        for _ in range(_ATTEMPTS):
            async with emissions_of(self.invoke(conversation, options)) as inner:
                answer = [emission async for emission in inner]
            reply = ReplyReader.of(answer)
            text, statements = (reply.text if reply.is_complete else None), tuple[RuleStatement, ...]()
            self.fault = stop_fault(answer)
            if text is not None:
                text, statements = split_statements(text)
                self.fault = find_fault(text, self.headings, self.typed)
                if not text.strip() and has_call(answer):
                    self.fault = "it calls a tool"
            if self.fault is None:
                rules = [rule.text for rule in self.rules]
                shown = plain_text("\n".join(self.shown))
                checked = partial(drop_unfounded, text or "", self.was_shown, rules, shown)
                mended, dropped = await asyncio.to_thread(checked)
                if 2 * len(mended) <= len(shown):  # a longer one is for the engine to refuse
                    mended = shorten_note(mended)
                self.dropped += dropped
                self.statements += statements
                for emission in answer if mended == reply.text else with_text(answer, mended):
                    yield emission
                return
            reason = (
                f"That cannot be used: {self.fault}. Write the summary that was asked for, and nothing else."
            )
            asked = UserTurn((TextBlock(reason),))
            conversation = replace(
                conversation, turns=(*conversation.turns, AssistantTurn((TextBlock(text or ""),)), asked)
            )
        raise GatewayError("parse", f"the model wrote no summary: {self.fault}")

    def was_shown(self, text: str) -> bool:
        """Whether *text* stands in anything that the model was shown."""
        return any(text in shown for shown in self.shown)

    def report(self, result: CompactionResult) -> CompactionResult:
        """Return *result* with the faults of the model's answers, and their statements about rules."""
        result = replace(result, statements=tuple(self.statements))
        if self.dropped:
            result = replace(result, info={**(result.info or {}), "mended": list(self.dropped)})
        if self.fault is None or result.fallback_reason is None:
            return result
        return replace(result, fallback_reason=f"the model wrote no summary: {self.fault}")


def stop_fault(answer: Sequence[Emission]) -> str | None:
    """Return why the end of *answer* makes it no summary, None for an end by itself and for a failed call.

    >>> stop_fault([StopEmission("max_output")])
    'it was cut off at its greatest length'
    """
    for emission in answer:
        match emission:
            case StopEmission(stop=stop) | DoneEmission(reply=Reply(stop=stop)) if stop in _STOP_FAULTS:
                return _STOP_FAULTS[stop]
    return None


def has_call(answer: Sequence[Emission]) -> bool:
    """Whether an answer calls a tool."""
    return any(
        isinstance(each, ToolCallStartEmission)
        or (isinstance(each, DoneEmission) and any(isinstance(b, ToolCallBlock) for b in each.reply.blocks))
        for each in answer
    )


def with_text(answer: Sequence[Emission], text: str) -> list[Emission]:
    """Return *answer* with *text* in the place of its own."""
    kept = (each for each in answer if not isinstance(each, TextEmission))
    return [
        TextEmission(text),
        *(
            replace(each, reply=replace(each.reply, blocks=(TextBlock(text),)))
            if isinstance(each, DoneEmission)
            else each
            for each in kept
        ),
    ]


def with_question(conversation: Conversation, question: str) -> Conversation:
    """Return *conversation* with *question* behind its last turn."""
    *turns, last = conversation.turns
    asked = (
        replace(last, blocks=(*last.blocks, TextBlock(question)))
        if isinstance(last, UserTurn)
        else UserTurn((TextBlock(question),))
    )
    kept = turns if isinstance(last, UserTurn) else [*turns, last]
    return replace(conversation, turns=(*kept, asked))


def newest_words(history: History) -> str:
    """Return the words that the user typed in the newest prompts."""
    text = ""
    for entry in reversed(history):
        if entry.kind == "user":
            prose = join_texts(entry.turn.blocks, "\n")
            text += f"{hide_pasted_text(prose[:_TYPED_CHARS])}\n"
        if len(text) >= _TYPED_CHARS:
            break
    return text
