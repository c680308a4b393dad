"""Anthropic's messages format over HTTP; without a key over the ``anthropic`` SDK, which looks for one.

The prefix that stays the same from call to call is marked for the prompt cache: tools and system, the newest
message of the user, and the one before it.

The generations of Claude differ in how a request asks them to think. Older models are given a budget of
tokens; newer ones think as far as they need, and are told how much effort to make. The fifth generation
thinks unless told not to. The latest models put their remarks between the calls of tools into thoughts, and
these come only with a request for summaries. Some cannot be told not to think, or to call a tool; some refuse
sampling knobs. A model that is not listed is treated as a new one.

The latest models read a thought only behind the very conversation in which they had it. Where that changed,
as by a compaction, Anthropic is asked to leave the thought out instead of refusing the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from sidecar.llmgateway.contract import (
    Block,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ThinkingLevel,
    ToolCallBlock,
    ToolChoice,
    ToolResultBlock,
    Turn,
    Usage,
)
from sidecar.llmgateway.providers.adapter import CONNECT_S, Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Assembly, Emissions
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    REDACTED_MARK,
    TurnMemo,
    describe_tools,
    is_anthropic_signature,
    join_roles,
    json_text,
    token_count,
    without_mark,
)
from sidecar.llmgateway.providers.http_calls import (
    END_MARK,
    EventBody,
    Events,
    RefusedRequestError,
    ReportedFailureError,
    open_client,
    refusal_in,
    stream_events,
)
from sidecar.llmgateway.providers.markup import assembly_of
from sidecar.llmgateway.providers.sanitize import WireRules
from sidecar.llmgateway.providers.windows import direct_mounts

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

Send: TypeAlias = Callable[[SdkArguments], AbstractAsyncContextManager[Events]]
"""Sends a request and streams the events of the answer.

