"""The long tail of providers, through the ``direct`` requests of ``pydantic-ai``; it knows each one's format.

Where a provider has an adapter of its own, that one is nearer to the wire. Each provider here wants its own
extra of pydantic-ai, and says so when it is missing.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
)
from sidecar.llmgateway.names import PYDANTIC_AI
from sidecar.llmgateway.providers.adapter import Ask, Connected, Place, Request
from sidecar.llmgateway.providers.assembling import Assembly, Emissions
from sidecar.llmgateway.providers.failures import NOT_SET_UP, Failure
from sidecar.llmgateway.providers.fitting import WireRules
from sidecar.llmgateway.providers.signatures import LONG_TAIL, unmarked
from sidecar.llmgateway.providers.texts import json_text, sendable
from sidecar.llmgateway.providers.usage import usage_of

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        ModelResponsePartDelta,
        ModelResponseStreamEvent,
        ThinkingPart,
    )
    from pydantic_ai.models import Model

    _Chunk: TypeAlias = ModelResponseStreamEvent | "_Whole"

__all__ = ["PydanticAIDirect"]

_RULES: Final = WireRules(takes_signature=lambda signature: signature.startswith(LONG_TAIL), max_id_chars=40)
_STOPS: Final[dict[str, StopReason]] = {
    "stop": "complete",
    "tool_call": "tool_calls",
    "length": "max_output",
    "content_filter": "refusal",
    "error": "error",
}


@dataclass(frozen=True, slots=True)
class _Whole:
    """What is known once the answer is over."""

    is_complete: bool
    stop: StopReason | None
    usage: Usage | None


@dataclass(slots=True)
class LongTail:
    """What stands in for a client: makes the model of a name, once."""

    make: Callable[[str], Model]
    models: dict[str, Model] = field(default_factory=dict)

    async def model(self, name: str) -> Model:
        """Return the model; its provider's own SDK is imported in a thread."""
        if name not in self.models:
            self.models[name] = await asyncio.to_thread(self.make, name)
        return self.models[name]


class PydanticAIDirect:
    """The adapter."""

    rules = _RULES

    def connect(self, place: Place) -> Connected[LongTail]:
        """Return what makes models; without a key of ours each provider looks for its own."""
        # Imported here, in the thread that connects: it takes most of a second.
        import_module("pydantic_ai.direct")
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

        key = place.key.value if place.key is not None else None

        def provider(name: str) -> Provider[Any]:
            if key is None:
                return infer_provider(name)
            return infer_provider_class(name)(api_key=key)  # type: ignore[call-arg]  # every one takes it

        def make(name: str) -> Model:
            try:
                return infer_model(name, provider_factory=provider)
            except ValueError as error:
                raise UserError(str(error)) from None

        client = LongTail(make)
        return Connected(client, lambda: _close(client))

    def request(self, ask: Ask) -> Request:
        """Return the arguments of ``model_request_stream``, with the model by its name."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        conversation, options = ask.conversation, ask.options
        knobs = {
            "max_tokens": options.max_output_tokens,
            "temperature": options.temperature,
            "top_p": options.top_p,
            "tool_choice": options.tool_choice if conversation.tools else None,
            "thinking": _thinking(options.thinking) if ask.card.reasoning else None,
            # The call itself tries again, and tells.
            "max_retries": 0,
        }
        tools = [
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
            )
            for tool in conversation.tools or ()
        ]
        provider = ask.place.provider.id
        return {
            "model": ask.card.wire_id if provider == PYDANTIC_AI else f"{provider}:{ask.card.wire_id}",
            "messages": list(_messages(conversation.system, conversation.turns)),
            "model_settings": {name: value for name, value in knobs.items() if value is not None},
            "model_request_parameters": ModelRequestParameters(function_tools=tools),
        }

    @asynccontextmanager
    async def open(self, client: LongTail, request: Request) -> AsyncIterator[AsyncIterator[_Chunk]]:
        """Stream one answer; its last piece is the answer as a whole."""
        from pydantic_ai.direct import model_request_stream

        model = await client.model(request["model"])
        async with model_request_stream(**(request | {"model": model})) as stream:

            async def chunks() -> AsyncIterator[_Chunk]:
                async for event in stream:
                    yield event
                yield _whole(stream.get())

            yield chunks()

    def reader(self) -> _Reader:
        """Return a reader for one stream."""
        return _Reader()

    def failure(self, error: Exception) -> Failure | None:
        """Return what the provider, or pydantic-ai about it, said in *error*."""
        from pydantic_ai import exceptions

        if isinstance(error, exceptions.ModelAPIError):
            status = getattr(error, "status_code", None)
            headers = dict(getattr(error, "headers", None) or {})
            code = error.provider_error_code or error.provider_error_type or ""
            pause = None if error.retry_after is None else int(error.retry_after * 1000)
            return Failure(_said(error), status, code, headers, pause)
        if isinstance(error, exceptions.UserError):
            lacks_key = "API_KEY" in error.message or "api_key" in error.message
            return Failure(error.message, code="authentication_error" if lacks_key else NOT_SET_UP)
        return Failure(str(error), code=NOT_SET_UP) if isinstance(error, ImportError) else None


def _said(error: Any) -> str:
    """Return the provider's own sentence where the body has it."""
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return message if isinstance(message, str) else str(error)


