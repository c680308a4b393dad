"""The model that writes summaries, with its answers checked: for every engine alike.

A model that answers with no summary is asked once more and told the reason. Then the call fails, and the
engine goes on as it does without a model. Of an answer that stands, lines that cannot be true are dropped.
The request is the text that an answer must agree with: everything that the summary stands for is in it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, field

from sidecar.conductor.content import text_of_turn
from sidecar.conductor.engine import CompactionResult, EngineInput, SessionEngine
from sidecar.conversation import History
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    Reply,
    StopEmission,
    StreamOptions,
    TextBlock,
    TextEmission,
    ToolCallBlock,
    ToolCallStartEmission,
    Usage,
    UserTurn,
    emissions_of,
    gateway_error,
)
from sidecar.runtime.contract import ModelInvoker
from sidecar.text.replies import ReplyReader
from sidecar.window_budget.check import drop_unfounded, find_fault
from sidecar.window_budget.language import language_of

_ATTEMPTS: Final = 2
_STOP_FAULTS: Final[dict[str, str]] = {
    "max_output": "it was cut off at its greatest length",
    "refusal": "it is a refusal",
}
_LANGUAGE_CHARS: Final = 4_000
"""How much of the newest prompts decides the language of the user."""


class CheckedModel(Struct):
    """An invoker around *invoke*.

    Attributes:
        invoke: the model.
        headings: the headings that the engine asks for, none for any form.
        language: the language of the user, None for unknown.
        rules: the user's rules, which no summary may turn round.
        fault: why the last answer was no summary, None where it was one.
        dropped: the lines that were dropped, each with the reason.
        count: counts the usage of each call, used or not.
        shown: everything that the model was shown so far: a summary made in pieces may speak of all of them.
    """

    invoke: ModelInvoker
    headings: Sequence[str] = ()
    language: str | None = None
    rules: Sequence[str] = ()
    fault: str | None = None
    dropped: list[str] = field(default_factory=list)
    count: Callable[[Usage], object] | None = None
    shown: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        invoke: ModelInvoker,
        engine: SessionEngine,
        given: EngineInput,
        count: Callable[[Usage], object] | None = None,
    ) -> CheckedModel:
        """Return the checked model of a compaction of *given* by *engine*; *count* counts its calls."""
        language = user_language(given.history)
        return cls(invoke, engine.marks.headings, language, given.rules or (), count=count)

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        """Return the checked answer of the model, whole: its text comes as one piece."""
        return channel_of(lambda: self.ask(conversation, options))

    async def ask(self, conversation: Conversation, options: StreamOptions) -> AsyncGenerator[Emission, None]:
        """Yield the answer to *conversation*; raises GatewayError where the model wrote no summary."""
        self.shown.append("\n".join(map(text_of_turn, conversation.turns)))
        for _ in range(_ATTEMPTS):
            async with emissions_of(self.invoke(conversation, options)) as inner:
                answer = [emission async for emission in inner]
            reply = ReplyReader.of(answer)
            if self.count is not None and reply.usage is not None:
                self.count(reply.usage)
            text = reply.text if reply.is_complete else None
            self.fault = stop_fault(answer)
            if text is not None:
                self.fault = find_fault(text, self.headings, self.language)
                if not text.strip() and has_call(answer):
                    self.fault = "it calls a tool"
            if self.fault is None:
                mended, dropped = drop_unfounded(text or "", self.was_shown, self.rules)
                self.dropped += dropped
                for emission in with_text(answer, mended) if dropped else answer:
                    yield emission
                return
            reason = (
                f"That cannot be used: {self.fault}. Write the summary that was asked for, and nothing else."
            )
            asked = UserTurn((TextBlock(reason),))
            conversation = replace(
                conversation, turns=(*conversation.turns, AssistantTurn((TextBlock(text or ""),)), asked)
            )
        raise gateway_error("parse", f"the model wrote no summary: {self.fault}")

    def was_shown(self, text: str) -> bool:
        """Whether *text* stands in anything that the model was shown."""
        return any(text in shown for shown in self.shown)

    def report(self, result: CompactionResult) -> CompactionResult:
        """Return *result* with the faults of the model's answers."""
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


def user_language(history: History) -> str | None:
    """Return the language of the newest prompts, None where it is not clear."""
    text = ""
    for entry in reversed(history):
        if entry.kind == "user":
            prose = "\n".join(block.text for block in entry.turn.blocks if isinstance(block, TextBlock))
            text += f"{prose[:_LANGUAGE_CHARS]}\n"
        if len(text) >= _LANGUAGE_CHARS:
            break
    return language_of(text)
