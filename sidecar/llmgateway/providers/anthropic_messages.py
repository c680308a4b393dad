"""Anthropic's messages format over the ``anthropic`` SDK.

The prefix that stays the same from call to call is marked for the prompt cache: tools and system, the newest
message of the user's, and the one before it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
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
    gateway_error,
)
from sidecar.llmgateway.credentials import how_to_set
from sidecar.llmgateway.providers.adapter import Ask, Connected, Place, Request
from sidecar.llmgateway.providers.assembling import Assembly, Emissions
from sidecar.llmgateway.providers.claude import takes_sampling, thinking_of
from sidecar.llmgateway.providers.failures import Failure
from sidecar.llmgateway.providers.fitting import WireRules
from sidecar.llmgateway.providers.signatures import REDACTED, is_anthropic, unmarked
from sidecar.llmgateway.providers.texts import json_text, sendable
from sidecar.llmgateway.providers.usage import token_count

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import ContentBlock, MessageDeltaUsage, RawContentBlockDelta, RawMessageStreamEvent
    from anthropic.types import Usage as AnyUsage

__all__ = ["AnthropicMessages"]

_RULES: Final = WireRules(
    takes_signature=is_anthropic, max_name_chars=128, max_image_bytes=5 * 1024 * 1024, max_images=100
)
_MAX_TOKENS: Final = 32_000
"""The longest answer asked for when nobody says; the API wants a figure."""
_UNKNOWN_MAX_TOKENS: Final = 8_192
_CACHED: Final = {"type": "ephemeral"}
_STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "pause_turn": "complete",
    "tool_use": "tool_calls",
    "max_tokens": "max_output",
    "model_context_window_exceeded": "max_output",
    "refusal": "refusal",
}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


class AnthropicMessages:
    """The adapter."""

    rules = _RULES

    def connect(self, place: Place) -> Connected[AsyncAnthropic]:
        """Return the SDK's client; without a key of ours it looks for credentials of its own."""
        # Imported here, in the thread that connects: it takes more than a second.
        from anthropic import AsyncAnthropic, CredentialsError

        key = place.key.value if place.key is not None else None
        try:
            client = AsyncAnthropic(api_key=key, base_url=place.base_url, max_retries=0)
            has_credentials = bool(client.api_key or client.auth_token or client.credentials)
        except CredentialsError:
            has_credentials = False
        if not has_credentials:
            name = place.provider.id
            raise gateway_error("auth", f"no key for {name}; {how_to_set(place.provider)}", provider=name)
        # It loads its types when first looked at.
        _ = client.messages
        return Connected(client, client.close)

    def request(self, ask: Ask) -> Request:
        """Return the arguments of ``messages.create``."""
        conversation, options, model = ask.conversation, ask.options, ask.card.wire_id
        max_tokens = options.max_output_tokens or min(
            ask.card.max_output_tokens or _UNKNOWN_MAX_TOKENS, _MAX_TOKENS
        )
        request: Request = {
            "model": model,
            "max_tokens": max_tokens,
            "messages": _with_cache_marks(list(_messages(conversation.turns))),
        }
        if conversation.system:
            text = sendable(conversation.system)
            request["system"] = [{"type": "text", "text": text, "cache_control": _CACHED}]
        if conversation.tools:
            request["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in conversation.tools
            ]
            if options.tool_choice:
                request["tool_choice"] = {"type": _CHOICES[options.tool_choice]}
        if options.thinking and ask.card.reasoning and options.tool_choice != "required":
            request |= thinking_of(model, options.thinking, max_tokens)
        if "thinking" not in request and takes_sampling(model):
            # The SDK has no arguments for them any more; the models that take them still do.
            knobs = {"temperature": options.temperature, "top_p": options.top_p}
            request["extra_body"] = {name: value for name, value in knobs.items() if value is not None}
        return request

    @asynccontextmanager
    async def open(
        self, client: AsyncAnthropic, request: Request
    ) -> AsyncIterator[AsyncIterator[RawMessageStreamEvent]]:
        """Stream one message."""
        stream = await client.messages.create(stream=True, **request)
        try:
            yield stream
        finally:
            await stream.close()

    def reader(self) -> _Reader:
        """Return a reader for one stream."""
        return _Reader()

    def failure(self, error: Exception) -> Failure | None:
        """Return what Anthropic said in *error*."""
        import anthropic

        if isinstance(error, anthropic.APIStatusError):
            # An error in the middle of a stream bears the status of the stream, which was fine.
            status = error.status_code if error.status_code >= 400 else None
            said = error.api_message or error.message
            return Failure(said, status, error.type or "api_error", dict(error.response.headers))
        if isinstance(error, anthropic.APIConnectionError):
            return Failure(f"{error.message} {error.__cause__ or ''}".strip())
        if isinstance(error, anthropic.CredentialsError):
            return Failure(str(error), code="authentication_error")
        return None


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False
        self._given: dict[int, object] = {}

    def read(self, chunk: RawMessageStreamEvent) -> Emissions:
        match chunk.type:
            case "content_block_delta":
                return self._delta(chunk.index, chunk.delta)
            case "content_block_start":
                return self._start(chunk.index, chunk.content_block)
            case "content_block_stop":
                return self._stop(chunk.index)
            case "message_start":
                self._count(chunk.message.usage)
            case "message_delta":
                self._count(chunk.usage)
                if chunk.delta.stop_reason:
                    self.assembly.stop = _STOPS.get(chunk.delta.stop_reason, "complete")
            case "message_stop":
                self.is_complete = True
        # Events of kinds that come later are nothing we need.
        return ()

    def _delta(self, index: int, delta: RawContentBlockDelta) -> Emissions:
        match delta.type:
            case "text_delta":
                return self.assembly.text(delta.text)
            case "input_json_delta":
                return self.assembly.arguments(index, delta.partial_json)
            case "thinking_delta":
                return self.assembly.thinking(delta.thinking)
            case "signature_delta":
                self.assembly.sign(delta.signature)
        return ()

    def _start(self, index: int, block: ContentBlock) -> Emissions:
        match block.type:
            case "text":
                return self.assembly.text(block.text)
            case "thinking":
                self.assembly.open_thinking()
                return self.assembly.thinking(block.thinking)
            case "redacted_thinking":
                self.assembly.open_thinking()
                self.assembly.sign(f"{REDACTED}{block.data}")
            case "tool_use":
                self._given[index] = block.input
                return self.assembly.call(index, block.id, block.name)
        return ()

    def _stop(self, index: int) -> Emissions:
        """Take the arguments that came whole with the start of a call, as proxies send them."""
        given = self._given.pop(index, None)
        if not given or self.assembly.has_arguments(index):
            return ()
        return self.assembly.arguments(index, json_text(given))

    def _count(self, usage: AnyUsage | MessageDeltaUsage) -> None:
        """Take over what is told; later figures are sums, not additions."""
        known = self.assembly.usage or Usage(0, 0)
        self.assembly.usage = Usage(
            token_count(getattr(usage, "input_tokens", None)) or known.input_tokens,
            token_count(getattr(usage, "output_tokens", None)) or known.output_tokens,
            token_count(getattr(usage, "cache_read_input_tokens", None)) or known.cache_read_tokens,
            token_count(getattr(usage, "cache_creation_input_tokens", None)) or known.cache_write_tokens,
        )


