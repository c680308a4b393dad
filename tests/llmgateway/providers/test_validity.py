"""Whatever a conversation holds, and whoever's it was: what an adapter sends breaks no rule of its API."""

from __future__ import annotations

import doctest
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_cards import provider_card
from properties import cases
from provider_fakes import STRICT, Asked, Ended, Said, objection, strictness
from sanitizing import any_turns, sanitize
from sidecar.llmgateway.contract import Conversation, StreamOptions
from sidecar.llmgateway.credentials import Key
from sidecar.llmgateway.names import Provider
from sidecar.llmgateway.providers.adapter import Adapter, Endpoint, ModelCall
from sidecar.llmgateway.providers.anthropic_messages import AnthropicMessages
from sidecar.llmgateway.providers.google_generate import GoogleGenerate
from sidecar.llmgateway.providers.openai_chat import OpenAIChat
from sidecar.llmgateway.providers.openai_responses import OpenAIResponses

ADAPTERS: Mapping[str, Adapter[Any, Any]] = {
    "anthropic-messages": AnthropicMessages(),
    "google-generate": GoogleGenerate(),
    "openai-chat": OpenAIChat(),
    "openai-responses": OpenAIResponses(),
}
SIGNATURES = (
    None,
    "EqQB",
    "redacted:EqQB",
    "google:c2ln",
    "google:text:c2ln",
    "google:not base64",
    "chat:reasoning_content",
    'openai:{"id": "rs_1", "summary": ["s"], "encrypted_content": "x"}',
    "openai:broken",
    "pydantic-ai:{}",
)

levels = st.sampled_from([None, "off", "low", "high", "max"])


@pytest.mark.parametrize("api", ADAPTERS)
@cases(80)
@given(history=any_turns(SIGNATURES), thinking=levels)
def test_every_request_keeps_the_rules_of_its_provider(api: str, history: list[Any], thinking: Any) -> None:
    adapter = ADAPTERS[api]
    conversation = sanitize(Conversation(tuple(history), system="Be brief."), adapter.rules).conversation
    place = Endpoint(Provider("fake", api, "http://127.0.0.1:9"), "http://127.0.0.1:9", Key("k", "here"))
    ask = ModelCall(
        conversation, StreamOptions(thinking=thinking), provider_card(api, "claude-sonnet-4-5"), place
    )
    request = adapter.request(ask)
    assert objection(api, request) is None
    json.dumps(request, default=len, ensure_ascii=False).encode()


USER: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}],
}


@pytest.mark.parametrize(
    ("api", "body", "reason"),
    [
        ("anthropic-messages", {"messages": []}, "no message"),
        ("anthropic-messages", {"messages": [CALL, USER]}, "first message"),
        ("anthropic-messages", {"messages": [USER, USER]}, "alternate"),
        ("anthropic-messages", {"messages": [USER, CALL, USER]}, "are answered by"),
        ("anthropic-messages", {"messages": [{"role": "user", "content": []}]}, "empty"),
        ("openai-chat", {"messages": [{"role": "assistant", "content": None}]}, "must have content"),
        ("openai-chat", {"messages": [{"role": "tool", "tool_call_id": "c"}]}, "must follow"),
        ("openai-responses", {"input": [{"type": "reasoning"}]}, "that followed it"),
        ("openai-responses", {"input": [{"type": "function_call_output", "call_id": "c"}]}, "no tool call"),
        ("google-generate", {"contents": [{"role": "user", "parts": [{"text": ""}]}]}, "initialized"),
    ],
)
def test_a_fake_refuses_invalid_requests(api: str, body: dict[str, Any], reason: str) -> None:
    assert reason in str(objection(api, body | {"max_tokens": 10}))


@pytest.mark.processes
async def test_a_request_that_is_not_valid_is_refused(on_stage: Any) -> None:
    asked = Asked("POST", "/v1/chat/completions", {}, json.dumps({"messages": []}).encode())
    async with on_stage("openai-chat", (Said(("x",)), Ended())) as stage:
        answer = stage.fake.answer(asked)
    assert (answer.status, STRICT in str(list(answer.pieces))) == (400, True)


def test_the_examples_hold() -> None:
    assert doctest.testmod(strictness).failed == 0
