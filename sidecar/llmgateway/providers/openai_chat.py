"""OpenAI's chat format, which most servers speak, local ones among them; over the ``openai`` SDK.

Reasoning goes back only to the server that gave it, in the field it came in, and only while the question it
belongs to is being answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    Usage,
    UserTurn,
)
from sidecar.llmgateway.providers import openai_sdk
from sidecar.llmgateway.providers.adapter import Ask, Connected, Place, Request
from sidecar.llmgateway.providers.assembling import Assembly, Emissions, MalformedAnswerError
from sidecar.llmgateway.providers.failures import Failure
from sidecar.llmgateway.providers.fitting import WireRules
from sidecar.llmgateway.providers.signatures import CHAT, unmarked
from sidecar.llmgateway.providers.texts import json_text, sendable
from sidecar.llmgateway.providers.usage import usage_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall

__all__ = ["OpenAIChat"]

_RULES: Final = WireRules(takes_signature=lambda signature: signature.startswith(CHAT), max_id_chars=40)
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
_IN_CONTENT: Final = f"{CHAT}content"
"""The signature of reasoning that came as parts of the content, as Mistral's models stream it."""

_STOPS: Final[dict[str, StopReason]] = {
    "stop": "complete",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "max_output",
    "content_filter": "refusal",
}


class OpenAIChat:
    """The adapter."""

    rules = _RULES

    def connect(self, place: Place) -> Connected[AsyncOpenAI]:
        """Return the SDK's client."""
        return openai_sdk.connect(place)

    def request(self, ask: Ask) -> Request:
        """Return the arguments of ``chat.completions.create``."""
        conversation, options, official = ask.conversation, ask.options, openai_sdk.is_official(ask.place)
        request: Request = {
            "model": ask.card.wire_id,
            "messages": list(_messages(conversation.system, conversation.turns)),
            "stream_options": {"include_usage": True},
        }
        if conversation.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in conversation.tools
            ]
            request |= {"tool_choice": options.tool_choice} if options.tool_choice else {}
        if options.max_output_tokens:
            # Other servers know only the older of the two names.
            name = "max_completion_tokens" if official else "max_tokens"
            request[name] = options.max_output_tokens
        knobs = {"temperature": options.temperature, "top_p": options.top_p}
        request |= {name: value for name, value in knobs.items() if value is not None}
        if options.thinking and ask.card.reasoning:
            request["reasoning_effort"] = openai_sdk.effort_of(ask.card.wire_id, options.thinking)
        return request

    @asynccontextmanager
    async def open(
        self, client: AsyncOpenAI, request: Request
    ) -> AsyncIterator[AsyncIterator[ChatCompletionChunk]]:
        """Stream one completion."""
        stream = await client.chat.completions.create(stream=True, **request)
        try:
            yield stream
        finally:
            await stream.close()

    def reader(self) -> _Reader:
        """Return a reader for one stream."""
        return _Reader()

    def failure(self, error: Exception) -> Failure | None:
        """Return what the server said in *error*."""
        return openai_sdk.failure_of(error)


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False
        self._open: dict[int, tuple[int, str]] = {}

    def read(self, chunk: ChatCompletionChunk) -> Emissions:
        if chunk.usage is not None:
            self.assembly.usage = _usage(chunk.usage)
        if not chunk.choices:
            return ()
        choice = chunk.choices[0]
        # The SDK checks nothing: what its types call required may be missing.
        delta: ChoiceDelta | None = choice.delta
        said = self._delta(delta) if delta is not None else ()
        if choice.finish_reason:
            self.is_complete = True
            if self.assembly.stop != "refusal":
                self.assembly.stop = _STOPS.get(choice.finish_reason, "complete")
        return said

    def _delta(self, delta: ChoiceDelta) -> Emissions:
        assembly = self.assembly
        said = self._reasoning(delta.model_extra) if delta.model_extra else ()
        if delta.content:
            said = (*said, *self._content(delta.content, assembly.text))
        if delta.refusal:
            assembly.stop = "refusal"
            said = (*said, *assembly.text(delta.refusal))
        for call in delta.tool_calls or ():
            said = (*said, *self._call(call))
        return said

    def _content(self, content: object, add: Callable[[object], Emissions]) -> Emissions:
        """Add *content* by *add*: text, or a list of parts with thinking among them, as Mistral sends it."""
        if not isinstance(content, list):
            return add(content)
        said: Emissions = ()
        for part in content:
            match part:
                case {"type": "text", "text": text}:
                    said = (*said, *add(text))
                case {"type": "thinking", "thinking": thinking}:
                    said = (
                        *said,
                        *self._content(thinking, partial(self.assembly.thinking, signature=_IN_CONTENT)),
                    )
                case {"type": "reference"}:
                    continue
                case _:
                    raise MalformedAnswerError("a part of the content is of no known type")
        return said

    def _reasoning(self, extra: Mapping[str, object]) -> Emissions:
        for field in _REASONING_FIELDS:
            text = extra.get(field)
            if isinstance(text, str) and text:
                return self.assembly.thinking(text, f"{CHAT}{field}")
        return ()

    def _call(self, call: ChoiceDeltaToolCall) -> Emissions:
        name = call.function.name if call.function else None
        key = self._key(call.index or 0, call.id or "", is_named=bool(name))
        said = self.assembly.call(key, key[1], name)
        arguments: object = call.function.arguments if call.function else None
        # Some servers send the object that others send as its text.
        text = json_text(arguments) if isinstance(arguments, dict) else arguments
        return (*said, *self.assembly.arguments(key, text))

    def _key(self, index: int, call_id: str, *, is_named: bool) -> tuple[int, str]:
        """Return what tells a call from the others; some servers number all parallel calls 0."""
        known = self._open.get(index)
        if known is None or (is_named and call_id not in ("", known[1])):
            known = self._open[index] = (index, call_id)
        return known


