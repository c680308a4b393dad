"""All other providers, through the ``direct`` requests of ``pydantic-ai``, which knows their formats.

An adapter of our own, where there is one, is nearer to the wire. Each provider needs its own extra of
pydantic-ai; the error of a missing one names it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field

from sidecar._internal.values import Value
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
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Assembly, Emissions
from sidecar.llmgateway.providers.failures import NOT_SET_UP, ProviderFailure
from sidecar.llmgateway.providers.fields import (
    PYDANTIC_AI_MARK,
    json_text,
    usage_of,
    without_mark,
)
from sidecar.llmgateway.providers.sanitize import WireRules

if TYPE_CHECKING:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequestPart,
        ModelResponsePart,
        ModelResponseStreamEvent,
    )
    from pydantic_ai.models import Model

    _Chunk: TypeAlias = ModelResponseStreamEvent | "_End"

_STOPS: Final[dict[str, StopReason]] = {
    "stop": "complete",
    "tool_call": "tool_calls",
    "length": "max_output",
    "content_filter": "refusal",
    "error": "error",
}


class _End(Value):
    """The end of a stream: the stop reason, None when the answer was cut off, and the usage."""

    stop: StopReason | None
    usage: Usage | None


class PydanticAIModels(Struct):
    """The client of this adapter: it makes each model once, by its name."""

    make: Callable[[str], Model]
    models: dict[str, Model] = field(default_factory=dict)

    async def model(self, name: str) -> Model:
        """Return the model; its provider's own SDK is imported in a thread."""
        if name not in self.models:
            self.models[name] = await asyncio.to_thread(self.make, name)
        return self.models[name]