Raises RefusedRequestError, or ReportedFailureError.
"""

_OFFICIAL_ADDRESS: Final = "https://api.anthropic.com"
_PATH: Final = "/v1/messages"
_VERSION: Final = "2026-10-21"
_MAX_TOKENS: Final = 32_000
"""The longest answer asked for when a call sets no limit; the API wants a figure."""
_UNKNOWN_MAX_TOKENS: Final = 8_192
_CACHED: Final = {"type": "ephemeral"}
_STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": "complete",
    "stop_sequence": "complete",
    "pause_turn": "complete",
    "tool_use": "tool_calls",
    "max_tokens": "max_output",
    "refusal": "refusal",
}
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}

_BUDGETED: Final = (
    "claude-3-7",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
)
_UNVERSIONED: Final = ("claude-opus-4", "claude-sonnet-4")
_THINKS_IF_ASKED: Final = ("claude-3", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4")
_THINKS_ALWAYS: Final = ("claude-fable-5", "claude-mythos", "claude-opus-5-5")
_BETWEEN_TOOLS: Final = "claude-sonnet-5-5"
_BOUND: Final = (
    *("claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-1", "claude-mythos-5-2"),
    *("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"),
)
"""The models that refuse a thought whose conversation changed, and calls that must use a tool."""
_BINDING: Final = {"prefix_mismatch_behavior": "drop_block"}
_BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
_OVERFLOW: Final = "model_context_window_exceeded"
_SAMPLES: Final = (*_BUDGETED, "claude-3", "claude-opus-4-6", "claude-sonnet-4-6")
_BUDGETS: Final[Mapping[ThinkingLevel, int]] = {"low": 2_048, "medium": 10_000, "high": 16_384, "max": 32_768}
_LEAST_BUDGET: Final = 1_024


class AnthropicMessages:
    """The adapter."""

    rules = WireRules(
        takes_signature=is_anthropic_signature,
        max_name_chars=128,
        max_image_bytes=5 * 1024 * 1024,
        max_images=100,
    )

    def connect(self, endpoint: Endpoint) -> SdkClient[Send]:
        """Return a sender of requests; for Anthropic itself the SDK looks for credentials without a key."""
        if endpoint.key is None and endpoint.provider.own_env and (sdk := find_credentials(endpoint)):
            return SdkClient(partial(stream_by_sdk, sdk), sdk.close)
        headers = {"Authorization": f"Bearer {endpoint.require_key()}", "anthropic-version": _VERSION}
        if is_official(endpoint):
            headers["anthropic-beta"] = _BINDING_BETA
        address = endpoint.base_url or _OFFICIAL_ADDRESS
        http = open_client(endpoint, address, headers, "ANTHROPIC_CUSTOM_HEADERS")
        return SdkClient(partial(stream_events, http, _PATH), http.aclose)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of ``messages.create``."""
        conversation, options, model = call.conversation, call.options, call.card.wire_id
        is_forced = options.tool_choice == "required" and not model.startswith(_BOUND)
        choice: ToolChoice = "required" if is_forced else "none" if options.tool_choice == "none" else "auto"
        # A budget for thinking is a part of the whole, and leaves the answer its usual length.
        budget = _BUDGETS.get(options.thinking or "off", 0)
        longest = min(call.card.max_output_tokens or _UNKNOWN_MAX_TOKENS, _MAX_TOKENS + budget)
        max_tokens = options.max_output_tokens or longest
        messages = list(anthropic_messages(conversation.turns, call.memo))
        for message in [message for message in messages if message["role"] == "user"][-2:]:
            *parts, last = message["content"]
            message["content"] = [*parts, {**last, "cache_control": _CACHED}]
        request: SdkArguments = {
            "model": model,
            "max_tokens": max_tokens,
            "messages": messages,
            "stream": True,
        }
        if conversation.system:
            text = {"type": "text", "text": conversation.system, "cache_control": _CACHED}
            request["system"] = [text]
        if conversation.tools:
            request["tools"] = describe_tools(conversation.tools, "input_schema")
            if options.tool_choice:
                request["tool_choice"] = {"type": _CHOICES[choice]}
        if call.card.reasoning and choice != "required":
            request |= thinking_arguments(model, options.thinking, max_tokens)
            if model.startswith(_BOUND) and is_official(call.endpoint) and "display" in request["thinking"]:
                request["thinking"]["block_binding"] = _BINDING
        if "thinking" not in request and takes_sampling(model):
            request |= call.sampling_arguments()
        return request

    def open(self, client: Send, request: SdkArguments) -> AbstractAsyncContextManager[Events]:
        """Stream one message."""
        return client(request)

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        return _Reader(assembly_of(call))

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return Anthropic's report in *error*."""
        if not isinstance(error, RefusedRequestError):
            return None
        found = error.body.get("error") if isinstance(error.body, dict) else None
        found = found if isinstance(found, dict) else {}
        whole = error.message if error.body in (error.message, "") else f"{error.message} - {error.body}"
        message, code = str(found.get("message") or whole), str(found.get("type") or "api_error")
        return ProviderFailure(message, error.status, code=code, headers=error.headers)


def is_official(endpoint: Endpoint) -> bool:
    """Whether *endpoint* is Anthropic itself."""
    return endpoint.base_url is None or endpoint.base_url.startswith(_OFFICIAL_ADDRESS)


def find_credentials(endpoint: Endpoint) -> AsyncAnthropic | None:
    """Return the SDK's client with the user's credentials for Anthropic, None where it finds none.

    It would send them to any address.
    """
    # Imported here, in the thread that connects: it takes more than a second.
    from anthropic import AsyncAnthropic, CredentialsError, DefaultAsyncHttpxClient, Timeout

    try:
        client = AsyncAnthropic(
            base_url=endpoint.base_url,
            max_retries=0,
            default_headers={"anthropic-beta": _BINDING_BETA} if is_official(endpoint) else None,
            timeout=Timeout(endpoint.idle_timeout_s, connect=CONNECT_S),
            http_client=DefaultAsyncHttpxClient(mounts=direct_mounts(endpoint.base_url)),
        )
    except CredentialsError:
        return None
    return client if client.api_key or client.auth_token or client.credentials else None


