"""Ollama's own chat format, over the HTTP client that comes with the ``openai`` SDK.

Ollama also speaks OpenAI's format, but that one cannot say how large the window is to be. Ollama then loads
every model with a small default, and cuts off the beginning of a longer conversation without a word. Here
each call sets the window and forbids the cutting: a conversation that does not fit is refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
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
    UserTurn,
)
from sidecar.llmgateway.providers.adapter import CONNECT_S, Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Assembly, Emissions, MalformedAnswerError
from sidecar.llmgateway.providers.body import ReportedFailureError, read_failure
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import CHAT_MARK, encodable, json_text, usage_of
from sidecar.llmgateway.providers.sanitize import WireRules
from sidecar.llmgateway.providers.windows import direct_mounts

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_THINKING: Final = f"{CHAT_MARK}thinking"
_STOPS: Final[Mapping[str, StopReason]] = {"stop": "complete", "length": "max_output"}


class OllamaChat:
    """The adapter."""

    rules = WireRules(takes_signature=lambda signature: signature.startswith(CHAT_MARK), max_id_chars=40)

    def connect(self, endpoint: Endpoint) -> SdkClient[AsyncClient]:
        """Return an HTTP client for the server."""
        # Imported here, in the thread that connects: it takes tenths of a second.
        from httpx2 import AsyncClient, Timeout

        if endpoint.key is None and endpoint.provider.needs_key:
            raise endpoint.missing_key_error()
        client = AsyncClient(
            base_url=(endpoint.base_url or "").rstrip("/").removesuffix("/v1"),
            headers={"Authorization": f"Bearer {endpoint.key.value}"} if endpoint.key is not None else {},
            timeout=Timeout(endpoint.idle_timeout_s, connect=CONNECT_S),
            mounts=direct_mounts(endpoint.base_url),
        )
        return SdkClient(client, client.aclose)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the body of a request."""
        conversation, options, card = call.conversation, call.options, call.card
        knobs = {"num_ctx": card.context_window or None, "num_predict": options.max_output_tokens}
        request: SdkArguments = {
            "model": card.wire_id,
            "messages": list(ollama_messages(conversation.system, conversation.turns)),
            "stream": True,
            "truncate": False,
            "shift": False,
            "options": {name: value for name, value in knobs.items() if value} | call.sampling_arguments(),
        }
        if conversation.tools and options.tool_choice != "none":
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
        if options.thinking and card.reasoning:
            request["think"] = options.thinking != "off"
        return request

    @asynccontextmanager
    async def open(
        self, client: AsyncClient, request: SdkArguments
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Stream one answer, a JSON object a line."""
        async with client.stream("POST", "/api/chat", json=request) as response:
            if response.status_code >= 400:
                text = (await response.aread()).decode("utf-8", "replace")
                failure = read_failure(text)
                message = failure.message if failure is not None else text or f"status {response.status_code}"
                headers = dict(response.headers)
                raise ReportedFailureError(ProviderFailure(message, response.status_code, headers=headers))

            async def lines() -> AsyncIterator[dict[str, Any]]:
                async for line in response.aiter_lines():
                    if line.strip():
                        yield json.loads(line)

            yield lines()

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader()

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the server's report in *error*."""
        return error.failure if isinstance(error, ReportedFailureError) else None


class _Reader:
    def __init__(self) -> None:
        self.assembly = Assembly()
        self.is_complete = False
        self._n_calls = 0

    def read(self, chunk: dict[str, Any]) -> Emissions:
        if isinstance(error := chunk.get("error"), str):
            raise ReportedFailureError(ProviderFailure(error, code="api_error"))
        assembly, message = self.assembly, chunk.get("message") or {}
        emissions = [
            *assembly.add_thinking(message.get("thinking"), _THINKING),
            *assembly.add_text(message.get("content")),
        ]
        for call in message.get("tool_calls") or ():
            self._n_calls += 1
            function = call["function"]
            arguments = function.get("arguments")
            if not isinstance(arguments, dict | str | None):
                raise MalformedAnswerError("the arguments of a tool call are not an object")
            emissions += assembly.open_call(self._n_calls, call.get("id"), function.get("name"))
            emissions += assembly.add_arguments(self._n_calls, json_text(arguments) if arguments else None)
        if chunk.get("done"):
            self.is_complete = True
            assembly.stop = _STOPS.get(str(chunk.get("done_reason")), "complete")
            assembly.usage = usage_of(chunk.get("prompt_eval_count"), chunk.get("eval_count"))
        return emissions


def ollama_messages(system: str | None, turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a conversation; reasoning only after the newest prompt."""
    if system:
        yield {"role": "system", "content": encodable(system)}
    names = {
        block.id: block.name for turn in turns for block in turn.blocks if isinstance(block, ToolCallBlock)
    }
    newest_prompt = max((i for i, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)
    for index, turn in enumerate(turns):
        if isinstance(turn, AssistantTurn):
            yield ollama_answer(turn.blocks, with_thinking=index > newest_prompt)
            continue
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                name = names.get(block.call_id, "unknown")
                yield {"role": "tool", "tool_name": name, "content": json_text(block.output)}
        texts = [block.text for block in turn.blocks if isinstance(block, TextBlock)]
        images = [block.data_base64 for block in turn.blocks if isinstance(block, ImageBlock)]
        if texts or images:
            message = {"role": "user", "content": "\n\n".join(texts)}
            yield message | ({"images": images} if images else {})


def ollama_answer(blocks: Sequence[Block], *, with_thinking: bool) -> dict[str, Any]:
    """Return one answer of the model as a message, with its reasoning where that goes back."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
    }
    thinking = "".join(block.text for block in blocks if isinstance(block, ThinkingBlock))
    if thinking and with_thinking:
        message["thinking"] = thinking
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    if calls:
        functions = [{"name": call.name, "arguments": call.input} for call in calls]
        message["tool_calls"] = [{"function": function} for function in functions]
    return message
