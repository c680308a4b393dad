"""Values of other types than a format promises: a known shape is understood, any other is a parse error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provider_fakes import ODDITIES, Ended, Oddity, Said, frame
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    Usage,
)
from sidecar.llmgateway.providers.assembly import join_deltas
from tests.llmgateway.providers.conftest import Play, StageMaker
from turns import user

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
async def test_an_odd_answer_that_is_whole_is_taken_at_its_first_call(play: Play, odd: Oddity) -> None:
    stage = await play(odd.api, [odd.answer], card={"idle_timeout_s": 0.3})
    assert (stage.failures, stage.blocks) == ([], odd.blocks)


@pytest.mark.parametrize(
    "odd", [odd for odd in ODDITIES if "stays open" in odd.name], ids=lambda odd: odd.api
)
async def test_a_whole_answer_does_not_wait_for_the_end_of_its_line(
    play: Play, odd: Oddity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.llmgateway.providers.calling._END_S", 0.05)
    assert (await play(odd.api, [odd.answer])).blocks == odd.blocks


MISTRAL = (
    chat({"role": "assistant", "content": ""}),
    chat({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Let me "}]}]}),
    chat({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "see."}], "closed": True}]}),
    chat({"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "4"}]}),
    chat({"content": [{"type": "reference", "reference_ids": [1]}]}),
    chat({"content": "2."}),
)
"""The chunks of one of Mistral's reasoning models: first lists of content parts, then plain text."""


async def test_content_parts_of_mistral_become_thinking_and_text_and_go_back_as_parts(
    on_stage: StageMaker,
) -> None:
    async with on_stage("openai-chat", [*MISTRAL, Ended()]) as stage:
        *shown, _, _done = await stage.play()
        assert list(join_deltas(shown)) == [ThinkingEmission("Let me see."), TextEmission("It is 42.")]
        assert stage.blocks == (ThinkingBlock("Let me see.", "chat:content"), TextBlock("It is 42."))
        await stage.play(Conversation((user("?"), AssistantTurn(tuple(stage.blocks)), user("go on"))))
    assert stage.sent[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}]},
        {"type": "text", "text": "It is 42."},
    ]


async def test_arguments_that_come_as_an_object_are_taken(play: Play) -> None:
    whole = call(function={"name": "read", "arguments": {"path": "a.txt"}})
    stage = await play("openai-chat", [whole, Ended("tool_calls")])
    assert stage.blocks == (ToolCallBlock("c1", "read", {"path": "a.txt"}),)


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
    play: Play, api: str, piece: bytes
) -> None:
    stage = await play(api, [piece, Ended()])
    assert (stage.error.kind, stage.error.retryable, len(stage.emissions)) == ("parse", False, 1)
    assert "cannot be understood" in stage.error.message


USAGE = {"prompt_tokens": "many", "completion_tokens": 5.0, "prompt_tokens_details": {"cached_tokens": [1]}}
COUNTED = {"input_tokens": "x", "output_tokens": [5]}


@pytest.mark.parametrize(
    ("api", "piece", "usage"),
    [
        ("openai-chat", frame({"choices": [], "usage": USAGE}), Usage(0, 5)),
        ("anthropic-messages", message("message_delta", delta={}, usage=COUNTED), Usage(0, 0)),
    ],
)
async def test_usage_that_is_no_number_counts_nothing(
    play: Play, api: str, piece: bytes, usage: Usage
) -> None:
    reply = (await play(api, [Said(("ok",)), piece, Ended()])).reply
    assert repr(reply.usage) == repr(usage), "numbers of the same types"


@pytest.mark.parametrize("code", [429, [1], {"a": 1}])
async def test_an_error_in_the_stream_may_have_any_code(play: Play, code: Any) -> None:
    failed = frame(json.dumps({"error": {"code": code, "message": "slow down"}}))
    assert "slow down" in (await play("openai-chat", [failed, Ended()])).error.message