@asynccontextmanager
async def stream_by_sdk(client: AsyncAnthropic, request: SdkArguments) -> AsyncIterator[Events]:
    """Send *request*, signed by the SDK, and stream the events of the answer; raises as a :data:`Send`."""
    from anthropic import APIConnectionError, APIStatusError, CredentialsError
    from httpx2 import Response

    # Not by the SDK's own method, which would walk through the whole request.
    content = msgspec.json.encode(request)
    try:
        response = await client.post(_PATH, content=content, cast_to=Response, stream=True)
    except APIStatusError as error:
        raise refusal_in(error.response) from None
    except APIConnectionError as error:
        raise error.__cause__ or error from None
    except CredentialsError as error:
        raise ReportedFailureError(ProviderFailure(str(error), code="authentication_error")) from None
    try:
        yield EventBody(response).events()
    finally:
        await response.aclose()


class _Reader:
    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.is_complete = False
        self._open: dict[int, dict[str, Any]] = {}
        """The blocks that came with parts in their start, as proxies send them, by their index."""

    def read(self, chunk: dict[str, Any]) -> Emissions:
        # Any member may be missing. Events of kinds that come later are not needed.
        index, kind = chunk.get("index", 0), chunk.get("type")
        match kind:
            case "content_block_start":
                return self._start(index, chunk.get("content_block") or {})
            case "content_block_delta":
                return self.add_delta(index, chunk.get("delta") or {})
            case "content_block_stop":
                return self._stop(index)
            case "message_start":
                self._update_usage((chunk.get("message") or {}).get("usage") or {})
            case "message_delta":
                self._update_usage(chunk.get("usage") or {})
                if reason := (chunk.get("delta") or {}).get("stop_reason"):
                    return self._end(reason)
            case _ if kind in ("message_stop", END_MARK):
                self.is_complete = True
            case "message":
                # A whole answer instead of a stream.
                blocks = enumerate(chunk.get("content") or ())
                emissions = [
                    each for at, block in blocks for each in (*self._start(at, block), *self._stop(at))
                ]
                self._update_usage(chunk.get("usage") or {})
                return [*emissions, *self._end(chunk.get("stop_reason") or "end_turn")]
        return ()

    def _start(self, index: int, block: dict[str, Any]) -> Emissions:
        assembly = self.assembly
        self._open[index] = block
        match block.get("type"):
            case "text":
                return assembly.add_text(block.get("text"))
            case "thinking":
                assembly.open_thinking()
                return assembly.add_thinking(block.get("thinking"))
            case "redacted_thinking":
                assembly.open_thinking()
                assembly.sign(f"{REDACTED_MARK}{block.get('data', '')}")
            case "tool_use":
                return assembly.open_call(index, block.get("id"), block.get("name"))
        return ()

    def add_delta(self, index: int, delta: dict[str, Any]) -> Emissions:
        """Add a piece of a block; its members say its kind, since some servers leave out its type."""
        if signature := delta.get("signature"):
            self._open.get(index, {}).pop("signature", None)
            self.assembly.sign(signature)
        return (
            *self.assembly.add_text(delta.get("text")),
            *self.assembly.add_thinking(delta.get("thinking")),
            *self.assembly.add_arguments(index, delta.get("partial_json")),
        )

    def _stop(self, index: int) -> Emissions:
        """Add the parts that came with the start of a block and with none of its deltas."""
        block = self._open.pop(index, {})
        if block.get("type") == "thinking" and (signature := block.get("signature")):
            self.assembly.sign(signature)
        if block.get("type") != "tool_use" or not block.get("input") or self.assembly.has_arguments(index):
            return ()
        return self.assembly.add_arguments(index, json_text(block["input"]))

    def _end(self, reason: str) -> Emissions:
        """Take the reason for the end; the answer is whole with it, whether or not its last event comes."""
        emissions = [emission for index in tuple(self._open) for emission in self._stop(index)]
        if reason == _OVERFLOW:
            message = "the conversation and its answer are longer than the context window"
            raise ReportedFailureError(ProviderFailure(message, code=_OVERFLOW))
        self.is_complete = True
        self.assembly.stop = _STOPS.get(reason, "complete")
        return emissions

    def _update_usage(self, usage: Mapping[str, Any]) -> None:
        """Replace the figures that *usage* has; they are totals, not additions."""
        known = self.assembly.usage or Usage(0, 0)
        self.assembly.usage = Usage(
            token_count(usage.get("input_tokens")) or known.input_tokens,
            token_count(usage.get("output_tokens")) or known.output_tokens,
            token_count(usage.get("cache_read_input_tokens")) or known.cache_read_tokens,
            token_count(usage.get("cache_creation_input_tokens")) or known.cache_write_tokens,
        )


