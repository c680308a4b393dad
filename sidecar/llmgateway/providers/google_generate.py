"""Google's generate format over the ``google-genai`` SDK.

A thought signature goes back on the very part it came on: that of a call stands before the call, that of text
behind the text. A call that was made by another model gets the signature which Google names for that case.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    GatewayError,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    gateway_error,
)
from sidecar.llmgateway.credentials import how_to_set
from sidecar.llmgateway.providers.adapter import Ask, Connected, Place, Request
from sidecar.llmgateway.providers.assembling import Assembly, Emissions
from sidecar.llmgateway.providers.failures import Failure
from sidecar.llmgateway.providers.fitting import WireRules
from sidecar.llmgateway.providers.signatures import GOOGLE, unmarked
from sidecar.llmgateway.providers.texts import json_text, sendable, sendable_json
from sidecar.llmgateway.providers.usage import usage_of

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import Candidate, GenerateContentResponse, Part

__all__ = ["GoogleGenerate"]

_RULES: Final = WireRules(
    takes_signature=lambda signature: signature.startswith(GOOGLE),
    image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
)
_TIMEOUT_MS: Final = 600_000
_OF_TEXT: Final = "text:"
_FOREIGN: Final = b"skip_thought_signature_validator"
_STOPS: Final[Mapping[str, StopReason]] = {
    "STOP": "complete",
    "MAX_TOKENS": "max_output",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "MODEL_ARMOR": "refusal",
}
_BROKEN: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"})
_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_LEVELS: Final[Mapping[ThinkingLevel, str]] = {"off": "LOW", "low": "LOW", "medium": "MEDIUM"}
_BUDGETS: Final[Mapping[ThinkingLevel, int]] = {"low": 2_048, "medium": 8_192, "high": 16_384, "max": 24_576}


class GoogleGenerate:
    """The adapter."""

    rules = _RULES

    def connect(self, place: Place) -> Connected[Client]:
        """Return the SDK's client; without a key of ours it looks for credentials of its own."""
        # Imported here, in the thread that connects: it takes most of a second.
        from google.genai import Client, types

        http = types.HttpOptions(
            base_url=place.base_url,
            timeout=_TIMEOUT_MS,
            retry_options=types.HttpRetryOptions(attempts=1),
            async_client_args={"event_hooks": {"response": [_remember]}},
        )
        try:
            client = Client(api_key=place.key.value if place.key is not None else None, http_options=http)
        except ValueError:
            name = place.provider.id
            message = f"no key for {name}; {how_to_set(place.provider)}"
            raise gateway_error("auth", message, provider=name) from None
        # Both build their types when first used.
        types.GenerateContentConfig(tools=[], system_instruction="")
        types.GenerateContentResponse.model_validate({"candidates": [{"content": {"parts": [{"text": ""}]}}]})
        return Connected(client, client.aio.aclose)

    def request(self, ask: Ask) -> Request:
        """Return the arguments of ``models.generate_content_stream``."""
        conversation, options, model = ask.conversation, ask.options, ask.card.wire_id
        config: dict[str, Any] = {
            "max_output_tokens": options.max_output_tokens,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "automatic_function_calling": {"disable": True},
        }
        if conversation.system:
            config["system_instruction"] = sendable(conversation.system)
        if conversation.tools:
            declared = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters_json_schema": tool.parameters,
                }
                for tool in conversation.tools
            ]
            config["tools"] = [{"function_declarations": declared}]
            if options.tool_choice:
                mode = _MODES[options.tool_choice]
                config["tool_config"] = {"function_calling_config": {"mode": mode}}
        if options.thinking and ask.card.reasoning:
            config["thinking_config"] = _thinking(model, options.thinking)
        set_knobs = {name: value for name, value in config.items() if value is not None}
        return {"model": model, "contents": list(_contents(conversation.turns)), "config": set_knobs}

    @asynccontextmanager
    async def open(
        self, client: Client, request: Request
    ) -> AsyncIterator[AsyncIterator[GenerateContentResponse]]:
        """Stream one answer."""
        opened: list[_Response] = []
        _OPENED.set(opened)
        try:
            yield await client.aio.models.generate_content_stream(**request)
        finally:
            for response in opened:
                await response.aclose()

    def reader(self) -> _Reader:
        """Return a reader for one stream."""
        return _Reader()

    def failure(self, error: Exception) -> Failure | None:
        """Return what Google said in *error*."""
        from google.genai import errors

        if not isinstance(error, errors.APIError):
            return None
        message = error.message or str(error.details)
        # A wrong key is a bad request here.
        status = 401 if "API key" in message and error.code == 400 else error.code
        headers = getattr(error.response, "headers", None) or {}
        return Failure(
            message, status, error.status or "", dict(headers), retry_after_ms=_asked_pause_ms(error.details)
        )


