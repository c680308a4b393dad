"""The model that writes summaries, with its answers checked: for every engine alike.

A model that answers with no summary is asked once more and told the reason. Then the call fails, and the
engine goes on as it does without a model. Of an answer that stands, lines that cannot be true are dropped.
The request is the text that an answer must agree with: everything that the summary stands for is in it.

Each request also asks about the user's rules. The answer has a block about them behind the summary: it is
taken out, and no engine sees it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import Struct, field

from sidecar.conductor.content import text_of_turn
from sidecar.conductor.engine import CompactionResult, SessionEngine
from sidecar.conductor.rule_shapes import RuleStatement, SessionRule
from sidecar.conductor.window.compaction.check import drop_unfounded, find_fault
from sidecar.conductor.window.rule_changes import ask_about_rules, split_statements
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
from sidecar.text.typed import hide_pasted_text

_ATTEMPTS: Final = 2
_STOP_FAULTS: Final[dict[str, str]] = {
    "max_output": "it was cut off at its greatest length",
    "refusal": "it is a refusal",
}
_TYPED_CHARS: Final = 8_000
"""How much of the newest prompts tells the language of the user."""


class CheckedModel(Struct):
    """An invoker around *invoke*.

    Attributes:
        invoke: the model.
        headings: the headings that the engine asks for, none for any form.
        typed: the newest words of the user, which tell the language.
        rules: the user's rules that hold, which no summary may turn round.
        fault: why the last answer was no summary, None where it was one.
        dropped: the lines that were dropped, each with the reason.
        count: counts the usage of each call, used or not.
        shown: everything that the model was shown so far: a summary made in pieces may speak of all of them.
        statements: the statements of the answers about the user's rules.
    """

    invoke: ModelInvoker
    headings: Sequence[str] = ()
    typed: str = ""
    rules: Sequence[SessionRule] = ()
    fault: str | None = None
    dropped: list[str] = field(default_factory=list)
    count: Callable[[Usage], object] | None = None
    shown: list[str] = field(default_factory=list)
    statements: list[RuleStatement] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        invoke: ModelInvoker,
        engine: SessionEngine,
        history: History,
        rules: Sequence[SessionRule],
        count: Callable[[Usage], object] | None = None,
    ) -> CheckedModel:
        """Return the checked model of a compaction of *history* by *engine*; *count* counts its calls."""
        return cls(invoke, engine.marks.headings, newest_words(history), rules, count=count)

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        """Return the checked answer of the model, whole: its text comes as one piece."""
        return channel_of(lambda: self.ask(conversation, options))

    async def ask(self, conversation: Conversation, options: StreamOptions) -> AsyncGenerator[Emission, None]:
        """Yield the answer to *conversation*; raises GatewayError where the model wrote no summary."""
        self.shown.append("\n".join(map(text_of_turn, conversation.turns)))
        conversation = with_question(conversation, ask_about_rules(self.rules))
        for _ in range(_ATTEMPTS):
            async with emissions_of(self.invoke(conversation, options)) as inner:
                answer = [emission async for emission in inner]
            reply = ReplyReader.of(answer)
            if self.count is not None and reply.usage is not None:
                self.count(reply.usage)
            text, statements = (reply.text if reply.is_complete else None), tuple[RuleStatement, ...]()
            self.fault = stop_fault(answer)
            if text is not None:
                text, statements = split_statements(text)
                self.fault = find_fault(text, self.headings, self.typed)
                if not text.strip() and has_call(answer):
                    self.fault = "it calls a tool"
            if self.fault is None:
                rules = [rule.text for rule in self.rules]
                mended, dropped = drop_unfounded(text or "", self.was_shown, rules)
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
        raise gateway_error("parse", f"the model wrote no summary: {self.fault}")

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
            prose = "\n".join(block.text for block in entry.turn.blocks if isinstance(block, TextBlock))
            text += f"{hide_pasted_text(prose[:_TYPED_CHARS])}\n"
        if len(text) >= _TYPED_CHARS:
            break
    return text