def anthropic_messages(
    turns: Sequence[Turn], memo: TurnMemo[list[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Yield messages of alternating roles, a user message with its tool results first.

    *memo* has the content of the turns of earlier calls.
    """

    def write(at: int) -> list[dict[str, Any]]:
        return [part for block in turns[at].blocks if (part := content_part(block)) is not None]

    for role, content in join_roles(turns, memo.write(turns, write)):
        while role == "assistant" and content and "thinking" in content[-1]["type"]:
            # An answer that was stopped while it thought cannot be sent with that at its end.
            content = content[:-1]
        if role == "user" and len(content) > 1:
            content = sorted(content, key=lambda part: part["type"] != "tool_result")
        if content:
            yield {"role": role, "content": content}


def content_part(block: Block) -> dict[str, Any] | None:
    """Return *block* as a content block of Anthropic's, None for one that models never see."""
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ThinkingBlock(text=text, signature=str() as signature):
            encrypted = without_mark(signature, REDACTED_MARK)
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


def thinking_arguments(model: str, level: ThinkingLevel | None, max_tokens: int) -> dict[str, Any]:
    """Return the part of a request that sets how far *model* thinks.

    Args:
        model: its name at Anthropic.
        level: how far it is to think; None for as far as it does by itself.
        max_tokens: the limit of the whole answer, which a budget must leave room in.

    >>> thinking_arguments("claude-opus-4-6", "max", 8_000)["output_config"]
    {'effort': 'max'}
    >>> thinking_arguments("claude-sonnet-4-5", "low", 8_000)["thinking"]["budget_tokens"]
    2048
    >>> thinking_arguments("claude-sonnet-4-5", "off", 8_000)
    {}
    """
    if model.startswith(_BUDGETED) or model in _UNVERSIONED:
        budget = min(_BUDGETS.get(level or "off", 0), max_tokens * 5 // 8)
        if budget < _LEAST_BUDGET:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    if level is None and (model.startswith(_THINKS_IF_ASKED) or not model.startswith("claude-")):
        return {}
    if level == "off" and not model.startswith(_THINKS_ALWAYS):
        return {"thinking": {"type": "between_tools" if model.startswith(_BETWEEN_TOOLS) else "disabled"}}
    thinking = {"thinking": {"type": "adaptive", "display": "summarized"}}
    return (
        thinking
        if level is None
        else thinking | {"output_config": {"effort": level if level != "off" else "low"}}
    )


def takes_sampling(model: str) -> bool:
    """Whether *model* takes a temperature.

    >>> takes_sampling("claude-sonnet-4-5"), takes_sampling("claude-opus-5")
    (True, False)
    """
    return model.startswith(_SAMPLES) or model in _UNVERSIONED
