"""OpenAI's chat format, the one that most other servers speak as well; over the ``openai`` SDK.

Reasoning goes back only to the server that sent it, in the field in which it came, and only until the prompt
that it belongs to is answered.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Emission,
    ImageBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.providers import openai_sdk
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall, SdkArguments, SdkClient
from sidecar.llmgateway.providers.assembly import Assembly, Emissions, MalformedAnswerError
from sidecar.llmgateway.providers.body import ReportedFailureError
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import CHAT_MARK, encodable, json_text, usage_of, without_mark
from sidecar.llmgateway.providers.markup import MarkedCall, MarkupReader, Piece, Prose
from sidecar.llmgateway.providers.sanitize import TurnMemo, WireRules
from sidecar.llmgateway.providers.windows import is_local

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
_IN_CONTENT: Final = f"{CHAT_MARK}content"
"""The signature of reasoning that came as parts of the content, as Mistral's models stream it."""

_IN_TEXT: Final = f"{CHAT_MARK}text"
"""The signature of reasoning that stood in the text; it does not go back, as its template says."""
_KEEPS_REASONING: Final = re.compile(r"(?:^|[/.-])(?:kimi|glm|minimax)", re.IGNORECASE)
_OVERFLOW: Final = "model_context_window_exceeded"

_CHARS_PER_TOKEN: Final = 3
"""Fewer than in most texts, so that the room is not overestimated."""
_LEAST_ANSWER: Final = 4_096

_STOPS: Final[dict[str, StopReason]] = {
    "stop": "complete",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "max_output",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True)
class EndMark:
    """The mark at the end of a stream."""


class OpenAIChat:
    """The adapter."""

    rules = WireRules(takes_signature=lambda signature: signature.startswith(CHAT_MARK), max_id_chars=40)

    def connect(self, endpoint: Endpoint) -> SdkClient[AsyncOpenAI]:
        """Return the SDK's client."""
        return openai_sdk.connect(endpoint)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of ``chat.completions.create``."""
        conversation, options = call.conversation, call.options
        request: SdkArguments = {
            "model": call.card.wire_id,
            "messages": list(
                chat_messages(
                    conversation.system,
                    conversation.turns,
                    keeps_reasoning=_KEEPS_REASONING.search(call.card.wire_id) is not None,
                    memo=call.memo,
                )
            ),
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
        # Other servers know only the older of the two names.
        if openai_sdk.is_official(call.endpoint):
            limit = {"max_completion_tokens": options.max_output_tokens}
        else:
            limit = {"max_tokens": options.max_output_tokens or longest_answer(call, request)}
        request |= {name: tokens for name, tokens in limit.items() if tokens}
        request |= call.sampling_arguments()
        if options.thinking and call.card.reasoning:
            request["reasoning_effort"] = openai_sdk.effort_of(call.card.wire_id, options.thinking)
        return request

    @asynccontextmanager
    async def open(
        self, client: AsyncOpenAI, request: SdkArguments
    ) -> AsyncIterator[AsyncIterator[dict[str, Any] | EndMark]]:
        """Stream one completion; the mark at its end is the last chunk."""
        async with openai_sdk.post(client, "/chat/completions", request) as body:

            async def chunks() -> AsyncIterator[dict[str, Any] | EndMark]:
                async for chunk in body.events():
                    yield chunk
                if body.has_end_mark:
                    yield EndMark()

            yield chunks()

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        endpoint, tools = call.endpoint, call.conversation.tools or ()
        has_marks = is_local(endpoint.base_url) or not endpoint.provider.needs_key
        return _Reader(MarkupReader([tool.name for tool in tools]) if has_marks else None)

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the server's report in *error*."""
        return openai_sdk.failure_of(error)


def longest_answer(call: ModelCall, request: SdkArguments) -> int | None:
    """Return the limit of the answer to *request*; None leaves it to the server.

    Hosted services cut an answer off at defaults of their own, some at 1,024 tokens. They refuse a limit that
    leaves no room for the conversation. Local servers answer until the window is full.
    """
    card = call.card
    if not call.endpoint.provider.needs_key or not card.max_output_tokens:
        return None
    n_chars = len(msgspec.json.encode([request["messages"], request.get("tools")]))
    room = card.context_window - n_chars // _CHARS_PER_TOKEN
    return min(card.max_output_tokens, max(room, _LEAST_ANSWER))


