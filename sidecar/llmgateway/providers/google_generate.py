"""Google's generate format over the ``google-genai`` SDK.

A thought signature goes back on the part on which it came: that of a call stands before the call, that of
text behind the text. A call of another model gets the signature that Google names for that case.
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
)
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Assembly, Emissions
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    GOOGLE_MARK,
    encodable,
    encodable_json,
    json_text,
    usage_of,
    without_mark,
)
from sidecar.llmgateway.providers.sanitize import WireRules
from sidecar.llmgateway.providers.windows import direct_mounts

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import GenerateContentResponse, Part

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

    rules = WireRules(
        takes_signature=lambda signature: signature.startswith(GOOGLE_MARK),
        image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
    )

    def connect(self, endpoint: Endpoint) -> SdkClient[Client]:
        """Return the SDK's client; without a key of ours it looks for credentials of its own."""
        # Imported here, in the thread that connects: it takes most of a second.
        from google.genai import Client, types

        async def remember(response: _Response) -> None:
            opened = _OPENED.get()
            if opened is not None:
                opened.append(response)

        http = types.HttpOptions(
            base_url=endpoint.base_url,
            timeout=int(endpoint.idle_timeout_s * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
            async_client_args={
                "event_hooks": {"response": [remember]},
                "mounts": direct_mounts(endpoint.base_url),
            },
        )
        try:
            key = endpoint.key.value if endpoint.key is not None else None
            client = Client(api_key=key, http_options=http)
        except ValueError:
            raise endpoint.missing_key_error() from None
        # Both build their types when first used.
        types.GenerateContentConfig(tools=[], system_instruction="")
        types.GenerateContentResponse.model_validate({"candidates": [{"content": {"parts": [{"text": ""}]}}]})
        return SdkClient(client, client.aio.aclose)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of ``models.generate_content_stream``."""
        conversation, options, model = call.conversation, call.options, call.card.wire_id
        config: dict[str, Any] = {
            **call.sampling_arguments(),
            "max_output_tokens": options.max_output_tokens,
            "automatic_function_calling": {"disable": True},
        }
        if conversation.system:
            config["system_instruction"] = encodable(conversation.system)
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
        if options.thinking and call.card.reasoning:
            config["thinking_config"] = thinking_config(model, options.thinking, options.max_output_tokens)
        set_knobs = {name: value for name, value in config.items() if value is not None}
        return {"model": model, "contents": list(google_contents(conversation.turns)), "config": set_knobs}

    @asynccontextmanager
    async def open(
        self, client: Client, request: SdkArguments
    ) -> AsyncIterator[AsyncIterator[GenerateContentResponse]]:
        """Stream one answer."""
        opened: list[_Response] = []
        _OPENED.set(opened)
        try:
            yield await client.aio.models.generate_content_stream(**request)
        finally:
            for response in opened:
                await response.aclose()

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader()

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return Google's report in *error*."""
        from google.genai import errors

        if not isinstance(error, errors.APIError):
            return None
        message, details = error.message or str(error.details), str(error.details)
        # A wrong key is a bad request here.
        status = 401 if "API key" in message and error.code == 400 else error.code
        headers = getattr(error.response, "headers", None) or {}
        pause = re.search(r"'retryDelay': '([\d.]+)s'", details)
        pause_ms = int(float(pause[1]) * 1000) if pause else None
        return ProviderFailure(
            message, status, code=error.status or "", headers=dict(headers), retry_after_ms=pause_ms
        )


class _Response(Protocol):
    async def aclose(self) -> None: ...


_OPENED: Final[ContextVar[list[_Response] | None]] = ContextVar("opened", default=None)
"""The HTTP responses of the running call. The SDK offers no way to close them, and leaves them open when the
stream fails."""


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
        emissions = [emission for part in parts or () for emission in self._part(part)]
        if candidate.finish_reason is not None:
            reason = str(getattr(candidate.finish_reason, "value", candidate.finish_reason))
            if reason in _BROKEN:
                message = f"google's model made a call that cannot be read ({reason})"
                raise GatewayError("parse", message, provider="google", retryable=True)
            self.is_complete = True
            self.assembly.stop = _STOPS.get(reason, "error")
        return emissions

    def _part(self, part: Part) -> Emissions:
        signature = base64.b64encode(part.thought_signature).decode() if part.thought_signature else None
        if part.function_call is not None:
            if signature:
                self.assembly.sign(f"{GOOGLE_MARK}{signature}")
            call = part.function_call
            self._n_calls += 1
            key = self._n_calls
            opened = self.assembly.open_call(key, call.id or f"call_{uuid4().hex[:16]}", call.name)
            return (*opened, *self.assembly.add_arguments(key, json_text(call.args or {})))
        text = part.text or ""
        emissions = self.assembly.add_thinking(text) if part.thought else self.assembly.add_text(text)
        if signature:
            self.assembly.sign(f"{GOOGLE_MARK}{_OF_TEXT}{signature}")
        return emissions


def thinking_config(model: str, level: ThinkingLevel, max_tokens: int | None = None) -> dict[str, Any]:
    """Return the part of a request that sets how far *model* thinks: a budget for 2.5, a level since.

    Args:
        model: its name at Google.
        level: how far it is to think.
        max_tokens: the limit of the whole answer, in which a budget must leave room; None for none.

    >>> thinking_config("gemini-2.5-pro", "off"), thinking_config("gemini-3-pro", "max")["thinking_level"]
    ({'include_thoughts': False, 'thinking_budget': 128}, 'HIGH')
    """
    shown = {"include_thoughts": level != "off"}
    if "gemini-2.5" in model:
        least = 128 if "pro" in model else 0
        budget = _BUDGETS.get(level, least)
        return shown | {
            "thinking_budget": max(least, min(budget, max_tokens * 5 // 8) if max_tokens else budget)
        }
    return shown | {"thinking_level": _LEVELS.get(level, "HIGH")}


def google_contents(turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Yield contents of alternating roles."""
    names = {
        block.id: block.name for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)
    }
    for is_model, group in groupby(turns, lambda turn: isinstance(turn, AssistantTurn)):
        blocks = [block for turn in group for block in turn.blocks]
        parts = list(model_parts(blocks)) if is_model else []
        for block in blocks if not is_model else ():
            match block:
                case TextBlock(text=text):
                    parts.append({"text": text})
                case ImageBlock(media_type=media_type, data_base64=data):
                    image = {"mime_type": media_type, "data": base64.b64decode(data)}
                    parts.append({"inline_data": image})
                case ToolResultBlock(call_id=call_id, output=output, is_error=is_error):
                    name = names.get(call_id, "unknown")
                    response = {"error" if is_error else "output": encodable_json(output)}
                    result = {"id": call_id, "name": name, "response": response}
                    parts.append({"function_response": result})
                case _:
                    continue
        if parts:
            yield {"role": "model" if is_model else "user", "parts": parts}


def model_parts(blocks: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Yield the parts of an answer, each signature on the part on which it came."""
    waiting: bytes | None = None
    needs_signature = True
    for block in blocks:
        match block:
            case TextBlock(text=text):
                yield {"text": text}
            case ThinkingBlock(signature=signature) if signed := without_mark(signature, GOOGLE_MARK):
                of_text = signed.startswith(_OF_TEXT)
                try:
                    proof = base64.b64decode(signed.removeprefix(_OF_TEXT), validate=True)
                except binascii.Error:
                    proof = b""
                if of_text and proof:
                    yield {"text": "", "thought_signature": proof}
                waiting = None if of_text else proof or None
            case ToolCallBlock(id=call_id, name=name, input=value):
                part: dict[str, Any] = {"function_call": {"id": call_id, "name": name, "args": value}}
                if waiting or needs_signature:
                    part["thought_signature"] = waiting or _FOREIGN
                waiting, needs_signature = None, False
                yield part
