"""OpenAI's responses format over the ``openai`` SDK. Nothing is stored there: each call brings all it needs.

A reasoning item goes back whole, encrypted as it came, and directly before what followed it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.llmgateway.providers import openai_sdk
from sidecar.llmgateway.providers.adapter import Ask, Connected, Place, Request
from sidecar.llmgateway.providers.assembling import Assembly, Emissions
from sidecar.llmgateway.providers.failures import Failure
from sidecar.llmgateway.providers.fitting import WireRules
from sidecar.llmgateway.providers.signatures import RESPONSES, unmarked
from sidecar.llmgateway.providers.texts import json_text, sendable
from sidecar.llmgateway.providers.usage import usage_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent

__all__ = ["OpenAIResponses"]

_RULES: Final = WireRules(takes_signature=lambda signature: signature.startswith(RESPONSES))
_REASONING: Final = "reasoning"
_AN_EVENT: Final = {
    "type": "response.output_text.delta",
    "content_index": 0,
    "delta": "",
    "item_id": "",
    "logprobs": [],
    "output_index": 0,
    "sequence_number": 0,
}


class OpenAIResponses:
    """The adapter."""

    rules = _RULES

    def connect(self, place: Place) -> Connected[AsyncOpenAI]:
        """Return the SDK's client."""
        connected = openai_sdk.connect(place)
        from openai import BaseModel
        from openai.types.responses import ResponseStreamEvent
        from pydantic import create_model

        # What reads events is built when the first one is read: here, and not by the event loop.
        create_model("Warm", __base__=BaseModel, event=(ResponseStreamEvent, ...)).construct(event=_AN_EVENT)
        return connected

    def request(self, ask: Ask) -> Request:
        """Return the arguments of ``responses.create``."""
        conversation, options, card = ask.conversation, ask.options, ask.card
        request: Request = {
            "model": card.wire_id,
            "input": list(_items(conversation.turns)),
            "store": False,
        }
        if conversation.system:
            request["instructions"] = sendable(conversation.system)
        if conversation.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in conversation.tools
            ]
            request |= {"tool_choice": options.tool_choice} if options.tool_choice else {}
        if options.max_output_tokens:
            request["max_output_tokens"] = options.max_output_tokens
        return request | (_reasoning(ask) if card.reasoning else _sampling(ask))

    @asynccontextmanager
    async def open(
        self, client: AsyncOpenAI, request: Request
    ) -> AsyncIterator[AsyncIterator[ResponseStreamEvent]]:
        """Stream one response."""
        stream = await client.responses.create(stream=True, **request)
        try:
            yield stream
        finally:
            await stream.close()

    def reader(self) -> _Reader:
        """Return a reader for one stream."""
        return _Reader()

    def failure(self, error: Exception) -> Failure | None:
        """Return what OpenAI said in *error*."""
        return error.failure if isinstance(error, _Failed) else openai_sdk.failure_of(error)


class _Failed(Exception):
    """The stream itself says that there will be no answer."""

    def __init__(self, code: str | None, message: str | None) -> None:
        super().__init__(message)
        self.failure = Failure(str(message or "no reason was given"), code=str(code or "server_error"))


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False

    def read(self, chunk: ResponseStreamEvent) -> Emissions:
        assembly = self.assembly
        match chunk.type:
            case "response.output_text.delta":
                return assembly.text(chunk.delta)
            case "response.function_call_arguments.delta":
                return assembly.arguments(chunk.output_index, chunk.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return assembly.thinking(chunk.delta)
            case "response.reasoning_summary_part.added" if chunk.summary_index:
                return assembly.thinking("\n\n")
            case "response.refusal.delta":
                assembly.stop = "refusal"
                return assembly.text(chunk.delta)
            case "response.output_item.added":
                return self._begun(chunk.output_index, chunk.item)
            case "response.output_item.done":
                return self._finished(chunk.output_index, chunk.item)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end(chunk.response)
            case "error":
                raise _Failed(chunk.code, chunk.message)
        # Events of other kinds tell what is told otherwise as well.
        return ()

    def _begun(self, index: int, item: ResponseOutputItem) -> Emissions:
        if item.type == "function_call":
            return self.assembly.call(index, item.call_id, item.name)
        if item.type == _REASONING:
            self.assembly.open_thinking()
        return ()

    def _finished(self, index: int, item: ResponseOutputItem) -> Emissions:
        if item.type == "function_call" and not self.assembly.has_arguments(index):
            return self.assembly.arguments(index, item.arguments)
        if item.type == _REASONING and item.encrypted_content:
            summary = [part.text for part in item.summary]
            proof = {"id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}
            self.assembly.sign(f"{RESPONSES}{json.dumps(proof)}")
        return ()

    def _end(self, response: Response) -> None:
        if response.status == "failed":
            error = response.error
            raise _Failed(error.code if error else None, error.message if error else None)
        self.is_complete = True
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if reason == "max_output_tokens":
            self.assembly.stop = "max_output"
        elif reason == "content_filter":
            self.assembly.stop = "refusal"
        if (usage := response.usage) is not None:
            details = getattr(usage, "input_tokens_details", None)
            self.assembly.usage = usage_of(
                usage.input_tokens,
                usage.output_tokens,
                cache_read=getattr(details, "cached_tokens", 0),
                cache_write=getattr(details, "cache_write_tokens", 0),
            )


def _reasoning(ask: Ask) -> Request:
    request: Request = {"include": ["reasoning.encrypted_content"]}
    if ask.options.thinking:
        effort = openai_sdk.effort_of(ask.card.wire_id, ask.options.thinking)
        request["reasoning"] = {"effort": effort, "summary": "auto"}
    return request


def _sampling(ask: Ask) -> Request:
    knobs = {"temperature": ask.options.temperature, "top_p": ask.options.top_p}
    return {name: value for name, value in knobs.items() if value is not None}


def _items(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            yield from _said(turn.blocks)
            continue
        shown = []
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                output = json_text(block.output)
                yield {"type": "function_call_output", "call_id": block.call_id, "output": output}
            elif (part := _shown(block)) is not None:
                shown.append(part)
        if shown:
            yield {"role": "user", "content": shown}


def _shown(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock(text=text):
            return {"type": "input_text", "text": text}
        case ImageBlock(media_type=media_type, data_base64=data):
            url = f"data:{media_type};base64,{data}"
            return {"type": "input_image", "image_url": url, "detail": "auto"}
    return None


def _said(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    items = [item for block in blocks if (item := _said_item(block)) is not None]
    while items and items[-1].get("type") == _REASONING:
        # Reasoning that nothing followed, since the answer was stopped, is refused.
        items.pop()
    yield from items


def _said_item(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock(text=text):
            return {"role": "assistant", "content": text}
        case ThinkingBlock(signature=signature) if proof := unmarked(signature or "", RESPONSES):
            return _reasoning_item(proof)
        case ToolCallBlock(id=call_id, name=name, input=value):
            arguments = json_text(value)
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return None


def _reasoning_item(proof: str) -> dict[str, Any] | None:
    try:
        item = json.loads(proof)
        summary = [{"type": "summary_text", "text": text} for text in item["summary"]]
    except (ValueError, TypeError, KeyError):
        # Not as we stored it: left out whole.
        return None
    return {**item, "type": _REASONING, "summary": summary}
