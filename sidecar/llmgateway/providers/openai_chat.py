"""OpenAI's chat format, the one that most other servers speak as well; over HTTP.

Where a service departs from it is a row of ``quirks``.

Reasoning goes back in its own field, in each later request. A request that left it out later would begin
otherwise than the one before it, and the service would read the whole conversation anew. The template of a
model leaves it out where the model is not to see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from hashlib import sha256
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
    join_texts,
)
from sidecar.llmgateway.providers.adapter import ModelCall, SdkArguments
from sidecar.llmgateway.providers.assembly import Assembly, Emissions, MalformedAnswerError
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import (
    CHAT_MARK,
    TurnMemo,
    function_tools,
    json_text,
    reported_cost,
    token_count,
    usage_of,
    without_mark,
)
from sidecar.llmgateway.providers.http_calls import END_MARK, Events, ReportedFailureError, stream_events
from sidecar.llmgateway.providers.markup import assembly_of
from sidecar.llmgateway.providers.openai_http import OpenAIService, cache_key, effort_of, is_official
from sidecar.llmgateway.providers.quirks import ChatDialect, dialect_of
from sidecar.llmgateway.providers.sanitize import WireRules

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_BROKEN: Final = "server_error"
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

REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
IN_CONTENT: Final = f"{CHAT_MARK}content"
"""The signature of reasoning that came as parts of the content, as Mistral's models stream it."""

DETAILS: Final = f"{CHAT_MARK}details:"
"""Before the reasoning details of an answer and the model that gave them, as JSON."""

_REASONING_MEMBERS: Final = frozenset({*REASONING_FIELDS, "reasoning_details"})
_NO_REASONING: Final = " "
"""In the place of reasoning that is not there; an empty text counts as none."""

_BRIDGE: Final = {"role": "assistant", "content": "OK."}
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]+")


