"""What each provider is sent: valid in its own terms, with its own reasoning and marks for its own cache."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from model_cards import provider_card
from provider_fakes import Called, Ended, Refused, Said, Scene, Thought, frame
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    ImageBlock,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
)
from sidecar.llmgateway.credentials import Key
from sidecar.llmgateway.names import PROVIDERS_BY_NAME
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall
from sidecar.llmgateway.providers.anthropic_messages import AnthropicMessages
from sidecar.llmgateway.providers.openai_chat import OpenAIChat
from sidecar.llmgateway.providers.openai_responses import OpenAIResponses
from turns import user

pytestmark = pytest.mark.processes

SAYS_OK: Scene = (Said(("ok",)), Ended())
PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
CACHED = {"type": "ephemeral"}


def talk(*turns: Any, system: str | None = None) -> Conversation:
    return Conversation(turns, system=system)


CALLED = AssistantTurn((TextBlock("look"), ToolCallBlock("c1", "read", {"path": "a"})))
RESULT = ToolTurn((ToolResultBlock("c1", "data"),))
FAILED = ToolTurn((ToolResultBlock("c1", {"why": "gone"}, is_error=True), PIXEL))


@pytest.mark.parametrize(
    ("api", "name", "messages"),
    [
        pytest.param(
            "openai-chat",
            "messages",
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": "look",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "read", "arguments": '{"path":"a"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": '{"why":"gone"}'},
                {
                    "role": "user",
                    "content": [
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
                    ],
                },
                {"role": "user", "content": "go on"},
            ],
            id="chat",
        ),
        pytest.param(
            "openai-responses",
            "input",
            [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"role": "assistant", "content": "look"},
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
                {"type": "function_call_output", "call_id": "c1", "output": '{"why":"gone"}'},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,iVBORw0KGgo=",
                            "detail": "auto",
                        }
                    ],
                },
                {"role": "user", "content": [{"type": "input_text", "text": "go on"}]},
            ],
            id="responses",
        ),
        pytest.param(
            "anthropic-messages",
            "messages",
            [
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": CACHED}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "look"},
                        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": '{"why":"gone"}',
                            "is_error": True,
                        },
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                        },
                        {"type": "text", "text": "go on", "cache_control": CACHED},
                    ],
                },
            ],
            id="anthropic: roles alternate, results first, the stable prefix marked",
        ),
        pytest.param(
            "google-generate",
            "contents",
            [
                {"role": "user", "parts": [{"text": "hi"}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "look"},
                        {
                            "functionCall": {"id": "c1", "name": "read", "args": {"path": "a"}},
                            "thoughtSignature": "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
                        },
                    ],
                },
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": {
                                "id": "c1",
                                "name": "read",
                                "response": {"error": {"why": "gone"}},
                            }
                        },
                        {"inlineData": {"data": "iVBORw0KGgo=", "mimeType": "image/png"}},
                        {"text": "go on"},
                    ],
                },
            ],
            id="google: a call of another model gets the signature that Google names for it",
        ),
    ],
)
async def test_a_conversation_with_tools_and_images(
    on_stage: Any, api: str, name: str, messages: list[Any]
) -> None:
    async with on_stage(api, SAYS_OK) as stage:
        await stage.play(talk(user("hi"), CALLED, FAILED, user("go on"), system="Be brief."))
    assert stage.fake.sent[0][name] == messages
    assert stage.repairs == []


@pytest.mark.parametrize(
    ("api", "part"),
    [
        ("openai-responses", {"instructions": "Be brief.", "store": False}),
        ("anthropic-messages", {"system": [{"type": "text", "text": "Be brief.", "cache_control": CACHED}]}),
    ],
)
async def test_the_system_prompt_has_its_own_place(on_stage: Any, api: str, part: Any) -> None:
    async with on_stage(api, SAYS_OK) as stage:
        await stage.play(talk(user("hi"), system="Be brief."))
    assert part.items() <= stage.fake.sent[0].items()


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages", "google-generate"])
async def test_reasoning_goes_back_to_its_provider(on_stage: Any, api: str, hello: Conversation) -> None:
    """Within one question; the proof unchanged, and before the call it led to."""
    scene: Scene = (Thought(("hm",), "c2ln"), Called("c1", "read", ("{}",)), Ended("tool_calls"))
    async with on_stage(api, scene, SAYS_OK) as stage:
        *_, done = await stage.play()
        turns = (*hello.turns, AssistantTurn(done.reply.blocks), RESULT)
        await stage.play(Conversation(turns))
    sent = stage.fake.sent[1]
    match api:
        case "openai-chat":
            assert sent["messages"][1]["reasoning_content"] == "hm"
        case "openai-responses":
            summary = [{"type": "summary_text", "text": "hm"}]
            item = {"type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "c2ln"}
            assert sent["input"][1:3] == [
                item,
                {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
            ]
        case "anthropic-messages":
            thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
            call = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
            assert sent["messages"][1]["content"] == [thinking, call]
        case _:
            part = {"functionCall": {"id": "c1", "name": "read", "args": {}}, "thoughtSignature": "c2ln"}
            assert sent["contents"][1]["parts"] == [part]


FOREIGN = {
    "openai-chat": ThinkingBlock("secret", "EqQB"),
    "openai-responses": ThinkingBlock("secret", "google:c2ln"),
    "anthropic-messages": ThinkingBlock("secret", 'openai:{"id": "rs_0", "summary": []}'),
    "google-generate": ThinkingBlock("secret", "chat:reasoning"),
}


@pytest.mark.parametrize("api", FOREIGN)
async def test_reasoning_of_another_provider_is_left_out_whole(on_stage: Any, api: str) -> None:
    said = AssistantTurn((FOREIGN[api], TextBlock("so"), ThinkingBlock("unsigned")))
    async with on_stage(api, SAYS_OK) as stage:
        await stage.play(talk(user("hi"), said, user("go on")))
    assert "secret" not in json.dumps(stage.fake.sent[0])
    assert "unsigned" not in json.dumps(stage.fake.sent[0])
    assert stage.repairs == []


async def test_encrypted_reasoning_goes_back_as_it_came(on_stage: Any) -> None:
    said = AssistantTurn((ThinkingBlock("", "redacted:b2s="), TextBlock("so")))
    async with on_stage("anthropic-messages", SAYS_OK) as stage:
        await stage.play(talk(user("hi"), said, user("go on")))
    content = stage.fake.sent[0]["messages"][1]["content"]
    assert content == [{"type": "redacted_thinking", "data": "b2s="}, {"type": "text", "text": "so"}]


async def test_chat_reasoning_goes_back_in_each_later_request(on_stage: Any) -> None:
    """Left out later, the request would begin otherwise than the one before it, and miss the cache."""
    said = AssistantTurn((ThinkingBlock("hm", "chat:reasoning_content"), TextBlock("so")))
    async with on_stage("openai-chat", SAYS_OK) as stage:
        await stage.play(talk(user("hi"), said, user("go on")))
    answer = {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    assert stage.fake.sent[0]["messages"][1] == answer


async def test_a_signature_on_text_goes_back_behind_it(on_stage: Any, hello: Conversation) -> None:
    async with on_stage("google-generate", (Thought(("hm",), "c2ln"), Said(("so",)), Ended())) as stage:
        *_, done = await stage.play()
        await stage.play(Conversation((*hello.turns, AssistantTurn(done.reply.blocks), user("go on"))))
    parts = stage.fake.sent[1]["contents"][1]["parts"]
    assert parts == [{"text": "so"}, {"text": "", "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize(
    ("api", "model", "options", "expected"),
    [
        pytest.param(
            "openai-chat",
            "m",
            {"max_output_tokens": 9},
            {"max_tokens": 9},
            id="chat: the older name elsewhere",
        ),
        pytest.param(
            "openai-chat",
            "gpt-5",
            {"thinking": "medium", "tool_choice": "required"},
            {"reasoning_effort": "medium", "tool_choice": "required"},
            id="chat: effort",
        ),
        pytest.param(
            "openai-responses",
            "gpt-5.5",
            {"thinking": "max", "max_output_tokens": 9},
            {"reasoning": {"effort": "xhigh", "summary": "auto"}, "max_output_tokens": 9},
            id="responses: effort and a summary of the reasoning",
        ),
        pytest.param(
            "anthropic-messages",
            "claude-opus-5",
            {"thinking": "high", "temperature": 0.5},
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"},
                "max_tokens": 8_000,
            },
            id="anthropic: effort, no sampling beside it",
        ),
        pytest.param(
            "anthropic-messages",
            "claude-sonnet-5-5",
            {"tool_choice": "required"},
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": None,
                "tool_choice": {"type": "auto"},
            },
            id="anthropic: what is done between calls is shown, and no call is forced",
        ),
        pytest.param(
            "anthropic-messages",
            "claude-opus-5-5",
            {"thinking": "off"},
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "low"},
            },
            id="anthropic: the lowest effort where thinking cannot be turned off",
        ),
        pytest.param(
            "anthropic-messages",
            "claude-opus-4-8",
            {},
            {"thinking": None},
            id="anthropic: no thinking unasked where none is the rule",
        ),
        pytest.param(
            "anthropic-messages",
            "glm-5.3",
            {},
            {"thinking": None},
            id="anthropic: no thinking unasked of models of other makers",
        ),
        pytest.param(
            "anthropic-messages",
            "claude-haiku-4-5",
            {"thinking": "low", "max_output_tokens": 4_000},
            {"thinking": {"type": "enabled", "budget_tokens": 2_048}, "max_tokens": 4_000},
            id="anthropic: a budget for older models",
        ),
        pytest.param(
            "anthropic-messages",
            "claude-haiku-4-5",
            {"temperature": 0.5, "tool_choice": "required"},
            {"temperature": 0.5, "tool_choice": {"type": "any"}},
            id="anthropic: sampling where it is taken",
        ),
    ],
)
async def test_knobs(
    on_stage: Any, api: str, model: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with on_stage(api, SAYS_OK, model=model) as stage:
        await stage.play(**options)
    sent = stage.fake.sent[0]
    assert {name: sent.get(name) for name in expected} == expected
    assert "temperature" not in sent or "temperature" in expected


@pytest.mark.parametrize(
    ("model", "thinking", "config"),
    [
        ("gemini-2.5-flash", "low", {"include_thoughts": True, "thinking_budget": 2_048}),
        ("gemini-2.5-flash", "off", {"include_thoughts": False, "thinking_budget": 0}),
        ("gemini-3.8-flash", "max", {"include_thoughts": True, "thinking_level": "HIGH"}),
    ],
)
async def test_google_thinks_by_budget_or_by_level(
    on_stage: Any, model: str, thinking: Any, config: dict[str, Any]
) -> None:
    async with on_stage("google-generate", SAYS_OK, model=model) as stage:
        await stage.play(thinking=thinking, max_output_tokens=7_000, temperature=0.1)
    sent = stage.fake.sent[0]["generationConfig"]
    assert (sent["maxOutputTokens"], sent["temperature"]) == (7_000, 0.1)
    assert json.dumps(sent["thinkingConfig"]).lower().replace("_", "") == json.dumps(config).lower().replace(
        "_", ""
    )


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages", "google-generate"])
async def test_a_model_without_reasoning_gets_no_reasoning_arguments(on_stage: Any, api: str) -> None:
    async with on_stage(api, SAYS_OK, reasoning=False) as stage:
        await stage.play(thinking="high")
    assert not {"reasoning", "reasoning_effort", "thinking", "include"} & set(stage.fake.sent[0])
    assert "thinkingConfig" not in stage.fake.sent[0].get("generationConfig", {})


@pytest.mark.parametrize(
    ("api", "header"),
    [
        ("openai-chat", "authorization"),
        ("openai-responses", "authorization"),
        ("anthropic-messages", "authorization"),
        ("google-generate", "x-goog-api-key"),
    ],
)
async def test_the_key_of_the_call_goes_before_the_users(
    on_stage: Any, api: str, header: str, key: str
) -> None:
    async with on_stage(api, SAYS_OK) as stage:
        await stage.play()
        await stage.play(api_key="sk-of-this-call")
    first, second = (asked.headers.get(header, "") for asked in stage.fake.calls)
    assert (key in first, "sk-of-this-call" in second) == (True, True)


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages", "google-generate"])
async def test_an_image_is_not_sent_to_a_model_that_sees_none(on_stage: Any, api: str) -> None:
    async with on_stage(api, SAYS_OK, modalities=("text",)) as stage:
        await stage.play(talk(user("what is this?", PIXEL)))
    assert "iVBORw0KGgo=" not in json.dumps(stage.fake.sent[0])
    assert stage.repairs == [
        "an image was left out: this model is not known to see images; if it does, set images = true for it"
    ]


@pytest.mark.parametrize(
    ("card", "prompt", "limit"),
    [
        pytest.param({}, "hi", 8_000, id="the model's longest answer"),
        pytest.param({"context_window": 16_000}, "x" * 30_000, 6_000, id="the room that is left"),
        pytest.param({"context_window": 16_000}, "x" * 60_000, 4_096, id="a little in any case"),
        pytest.param({"context_window": 0, "max_output_tokens": 0}, "hi", None, id="an unknown model"),
    ],
)
async def test_a_compatible_service_is_given_the_length_of_the_answer(
    on_stage: Any, card: dict[str, int], prompt: str, limit: int | None
) -> None:
    """Some services cut an answer off after 1,024 tokens when a request sets no limit."""
    async with on_stage("openai-chat", SAYS_OK, **card) as stage:
        await stage.play(talk(user(prompt)))
        await stage.play(talk(user(prompt)), max_output_tokens=77)
    sent = [body.get("max_tokens") for body in stage.fake.sent]
    assert sent == [pytest.approx(limit, abs=100) if limit else None, 77]


async def test_a_limit_that_the_service_refuses_is_left_to_it(on_stage: Any) -> None:
    refused = Refused(400, "max_tokens must be less than or equal to 4096")
    async with on_stage("openai-chat", [refused], SAYS_OK) as stage:
        for _ in range(2):
            *_, done = await stage.play()
            assert isinstance(done, DoneEmission)
    assert [body.get("max_tokens") for body in stage.fake.sent] == [8_000, None, None]


async def test_the_phase_of_a_message_goes_back_with_it(on_stage: Any) -> None:
    """OpenAI asks for it: without it, answers of later turns get worse."""

    def message(phase: str, text: str) -> list[bytes]:
        item = {"id": "m1", "type": "message", "role": "assistant", "content": [], "phase": phase}
        added, said = "response.output_item.added", "response.output_text.delta"
        delta = {"type": said, "output_index": 0, "delta": text, "logprobs": []}
        return [frame({"type": added, "output_index": 0, "item": item}, added), frame(delta, said)]

    scene = [*message("commentary", "I look."), *message("final_answer", "So it is."), Ended()]
    async with on_stage("openai-responses", scene, SAYS_OK) as stage:
        *_, done = await stage.play(talk(user("hi")))
        assert isinstance(done, DoneEmission)
        await stage.play(talk(user("hi"), AssistantTurn(done.reply.blocks), user("go on")))
    assert stage.fake.sent[1]["input"][1:3] == [
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {"role": "assistant", "content": "So it is.", "phase": "final_answer"},
    ]


MARKED = """<think>hm</think>I look.
<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>"""


async def test_marks_of_a_template_in_the_text_are_reasoning_and_calls(on_stage: Any) -> None:
    async with on_stage("openai-chat", [Said((MARKED,)), Ended()], SAYS_OK) as stage:
        *_, done = await stage.play()
        assert isinstance(done, DoneEmission)
        thinking, text, call = done.reply.blocks
        assert (thinking, text) == (ThinkingBlock("hm", "chat:text"), TextBlock("I look.\n"))
        assert isinstance(call, ToolCallBlock)
        assert (call.name, call.input) == ("read", {"path": "a"})
        result = ToolTurn((ToolResultBlock(call.id, "data"),))
        await stage.play(talk(user("hi"), AssistantTurn(done.reply.blocks), result))
    assert [message["role"] for message in stage.fake.sent[1]["messages"]] == ["user", "assistant", "tool"]
    assert "hm" not in str(stage.fake.sent[1])


@pytest.mark.parametrize(
    ("api", "model", "budget"),
    [
        ("anthropic-messages", "claude-haiku-4-5", lambda body: body["thinking"]["budget_tokens"]),
        (
            "google-generate",
            "gemini-2.5-pro",
            lambda body: body["generationConfig"]["thinkingConfig"]["thinkingBudget"],
        ),
    ],
)
async def test_the_highest_level_of_thinking_leaves_room_for_the_answer(
    on_stage: Any, api: str, model: str, budget: Any
) -> None:
    async with on_stage(api, SAYS_OK, model=model, max_output_tokens=64_000) as stage:
        await stage.play(thinking="max", max_output_tokens=8_000)
        await stage.play(thinking="max")
    assert budget(stage.fake.sent[0]) == 5_000
    if api == "anthropic-messages":
        assert stage.fake.sent[1]["max_tokens"] - budget(stage.fake.sent[1]) >= 24_000


@pytest.mark.parametrize(
    "api", ["openai-chat", "openai-responses", "anthropic-messages", "google-generate", "ollama-chat"]
)
async def test_a_proxy_of_the_environment_is_not_used_for_a_local_server(
    on_stage: Any, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with on_stage(api, SAYS_OK) as stage:
        *_, done = await stage.play()
    assert isinstance(done, DoneEmission)


def official_call(provider: str, model: str, *turns: Any, system: str = "Be brief.") -> ModelCall:
    endpoint = Endpoint(PROVIDERS_BY_NAME[provider], key=Key("sk-0123456789", "a test"))
    card = provider_card(endpoint.provider.api, model)
    return ModelCall(talk(*turns, system=system), StreamOptions(), card, endpoint)


@pytest.mark.parametrize("adapter", [OpenAIResponses(), OpenAIChat()], ids=["responses", "chat"])
def test_openai_finds_its_cache_by_the_beginning_of_a_conversation(
    adapter: OpenAIResponses | OpenAIChat,
) -> None:
    hello, more = user("hello"), user("more")
    calls = [
        official_call("openai", "gpt-5.2", hello),
        official_call("openai", "gpt-5.2", hello, AssistantTurn((TextBlock("hi"),)), more),
        official_call("openai", "gpt-5.2", more),
        official_call("openai", "gpt-5.2", hello, system="Be long."),
    ]
    first, later, *others = [adapter.request(each)["prompt_cache_key"] for each in calls]
    assert first == later
    assert len({first, *others}) == 3
    elsewhere = replace(calls[0], endpoint=replace(calls[0].endpoint, base_url="http://localhost:1/v1"))
    assert "prompt_cache_key" not in adapter.request(elsewhere)


async def test_anthropic_leaves_out_a_thought_whose_conversation_changed() -> None:
    """Elsewhere, and with models that do not bind their thoughts, the control is not known."""
    adapter, call = AnthropicMessages(), official_call("anthropic", "claude-sonnet-5-5", user("hello"))
    assert adapter.request(call)["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    earlier = official_call("anthropic", "claude-opus-5", user("hello"))
    elsewhere = replace(call, endpoint=replace(call.endpoint, base_url="http://localhost:1"))
    for other in (earlier, elsewhere):
        assert "block_binding" not in adapter.request(other)["thinking"]
    for each, beta in ((call, "thinking-binding-controls-2026-08-01"), (elsewhere, None)):
        opened = adapter.connect(each.endpoint)
        http, _path = opened.client.args  # type: ignore[attr-defined]  # a partial of post
        assert http.headers.get("anthropic-beta") == beta
        await opened.close()
