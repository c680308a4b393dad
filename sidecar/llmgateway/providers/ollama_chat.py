"""Ollama's own chat format, over HTTP.

Ollama also speaks OpenAI's format, but that one cannot say how large the window is to be. Ollama then loads
every model with a small default, and cuts off the beginning of a longer conversation without a word. Here
each call sets the window and forbids the cutting: a conversation that does not fit is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from sidecar._internal.env import read_raw
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    join_texts,
)
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Emissions, MalformedAnswerError
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    CHAT_MARK,
    TurnMemo,
    find_tool,
    function_tools,
    json_text,
    usage_of,
)
from sidecar.llmgateway.providers.http_calls import (
    Events,
    RefusedRequestError,
    ReportedFailureError,
    batches,
    decode,
    failure_in,
    open_client,
    post,
    raise_page,
    read_lines,
)
from sidecar.llmgateway.providers.markup import IN_TEXT, MarkedAssembly
from sidecar.llmgateway.providers.sanitize import WireRules

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_KEEP_ALIVE: Final = "30m"
"""How long the server keeps a model loaded; users think for longer than its own five minutes."""

_THINKING: Final = f"{CHAT_MARK}thinking"
_STOPS: Final[Mapping[str, StopReason]] = {"stop": "complete", "length": "max_output"}


class OllamaChat:
    """The adapter."""

    rules = WireRules(takes_signature=lambda signature: signature.startswith(CHAT_MARK), max_id_chars=40)

    def connect(self, endpoint: Endpoint) -> SdkClient[AsyncClient]:
        """Return an HTTP client for the server."""
        if endpoint.key is None and endpoint.provider.needs_key:
            raise endpoint.missing_key_error()
        address = (endpoint.base_url or "").rstrip("/").removesuffix("/v1")
        key = endpoint.key
        client = open_client(endpoint, address, {"Authorization": f"Bearer {key.value}"} if key else {})
        return SdkClient(client, client.aclose)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the body of a request."""
        conversation, options, card = call.conversation, call.options, call.card
        knobs = {"num_ctx": card.context_window or None, "num_predict": options.max_output_tokens}
        request: SdkArguments = {
            "model": card.wire_id,
            "messages": list(ollama_messages(conversation.system, conversation.turns, call.memo)),
            "stream": True,
            "truncate": False,
            "shift": False,
            "keep_alive": read_raw("OLLAMA_KEEP_ALIVE") or _KEEP_ALIVE,
            "options": {name: value for name, value in knobs.items() if value} | call.sampling_arguments(),
        }
        if conversation.tools and options.tool_choice != "none":
            request["tools"] = function_tools(conversation.tools)
        if options.thinking and card.reasoning:
            request["think"] = think_value(card.wire_id, options.thinking)
        return request

    @asynccontextmanager
    async def open(self, client: AsyncClient, request: SdkArguments) -> AsyncIterator[Events]:
        """Stream one answer, a JSON object a line."""
        async with post(client, "/api/chat", request) as response:

            async def answers() -> Events:
                async for lines, _ in read_lines(response):
                    for together in batches(map(read_line, filter(bytes.strip, lines))):
                        yield together

            yield answers()

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader([tool.name for tool in call.conversation.tools or ()])

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the server's report in *error*."""
        if not isinstance(error, RefusedRequestError):
            return None
        reported = failure_in(error.body)
        message = reported.message if reported is not None else error.text or error.message
        return ProviderFailure(message, error.status, headers=error.headers)


def read_line(line: bytes) -> Any:
    """Return the JSON value of *line*. Raises ReportedFailureError for a web page."""
    if line.lstrip().startswith(b"<"):
        raise_page(line)
    return decode(line)


class _Reader:
    def __init__(self, tools: Sequence[str]) -> None:
        # A model that its author gave no parser leaves thinking and calls in the text.
        self.assembly = MarkedAssembly(tools)
        self.is_complete = False

    def read(self, chunk: dict[str, Any]) -> Emissions:
        if isinstance(error := chunk.get("error"), str):
            raise ReportedFailureError(ProviderFailure(error, code="api_error"))
        assembly, message = self.assembly, chunk.get("message") or {}
        content = message.get("content")
        emissions = [
            *assembly.add_thinking(message.get("thinking"), _THINKING),
            *assembly.add_text(content),
        ]
        for call in message.get("tool_calls") or ():
            if not (function := call.get("function")):
                continue
            arguments = function.get("arguments")
            if not isinstance(arguments, dict | str | None):
                raise MalformedAnswerError("the arguments of a tool call are not an object")
            text = json_text(arguments) if arguments else None
            emissions += assembly.add_call(call.get("id"), function.get("name"), text)
        if chunk.get("done") or chunk.get("done_reason"):
            self.is_complete = True
            assembly.stop = _STOPS.get(str(chunk.get("done_reason")), "complete")
            assembly.usage = usage_of(chunk.get("prompt_eval_count"), chunk.get("eval_count"))
        return emissions


def think_value(model: str, level: ThinkingLevel) -> bool | str:
    """Return how *model* is told how far to think: most take a switch, gpt-oss takes a level alone.

    >>> think_value("qwen3:8b", "low"), think_value("gpt-oss:20b", "off"), think_value("gpt-oss:20b", "max")
    (True, 'low', 'high')
    """
    if "gpt-oss" in model:
        return {"off": "low", "max": "high"}.get(level, level)
    return level != "off"


def ollama_messages(
    system: str | None, turns: Sequence[Turn], memo: TurnMemo[list[dict[str, Any]]] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the messages of a conversation; *memo* has the messages of earlier calls.

    Reasoning goes back in each request, so that the server finds the beginning in its cache. The template of
    a model leaves it out where the model is not to see it.
    """
    memo = memo or TurnMemo()
    if system:
        yield {"role": "system", "content": system}
    for messages in memo.write(turns, lambda at: turn_messages(turns, at)):
        yield from messages


def turn_messages(turns: Sequence[Turn], index: int) -> list[dict[str, Any]]:
    """Return the messages of the turn at *index*; the calls of its results stand before it."""
    turn = turns[index]
    if isinstance(turn, AssistantTurn):
        return [ollama_answer(turn.blocks)]
    messages: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_name": find_tool(turns, index, block.call_id),
            "tool_call_id": block.call_id,
            "content": json_text(block.output),
        }
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
    ]
    texts = [block.text for block in turn.blocks if isinstance(block, TextBlock)]
    images = [block.data_base64 for block in turn.blocks if isinstance(block, ImageBlock)]
    if texts or images:
        message = {"role": "user", "content": "\n\n".join(texts)}
        messages.append(message | ({"images": images} if images else {}))
    return messages


def ollama_answer(blocks: Sequence[Block]) -> dict[str, Any]:
    """Return one answer of the model as a message, with its reasoning."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": join_texts(blocks),
    }
    thoughts = (block for block in blocks if isinstance(block, ThinkingBlock))
    thinking = "".join(block.text for block in thoughts if block.signature != IN_TEXT)
    if thinking:
        message["thinking"] = thinking
    calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.input}} for call in calls
        ]
    return message
