"""What each provider is sent: valid in its own terms, with its own reasoning and marks for its own cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from model_cards import provider_card
from provider_fakes import Called, Ended, Refused, Said, Scene, Thought, frame
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
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
from tests.llmgateway.providers.conftest import FORMATS, HELLO, KEY, Play, StageMaker
from turns import assistant, user

pytestmark = pytest.mark.processes

SAYS_OK: Scene = (Said(("ok",)), Ended())
PIXEL = ImageBlock("image/png", "iVBORw0KGgo=")
CACHED = {"type": "ephemeral"}


def talk(*turns: Any, system: str | None = None) -> Conversation:
    return Conversation(turns, system=system)


CALLED = assistant("look", ToolCallBlock("c1", "read", {"path": "a"}))
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
    play: Play, api: str, name: str, messages: list[Any]
) -> None:
    asked = talk(user("hi"), CALLED, FAILED, user("go on"), system="Be brief.")
    stage = await play(api, SAYS_OK, asked=asked)
    assert stage.sent[0][name] == messages
    assert stage.repairs == []


@pytest.mark.parametrize(
    ("api", "part"),
    [
        ("openai-responses", {"instructions": "Be brief.", "store": False}),
        ("anthropic-messages", {"system": [{"type": "text", "text": "Be brief.", "cache_control": CACHED}]}),
    ],
)
async def test_the_system_prompt_has_its_own_place(play: Play, api: str, part: Any) -> None:
    stage = await play(api, SAYS_OK, asked=talk(user("hi"), system="Be brief."))
    assert part.items() <= stage.sent[0].items()


SUMMARY = [{"type": "summary_text", "text": "hm"}]


@pytest.mark.parametrize(
    ("api", "name", "expected"),
    [
        ("openai-chat", "messages", {"role": "assistant", "content": None, "reasoning_content": "hm"}),
        (
            "openai-responses",
            "input",
            {"type": "reasoning", "id": "rs_0", "summary": SUMMARY, "encrypted_content": "c2ln"},
        ),
        (
            "anthropic-messages",
            "messages",
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {}},
                ],
            },
        ),
        (
            "google-generate",
            "contents",
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"id": "c1", "name": "read", "args": {}},
                        "thoughtSignature": "c2ln",
                    }
                ],
            },
        ),
    ],
)
async def test_reasoning_goes_back_to_its_provider(
    on_stage: StageMaker, api: str, name: str, expected: dict[str, Any]
) -> None:
    """Within one question; the proof unchanged, and before the call it led to."""
    scene: Scene = (Thought(("hm",), "c2ln"), Called("c1", "read", ("{}",)), Ended("tool_calls"))
    async with on_stage(api, scene, SAYS_OK) as stage:
        await stage.play()
        await stage.play(talk(*HELLO.turns, AssistantTurn(tuple(stage.blocks)), RESULT))
    _, answer, call, *_ = stage.sent[1][name]
    assert {member: answer.get(member) for member in expected} == expected
    if api == "openai-responses":
        assert call == {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}


FOREIGN = {
    "openai-chat": "EqQB",
    "openai-responses": "google:c2ln",
    "anthropic-messages": 'openai:{"id": "rs_0", "summary": []}',
    "google-generate": "chat:reasoning",
}


@pytest.mark.parametrize("api", FOREIGN)
async def test_reasoning_of_another_provider_is_left_out_whole(play: Play, api: str) -> None:
    said = assistant(ThinkingBlock("secret", FOREIGN[api]), "so", ThinkingBlock("unsigned"))
    stage = await play(api, SAYS_OK, asked=talk(user("hi"), said, user("go on")))
    assert "secret" not in str(stage.sent[0])
    assert "unsigned" not in str(stage.sent[0])
    assert stage.repairs == []


@pytest.mark.parametrize(
    ("api", "thought", "expected"),
    [
        pytest.param(
            "anthropic-messages",
            ThinkingBlock("", "redacted:b2s="),
            {"content": [{"type": "redacted_thinking", "data": "b2s="}, {"type": "text", "text": "so"}]},
            id="encrypted",
        ),
        pytest.param(
            "openai-chat",
            ThinkingBlock("hm", "chat:reasoning_content"),
            {"content": "so", "reasoning_content": "hm"},
            id="left out, the request would begin otherwise than the one before it, and miss the cache",
        ),
    ],
)
async def test_reasoning_of_an_earlier_question_goes_back_as_it_came(
    play: Play, api: str, thought: ThinkingBlock, expected: dict[str, Any]
) -> None:
    stage = await play(api, SAYS_OK, asked=talk(user("hi"), assistant(thought, "so"), user("go on")))
    assert stage.sent[0]["messages"][1] == {"role": "assistant", **expected}


async def test_a_signature_on_text_goes_back_behind_it(on_stage: StageMaker) -> None:
    async with on_stage("google-generate", (Thought(("hm",), "c2ln"), Said(("so",)), Ended())) as stage:
        await stage.play()
        await stage.play(talk(*HELLO.turns, AssistantTurn(tuple(stage.blocks)), user("go on")))
    parts = stage.sent[1]["contents"][1]["parts"]
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
            "claude-opus-5",
            {"thinking": "off"},
            {"thinking": {"type": "disabled"}, "output_config": None},
            id="anthropic: no thinking where it can be turned off",
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
    play: Play, api: str, model: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    sent = (await play(api, SAYS_OK, card={"model": model}, **options)).sent[0]
    assert {name: sent.get(name) for name in expected} == expected
    assert "temperature" not in sent or "temperature" in expected


@pytest.mark.parametrize(
    ("model", "thinking", "config"),
    [
        ("gemini-2.5-flash", "low", {"includeThoughts": True, "thinkingBudget": 2_048}),
        ("gemini-2.5-flash", "off", {"includeThoughts": False, "thinkingBudget": 0}),
        ("gemini-3.8-flash", "max", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
    ],
)
async def test_google_thinks_by_budget_or_by_level(
    play: Play, model: str, thinking: Any, config: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"thinking": thinking, "max_output_tokens": 7_000, "temperature": 0.1}
    sent = (await play("google-generate", SAYS_OK, card={"model": model}, **options)).sent[0]
    assert sent["generationConfig"] == {
        "maxOutputTokens": 7_000,
        "temperature": 0.1,
        "thinkingConfig": config,
    }


FOUR = FORMATS[:4]


@pytest.mark.parametrize("api", FOUR)
async def test_a_model_without_reasoning_gets_no_reasoning_arguments(play: Play, api: str) -> None:
    sent = (await play(api, SAYS_OK, card={"reasoning": False}, thinking="high")).sent[0]
    assert not {"reasoning", "reasoning_effort", "thinking", "include"} & set(sent)
    assert "thinkingConfig" not in sent.get("generationConfig", {})


@pytest.mark.parametrize("api", FOUR)
async def test_the_key_of_the_call_goes_before_the_users(on_stage: StageMaker, api: str) -> None:
    async with on_stage(api, SAYS_OK) as stage:
        await stage.play()
        await stage.play(api_key="sk-of-this-call")
    header = "x-goog-api-key" if api == "google-generate" else "authorization"
    first, second = (asked.headers.get(header, "") for asked in stage.fake.calls)
    assert (KEY in first, "sk-of-this-call" in second) == (True, True)


@pytest.mark.parametrize("api", FOUR)
async def test_an_image_is_not_sent_to_a_model_that_sees_none(play: Play, api: str) -> None:
    asked = talk(user("what is this?", PIXEL))
    stage = await play(api, SAYS_OK, asked=asked, card={"modalities": ("text",)})
    assert PIXEL.data_base64 not in str(stage.sent[0])
    why = "this model is not known to see images; if it does, set images = true for it"
    assert f"[image left out: {why}]" in str(stage.sent[0])
    assert stage.repairs == [f"an image was left out: {why}"]


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
    on_stage: StageMaker, card: dict[str, Any], prompt: str, limit: int | None
) -> None:
    """Some services cut an answer off after 1,024 tokens when a request sets no limit."""
    async with on_stage("openai-chat", SAYS_OK, **card) as stage:
        await stage.play(talk(user(prompt)))
        await stage.play(talk(user(prompt)), max_output_tokens=77)
    sent = [body.get("max_tokens") for body in stage.sent]
    assert sent == [pytest.approx(limit, abs=100) if limit else None, 77]


async def test_a_limit_that_the_service_refuses_is_left_to_it(play: Play) -> None:
    refused = Refused(400, "max_tokens must be less than or equal to 4096")
    stage = await play("openai-chat", [refused], SAYS_OK, n_calls=2)
    assert stage.blocks == (TextBlock("ok"),)
    assert [body.get("max_tokens") for body in stage.sent] == [8_000, None, None]


async def test_the_phase_of_a_message_goes_back_with_it(on_stage: StageMaker) -> None:
    """OpenAI asks for it: without it, answers of later turns get worse."""

    def message(phase: str, text: str) -> list[bytes]:
        item = {"id": "m1", "type": "message", "role": "assistant", "content": [], "phase": phase}
        added, said = "response.output_item.added", "response.output_text.delta"
        delta = {"type": said, "output_index": 0, "delta": text, "logprobs": []}
        return [frame({"type": added, "output_index": 0, "item": item}, added), frame(delta, said)]

    scene: Scene = [*message("commentary", "I look."), *message("final_answer", "So it is."), Ended()]
    async with on_stage("openai-responses", scene, SAYS_OK) as stage:
        await stage.play(talk(user("hi")))
        await stage.play(talk(user("hi"), AssistantTurn(tuple(stage.blocks)), user("go on")))
    assert stage.sent[1]["input"][1:3] == [
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {"role": "assistant", "content": "So it is.", "phase": "final_answer"},
    ]


MARKED = """<think>hm</think>I look.
<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>"""


async def test_marks_of_a_template_in_the_text_are_reasoning_and_calls(on_stage: StageMaker) -> None:
    async with on_stage("openai-chat", [Said((MARKED,)), Ended()], SAYS_OK) as stage:
        await stage.play()
        thinking, text, call = stage.blocks
        assert (thinking, text) == (ThinkingBlock("hm", "chat:text"), TextBlock("I look.\n"))
        assert isinstance(call, ToolCallBlock)
        assert (call.name, call.input) == ("read", {"path": "a"})
        result = ToolTurn((ToolResultBlock(call.id, "data"),))
        await stage.play(talk(user("hi"), AssistantTurn(tuple(stage.blocks)), result))
    assert [message["role"] for message in stage.sent[1]["messages"]] == ["user", "assistant", "tool"]
    assert "hm" not in str(stage.sent[1])


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
    on_stage: StageMaker, api: str, model: str, budget: Any
) -> None:
    async with on_stage(api, SAYS_OK, model=model, max_output_tokens=64_000) as stage:
        await stage.play(thinking="max", max_output_tokens=8_000)
        await stage.play(thinking="max")
    assert budget(stage.sent[0]) == 5_000
    if api == "anthropic-messages":
        assert stage.sent[1]["max_tokens"] - budget(stage.sent[1]) >= 24_000


@pytest.mark.parametrize("api", FORMATS)
async def test_a_proxy_of_the_environment_is_not_used_for_a_local_server(
    play: Play, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await play(api, SAYS_OK)).blocks == (TextBlock("ok"),)


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
        official_call("openai", "gpt-5.2", hello, assistant("hi"), more),
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
