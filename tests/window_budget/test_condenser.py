"""The summary and the condenser: one digest for many messages, by the model or without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from model_cards import card
from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    StopReason,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    Usage,
    UsageEmission,
    UserTurn,
)
from sidecar.llmgateway.scripted import EndWithoutDone, Raise, Say, ScriptedModel, Step
from sidecar.window_budget import (
    BRANCH_HEADER,
    CONDENSER_BRIEF,
    DIGEST_HEADER,
    AssistantMessage,
    BudgetPolicy,
    CompactionSummaryMessage,
    CondenserDeps,
    CondenseScope,
    Message,
    SummarizeDeps,
    Summary,
    UserMessage,
    build_summary_prompt,
    condense,
    condense_scope,
    create_condenser,
    local_fallback_digest,
    summarize,
)

MESSAGES: list[Message] = [UserMessage("Fix the parser.", 5), UserMessage("And the lexer.", 7)]
USAGE = Usage(1, 1)


NO_MORE = EndWithoutDone()


def done(text: str, stop: StopReason = "complete") -> DoneEmission:
    return DoneEmission(Reply("m", (ThinkingBlock("hm"), TextBlock(text)), USAGE, stop))


def turn(*texts: str) -> DoneEmission:
    return DoneEmission(AssistantTurn(tuple(TextBlock(text) for text in texts)), USAGE)


def body(summary: Summary) -> str:
    assert isinstance(summary.message, UserMessage)
    assert isinstance(summary.message.content, str)
    return summary.message.content


REPLIES = {
    "the reply, stripped": ([done(" # Plan\nship \n")], "# Plan\nship"),
    "the reply wins over deltas": ([TextEmission("half"), done("whole")], "whole"),
    "text blocks are concatenated": ([turn("a", "b")], "ab"),
    "deltas without a reply": ([TextEmission("a"), TextEmission("b")], "ab"),
    "deltas where the reply says nothing": ([TextEmission("ab"), turn()], "ab"),
    "reasoning and usage are no digest": (
        [ThinkingEmission("hm"), UsageEmission(USAGE), StopEmission("complete"), done("x")],
        "x",
    ),
    "calls are ignored, their text is not": ([done("x", "tool_calls")], "x"),
    "the first reply ends it": ([done("x"), TextEmission("late")], "x"),
}


@pytest.mark.parametrize(("emissions", "text"), REPLIES.values(), ids=REPLIES)
async def test_the_text_of_a_done_reply_wins_over_its_deltas(emissions: list[Emission], text: str) -> None:
    summary = await summarize(MESSAGES, SummarizeDeps(ScriptedModel([[*emissions, NO_MORE]])))
    assert summary == Summary(UserMessage(f"{DIGEST_HEADER}\n\n{text}", 7), covered_count=2)
    assert (summary.source, summary.fallback_reason) == ("model", None)


FAILURES = {
    "an empty stream": ([], "emptyReply"),
    "a blank reply": ([done(" \n")], "emptyReply"),
    "a reply without text": ([turn()], "emptyReply"),
    "cut at the output limit": ([done("half a dig", "max_output")], "truncated"),
    "cut without a reply": ([TextEmission("half"), StopEmission("max_output")], "truncated"),
    "cut, told apart from the reply": ([StopEmission("max_output"), turn("half")], "truncated"),
    "a refusal": ([done("I cannot", "refusal")], "refused"),
    "a reply that ended in an error": ([done("half", "error")], "modelError"),
    "a reply that was aborted": ([done("half", "aborted")], "cancelled"),
    "an error": ([TextEmission("half"), ErrorEmission(GatewayError("http", "503"))], "modelError"),
    "a stream that raises": ([TextEmission("half"), Raise(RuntimeError("torn"))], "modelError"),
}


@pytest.mark.parametrize(("emissions", "reason"), FAILURES.values(), ids=FAILURES)
async def test_a_failing_model_degrades_to_the_local_digest(emissions: list[Step], reason: str) -> None:
    script = ScriptedModel([[*emissions, NO_MORE]])
    summary = await summarize(MESSAGES, SummarizeDeps(script, prior_digest="old"))
    assert body(summary) == f"{DIGEST_HEADER}\n\n{local_fallback_digest(MESSAGES, 'old')}"
    assert (summary.source, summary.fallback_reason) == ("localFallback", reason)


async def test_an_invoker_that_cancels_itself_degrades_too_and_a_cancelled_task_ends() -> None:
    class Torn:
        def __aiter__(self) -> Torn:
            return self

        async def __anext__(self) -> Emission:
            if waits:
                await asyncio.Event().wait()
            raise asyncio.CancelledError

        async def aclose(self) -> None:
            return None

    waits = False
    summary = await summarize(MESSAGES, SummarizeDeps(lambda *_: Torn()))
    assert summary.fallback_reason == "modelError"
    waits = True
    task = asyncio.ensure_future(summarize(MESSAGES, SummarizeDeps(lambda *_: Torn())))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_scope_decides_the_header() -> None:
    summary = await condense_scope(MESSAGES, SummarizeDeps(ScriptedModel([[done("x")]])))
    assert body(summary) == f"{BRANCH_HEADER}\n\nx"
    assert body(await condense_scope(MESSAGES)).startswith(f"{BRANCH_HEADER}\n\n# Carryover\n2 ")


async def test_the_model_gets_the_brief_and_one_prompt() -> None:
    script, token = ScriptedModel([[done("x")]]), CancelToken()
    await summarize(MESSAGES, SummarizeDeps(script, prior_digest="old", cancel=token, max_tokens=99))
    prompt = build_summary_prompt(MESSAGES, CondenseScope.SESSION, "old")
    conversation = Conversation((UserTurn((TextBlock(prompt),)),), system=CONDENSER_BRIEF)
    (call,) = script.calls
    assert call.conversation == conversation
    assert call.options == StreamOptions(cancel=token, thinking="high", max_output_tokens=99)


async def test_a_cancelled_token_asks_no_model() -> None:
    script, token = ScriptedModel([[done("x")]]), CancelToken()
    token.cancel()
    summary = await summarize(MESSAGES, SummarizeDeps(script, cancel=token))
    assert (script.calls, summary.fallback_reason) == ([], "cancelled")


async def test_a_token_cancelled_during_the_stream_ends_it() -> None:
    token = CancelToken()

    async def stream() -> AsyncIterator[Emission]:
        try:
            yield TextEmission("a")
            token.cancel()
            yield done("whole")
        finally:
            is_closed.set()

    is_closed = asyncio.Event()
    summary = await summarize(MESSAGES, SummarizeDeps(lambda _c, _o: stream(), cancel=token))
    assert summary.fallback_reason == "cancelled"
    assert is_closed.is_set()


async def test_an_earlier_digest_counts_one_and_is_carried() -> None:
    script = ScriptedModel([[done("x")]])
    summary = await summarize([CompactionSummaryMessage("# Plan", 9), *MESSAGES], SummarizeDeps(script))
    assert summary.covered_count == 3
    assert script.calls[0].conversation.turns == (
        UserTurn((TextBlock(build_summary_prompt(MESSAGES, CondenseScope.SESSION, "# Plan")),)),
    )


CARD = card(4000, 500)
POLICY = BudgetPolicy(trigger_ratio=0.5, keep_recent=300)
LONG: list[Message] = [
    message
    for number in range(40)
    for message in (
        UserMessage(f"question {number}: {'why ' * 20}", number),
        AssistantMessage((TextBlock(f"answer {number}: {'so ' * 30}"),)),
    )
]


async def test_without_a_card_nothing_happens() -> None:
    assert await create_condenser()(LONG) is LONG
    assert await create_condenser(CondenserDeps(policy=POLICY))(LONG) is LONG


async def test_nothing_condensable_nothing_happens() -> None:
    huge: list[Message] = [UserMessage("small", 1), UserMessage("x" * 36_000, 1)]
    assert await create_condenser(CondenserDeps(card=CARD))(huge) is huge


async def test_over_budget_the_head_becomes_a_digest() -> None:
    out = list(await create_condenser(CondenserDeps(card=CARD, policy=POLICY))(LONG))
    digest, *tail = out
    assert isinstance(digest, UserMessage)
    assert str(digest.content).startswith(f"{DIGEST_HEADER}\n\n# Carryover\n{len(LONG) - len(tail)} ")
    assert tail == LONG[-len(tail) :]
    assert 0 < len(tail) < len(LONG)


async def test_condense_pins_the_session_scope() -> None:
    summary = await condense([])
    assert summary.covered_count == 0
    assert summary.message == UserMessage(
        f"{DIGEST_HEADER}\n\n# Carryover\n0 earlier messages condensed without a model.", 0
    )


async def test_a_digest_that_is_no_smaller_changes_nothing() -> None:
    verbose = ScriptedModel([[Say("# Plan\n" + "word " * 20_000)]])
    condenser = create_condenser(CondenserDeps(invoke=verbose, card=CARD, policy=POLICY))
    assert await condenser(LONG) is LONG
    assert len(verbose.calls) == 1