def _messages(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Yield messages whose roles alternate: results of tools are the user's, before what the user says."""
    for is_assistant, group in groupby(turns, lambda turn: isinstance(turn, AssistantTurn)):
        content = [part for turn in group for block in turn.blocks if (part := _part(block)) is not None]
        while is_assistant and content and "thinking" in content[-1]["type"]:
            # An answer that was stopped while it thought cannot be sent with that at its end.
            content.pop()
        content.sort(key=lambda part: part["type"] != "tool_result")
        if content:
            yield {"role": "assistant" if is_assistant else "user", "content": content}


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ThinkingBlock(text=text, signature=signature) if signature is not None:
            encrypted = unmarked(signature, REDACTED)
            if encrypted is not None:
                return {"type": "redacted_thinking", "data": encrypted}
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCallBlock(id=call_id, name=name, input=value):
            return {"type": "tool_use", "id": call_id, "name": name, "input": value}
        case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": json_text(output)}
            return result | ({"is_error": True} if is_error else {})
        case ImageBlock(media_type=media_type, data_base64=data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    return None


def _with_cache_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return *messages*, marked behind what the next call will send again."""
    asked = [message for message in messages if message["role"] == "user"]
    for message in asked[-2:]:
        message["content"][-1]["cache_control"] = _CACHED
    return messages