class _Response(Protocol):
    async def aclose(self) -> None: ...


_OPENED: Final[ContextVar[list[_Response] | None]] = ContextVar("opened", default=None)
"""The HTTP responses of the call at hand. The SDK gives no way to close them, and leaves them open when the
stream fails."""


async def _remember(response: _Response) -> None:
    opened = _OPENED.get()
    if opened is not None:
        opened.append(response)


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False
        self._n_calls = 0

    def read(self, chunk: GenerateContentResponse) -> Emissions:
        if (usage := chunk.usage_metadata) is not None:
            self.assembly.usage = usage_of(
                (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
                (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
                cache_read=usage.cached_content_token_count,
            )
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self.is_complete, self.assembly.stop = True, "refusal"
        if not chunk.candidates:
            return ()
        candidate = chunk.candidates[0]
        parts = candidate.content.parts if candidate.content is not None else None
        said: Emissions = ()
        for part in parts or ():
            said = (*said, *self._part(part))
        self._finish(candidate)
        return said

    def _part(self, part: Part) -> Emissions:
        signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else None
        if part.function_call is not None:
            if signature:
                self.assembly.sign(f"{GOOGLE}{signature}")
            call = part.function_call
            self._n_calls += 1
            key = self._n_calls
            said = self.assembly.call(key, call.id or f"call_{uuid4().hex[:16]}", call.name or "")
            return (*said, *self.assembly.arguments(key, json_text(call.args or {})))
        text = part.text or ""
        said = self.assembly.thinking(text) if part.thought else self.assembly.text(text)
        if signature:
            self.assembly.sign(f"{GOOGLE}{_OF_TEXT}{signature}")
        return said

    def _finish(self, candidate: Candidate) -> None:
        if candidate.finish_reason is None:
            return
        reason = str(getattr(candidate.finish_reason, "value", candidate.finish_reason))
        if reason in _BROKEN:
            found = f"google's model made a call that cannot be read ({reason})"
            raise GatewayError("parse", found, provider="google", retryable=True)
        self.is_complete = True
        self.assembly.stop = _STOPS.get(reason, "error")


def _thinking(model: str, level: ThinkingLevel) -> dict[str, Any]:
    shown = {"include_thoughts": level != "off"}
    if "gemini-2.5" in model:
        least = 128 if "pro" in model else 0
        return shown | {"thinking_budget": _BUDGETS.get(level, least)}
    return shown | {"thinking_level": _LEVELS.get(level, "HIGH")}


def _asked_pause_ms(details: object) -> int | None:
    """Return how long the error's own details ask to be left alone, None when they do not."""
    found = re.search(r"'retryDelay': '([\d.]+)s'", str(details))
    return int(float(found[1]) * 1000) if found else None


def _contents(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Yield contents whose roles alternate."""
    names = {
        block.id: block.name for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)
    }
    for is_model, group in groupby(turns, lambda turn: isinstance(turn, AssistantTurn)):
        blocks = [block for turn in group for block in turn.blocks]
        parts = list(_said(blocks) if is_model else _given(blocks, names))
        if parts:
            yield {"role": "model" if is_model else "user", "parts": parts}


def _given(blocks: Sequence[Block], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        match block:
            case TextBlock(text=text):
                yield {"text": text}
            case ImageBlock(media_type=media_type, data_base64=data):
                yield {"inline_data": {"mime_type": media_type, "data": base64.b64decode(data)}}
            case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
                response = {"error" if is_error else "output": sendable_json(output)}
                yield {
                    "function_response": {
                        "id": call_id,
                        "name": names.get(call_id, "unknown"),
                        "response": response,
                    }
                }


def _said(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    waiting: bytes | None = None
    needs_signature = True
    for block in blocks:
        match block:
            case TextBlock(text=text):
                yield {"text": text}
            case ThinkingBlock(signature=signature) if signed := unmarked(signature or "", GOOGLE):
                of_text = signed.startswith(_OF_TEXT)
                proof = _decoded(signed.removeprefix(_OF_TEXT))
                if of_text and proof:
                    yield {"text": "", "thought_signature": proof}
                waiting = None if of_text else proof
            case ToolCallBlock(id=call_id, name=name, input=value):
                part: dict[str, Any] = {"function_call": {"id": call_id, "name": name, "args": value}}
                if waiting or needs_signature:
                    part["thought_signature"] = waiting or _FOREIGN
                waiting, needs_signature = None, False
                yield part


def _decoded(signed: str) -> bytes | None:
    try:
        return base64.b64decode(signed, validate=True)
    except binascii.Error:
        return None
