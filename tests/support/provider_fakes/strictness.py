"""What providers refuse, as far as it is known of them: the rules that a request must keep. Pure.

A fake that takes anything proves nothing. These are the refusals that end conversations for good: calls
without results, empty messages, roles out of turn, reasoning without its proof.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sidecar.llmgateway.contract import ApiKind
from sidecar.llmgateway.names import ANTHROPIC, GOOGLE, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES

_Json: TypeAlias = Mapping[str, Any]

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_NAME_CHARS: Final = 64
_MAX_CACHE_MARKS: Final = 4
_CHAT_ID_CHARS: Final = 40
_ID_CHARS: Final = 64
_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def objection(api: ApiKind, body: _Json) -> str | None:
    """Return why the provider behind *api* would refuse the request *body*, or None.

    >>> objection("openai-chat", {"messages": []})
    'there is no message'
    """
    return next(_RULES[api](body), None)


def _messages_format(body: _Json) -> Iterator[str]:
    messages = body["messages"]
    yield from _turns([message["role"] for message in messages], first="user", model="assistant")
    if messages and messages[-1]["role"] == "assistant":
        yield "the conversation must end with a user message"
    for message in messages:
        yield from _content(message)
    for message, after in pairwise([*messages, {"role": "user", "content": []}]):
        calls = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
        head = after["content"][: len(calls)]
        yield from _answered(calls, [part.get("tool_use_id", "") for part in head], _ID_CHARS)
        if any(part["type"] == "tool_result" for part in after["content"][len(calls) :]):
            yield "tool_result without its tool_use, or not at the beginning"
    if str(body).count("'cache_control'") > _MAX_CACHE_MARKS:
        yield f"more than {_MAX_CACHE_MARKS} blocks with cache_control"
    budget = body.get("thinking", {}).get("budget_tokens", 0)
    if budget >= body["max_tokens"]:
        yield "max_tokens must be greater than thinking.budget_tokens"


def _content(message: _Json) -> Iterator[str]:
    """Yield what is wrong with one message of Anthropic's format."""
    if not message["content"]:
        yield "content must not be empty"
    for part in message["content"]:
        match part:
            case {"type": "text", "text": text} if not text.strip():
                yield "text content blocks must contain non-whitespace text"
            case {"type": "thinking"} if not part.get("signature"):
                yield "thinking without its signature"
            case {"type": "tool_use", "name": name, "input": value}:
                yield from _call(name, value, longest=128)
            case {"type": "image", "source": source} if source["media_type"] not in _IMAGE_TYPES:
                yield f"no image of type {source['media_type']}"
    if message["role"] == "assistant" and "thinking" in message["content"][-1]["type"]:
        yield "the final block in an assistant message cannot be thinking"


def _chat_format(body: _Json) -> Iterator[str]:
    messages = [message for message in body["messages"] if message["role"] != "system"]
    if not messages:
        yield "there is no message"
    waiting: list[str] = []
    for message in messages:
        match message:
            case {"role": "tool", "tool_call_id": call_id}:
                if call_id not in waiting:
                    yield "messages with role 'tool' must follow a message with tool_calls"
                waiting = [each for each in waiting if each != call_id]
                continue
            case {"role": "user", "content": content} if not content:
                yield "a user message must say something"
            case {"role": "assistant"} if not message.get("content") and not message.get("tool_calls"):
                yield "an assistant message must have content or tool_calls"
        if waiting:
            yield f"tool_call_ids without an answer: {waiting}"
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        yield from _ids(waiting, _CHAT_ID_CHARS)
        for call in calls:
            yield from _call(call["function"]["name"], json.loads(call["function"]["arguments"]))
    if waiting:
        yield f"tool_call_ids without an answer: {waiting}"


def _ollama_format(body: _Json) -> Iterator[str]:
    roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
    if not roles:
        yield "there is no message"
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            yield from _call(call["function"]["name"], call["function"]["arguments"])
        if message["role"] == "tool" and "tool_name" not in message:
            yield "a result without the name of its tool"


def _responses_format(body: _Json) -> Iterator[str]:
    items = body["input"]
    if not items:
        yield "there is no input"
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    yield from _ids(called, _ID_CHARS)
    waiting: set[str] = set()
    for item, after in pairwise([*items, {}]):
        match item:
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
                waiting.add(call_id)
                yield from _call(name, json.loads(arguments))
            case {"type": "function_call_output", "call_id": call_id}:
                if call_id not in waiting:
                    yield f"no tool call found for function call output {call_id}"
                waiting.discard(call_id)
            case {"type": "reasoning"} if after.get("type") not in ("function_call", "reasoning") and (
                after.get("role") != "assistant"
            ):
                yield "a reasoning item without the item that followed it"
            case {"role": _, "content": content} if not content:
                yield "a message must say something"
    if waiting:
        yield f"no tool output found for function calls {sorted(waiting)}"


def _generate_format(body: _Json) -> Iterator[str]:
    contents = body["contents"]
    yield from _turns([content["role"] for content in contents], first="user", model="model")
    for content, after in pairwise([*contents, {"role": "user", "parts": []}]):
        parts = content["parts"]
        if not parts:
            yield "contents.parts must not be empty"
        if any(part.get("text") == "" and "thoughtSignature" not in part for part in parts):
            yield "a part must have one initialized field"
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in after["parts"] if "functionResponse" in part]
        if [call["name"] for call in calls] != [answer["name"] for answer in answers]:
            yield "the number of function response parts must equal that of function call parts"
        yield from _answered([call["id"] for call in calls], [each["id"] for each in answers], _ID_CHARS)
        for call in calls:
            yield from _call(call["name"], call.get("args", {}))


def _turns(roles: Sequence[str], *, first: str, model: str) -> Iterator[str]:
    if not roles:
        yield "there is no message"
    elif roles[0] != first:
        yield f"the first message must be the {first}'s"
    if any(one == other for one, other in pairwise(roles)):
        yield "roles must alternate"
    if not {*roles} <= {first, model}:
        yield "a role that is not known"


def _answered(calls: Sequence[str], answers: Sequence[str], id_chars: int) -> Iterator[str]:
    yield from _ids(calls, id_chars)
    if sorted(calls) != sorted(answers):
        yield f"calls {calls} are answered by {answers}"


def _ids(ids: Sequence[str], longest: int) -> Iterator[str]:
    if len(set(ids)) != len(ids):
        yield "two calls with one id"
    if any(not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{longest}}}", each) for each in ids):
        yield f"ids must be of 1 to {longest} letters, digits, _ and -"


def _call(name: str, value: Any, longest: int = _NAME_CHARS) -> Iterator[str]:
    if len(name) > longest or not _NAME.fullmatch(name):
        yield f"no function may be called {name!r}"
    if not isinstance(value, dict):
        yield "arguments must be an object"


_RULES: Final[Mapping[ApiKind, Callable[[_Json], Iterator[str]]]] = MappingProxyType(
    {
        ANTHROPIC: _messages_format,
        OPENAI_CHAT: _chat_format,
        OPENAI_RESPONSES: _responses_format,
        GOOGLE: _generate_format,
        OLLAMA: _ollama_format,
    }
)