class _Reader:
    def __init__(self, markup: MarkupReader | None) -> None:
        """*markup* reads the text of servers that may not know the template of their model."""
        self.assembly = Assembly()
        self.is_complete = False
        self._markup = markup
        self._open: dict[int, tuple[int, str]] = {}

    def read(self, chunk: dict[str, Any] | EndMark) -> Emissions:
        if isinstance(chunk, EndMark):
            # Some servers give no reason for the end.
            self.is_complete = True
            return self._end_text()
        if (usage := chunk.get("usage")) is not None:
            details = usage.get("prompt_tokens_details") or {}
            self.assembly.usage = usage_of(
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                cache_read=details.get("cached_tokens"),
                cache_write=details.get("cache_write_tokens"),
            )
        choices = chunk.get("choices")
        if not choices:
            return ()
        choice = choices[0]
        # A field that the format calls required may be missing.
        delta = choice.get("delta")
        emissions = list(self._delta(delta)) if delta is not None else []
        reason = choice.get("finish_reason")
        if reason == _OVERFLOW:
            message = "the conversation is longer than the context window"
            raise ReportedFailureError(ProviderFailure(message, code=_OVERFLOW))
        if reason:
            emissions += self._end_text()
            self.is_complete = True
            if self.assembly.stop != "refusal":
                self.assembly.stop = _STOPS.get(reason, "complete")
        return emissions

    def _delta(self, delta: dict[str, Any]) -> Iterator[Emission]:
        assembly = self.assembly
        for field in _REASONING_FIELDS:
            if isinstance(delta.get(field), str) and delta[field]:
                yield from assembly.add_thinking(delta[field], f"{CHAT_MARK}{field}")
                break
        if content := delta.get("content"):
            markup = self._markup
            if markup is not None and isinstance(content, str):
                yield from self._add_pieces(markup.read(content))
            else:
                yield from self._content(content, assembly.add_text)
        if refusal := delta.get("refusal"):
            assembly.stop = "refusal"
            yield from assembly.add_text(refusal)
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            name = function.get("name")
            index, call_id = call.get("index") or 0, call.get("id") or ""
            key = self._open.get(index)
            if key is None or (name and call_id not in ("", key[1])):
                # Some servers number all parallel calls 0: another id with a name is another call.
                key = self._open[index] = (index, call_id)
            yield from assembly.open_call(key, key[1], name)
            arguments: object = function.get("arguments")
            # Some servers send the object that others send as its text.
            yield from assembly.add_arguments(
                key, json_text(arguments) if isinstance(arguments, dict) else arguments
            )

    def _end_text(self) -> list[Emission]:
        """Return the emissions of text that was held back; none the second time."""
        return self._add_pieces(self._markup.finish()) if self._markup is not None else []

    def _add_pieces(self, pieces: Iterable[Piece]) -> list[Emission]:
        emissions: list[Emission] = []
        for piece in pieces:
            match piece:
                case Prose(text=text, is_thinking=True):
                    emissions += self.assembly.add_thinking(text, _IN_TEXT)
                case Prose(text=text):
                    emissions += self.assembly.add_text(text)
                case MarkedCall(name=name, arguments=arguments):
                    key = piece, len(self._open)
                    self._open[-1 - len(self._open)] = (0, "")
                    emissions += self.assembly.open_call(key, None, name)
                    emissions += self.assembly.add_arguments(key, arguments)
        return emissions

    def _content(self, content: object, add: Callable[[object], Emissions]) -> Iterator[Emission]:
        """Add *content* by *add*: text, or a list of parts with thinking among them, as Mistral sends it."""
        if not isinstance(content, list):
            yield from add(content)
            return
        for part in content:
            match part:
                case {"type": "text", "text": text}:
                    yield from add(text)
                case {"type": "thinking", "thinking": thinking}:
                    yield from self._content(
                        thinking, partial(self.assembly.add_thinking, signature=_IN_CONTENT)
                    )
                case {"type": "reference"}:
                    continue
                case _:
                    raise MalformedAnswerError("a part of the content is of no known type")


def chat_messages(
    system: str | None, turns: Sequence[Turn], *, keeps_reasoning: bool = False, memo: TurnMemo
) -> Iterator[dict[str, Any]]:
    """Yield the messages of a conversation, with reasoning only after the newest prompt.

    Args:
        system: the system prompt, if there is one.
        turns: the conversation.
        keeps_reasoning: earlier reasoning goes back as well: some models are trained to see it.
        memo: has the messages of earlier calls.
    """
    if system:
        yield {"role": "system", "content": encodable(system)}
    newest_prompt = len(turns) - 1
    while newest_prompt > 0 and not isinstance(turns[newest_prompt], UserTurn):
        newest_prompt -= 1
    for index, turn in enumerate(turns):
        reasons = keeps_reasoning or index > newest_prompt
        yield from memo.get(turn, reasons, partial(turn_messages, turn, with_reasoning=reasons))


def turn_messages(turn: Turn, *, with_reasoning: bool) -> list[dict[str, Any]]:
    """Return the messages of one turn: of a tool's, one for each result."""
    match turn:
        case UserTurn(blocks=blocks):
            return [{"role": "user", "content": user_content(blocks)}]
        case AssistantTurn(blocks=blocks):
            return [assistant_message(blocks, with_reasoning=with_reasoning)]
    messages: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": block.call_id, "content": json_text(block.output)}
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
    ]
    # Everything else that a tool returned, such as images, follows as the user's.
    shown = [block for block in turn.blocks if not isinstance(block, ToolResultBlock)]
    return [*messages, {"role": "user", "content": user_content(shown)}] if shown else messages


def user_content(blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
    """Return text blocks alone as plain text: small servers take nothing else."""
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    if len(texts) == len(blocks):
        return "\n\n".join(texts)
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                parts.append({"type": "text", "text": text})
            case ImageBlock(media_type=media_type, data_base64=data):
                url = f"data:{media_type};base64,{data}"
                parts.append({"type": "image_url", "image_url": {"url": url}})
            case _:
                continue
    return parts


def assistant_message(blocks: Sequence[Block], *, with_reasoning: bool) -> dict[str, Any]:
    """Return one answer of the model as a message, with its reasoning where that goes back."""
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
    for block in blocks:
        if not isinstance(block, ThinkingBlock) or not with_reasoning:
            continue
        field = without_mark(block.signature, CHAT_MARK)
        if field in _REASONING_FIELDS:
            message[field] = message.get(field, "") + block.text
        elif block.signature == _IN_CONTENT:
            parts.append({"type": "thinking", "thinking": [{"type": "text", "text": block.text}]})
    if parts:
        message["content"] = [*parts, {"type": "text", "text": text}] if text else parts
    return message
