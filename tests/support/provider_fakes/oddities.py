"""Odd answers of servers that speak a format almost: the bytes, and the blocks that stand for them.

The SDKs of the providers check little of a stream, so that servers and proxies which leave out members or
events have passed their authors' tests. Each oddity has a whole answer in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from provider_fakes.http import Cut, Hang
from provider_fakes.scenes import Raw, frame
from sidecar.llmgateway.contract import ApiKind, Block, TextBlock, ThinkingBlock, ToolCallBlock
from sidecar.llmgateway.names import ANTHROPIC, GOOGLE, OLLAMA, OPENAI_CHAT, OPENAI_RESPONSES

HELLO: Final = (TextBlock("Hello"),)
CALL: Final = (ToolCallBlock("c1", "read", {"path": "a"}),)
ARGUMENTS: Final = '{"path": "a"}'


@dataclass(frozen=True, slots=True)
class Oddity:
    """An odd answer in the format *api*, which means *blocks*."""

    api: ApiKind
    name: str
    answer: Raw
    blocks: tuple[Block, ...] = HELLO


def _named(kind: str, data: Mapping[str, Any]) -> bytes:
    """Return an event with its kind in the field ``event`` alone."""
    return frame(data, kind)


def _event(kind: str, **members: Any) -> bytes:
    return frame({"type": kind, **members}, kind)


# Anthropic's messages.

_MESSAGE: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "fake",
    "content": [],
    "stop_reason": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
_START: Final = _event("message_start", message=_MESSAGE)
_STOPPED: Final = _event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
_END: Final = (_STOPPED, _event("message_stop"))
_CLOSE: Final = _event("content_block_stop", index=0)


def _open(**block: Any) -> bytes:
    return _event("content_block_start", index=0, content_block=block)


def _delta(**delta: Any) -> bytes:
    return _event("content_block_delta", index=0, delta=delta)


_TEXT: Final = (_open(type="text", text=""), _delta(type="text_delta", text="Hello"), _CLOSE)
_SIGNED: Final = (ThinkingBlock("hm", "c2ln"), TextBlock("Hello"))
_TOOL: Final = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}

_MESSAGES: Final = (
    (
        "an event without its type",
        (
            _START,
            *_TEXT[:1],
            _named("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Hello"}}),
            _CLOSE,
            *_END,
        ),
    ),
    ("no message in message_start", (_event("message_start"), *_TEXT, *_END)),
    ("no message_start", (*_TEXT, *_END)),
    (
        "no usage in message_start",
        (_event("message_start", message={**_MESSAGE, "usage": None}), *_TEXT, *_END),
    ),
    ("a block of text without text", (_START, _open(type="text"), *_TEXT[1:], *_END)),
    ("a delta without a type", (_START, _TEXT[0], _delta(text="Hello"), _CLOSE, *_END)),
    ("a delta without text", (_START, *_TEXT[:2], _delta(type="text_delta"), _CLOSE, *_END)),
    ("an event without a delta", (_START, _event("content_block_delta", index=0), *_TEXT, *_END)),
    ("a delta of no known type", (_START, *_TEXT[:2], _delta(type="later_delta", later=1), _CLOSE, *_END)),
    ("an event of no known type", (_START, _event("later", later=1), *_TEXT, *_END)),
    (
        "no delta in message_delta",
        (
            _START,
            *_TEXT,
            _STOPPED,
            _event("message_delta", usage={"output_tokens": 2}),
            _event("message_stop"),
        ),
    ),
    ("no content_block_start", (_START, _TEXT[1], *_END)),
    ("no content_block_stop", (_START, *_TEXT[:2], *_END)),
    ("no message_stop", (_START, *_TEXT, _STOPPED)),
    ("a cut after the stop reason", (_START, *_TEXT, _STOPPED, Cut())),
    ("a line that stays open behind the end", (_START, *_TEXT, *_END, Hang())),
    ("a mark of another format behind the end", (_START, *_TEXT, *_END, frame("[DONE]"))),
    ("an event that is null", (_START, frame("null", "ping"), *_TEXT, *_END)),
)

_MESSAGES_OF_MORE: Final = (
    (
        "the signature at the start of a block",
        (
            _START,
            _open(type="thinking", thinking="", signature="c2ln"),
            _delta(type="thinking_delta", thinking="hm"),
            _CLOSE,
            *_TEXT,
            *_END,
        ),
        _SIGNED,
    ),
    (
        "a whole thought at the start of a block",
        (_START, _open(type="thinking", thinking="hm", signature="c2ln"), _CLOSE, *_TEXT, *_END),
        _SIGNED,
    ),
    (
        "a signature that comes twice",
        (
            _START,
            _open(type="thinking", thinking="hm", signature="c2ln"),
            _delta(type="signature_delta", signature="c2ln"),
            _CLOSE,
            *_TEXT,
            *_END,
        ),
        _SIGNED,
    ),
    (
        "a thought without its text",
        (
            _START,
            _open(type="thinking", signature=""),
            _delta(type="thinking_delta", thinking="hm"),
            _delta(type="signature_delta", signature="c2ln"),
            _CLOSE,
            *_TEXT,
            *_END,
        ),
        _SIGNED,
    ),
    (
        "a whole call at the start of a block",
        (_START, _open(**{**_TOOL, "input": {"path": "a"}}), _CLOSE, *_END),
        CALL,
    ),
    ("a whole call that is not closed", (_START, _open(**{**_TOOL, "input": {"path": "a"}}), *_END), CALL),
    (
        "a call without an empty input",
        (
            _START,
            _open(type="tool_use", id="c1", name="read"),
            _delta(type="input_json_delta", partial_json=ARGUMENTS),
            _CLOSE,
            *_END,
        ),
        CALL,
    ),
    (
        "a delta of arguments without a type",
        (_START, _open(**_TOOL), _delta(partial_json=ARGUMENTS), _CLOSE, *_END),
        CALL,
    ),
)

_WHOLE_MESSAGE: Final = _MESSAGE | {
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "Hello"},
        {**_TOOL, "input": {"path": "a"}},
    ],
    "stop_reason": "tool_use",
}


# OpenAI's chat.


def _chunk(delta: Any = None, reason: str | None = None, **members: Any) -> bytes:
    choice = {"index": 0, "finish_reason": reason} | ({} if delta is None else {"delta": delta})
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    return frame({**base, "choices": [choice], **members})


_SAID: Final = _chunk({"role": "assistant", "content": "Hello"})
_STOP: Final = _chunk({}, "stop")
_DONE: Final = frame("[DONE]")


def _called(**members: Any) -> bytes:
    return _chunk({"tool_calls": [members]})


_FUNCTION: Final = {"name": "read", "arguments": ARGUMENTS}
_CALLS_ENDED: Final = (_chunk({}, "tool_calls"), _DONE)

_CHAT: Final = (
    ("a chunk without a delta", (_SAID, _chunk(None), _STOP, _DONE)),
    (
        "a delta that is null",
        (_SAID, frame({"choices": [{"index": 0, "delta": None, "finish_reason": None}]}), _STOP, _DONE),
    ),
    ("a choice that is null", (_SAID, frame({"choices": [None]}), _STOP, _DONE)),
    ("a call without a function", (_SAID, _called(index=0), _STOP, _DONE)),
    ("choices that are null", (_SAID, frame({"choices": None}), _STOP, _DONE)),
    ("no choices", (_SAID, frame({"id": "x"}), _STOP, _DONE)),
    ("a choice without its index", (frame({"choices": [{"delta": {"content": "Hello"}}]}), _STOP, _DONE)),
    ("no mark at the end", (_SAID, _STOP)),
    ("no reason for the end", (_SAID, _DONE)),
    ("the mark without a blank", (_SAID, _STOP, b"data:[DONE]\n\n")),
    ("a cut after the reason for the end", (_SAID, _STOP, Cut())),
    ("a cut after the mark at the end", (_SAID, _STOP, _DONE, Cut())),
    ("a line that stays open behind the end", (_SAID, _STOP, _DONE, Hang())),
    (
        "events with a name",
        (
            frame(
                {"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}, "message"
            ),
            _DONE,
        ),
    ),
    ("comments and ids between", (b": hi\n\nid: 1\nretry: 10\n", _SAID, _STOP, _DONE)),
    ("an event that is null", (_SAID, frame("null"), _STOP, _DONE)),
    (
        "a message in the last chunk that repeats the answer",
        (
            _SAID,
            frame({"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]}),
            _DONE,
        ),
    ),
    ("usage that is null", (_SAID, _chunk({}, "stop", usage=None), _DONE)),
    ("an error that is null", (_SAID, _chunk({}, "stop", error=None), _DONE)),
)

_CHAT_OF_MORE: Final = (
    ("a call without index and type", (_called(id="c1", function=_FUNCTION), *_CALLS_ENDED), CALL),
    (
        "a call whose function is null at its end",
        (
            _called(index=0, id="c1", type="function", function=_FUNCTION),
            _called(index=0, function=None),
            *_CALLS_ENDED,
        ),
        CALL,
    ),
    (
        "a call that ends with stop",
        (_called(index=0, id="c1", type="function", function=_FUNCTION), _STOP, _DONE),
        CALL,
    ),
    (
        "arguments that are null at first",
        (
            _called(index=0, id="c1", type="function", function={"name": "read", "arguments": None}),
            _called(index=0, function={"arguments": ARGUMENTS}),
            *_CALLS_ENDED,
        ),
        CALL,
    ),
)

_WHOLE_CHAT: Final = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "fake",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello",
                "tool_calls": [{"id": "c1", "type": "function", "function": _FUNCTION}],
            },
            "finish_reason": "tool_calls",
        }
    ],
}


# OpenAI's responses.

_TEXT_PART: Final = {"type": "output_text", "text": "Hello", "annotations": []}
_MESSAGE_ITEM: Final = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [_TEXT_PART],
}
_CALL_ITEM: Final = {
    "id": "f",
    "type": "function_call",
    "call_id": "c1",
    "name": "read",
    "arguments": ARGUMENTS,
    "status": "completed",
}
_THOUGHT_ITEM: Final = {
    "id": "r",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "c2ln",
}
_PROOF: Final = 'openai:{"id": "r", "summary": ["hm"], "encrypted_content": "c2ln"}'
_RESPONSE: Final = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "fake",
    "status": "in_progress",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
_CREATED: Final = _event("response.created", response=_RESPONSE)


def _completed(*output: Mapping[str, Any]) -> bytes:
    return _event("response.completed", response=_RESPONSE | {"status": "completed", "output": output})


def _added(item: Mapping[str, Any], **empty: Any) -> bytes:
    return _event("response.output_item.added", output_index=0, item={**item, **empty})


def _item_done(item: Mapping[str, Any], index: int = 0) -> bytes:
    return _event("response.output_item.done", output_index=index, item=item)


_PART_ADDED: Final = _event(
    "response.content_part.added",
    output_index=0,
    content_index=0,
    item_id="m",
    part={**_TEXT_PART, "text": ""},
)
_OUT: Final = _event(
    "response.output_text.delta", output_index=0, content_index=0, item_id="m", delta="Hello"
)
_OUT_DONE: Final = _event(
    "response.output_text.done", output_index=0, content_index=0, item_id="m", text="Hello"
)
_MESSAGE_ADDED: Final = _added(_MESSAGE_ITEM, content=[])
_SPOKEN: Final = (_CREATED, _MESSAGE_ADDED, _PART_ADDED, _OUT)
_WITH_THOUGHT: Final = (ThinkingBlock("hm", _PROOF), TextBlock("Hello"))

_RESPONSES: Final = (
    (
        "an event without its type",
        (
            _CREATED,
            _MESSAGE_ADDED,
            _PART_ADDED,
            _named("response.output_text.delta", {"output_index": 0, "content_index": 0, "delta": "Hello"}),
            _item_done(_MESSAGE_ITEM),
            _completed(_MESSAGE_ITEM),
        ),
    ),
    (
        "a delta that is missing",
        (
            *_SPOKEN,
            _event("response.output_text.delta", output_index=0, content_index=0),
            _item_done(_MESSAGE_ITEM),
            _completed(_MESSAGE_ITEM),
        ),
    ),
    (
        "no item in output_item.added",
        (
            _CREATED,
            _event("response.output_item.added", output_index=0),
            *_SPOKEN[1:],
            _item_done(_MESSAGE_ITEM),
            _completed(_MESSAGE_ITEM),
        ),
    ),
    ("text in output_text.done alone", (_CREATED, _MESSAGE_ADDED, _PART_ADDED, _OUT_DONE, _completed())),
    (
        "text in content_part.done alone",
        (
            _CREATED,
            _MESSAGE_ADDED,
            _event("response.content_part.done", output_index=0, content_index=0, part=_TEXT_PART),
            _completed(),
        ),
    ),
    ("a message in output_item.done alone", (_CREATED, _item_done(_MESSAGE_ITEM), _completed())),
    ("a message in response.completed alone", (_CREATED, _completed(_MESSAGE_ITEM))),
    (
        "a message without deltas",
        (_CREATED, _MESSAGE_ADDED, _item_done(_MESSAGE_ITEM), _completed(_MESSAGE_ITEM)),
    ),
    (
        "the end of a text in its done event",
        (
            _CREATED,
            _MESSAGE_ADDED,
            _PART_ADDED,
            _event("response.output_text.delta", output_index=0, content_index=0, delta="Hel"),
            _OUT_DONE,
            _item_done(_MESSAGE_ITEM),
            _completed(_MESSAGE_ITEM),
        ),
    ),
    ("no created event", (*_SPOKEN[1:], _item_done(_MESSAGE_ITEM), _completed(_MESSAGE_ITEM))),
    (
        "no places",
        (
            _CREATED,
            _event("response.output_item.added", item={**_MESSAGE_ITEM, "content": []}),
            _event("response.output_text.delta", item_id="m", delta="Hello"),
            _event("response.output_item.done", item=_MESSAGE_ITEM),
            _completed(_MESSAGE_ITEM),
        ),
    ),
    (
        "ids that change with each event",
        (
            _CREATED,
            _MESSAGE_ADDED,
            _PART_ADDED,
            _event(
                "response.output_text.delta", output_index=0, content_index=0, item_id="m2", delta="Hello"
            ),
            _item_done({**_MESSAGE_ITEM, "id": "m3"}),
            _completed({**_MESSAGE_ITEM, "id": "m4"}),
        ),
    ),
    (
        "no output in response.completed",
        (
            *_SPOKEN,
            _item_done(_MESSAGE_ITEM),
            _event("response.completed", response={"id": "resp_1", "status": "completed"}),
        ),
    ),
    (
        "no response in response.completed",
        (*_SPOKEN, _item_done(_MESSAGE_ITEM), _event("response.completed")),
    ),
    ("a mark of another format as its end", (*_SPOKEN, _item_done(_MESSAGE_ITEM), frame("[DONE]"))),
    (
        "a cut after response.completed",
        (*_SPOKEN, _item_done(_MESSAGE_ITEM), _completed(_MESSAGE_ITEM), Cut()),
    ),
    (
        "a line that stays open behind the end",
        (*_SPOKEN, _item_done(_MESSAGE_ITEM), _completed(_MESSAGE_ITEM), Hang()),
    ),
    (
        "an event of no known type",
        (
            _CREATED,
            _event("response.later", later=1),
            *_SPOKEN[1:],
            _item_done(_MESSAGE_ITEM),
            _completed(_MESSAGE_ITEM),
        ),
    ),
    (
        "content that is null",
        (
            _CREATED,
            _added(_MESSAGE_ITEM, content=None),
            _OUT,
            _item_done({**_MESSAGE_ITEM, "content": None}),
            _completed(),
        ),
    ),
)

_RESPONSES_OF_MORE: Final = (
    (
        "arguments in function_call_arguments.done alone",
        (
            _CREATED,
            _added(_CALL_ITEM, arguments=""),
            _event("response.function_call_arguments.done", output_index=0, item_id="f", arguments=ARGUMENTS),
            _completed(),
        ),
        CALL,
    ),
    ("a call in output_item.done alone", (_CREATED, _item_done(_CALL_ITEM), _completed()), CALL),
    ("a call in response.completed alone", (_CREATED, _completed(_CALL_ITEM)), CALL),
    (
        "a call whose deltas have no place",
        (
            _CREATED,
            _event("response.output_item.added", item={**_CALL_ITEM, "arguments": ""}),
            _event("response.function_call_arguments.delta", item_id="f", delta=ARGUMENTS),
            _completed(_CALL_ITEM),
        ),
        CALL,
    ),
    (
        "reasoning in output_item.done alone",
        (_CREATED, _item_done(_THOUGHT_ITEM), _item_done(_MESSAGE_ITEM, 1), _completed()),
        _WITH_THOUGHT,
    ),
    (
        "reasoning in response.completed alone",
        (_CREATED, _completed(_THOUGHT_ITEM, _MESSAGE_ITEM)),
        _WITH_THOUGHT,
    ),
    (
        "the proof of reasoning in response.completed alone",
        (
            _CREATED,
            _added(_THOUGHT_ITEM, summary=[], encrypted_content=None),
            _event("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="hm"),
            _event("response.output_item.added", output_index=1, item={**_MESSAGE_ITEM, "content": []}),
            _event("response.output_text.delta", output_index=1, content_index=0, delta="Hello"),
            _completed(_THOUGHT_ITEM, _MESSAGE_ITEM),
        ),
        _WITH_THOUGHT,
    ),
    (
        "a summary in reasoning_summary_text.done alone",
        (
            _CREATED,
            _added(_THOUGHT_ITEM, summary=[]),
            _event("response.reasoning_summary_text.done", output_index=0, summary_index=0, text="hm"),
            _item_done(_THOUGHT_ITEM),
            _item_done(_MESSAGE_ITEM, 1),
            _completed(),
        ),
        _WITH_THOUGHT,
    ),
)


# Google's generate.


def _generated(*parts: Mapping[str, Any], reason: str | None = None, **members: Any) -> bytes:
    return frame(_candidate(*parts, reason=reason) | members)


def _candidate(*parts: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})]}


_GENERATED: Final = _generated({"text": "Hello"})
_GENERATED_END: Final = _generated(reason="STOP")
_GENERATED_CALL: Final = {"functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}}}

_GENERATE: Final = (
    ("a candidate without content", (_GENERATED, frame({"candidates": [{"finishReason": "STOP"}]}))),
    (
        "content without parts",
        (_GENERATED, frame({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]})),
    ),
    (
        "parts that are null",
        (_GENERATED, frame({"candidates": [{"content": {"parts": None}, "finishReason": "STOP"}]})),
    ),
    ("an empty part", (_generated({}, {"text": "Hello"}), _GENERATED_END)),
    (
        "a part that is null",
        (frame({"candidates": [{"content": {"parts": [None, {"text": "Hello"}]}}]}), _GENERATED_END),
    ),
    ("no candidates", (_GENERATED, frame({"modelVersion": "x"}), _GENERATED_END)),
    ("a cut after the reason for the end", (_GENERATED, _GENERATED_END, Cut())),
    ("a line that stays open behind the end", (_GENERATED, _GENERATED_END, Hang())),
    ("usage behind the end", (_GENERATED, _GENERATED_END, frame({"usageMetadata": {"promptTokenCount": 1}}))),
    ("a part of no known kind", (_generated({"later": {"a": 1}}, {"text": "Hello"}), _GENERATED_END)),
)


# Ollama's chat.


def _line(message: Mapping[str, Any] | None = None, **members: Any) -> bytes:
    return (
        json.dumps({"model": "fake", **({"message": message} if message else {}), **members}).encode() + b"\n"
    )


_OLLAMA_END: Final = _line({"role": "assistant", "content": ""}, done=True, done_reason="stop")
_OLLAMA: Final = (
    ("a line without a message", (_line({"content": "Hello"}), _line(), _OLLAMA_END)),
    ("an end without a message", (_line({"content": "Hello"}), _line(done=True))),
    ("an end with its reason alone", (_line({"content": "Hello"}), _line(done_reason="stop"))),
    ("blank lines", (b"\n", _line({"content": "Hello"}), b"\n\n", _OLLAMA_END)),
    ("an end without a line end", (_line({"content": "Hello"}), _OLLAMA_END.strip())),
    ("a cut after the end", (_line({"content": "Hello"}), _OLLAMA_END, Cut())),
    ("a line that stays open behind the end", (_line({"content": "Hello"}), _OLLAMA_END, Hang())),
    ("a whole answer", (_line({"role": "assistant", "content": "Hello"}, done=True, done_reason="stop"),)),
    ("a call without a function", (_line({"content": "Hello", "tool_calls": [{}]}), _OLLAMA_END)),
)


def _whole(api: ApiKind, name: str, answer: Any, blocks: tuple[Block, ...]) -> Oddity:
    return Oddity(api, name, Raw((json.dumps(answer, indent=2).encode(),), "application/json"), blocks)


ODDITIES: Final[Sequence[Oddity]] = (
    *(Oddity(ANTHROPIC, name, Raw(pieces)) for name, pieces in _MESSAGES),
    *(Oddity(ANTHROPIC, name, Raw(pieces), blocks) for name, pieces, blocks in _MESSAGES_OF_MORE),
    _whole(ANTHROPIC, "JSON instead of a stream", _WHOLE_MESSAGE, (*_SIGNED, *CALL)),
    *(Oddity(OPENAI_CHAT, name, Raw(pieces)) for name, pieces in _CHAT),
    *(Oddity(OPENAI_CHAT, name, Raw(pieces), blocks) for name, pieces, blocks in _CHAT_OF_MORE),
    _whole(OPENAI_CHAT, "JSON instead of a stream", _WHOLE_CHAT, (*HELLO, *CALL)),
    *(Oddity(OPENAI_RESPONSES, name, Raw(pieces)) for name, pieces in _RESPONSES),
    *(Oddity(OPENAI_RESPONSES, name, Raw(pieces), blocks) for name, pieces, blocks in _RESPONSES_OF_MORE),
    _whole(
        OPENAI_RESPONSES,
        "JSON instead of a stream",
        _RESPONSE | {"status": "completed", "output": [_THOUGHT_ITEM, _MESSAGE_ITEM, _CALL_ITEM]},
        (*_WITH_THOUGHT, *CALL),
    ),
    *(Oddity(GOOGLE, name, Raw(pieces)) for name, pieces in _GENERATE),
    _whole(
        GOOGLE,
        "JSON instead of a stream",
        _candidate({"text": "Hello"}, _GENERATED_CALL, reason="STOP"),
        (*HELLO, *CALL),
    ),
    _whole(
        GOOGLE,
        "a list of chunks instead of a stream",
        [_candidate({"text": "Hel"}), _candidate({"text": "lo"}, reason="STOP")],
        HELLO,
    ),
    *(Oddity(OLLAMA, name, Raw(pieces)) for name, pieces in _OLLAMA),
)
"""All oddities; each is whole, and so no server has to be asked twice."""