def _usage(usage: CompletionUsage) -> Usage:
    details = getattr(usage, "prompt_tokens_details", None)
    return usage_of(
        getattr(usage, "prompt_tokens", 0),
        getattr(usage, "completion_tokens", 0),
        cache_read=getattr(details, "cached_tokens", 0),
        cache_write=getattr(details, "cache_write_tokens", 0),
    )


def _messages(system: str | None, turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    if system:
        yield {"role": "system", "content": sendable(system)}
    newest_prompt = max((i for i, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)
    for index, turn in enumerate(turns):
        match turn:
            case UserTurn(blocks=blocks):
                yield {"role": "user", "content": _content(blocks)}
            case AssistantTurn(blocks=blocks):
                yield _assistant(blocks, with_reasoning=index > newest_prompt)
            case _:
                yield from _results(turn.blocks)


def _content(blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
    """Return *blocks* as plain text where they are that: small servers take nothing else."""
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    if len(texts) == len(blocks):
        return "\n\n".join(texts)
    return [part for block in blocks if (part := _part(block)) is not None]


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ImageBlock(media_type=media_type, data_base64=data):
            return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    return None


def _assistant(blocks: Sequence[Block], *, with_reasoning: bool) -> dict[str, Any]:
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {"name": block.name, "arguments": json_text(block.input)},
        }
        for block in blocks
        if isinstance(block, ToolCallBlock)
    ]
    if calls:
        message["tool_calls"] = calls
    parts: list[dict[str, Any]] = []
    for block in blocks if with_reasoning else ():
        field = unmarked(block.signature or "", CHAT) if isinstance(block, ThinkingBlock) else None
        if field in _REASONING_FIELDS and isinstance(block, ThinkingBlock):
            message[field] = message.get(field, "") + block.text
        elif isinstance(block, ThinkingBlock) and block.signature == _IN_CONTENT:
            thinking = [{"type": "text", "text": block.text}]
            parts.append({"type": "thinking", "thinking": thinking})
    if parts:
        message["content"] = [*parts, {"type": "text", "text": text}] if text else parts
    return message


def _results(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Yield one message a result; what else the tools have shown follows as the user's."""
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            yield {"role": "tool", "tool_call_id": block.call_id, "content": json_text(block.output)}
    shown = [block for block in blocks if not isinstance(block, ToolResultBlock)]
    if shown:
        yield {"role": "user", "content": _content(shown)}
