"""Consecutive requests extend one another byte for byte, in every format: that is what a cache goes by."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from model_cards import provider_card
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Conversation,
    ImageBlock,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
)
from sidecar.llmgateway.credentials import Key
from sidecar.llmgateway.names import PROVIDERS_BY_NAME
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall
from sidecar.llmgateway.providers.sanitize import Sanitizer
from sidecar.llmgateway.providers.serving import ADAPTERS
from turns import assistant, user

MODELS = (
    "anthropic:claude-sonnet-5-5",
    "openai:gpt-6.1",
    "openai-chat:gpt-6.1",
    "google:gemini-4-argon",
    "ollama:qwen3:8b",
    "lmstudio:qwen3",
    "openrouter:anthropic/claude-sonnet-5.5",
    "openrouter:google/gemini-3-pro",
    "deepseek:deepseek-v4-pro",
    "groq:openai/gpt-oss-120b",
    "xai:grok-4.7",
    "mistral:magistral-medium",
    "moonshotai:kimi-k3",
    "zai:glm-5.2",
    "cerebras:zai-glm-4.7",
    "cohere:command-a",
)
SIGNATURES = {
    "anthropic-messages": "EqQB",
    "openai-responses": 'openai:{"id": "rs_1", "summary": ["s"], "encrypted_content": "x"}',
    "google-generate": "google:c2ln",
    "ollama-chat": "chat:thinking",
    "openai-chat": "chat:reasoning_content",
    "pydantic-ai": "pydantic-ai:{}",
}
TOOLS = (ToolDescriptor("read", "Read a file.", {"type": "object", "properties": {}}),)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def talk(seed: int, signature: str) -> list[Turn]:
    """Return a conversation as an agent has it: prompts, rounds of tools, reasoning, answers, steering."""
    chance, turns, n_calls = random.Random(seed), list[Turn](), 0
    for prompt in range(6):
        picture = [ImageBlock("image/png", PIXEL)] if chance.random() < 0.2 else []
        turns.append(user(f"prompt {prompt} é🙂", *picture))
        for _ in range(chance.randrange(3)):
            thought = [ThinkingBlock("hm", signature)] if chance.random() < 0.7 else []
            said: list[Block] = [TextBlock("I look.")] if chance.random() < 0.5 else []
            numbers = range(n_calls, n_calls + chance.randrange(1, 3))
            calls = [ToolCallBlock(f"call_{n}", "read", {"path": f"{n}"}) for n in numbers]
            n_calls = numbers.stop
            turns.append(assistant(*thought, *said, *calls))
            turns.append(ToolTurn(tuple(ToolResultBlock(call.id, {"lines": 1}) for call in calls)))
            if chance.random() < 0.2:
                turns.append(user("rather the other one"))
        turns.append(assistant(ThinkingBlock("so", signature), f"answer {prompt}"))
    return turns


def requests(name: str, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return the request of each model call of a conversation, as its bytes would be."""
    provider_id, _, model = name.partition(":")
    provider = PROVIDERS_BY_NAME[provider_id]
    adapter = ADAPTERS[provider.api]()
    card = provider_card(provider.api, model, provider_id)
    sanitizer = Sanitizer(adapter.rules)
    options, sent = StreamOptions(thinking="high"), []
    for end, turn in enumerate(turns, 1):
        if isinstance(turn, AssistantTurn):
            continue
        conversation = sanitizer.sanitize(Conversation(tuple(turns[:end]), system="Be brief.", tools=TOOLS))
        endpoint = Endpoint(provider, provider.base_url, Key("k", "test"))
        call = ModelCall(conversation.conversation, options, card, endpoint, sanitizer.memo)
        sent.append(adapter.request(call))
    return sent


def without_marks(value: Any) -> Any:
    """Return *value* without the marks of a cache, which are no part of what is read."""
    if isinstance(value, dict):
        return {name: without_marks(item) for name, item in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    return value


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_each_request_begins_as_the_one_before_it(name: str, seed: int) -> None:
    api = PROVIDERS_BY_NAME[name.partition(":")[0]].api
    sent = [without_marks(request) for request in requests(name, talk(seed, SIGNATURES[api]))]
    assert len(sent) > 6
    member = next(each for each in ("messages", "input", "contents") if each in sent[0])
    for earlier, later in pairwise(sent):
        for request in (earlier, later):
            request.pop("max_tokens", None)  # the room that is left
        assert begins_with(later[member], earlier[member])
        assert {**later, member: None} == {**earlier, member: None}


def begins_with(messages: Sequence[Any], start: Sequence[Any]) -> bool:
    """Whether *messages* begin as *start*, to the byte; further parts may join its last message, a user's."""
    *whole, last = start
    same = messages[len(whole)]
    if not isinstance(last, dict):
        # Of pydantic-ai, which joins the parts of a user's messages itself.
        return as_bytes(messages[: len(whole)]) == as_bytes(whole)
    for member in ("content", "parts"):
        if last.get("role") == "user" and isinstance(last.get(member), list):
            same = {**same, member: same[member][: len(last[member])]}
    return as_bytes([*messages[: len(whole)], same]) == as_bytes(start)


def as_bytes(value: Any) -> bytes:
    """Return *value* as JSON, without the times that pydantic-ai keeps for itself."""
    return re.sub(r"timestamp=datetime.*?\.utc\)", "", json.dumps(value, default=repr)).encode()


def test_a_request_whose_beginning_changed_is_seen() -> None:
    turns = talk(1, "EqQB")
    first = requests(MODELS[0], turns)[0]["messages"]
    changed = [replace(turns[0], blocks=(TextBlock("other"),)), *turns[1:]]
    other = requests(MODELS[0], changed)[1]["messages"]
    assert not begins_with(other, first)
