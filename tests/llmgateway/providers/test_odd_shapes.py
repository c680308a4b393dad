"""Values of other types than a format promises: a known shape is understood, any other is a parse error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provider_fakes import ODDITIES, Ended, Oddity, Said, frame
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    ErrorEmission,
    Reply,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Usage,
    UserTurn,
)
from sidecar.llmgateway.providers.assembly import join_deltas

pytestmark = pytest.mark.processes


def chat(delta: Any, **beside: Any) -> bytes:
    return frame({"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **beside})


def response(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, "output_index": 0, **fields}, kind)


def message(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, "index": 0, **fields}, kind)


def call(**fields: Any) -> bytes:
    whole = {"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return chat({"tool_calls": [whole | fields]})


@pytest.mark.parametrize("odd", ODDITIES, ids=lambda odd: f"{odd.api}: {odd.name}")
async def test_an_odd_answer_that_is_whole_is_taken_at_its_first_call(on_stage: Any, odd: Oddity) -> None:
    async with on_stage(odd.api, [odd.answer], idle_timeout_s=0.3) as stage:
        played = await stage.play()
    assert stage.failures == []
    done = played[-1]
    assert isinstance(done, DoneEmission), played
    assert done.reply.blocks == odd.blocks


@pytest.mark.parametrize(
    "odd", [odd for odd in ODDITIES if "stays open" in odd.name], ids=lambda odd: odd.api
)
async def test_a_whole_answer_does_not_wait_for_the_end_of_its_line(
    on_stage: Any, odd: Oddity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.llmgateway.providers.calling._END_S", 0.05)
    async with on_stage(odd.api, [odd.answer]) as stage:
        *_, done = await stage.play()
    assert isinstance(done, DoneEmission)


MISTRAL = (
    chat({"role": "assistant", "content": ""}),
    chat({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Let me "}]}]}),
    chat({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "see."}], "closed": True}]}),
    chat({"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "4"}]}),
    chat({"content": [{"type": "reference", "reference_ids": [1]}]}),
    chat({"content": "2."}),
)
"""The chunks of one of Mistral's reasoning models: first lists of content parts, then plain text."""


async def test_content_parts_of_mistral_become_thinking_and_text(on_stage: Any) -> None:
    async with on_stage("openai-chat", [*MISTRAL, Ended()]) as stage:
        *shown, _, done = await stage.play()
    assert list(join_deltas(shown)) == [ThinkingEmission("Let me see."), TextEmission("It is 42.")]
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == (ThinkingBlock("Let me see.", "chat:content"), TextBlock("It is 42."))


async def test_thinking_that_came_as_a_content_part_goes_back_as_one(on_stage: Any) -> None:
    said = (ThinkingBlock("hm", "chat:content"), TextBlock("I look."), ToolCallBlock("c1", "read", {}))
    result = ToolTurn((ToolResultBlock("c1", "hi"),))
    turns = (UserTurn((TextBlock("?"),)), AssistantTurn(said), result)
    async with on_stage("openai-chat", [Said(("ok",)), Ended()]) as stage:
        *_, done = await stage.play(Conversation(turns))
    assert isinstance(done, DoneEmission)
    assert stage.fake.sent[0]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "I look."},
    ]


async def test_arguments_that_come_as_an_object_are_taken(on_stage: Any) -> None:
    whole = call(function={"name": "read", "arguments": {"path": "a.txt"}})
    async with on_stage("openai-chat", [whole, Ended("tool_calls")]) as stage:
        *_, done = await stage.play()
    assert isinstance(done, DoneEmission)
    assert done.reply.blocks == (ToolCallBlock("c1", "read", {"path": "a.txt"}),)


def block(**fields: Any) -> bytes:
    return message("content_block_start", content_block=fields)


def delta(**fields: Any) -> bytes:
    return message("content_block_delta", delta=fields)


def item(**fields: Any) -> bytes:
    whole = {"type": "function_call", "id": "i1", "call_id": "c1", "name": "read", "arguments": ""}
    return response("response.output_item.added", item=whole | fields)


def ollama_call(**function: Any) -> bytes:
    return json.dumps({"message": {"tool_calls": [{"function": function}]}}).encode() + b"\n"


