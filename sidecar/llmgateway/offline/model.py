"""``offline-1`` as a model invoker: reacts to a conversation, and streams the reaction in small deltas.

The same conversation always gets the same answer. The model opens no file and no socket; it knows the
conversation alone.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.values import Value
from sidecar.llmgateway.channel import Invoke, channel_of
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Channel,
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
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    ToolResultBlock,
    Turn,
    Usage,
    UsageEmission,
    UserTurn,
)
from sidecar.llmgateway.offline.intent import IsProgram, read_intent
from sidecar.llmgateway.offline.lookups import (
    STATEMENT,
    Lookup,
    OfferedTools,
    PlannedCall,
    announce,
    answer,
    new_calls,
    plan_calls,
)
from sidecar.llmgateway.offline.questions import answer_question, plan_question, read_question

_MODEL: Final = "offline-1"
_CHARS_PER_TOKEN: Final = 4
_DELTA: Final = re.compile(r"(?:\S*\s+){1,3}|\S+\Z")
_NUMBERED_ID: Final = re.compile(r"offline-(\d+)")

HOST_MARKS: Final = (
    "[condensed earlier context]",
    "[session digest",
    "[branch digest",
    "[Conversation summary",
    "<context-summary>",
    "[Restored file after compaction]",
    "The user's rules, word for word.",
    "The user has set these rules;",
    "These rules no longer hold:",
)
"""The beginnings of texts that a host writes under the user's role."""


def offline_model(is_program: IsProgram = lambda name: False) -> Invoke:
    """Return the embedded model as an invoker; without *is_program* it runs commands in backticks only.

    It yields some words a delta; ``options.cancel`` ends the stream with an ``aborted`` error emission before
    the next one.
    """

    def invoke(conversation: Conversation, options: StreamOptions) -> Channel:
        async def emissions() -> AsyncIterator[Emission]:
            reaction = cut_to(react(conversation, options, is_program), options.max_output_tokens)
            pieces = _DELTA.findall(reaction.text)
            deltas: list[Emission] = [TextEmission(piece) for piece in pieces]
            for block in reaction.calls:
                raw = json.dumps(block.input, ensure_ascii=False)
                deltas += (ToolCallStartEmission(block.id, block.name), ToolCallDeltaEmission(block.id, raw))
            for emission in deltas:
                if options.cancel is not None and options.cancel.cancelled:
                    error = GatewayError("aborted", "the call was cancelled", provider="offline")
                    yield ErrorEmission(error)
                    return
                yield emission
                await asyncio.sleep(0)
            usage = estimate_usage(conversation, reaction)
            yield UsageEmission(usage)
            yield StopEmission(reaction.stop)
            yield DoneEmission(Reply(_MODEL, reaction.blocks, usage, reaction.stop))

        return channel_of(emissions)

    return invoke