async def _close(client: LongTail) -> None:
    for model in client.models.values():
        inner = getattr(model, "client", None)
        close = getattr(inner, "close", None)
        if close is not None:
            await close()


def _thinking(level: str | None) -> bool | str | None:
    return False if level == "off" else level


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False

    def read(self, chunk: _Chunk) -> Emissions:
        if isinstance(chunk, _Whole):
            self.is_complete, self.assembly.stop, self.assembly.usage = (
                chunk.is_complete,
                chunk.stop,
                chunk.usage,
            )
            return ()
        match chunk.event_kind:
            case "part_start":
                return self._start(chunk.index, chunk.part)
            case "part_delta":
                return self._delta(chunk.index, chunk.delta)
            case "part_end" if chunk.part.part_kind == "thinking":
                self.assembly.sign(_proof(chunk.part))
        return ()

    def _start(self, index: int, part: ModelResponsePart) -> Emissions:
        match part.part_kind:
            case "text":
                return self.assembly.text(part.content)
            case "thinking":
                self.assembly.open_thinking()
                return self.assembly.thinking(part.content)
            case "tool-call":
                said = self.assembly.call(index, part.tool_call_id, part.tool_name)
                return (*said, *self.assembly.arguments(index, _argument_text(part.args)))
        return ()

    def _delta(self, index: int, delta: ModelResponsePartDelta) -> Emissions:
        match delta.part_delta_kind:
            case "text":
                return self.assembly.text(delta.content_delta)
            case "thinking":
                return self.assembly.thinking(delta.content_delta or "")
            case "tool_call":
                return self.assembly.arguments(index, _argument_text(delta.args_delta))
        return ()


def _argument_text(arguments: Any) -> str:
    return json_text(arguments) if arguments else ""


def _whole(response: ModelResponse) -> _Whole:
    usage = response.usage
    stop = _STOPS.get(response.finish_reason or "")
    told = usage_of(
        usage.input_tokens,
        usage.output_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
    )
    return _Whole(stop is not None, stop, told if told != Usage(0, 0) else None)


def _proof(part: ThinkingPart) -> str:
    """Return all that the provider wants back of a thinking part, besides its text."""
    proof = {
        "id": part.id,
        "signature": part.signature,
        "provider_name": part.provider_name,
        "provider_details": part.provider_details,
    }
    return f"{LONG_TAIL}{json.dumps(proof, default=str)}"


def _messages(system: str | None, turns: Sequence[Turn]) -> Iterator[ModelMessage]:
    from pydantic_ai import messages

    names = {
        block.id: block.name for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)
    }
    instructions = sendable(system) if system else None
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            parts = [part for block in turn.blocks if (part := _said_part(block)) is not None]
            yield messages.ModelResponse(parts=parts)
        else:
            yield messages.ModelRequest(parts=list(_given(turn.blocks, names)), instructions=instructions)


def _given(blocks: Sequence[Block], names: Mapping[str, str]) -> Iterator[ModelRequestPart]:
    from pydantic_ai import messages

    shown: list[messages.UserContent] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                shown.append(text)
            case ImageBlock(media_type=media_type, data_base64=data):
                shown.append(messages.BinaryContent(base64.b64decode(data), media_type=media_type))
            case ToolResultBlock(call_id=call_id, output=output):
                yield messages.ToolReturnPart(names.get(call_id, "unknown"), json_text(output), call_id)
    if shown:
        yield messages.UserPromptPart(shown)


def _said_part(block: Block) -> ModelResponsePart | None:
    from pydantic_ai import messages

    match block:
        case TextBlock(text=text):
            return messages.TextPart(text)
        case ToolCallBlock(id=call_id, name=name, input=value):
            return messages.ToolCallPart(name, value, call_id)
        case ThinkingBlock(text=text, signature=signature) if proof := unmarked(signature or "", LONG_TAIL):
            return messages.ThinkingPart(text, **json.loads(proof))
    return None