WRONG_TYPES = [
    pytest.param("openai-chat", chat({"content": 7}), id="chat: a number as text"),
    pytest.param("openai-chat", chat({"content": {"text": "hi"}}), id="chat: an object as text"),
    pytest.param("openai-chat", chat({"content": [7]}), id="chat: a number as a part"),
    pytest.param("openai-chat", chat({"content": [{"type": "text", "text": 7}]}), id="chat: text of a part"),
    pytest.param("openai-chat", chat({"content": [{"type": "hologram"}]}), id="chat: an unknown part"),
    pytest.param(
        "openai-chat", chat({"content": [{"type": "thinking", "thinking": {"a": 1}}]}), id="chat: thinking"
    ),
    pytest.param("openai-chat", chat({"refusal": ["no"]}), id="chat: refusal"),
    pytest.param("openai-chat", chat({"tool_calls": ["read"]}), id="chat: a call that is text"),
    pytest.param("openai-chat", call(id=7), id="chat: id of a call"),
    pytest.param("openai-chat", call(index=[0]), id="chat: index of a call"),
    pytest.param("openai-chat", call(function={"name": ["read"]}), id="chat: name of a call"),
    pytest.param("openai-chat", call(function={"name": "read", "arguments": 7}), id="chat: arguments"),
    pytest.param(
        "openai-responses", response("response.output_text.delta", delta=["a"]), id="responses: text"
    ),
    pytest.param(
        "openai-responses",
        response("response.reasoning_summary_text.delta", delta={"a": 1}),
        id="responses: thinking",
    ),
    pytest.param("openai-responses", item(call_id=7), id="responses: id of a call"),
    pytest.param("openai-responses", item(name={"a": 1}), id="responses: name of a call"),
    pytest.param("anthropic-messages", delta(type="text_delta", text=["a"]), id="messages: text"),
    pytest.param("anthropic-messages", delta(type="thinking_delta", thinking=7), id="messages: thinking"),
    pytest.param(
        "anthropic-messages", delta(type="signature_delta", signature=[1]), id="messages: signature"
    ),
    pytest.param(
        "anthropic-messages", block(type="tool_use", id=7, name="read"), id="messages: id of a call"
    ),
    pytest.param(
        "anthropic-messages", block(type="tool_use", id="c1", name=7), id="messages: name of a call"
    ),
    pytest.param("anthropic-messages", block(type="text", text={"a": 1}), id="messages: text of a block"),
    pytest.param(
        "google-generate",
        frame({"candidates": [{"content": {"parts": [{"text": ["a"]}]}}]}),
        id="generate: text",
    ),
    pytest.param(
        "google-generate",
        frame({"candidates": [{"content": {"parts": [{"functionCall": {"name": 7}}]}}]}),
        id="generate: name of a call",
    ),
    pytest.param("ollama-chat", b'{"message": {"content": 7}}\n', id="ollama: a number as text"),
    pytest.param("ollama-chat", b'{"message": {"tool_calls": ["read"]}}\n', id="ollama: a call that is text"),
    pytest.param("ollama-chat", ollama_call(name=7), id="ollama: name of a call"),
    pytest.param("ollama-chat", ollama_call(name="read", arguments=7), id="ollama: arguments"),
    pytest.param("ollama-chat", b"[7]\n", id="ollama: a list as a line"),
]


@pytest.mark.parametrize(("api", "piece"), WRONG_TYPES)
async def test_a_value_of_another_type_ends_the_call_as_a_parse_error(
    on_stage: Any, api: str, piece: bytes
) -> None:
    async with on_stage(api, [piece, Ended()]) as stage:
        played = await stage.play()
    assert len(played) == 1
    last = played[0]
    assert isinstance(last, ErrorEmission)
    assert (last.error.kind, last.error.retryable) == ("parse", False)
    assert "cannot be understood" in last.error.message


USAGE = {"prompt_tokens": "many", "completion_tokens": 5.0, "prompt_tokens_details": {"cached_tokens": [1]}}


@pytest.mark.parametrize(
    ("api", "piece"),
    [
        ("openai-chat", frame({"choices": [], "usage": USAGE})),
        (
            "anthropic-messages",
            message("message_delta", delta={}, usage={"input_tokens": "x", "output_tokens": [5]}),
        ),
    ],
)
async def test_usage_that_is_no_number_counts_nothing(on_stage: Any, api: str, piece: bytes) -> None:
    async with on_stage(api, [Said(("ok",)), piece, Ended()]) as stage:
        *_, done = await stage.play()
    assert isinstance(done, DoneEmission)
    assert isinstance(done.reply, Reply)
    assert repr(done.reply.usage) == repr(Usage(0, 5 if api == "openai-chat" else 0))


@pytest.mark.parametrize("code", [429, [1], {"a": 1}])
async def test_an_error_in_the_stream_may_have_any_code(on_stage: Any, code: Any) -> None:
    failed = frame(json.dumps({"error": {"code": code, "message": "slow down"}}))
    async with on_stage("openai-chat", [failed, Ended()]) as stage:
        (last,) = await stage.play()
    assert isinstance(last, ErrorEmission)
    assert "slow down" in last.error.message