class OpenAIChat(OpenAIService):
    """The adapter."""

    rules = WireRules(takes_signature=lambda signature: signature.startswith(CHAT_MARK), max_id_chars=40)

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of ``chat.completions.create``."""
        conversation, options, model = call.conversation, call.options, call.card.wire_id
        dialect = dialect_of(call.endpoint.base_url, call.endpoint.provider.id, model)
        messages = MessageWriter(dialect, model, call.memo)
        request: SdkArguments = {
            "model": model,
            "messages": list(messages.write(conversation.system, conversation.turns)),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if conversation.tools:
            request["tools"] = function_tools(conversation.tools)
            choice = options.tool_choice
            named = dialect.tool_choices.get(choice, choice) if choice else None
            request |= {"tool_choice": named} if named else {}
        # Other servers know only the older of the two names, and no key for a cache.
        if is_official(call.endpoint):
            limit = {"max_completion_tokens": options.max_output_tokens}
            request["prompt_cache_key"] = cache_key(conversation)
        else:
            n_bytes = messages.n_bytes + len(msgspec.json.encode(request.get("tools")))
            limit = {"max_tokens": options.max_output_tokens or longest_answer(call, n_bytes)}
        request |= {name: tokens for name, tokens in limit.items() if tokens}
        request |= call.sampling_arguments()
        if options.thinking and call.card.reasoning:
            own = {"reasoning_effort": effort_of(model, options.thinking)}
            request |= own if dialect.efforts is None else dialect.efforts.get(options.thinking, {})
        request |= dialect.members
        return {name: value for name, value in request.items() if name not in dialect.omits}

    def open(self, client: AsyncClient, request: SdkArguments) -> AbstractAsyncContextManager[Events]:
        """Stream one completion."""
        return stream_events(client, "/chat/completions", request)

    def reader(self, call: ModelCall) -> _Reader:
        """Return a reader for the stream of *call*."""
        endpoint, model = call.endpoint, call.card.wire_id
        dialect = dialect_of(endpoint.base_url, endpoint.provider.id, model)
        return _Reader(dialect, model, assembly_of(call, has_markup=dialect.has_markup))


def longest_answer(call: ModelCall, n_bytes: int) -> int | None:
    """Return the limit of the answer to a request of *n_bytes*; None leaves it to the server.

    Hosted services cut an answer off at defaults of their own, some at 1,024 tokens. They refuse a limit that
    leaves no room for the conversation. Local servers answer until the window is full.
    """
    card, endpoint = call.card, call.endpoint
    is_hosted = endpoint.provider.needs_key or endpoint.key is not None
    if not is_hosted or not card.max_output_tokens:
        return None
    room = card.context_window - n_bytes // _CHARS_PER_TOKEN
    return min(card.max_output_tokens, max(room, _LEAST_ANSWER))


class _Reader:
    def __init__(self, dialect: ChatDialect, model: str, assembly: Assembly) -> None:
        self.assembly = assembly
        self.is_complete = False
        self._dialect = dialect
        self._model = model
        self._has_deltas = False
        self._open: dict[int, tuple[int, str]] = {}
        self._details: list[dict[str, Any]] = []

    def read(self, chunk: dict[str, Any]) -> Emissions:
        if chunk.get("type") == END_MARK:
            # Some servers give no reason for the end.
            self.is_complete = True
            return ()
        self.count_usage(chunk)
        choices = chunk.get("choices")
        if not choices:
            return ()
        # A field that the format calls required may be missing.
        choice = choices[0] or {}
        delta = choice.get("delta")
        if delta is None and not self._has_deltas:
            delta = choice.get("message")  # a whole answer instead of a stream
        self._has_deltas = self._has_deltas or delta is not None
        emissions = list(self._delta(delta)) if delta is not None else []
        reason = choice.get("finish_reason")
        if reason == _OVERFLOW:
            message = "the conversation is longer than the context window"
            raise ReportedFailureError(ProviderFailure(message, code=_OVERFLOW))
        if reason in self._dialect.breaks:
            raise ReportedFailureError(ProviderFailure(f"its answer ended with {reason}", code=_BROKEN))
        if reason:
            self.is_complete = True
            if self._details:
                proof = {"model": self._model, "details": self._details}
                self.assembly.sign_answer(f"{DETAILS}{json.dumps(proof)}")
            if self.assembly.stop != "refusal":
                self.assembly.stop = self._dialect.stops.get(reason) or _STOPS.get(reason, "complete")
        return emissions

    def count_usage(self, chunk: dict[str, Any]) -> None:
        """Take the usage in *chunk*, if it has any."""
        usage: Any = chunk.get("usage")
        if usage is None and self._dialect.usage_at:
            usage = chunk
            for step in self._dialect.usage_at:
                found = usage[step : step + 1] if isinstance(step, int) else [usage.get(step)]
                usage = found[0] if found and found[0] is not None else {}
                if not usage:
                    return
        if usage is None:
            return
        details = usage.get("prompt_tokens_details") or {}
        reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
        apart = token_count(reasoning) if self._dialect.counts_apart else 0
        own = usage.get(self._dialect.cached_at) if self._dialect.cached_at else None
        self.assembly.usage = usage_of(
            usage.get("prompt_tokens"),
            token_count(usage.get("completion_tokens")) + apart,
            cache_read=details.get("cached_tokens") or own,
            cache_write=details.get("cache_write_tokens"),
            reasoning=reasoning,
            cost=reported_cost(usage, self._dialect.cost_at) if self._dialect.cost_at else None,
        )

    def _delta(self, delta: dict[str, Any]) -> Iterator[Emission]:
        assembly = self.assembly
        for field in REASONING_FIELDS:
            if isinstance(delta.get(field), str) and delta[field]:
                yield from assembly.add_thinking(delta[field], f"{CHAT_MARK}{field}")
                break
        if self._dialect.keeps_details:
            add_details(self._details, delta.get("reasoning_details"))
        if content := delta.get("content"):
            yield from self._content(content, assembly.add_text)
        if refusal := delta.get("refusal"):
            assembly.stop = "refusal"
            yield from assembly.add_text(refusal)
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            name = function.get("name")
            index, call_id = call.get("index") or 0, call.get("id") or ""
            key = self._open.get(index)
            if key is None and not function:
                continue
            if key is None or (name and call_id not in ("", key[1])):
                # Some servers number all parallel calls 0: another id with a name is another call.
                key = self._open[index] = (index, call_id)
            yield from assembly.open_call(key, key[1], name)
            arguments: object = function.get("arguments")
            # Some servers send the object that others send as its text.
            yield from assembly.add_arguments(
                key, json_text(arguments) if isinstance(arguments, dict) else arguments
            )

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
                        thinking, partial(self.assembly.add_thinking, signature=IN_CONTENT)
                    )
                case {"type": "reference"}:
                    continue
                case _:
                    raise MalformedAnswerError("a part of the content is of no known type")


def add_details(details: list[dict[str, Any]], pieces: object) -> None:
    """Add the *pieces* of one chunk to the reasoning *details* of an answer.

    A detail streams in pieces with the same type and index; they go back as one.

    >>> details = [{"type": "reasoning.text", "text": "a", "index": 0}]
    >>> add_details(details, [{"type": "reasoning.text", "text": "b", "signature": "s", "index": 0}])
    >>> details
    [{'type': 'reasoning.text', 'text': 'ab', 'index': 0, 'signature': 's'}]
    """
    for piece in pieces if isinstance(pieces, list) else ():
        if not isinstance(piece, dict):
            raise MalformedAnswerError("a detail of the reasoning is not an object")
        last = details[-1] if details else None
        is_more = last is not None and all(last.get(name) == piece.get(name) for name in ("type", "index"))
        if last is None or not is_more or "index" not in piece:
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            joins = name in ("text", "summary", "data") and isinstance(last.get(name), str)
            if value is not None:
                last[name] = last[name] + value if joins and isinstance(value, str) else value


class MessageWriter:
    """Writes conversations as messages of *dialect* for *model*; *memo* has the messages of earlier calls.

    Attributes:
        n_bytes: the length of the messages as JSON, once the last one is written.
    """

    def __init__(
        self, dialect: ChatDialect, model: str, memo: TurnMemo[tuple[list[dict[str, Any]], int]]
    ) -> None:
        self.n_bytes = 0
        self._dialect = dialect
        self._model = model
        self._memo = memo

    def write(self, system: str | None, turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
        """Yield the *system* prompt as a message if there is one, then the messages of *turns*."""
        head = [{"role": "system", "content": system}] if system else []
        yield from head

        def write_turn(at: int) -> tuple[list[dict[str, Any]], int]:
            messages = self.turn_messages(turns[at])
            return messages, len(msgspec.json.encode(messages))

        role, written = "", self._memo.write(turns, write_turn)
        self.n_bytes = len(msgspec.json.encode(head)) + sum(n_bytes for _, n_bytes in written)
        for messages, _ in written:
            for message in messages:
                if self._dialect.answers_tools and (role, message["role"]) == ("tool", "user"):
                    yield _BRIDGE
                role = message["role"]
                yield message

    def turn_messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Return the messages of one turn: of a tool's, one for each result."""
        match turn:
            case UserTurn(blocks=blocks):
                return [{"role": "user", "content": user_content(blocks)}]
            case AssistantTurn(blocks=blocks):
                return [self.answer_message(blocks)]
        messages: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": self._call_id(block.call_id), "content": json_text(block.output)}
            for block in turn.blocks
            if isinstance(block, ToolResultBlock)
        ]
        # Everything else that a tool returned, such as images, follows as the user's.
        shown = [block for block in turn.blocks if not isinstance(block, ToolResultBlock)]
        return [*messages, {"role": "user", "content": user_content(shown)}] if shown else messages

    def answer_message(self, blocks: Sequence[Block]) -> dict[str, Any]:
        """Return one answer of the model as a message, with its reasoning as the service takes it back."""
        text = join_texts(blocks)
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        calls = [
            {
                "id": self._call_id(block.id),
                "type": "function",
                "function": {"name": block.name, "arguments": json_text(block.input)},
            }
            for block in blocks
            if isinstance(block, ToolCallBlock)
        ]
        if calls:
            message["tool_calls"] = calls
        parts: list[dict[str, Any]] = []
        for thought in (block for block in blocks if isinstance(block, ThinkingBlock)):
            field = without_mark(thought.signature, CHAT_MARK)
            if self._dialect.keeps_details and (details := read_details(thought.signature, self._model)):
                message["reasoning_details"] = details
            elif field in REASONING_FIELDS and self._dialect.writes_back is not None:
                message["content"] = self._dialect.writes_back.format(thought.text) + (
                    message["content"] or ""
                )
            elif field in REASONING_FIELDS and field in self._dialect.takes_back:
                message[field] = message.get(field, "") + thought.text
            elif thought.signature == IN_CONTENT and "content" in self._dialect.takes_back:
                parts.append({"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]})
        if parts:
            message["content"] = [*parts, {"type": "text", "text": text}] if text else parts
        if calls and self._dialect.needs_reasoning and message.keys().isdisjoint(_REASONING_MEMBERS):
            message["reasoning_content"] = _NO_REASONING
        return message

    def _call_id(self, call_id: str) -> str:
        """Return *call_id* in the length that the service takes."""
        length = self._dialect.call_id_chars
        if length is None or (len(call_id) == length and _SHORT_ID.fullmatch(call_id)):
            return call_id
        return sha256(call_id.encode()).hexdigest()[:length]


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


def read_details(signature: str | None, model: str) -> Any:
    """Return the reasoning details in *signature* if *model* gave them, else None.

    >>> read_details('chat:details:{"model": "m", "details": [1]}', "m"), read_details("chat:reasoning", "m")
    ([1], None)
    """
    stored = without_mark(signature, DETAILS)
    try:
        proof = json.loads(stored) if stored is not None else {}
        return proof["details"] if proof.get("model") == model else None
    except (ValueError, AttributeError, KeyError):
        # Not as it was stored here: left out whole.
        return None