class PydanticAIDirect:
    """The adapter."""

    rules = WireRules(
        takes_signature=lambda signature: signature.startswith(PYDANTIC_AI_MARK), max_id_chars=40
    )

    def connect(self, endpoint: Endpoint) -> SdkClient[PydanticAIModels]:
        """Return a maker of models; without a key of ours each provider looks for its own."""
        # Imported here, in the thread that connects: it takes most of a second.
        import_module("pydantic_ai.direct")
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

        key = endpoint.key.value if endpoint.key is not None else None

        def provider(name: str) -> Provider[Any]:
            if key is None:
                return infer_provider(name)
            return infer_provider_class(name)(api_key=key)  # type: ignore[call-arg]  # every one takes it

        def make(name: str) -> Model:
            try:
                return infer_model(name, provider_factory=provider)
            except ValueError as error:
                raise UserError(str(error)) from None

        client = PydanticAIModels(make)

        async def close() -> None:
            for model in client.models.values():
                close_model = getattr(getattr(model, "client", None), "close", None)
                if close_model is not None:
                    await close_model()

        return SdkClient(client, close)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of ``model_request_stream``, with the model by its name."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        conversation, options = call.conversation, call.options
        level = False if options.thinking == "off" else options.thinking
        knobs = {
            "max_tokens": options.max_output_tokens,
            **call.sampling_arguments(),
            "tool_choice": options.tool_choice if conversation.tools else None,
            "thinking": level if call.card.reasoning else None,
            # The gateway retries, and reports it.
            "max_retries": 0,
            "timeout": call.endpoint.idle_timeout_s,
        }
        tools = [
            ToolDefinition(
                name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
            )
            for tool in conversation.tools or ()
        ]
        provider, name = call.endpoint.provider.id, call.card.wire_id
        return {
            "model": name if provider == PYDANTIC_AI else f"{provider}:{name}",
            "messages": list(pydantic_ai_messages(conversation.system, conversation.turns)),
            "model_settings": {name: value for name, value in knobs.items() if value is not None},
            "model_request_parameters": ModelRequestParameters(function_tools=tools),
        }

    @asynccontextmanager
    async def open(
        self, client: PydanticAIModels, request: SdkArguments
    ) -> AsyncIterator[AsyncIterator[Sequence[_Chunk]]]:
        """Stream one answer; its last chunk tells how it ended."""
        from pydantic_ai.direct import model_request_stream

        model = await client.model(request["model"])
        async with model_request_stream(**(request | {"model": model})) as stream:

            async def chunks() -> AsyncIterator[Sequence[_Chunk]]:
                async for event in stream:
                    yield (event,)
                response = stream.get()
                usage = usage_of(
                    response.usage.input_tokens,
                    response.usage.output_tokens,
                    cache_read=response.usage.cache_read_tokens,
                    cache_write=response.usage.cache_write_tokens,
                )
                stop = _STOPS.get(response.finish_reason or "")
                yield (_End(stop, usage if usage != Usage(0, 0) else None),)

            yield chunks()

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader()

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the report of the provider, or of pydantic-ai about it, in *error*."""
        from pydantic_ai import exceptions

        if isinstance(error, exceptions.ModelAPIError):
            status = getattr(error, "status_code", None)
            headers = dict(getattr(error, "headers", None) or {})
            code = error.provider_error_code or error.provider_error_type or ""
            pause = None if error.retry_after is None else int(error.retry_after * 1000)
            body = getattr(error, "body", None)
            inner = body.get("error", body) if isinstance(body, dict) else None
            message = inner.get("message") if isinstance(inner, dict) else None
            message = message if isinstance(message, str) else str(error)
            return ProviderFailure(message, status, code=str(code), headers=headers, retry_after_ms=pause)
        if isinstance(error, exceptions.UserError):
            lacks_key = "API_KEY" in error.message or "api_key" in error.message
            return ProviderFailure(error.message, code="authentication_error" if lacks_key else NOT_SET_UP)
        return ProviderFailure(str(error), code=NOT_SET_UP) if isinstance(error, ImportError) else None


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False

    def read(self, chunk: _Chunk) -> Emissions:
        assembly = self.assembly
        if isinstance(chunk, _End):
            self.is_complete, assembly.stop, assembly.usage = chunk.stop is not None, chunk.stop, chunk.usage
            return ()
        match chunk.event_kind:
            case "part_start":
                part = chunk.part
                match part.part_kind:
                    case "text":
                        return assembly.add_text(part.content)
                    case "thinking":
                        assembly.open_thinking()
                        return assembly.add_thinking(part.content)
                    case "tool-call":
                        opened = assembly.open_call(chunk.index, part.tool_call_id, part.tool_name)
                        return (*opened, *assembly.add_arguments(chunk.index, _argument_text(part.args)))
            case "part_delta":
                delta = chunk.delta
                match delta.part_delta_kind:
                    case "text":
                        return assembly.add_text(delta.content_delta)
                    case "thinking":
                        return assembly.add_thinking(delta.content_delta)
                    case "tool_call":
                        return assembly.add_arguments(chunk.index, _argument_text(delta.args_delta))
            case "part_end" if chunk.part.part_kind == "thinking":
                # Besides the text, the provider wants all of this back.
                names = ("id", "signature", "provider_name", "provider_details")
                proof = {name: getattr(chunk.part, name) for name in names}
                assembly.sign(f"{PYDANTIC_AI_MARK}{json.dumps(proof, default=str)}")
        return ()


def _argument_text(arguments: Any) -> str:
    return json_text(arguments) if arguments else ""


def pydantic_ai_messages(system: str | None, turns: Sequence[Turn]) -> Iterator[ModelMessage]:
    """Yield the messages of a conversation; the system prompt goes with each of the user's."""
    from pydantic_ai import messages

    names = {
        block.id: block.name for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)
    }
    instructions = system or None
    for turn in turns:
        if isinstance(turn, AssistantTurn):
            answer = [part for block in turn.blocks if (part := response_part(block)) is not None]
            yield messages.ModelResponse(parts=answer)
            continue
        parts: list[ModelRequestPart] = []
        prompt: list[messages.UserContent] = []
        for block in turn.blocks:
            match block:
                case TextBlock(text=text):
                    prompt.append(text)
                case ImageBlock(media_type=media_type, data_base64=data):
                    prompt.append(messages.BinaryContent(base64.b64decode(data), media_type=media_type))
                case ToolResultBlock(call_id=call_id, output=output):
                    name = names.get(call_id, "unknown")
                    parts.append(messages.ToolReturnPart(name, json_text(output), call_id))
                case _:
                    continue
        if prompt:
            parts.append(messages.UserPromptPart(prompt))
        yield messages.ModelRequest(parts=parts, instructions=instructions)


def response_part(block: Block) -> ModelResponsePart | None:
    """Return one block of an answer as a part, None when it does not go back."""
    from pydantic_ai import messages

    match block:
        case TextBlock(text=text):
            return messages.TextPart(text)
        case ToolCallBlock(id=call_id, name=name, input=value):
            return messages.ToolCallPart(name, value, call_id)
        case ThinkingBlock(text=text, signature=signature) if proof := without_mark(
            signature, PYDANTIC_AI_MARK
        ):
            return messages.ThinkingPart(text, **json.loads(proof))
    return None