class Reaction(Value):
    """The text and the tool calls of an answer."""

    text: str
    calls: tuple[ToolCallBlock, ...] = ()
    stop: StopReason = "complete"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The text, when there is any, then the calls."""
        return (*((TextBlock(self.text),) if self.text else ()), *self.calls)


def react(
    conversation: Conversation, options: StreamOptions, is_program: IsProgram = lambda name: False
) -> Reaction:
    """Return the reaction to *conversation*: calls or an answer.

    >>> from sidecar.llmgateway.contract import ToolDescriptor
    >>> read = ToolDescriptor("read", "", {"properties": {"path": {}}})
    >>> asked = Conversation((UserTurn((TextBlock("look at src/app.py"),)),), tools=(read,))
    >>> react(asked, StreamOptions()).calls
    (ToolCallBlock(id='offline-1', name='read', input={'path': 'src/app.py'}),)
    """
    tools = () if options.tool_choice == "none" else conversation.tools or ()
    prompt, since = newest_prompt(conversation.turns)
    intent = read_intent(prompt, is_program)
    rounds = lookup_rounds(since)
    lookups = [lookup for lookups in rounds for lookup in lookups]
    question = read_question(prompt) if tools and intent.is_open else None
    planned: tuple[PlannedCall, ...] = ()
    if question is not None:
        planned = new_calls(plan_question(question, rounds, OfferedTools(tools)), lookups)
        if not planned and (text := answer_question(question, lookups)):
            return Reaction(f"{text}\n\n{STATEMENT}")
    planned = planned or plan_calls(intent, rounds, OfferedTools(tools))
    if planned:
        ids = unused_ids(conversation.turns)
        calls = tuple(ToolCallBlock(next(ids), call.name, call.input) for call in planned)
        aim = announce(intent) if question is None else "Looking where projects answer this."
        return Reaction("" if rounds else aim, calls, "tool_calls")
    # It is no answer for a host that takes one, such as a summary, which this model does not write.
    is_helpless = not (tools or lookups or intent.is_small_talk or intent.remember is not None)
    text = answer(intent, lookups, has_tools=bool(tools))
    return Reaction(text, stop="refusal" if is_helpless else "complete")


def newest_prompt(turns: Sequence[Turn]) -> tuple[str, Sequence[Turn]]:
    """Return the newest prompt that a user wrote, and the turns after it."""
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if isinstance(turn, UserTurn):
            texts = [block.text for block in turn.blocks if isinstance(block, TextBlock)]
            own = [text for text in texts if not text.startswith(HOST_MARKS)]
            if own:
                return "\n".join(own), turns[index + 1 :]
    return "", turns


def lookup_rounds(turns: Sequence[Turn]) -> list[list[Lookup]]:
    """Return the lookups of each round of calls in *turns*, oldest first."""
    results = {
        block.call_id: block for turn in turns for block in turn.blocks if isinstance(block, ToolResultBlock)
    }
    called = (
        [block for block in turn.blocks if isinstance(block, ToolCallBlock)]
        for turn in turns
        if isinstance(turn, AssistantTurn)
    )
    return [
        [Lookup.of(call, results[call.id]) for call in calls if call.id in results]
        for calls in called
        if calls
    ]


def unused_ids(turns: Sequence[Turn]) -> Iterator[str]:
    """Yield call ids that none of *turns* has; the same ones for the same turns."""
    taken = [
        int(match[1])
        for turn in turns
        for block in turn.blocks
        if isinstance(block, ToolCallBlock) and (match := _NUMBERED_ID.fullmatch(block.id))
    ]
    number = max(taken, default=0)
    while True:
        number += 1
        yield f"offline-{number}"


def cut_to(reaction: Reaction, max_output_tokens: int | None) -> Reaction:
    """Cut *reaction* at its limit, at 4 characters a token; a call that does not fit whole is left out."""
    if max_output_tokens is None:
        return reaction
    room = max_output_tokens * _CHARS_PER_TOKEN
    text = reaction.text[:room]
    room -= len(text)
    calls: list[ToolCallBlock] = []
    for call in reaction.calls:
        room -= _call_chars(call)
        if room < 0:
            break
        calls.append(call)
    whole = len(text) == len(reaction.text) and len(calls) == len(reaction.calls)
    return reaction if whole else replace(reaction, text=text, calls=tuple(calls), stop="max_output")


def estimate_usage(conversation: Conversation, reaction: Reaction) -> Usage:
    """Return the usage of both sides at four characters a token."""
    tools = conversation.tools or ()
    n_in = len(conversation.system or "")
    n_in += sum(len(each.name) + len(each.description) + len(json.dumps(each.parameters)) for each in tools)
    n_in += sum(_block_chars(block) for turn in conversation.turns for block in turn.blocks)
    n_out = sum(_block_chars(block) for block in reaction.blocks)
    return Usage(-(-n_in // _CHARS_PER_TOKEN), -(-n_out // _CHARS_PER_TOKEN))


def _block_chars(block: Block) -> int:
    match block:
        case ToolCallBlock():
            return _call_chars(block)
        case ToolResultBlock(output=str() as output):
            return len(output)
        case ToolResultBlock(output=output):
            return len(json.dumps(output, default=str))
        case TextBlock(text=text):
            return len(text)
        case _:
            return 0


def _call_chars(call: ToolCallBlock) -> int:
    return len(call.name) + len(json.dumps(call.input, default=str))
