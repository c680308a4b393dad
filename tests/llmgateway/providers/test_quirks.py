"""Each row of the table of quirks, by its name: what a request says, and what is read from an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from model_cards import provider_card
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolDescriptor,
    ToolResultBlock,
    ToolTurn,
    Turn,
    Usage,
)
from sidecar.llmgateway.credentials import Key
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider
from sidecar.llmgateway.providers.adapter import Endpoint, ModelCall
from sidecar.llmgateway.providers.http_calls import ReportedFailureError
from sidecar.llmgateway.providers.openai_chat import OpenAIChat
from sidecar.llmgateway.providers.quirks import QUIRKS
from turns import user

Check: TypeAlias = Callable[[], None]

READ = ToolDescriptor("read", "Read a file.", {"type": "object", "properties": {}})
THOUGHT = ThinkingBlock("hm", "chat:reasoning_content")
CALLED: Sequence[Turn] = (
    user("hi"),
    AssistantTurn((THOUGHT, ToolCallBlock("call_1", "read", {}))),
    ToolTurn((ToolResultBlock("call_1", "data"),)),
)


def call_of(name: str, turns: Sequence[Turn] = CALLED[:1], **options: Any) -> ModelCall:
    """Return a call of ``provider:model``."""
    provider_id, _, model = name.partition(":")
    provider = PROVIDERS_BY_NAME.get(provider_id) or Provider(
        provider_id, "openai-chat", "https://example.com"
    )
    card = provider_card(provider.api, model, provider.id)
    endpoint = Endpoint(provider, provider.base_url, Key("k", "test"))
    return ModelCall(Conversation(tuple(turns), tools=(READ,)), StreamOptions(**options), card, endpoint)


def sends(name: str, **expected: Any) -> Check:
    """Return a check of the members of a request; None stands for one that is not there."""

    def check() -> None:
        level = expected.pop("level", None)
        request = OpenAIChat().request(
            call_of(name, thinking=level, temperature=0.5, top_p=0.9, tool_choice="required")
        )
        assert {member: request.get(member) for member in expected} == expected

    return check


def levels(name: str, **values: Any) -> Check:
    """Return a check of the member that says how far to think, level by level."""

    def check() -> None:
        for level, value in values.items():
            request = OpenAIChat().request(call_of(name, thinking=level))
            members = {"reasoning", "reasoning_effort", "thinking"}
            assert {key: request[key] for key in members & request.keys()} == value, level

    return check


def replays(name: str, message: Mapping[str, Any], turns: Sequence[Turn] = CALLED, at: int = 1) -> Check:
    """Return a check of one message of an earlier conversation, as far as *message* has members."""

    def check() -> None:
        sent = OpenAIChat().request(call_of(name, turns))["messages"][at]
        assert {member: sent.get(member) for member in message} == message

    return check


def counts(name: str, chunk: Mapping[str, Any], usage: Usage) -> Check:
    """Return a check of the usage that is read from *chunk*."""

    def check() -> None:
        reader = OpenAIChat().reader(call_of(name))
        reader.read(dict(chunk))
        assert reader.assembly.usage == usage

    return check


def ends(name: str, reason: str, stop: str | None) -> Check:
    """Return a check of how an answer ends by *reason*; None for a failure."""

    def check() -> None:
        reader = OpenAIChat().reader(call_of(name))
        chunk = {"choices": [{"delta": {}, "finish_reason": reason}]}
        if stop is None:
            with pytest.raises(ReportedFailureError, match=reason):
                reader.read(chunk)
        else:
            reader.read(chunk)
            assert reader.assembly.stop == stop

    return check


def details_come_back() -> None:
    adapter = OpenAIChat()
    reader = adapter.reader(call_of("openrouter:google/gemini-3-pro"))
    text = {"type": "reasoning.text", "text": "so", "index": 0, "format": "google-gemini-v1"}
    proof = {"type": "reasoning.encrypted", "data": "xyz", "id": "call_1", "index": 1}
    called = {"index": 0, "id": "call_1", "function": {"name": "read", "arguments": "{}"}}
    for delta in (
        {"reasoning": "so", "reasoning_details": [text]},
        {"reasoning": " it is", "reasoning_details": [{**text, "text": " it is"}]},
        {"tool_calls": [called], "reasoning_details": [proof]},
    ):
        reader.read({"choices": [{"delta": delta}]})
    reader.read({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    reply = reader.assembly.finish("m")[-1].reply  # type: ignore[union-attr]  # the last one is done
    turns = (CALLED[0], AssistantTurn(reply.blocks), CALLED[2])
    whole = [{**text, "text": "so it is"}, proof]
    sent = adapter.request(call_of("openrouter:google/gemini-3-pro", turns))["messages"][1]
    assert (sent["reasoning_details"], "reasoning" in sent) == (whole, False)
    other = adapter.request(call_of("openrouter:anthropic/claude-sonnet-5", turns))["messages"][1]
    assert "reasoning_details" not in other, "a proof is for the model that gave it"
    assert "reasoning_details" not in adapter.request(call_of("groq:qwen/qwen3-32b", turns))["messages"][1]


def bridge_stays_where_it_is() -> None:
    turns = (*CALLED, user("stop"))
    roles = [
        message["role"] for message in OpenAIChat().request(call_of("mistral:devstral-2", turns))["messages"]
    ]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def tells_price() -> None:
    def price_in(usage: Mapping[str, Any], name: str = "openrouter:x/y") -> float | None:
        reader = OpenAIChat().reader(call_of(name))
        reader.read({"usage": {"prompt_tokens": 100, "completion_tokens": 5, **usage}})
        assert reader.assembly.usage is not None
        return reader.assembly.usage.cost

    own_key = {"is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}
    assert price_in({"cost": 0.25}) == 0.25
    assert price_in({"cost": 0.25, **own_key}) == 0.75, "a key of the user's own is billed apart"
    assert price_in({"cost": 0.25, **own_key, "is_byok": False}) == 0.25
    assert [price_in({"cost": odd}) for odd in (None, "0.25", -1, float("nan"), True)] == [None] * 5
    assert price_in({"cost": 0.25}, "groq:qwen/qwen3-32b") is None, "its unit is not documented"


def ids_fit() -> None:
    request = OpenAIChat().request(call_of("openrouter:mistralai/devstral-2", CALLED))
    _, answer, result = request["messages"]
    call_id = answer["tool_calls"][0]["id"]
    assert (len(call_id), call_id.isalnum(), result["tool_call_id"]) == (9, True, call_id)


def marks_are_read() -> None:
    reader = OpenAIChat().reader(call_of("cerebras:qwen-3-32b"))
    reader.read({"choices": [{"delta": {"content": "<think>hm</think>so"}, "finish_reason": "stop"}]})
    reply = reader.assembly.finish("m")[-1].reply  # type: ignore[union-attr]  # the last one is done
    assert [type(block) for block in reply.blocks] == [ThinkingBlock, TextBlock]


ON, OFF = {"type": "enabled"}, {"type": "disabled"}
KEPT = {"type": "enabled", "clear_thinking": False}


def effort(value: str) -> dict[str, str]:
    return {"reasoning_effort": value}


CASES: Mapping[str, Check] = {
    "openrouter has one member for thinking": levels(
        "openrouter:x/y", off={"reasoning": {"effort": "none"}}, max={"reasoning": {"effort": "xhigh"}}
    ),
    "openrouter takes reasoning back as details": details_come_back,
    "openrouter sets the marks of anthropic's cache where it is asked to": sends(
        "openrouter:anthropic/claude-sonnet-5", cache_control={"type": "ephemeral"}
    ),
    "openrouter names a failure of the service behind it as the end": ends("openrouter:x/y", "error", None),
    "openrouter reports the price of a call": tells_price,
    "deepseek switches thinking, and knows three efforts": levels(
        "deepseek:deepseek-v4-pro",
        off={"thinking": OFF},
        medium={"thinking": ON, **effort("high")},
        max={"thinking": ON, **effort("max")},
    ),
    "deepseek refuses calls without the reasoning before them": replays(
        "deepseek:deepseek-v4-pro",
        {"reasoning_content": " "},
        (CALLED[0], AssistantTurn((ToolCallBlock("call_1", "read", {}),)), CALLED[2]),
    ),
    "deepseek counts the cache in a member of its own": counts(
        "deepseek:deepseek-v4-pro",
        {"usage": {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 64}},
        Usage(36, 5, 64),
    ),
    "deepseek ends an answer when its machines are overloaded": ends(
        "deepseek:deepseek-v4-pro", "insufficient_system_resource", None
    ),
    "kimi sets sampling itself": sends("moonshotai:kimi-k3", temperature=None, top_p=None),
    "models of kimi k2 always think": levels("moonshotai:kimi-k2.7-code", off={}, high={}),
    "kimi k2.5 and k2.6 switch thinking": levels(
        "moonshotai:kimi-k2.6", off={"thinking": OFF}, low={"thinking": ON}
    ),
    "kimi k3 always thinks, with three efforts": levels(
        "moonshotai:kimi-k3.1-pro", off=effort("low"), medium=effort("high"), max=effort("max")
    ),
    "kimi refuses calls without the reasoning before them": replays(
        "moonshotai:kimi-k3",
        {"reasoning_content": " "},
        (CALLED[0], AssistantTurn((ToolCallBlock("call_1", "read", {}),)), CALLED[2]),
    ),
    "kimi counts the usage in the choice": counts(
        "moonshotai:kimi-k3",
        {
            "choices": [
                {"delta": {}, "usage": {"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": 60}}
            ]
        },
        Usage(40, 5, 60),
    ),
    "kimi that thinks cannot be told to call a tool": sends("moonshotai:kimi-k3", tool_choice=None),
    "glm switches thinking, and keeps earlier reasoning where it is asked to": levels(
        "zai:glm-4.7", off={"thinking": OFF}, high={"thinking": KEPT}
    ),
    "glm 5.2 has efforts as well": levels(
        "zai:glm-5.2", off={"thinking": OFF}, max={"thinking": KEPT, **effort("max")}
    ),
    "glm 5.3 always thinks": levels("zai:glm-5.3", off={"thinking": KEPT, **effort("low")}),
    "glm streams the arguments of calls where it is asked to": sends("zai:glm-5.2", tool_stream=True),
    "glm counts without being asked": sends("zai:glm-5.2", stream_options=None, tool_choice="auto"),
    "glm has words of its own for the end": ends("zai:glm-5.2", "sensitive", "refusal"),
    "mistral thinks or does not": levels(
        "mistral:mistral-medium-3-5", off=effort("none"), low=effort("high"), max=effort("high")
    ),
    "magistral always thinks": levels("mistral:magistral-medium", off={}, high={}),
    "mistral refuses members that it does not know": sends(
        "mistral:mistral-large-4", stream_options=None, tool_choice="any"
    ),
    "ids of calls have nine letters and digits in mistral's models": ids_fit,
    "mistral's models want an answer behind the results of tools": bridge_stays_where_it_is,
    "mistral says that the window is full": ends("mistral:mistral-large-4", "model_length", "max_output"),
    "groq refuses reasoning of models that do not think": replays(
        "groq:llama-3.3-70b", {"reasoning": None, "reasoning_content": None}
    ),
    "groq refuses reasoning in another field than its own": replays(
        "groq:openai/gpt-oss-120b", {"reasoning_content": None}
    ),
    "groq knows three efforts of gpt-oss": levels(
        "groq:openai/gpt-oss-120b", off=effort("low"), medium=effort("medium"), max=effort("high")
    ),
    "groq switches the thinking of qwen, and leaves it in the text unless asked": levels(
        "groq:qwen/qwen3-32b", off=effort("none"), low=effort("default")
    ),
    "groq counts the usage in a member of its own": counts(
        "groq:openai/gpt-oss-120b",
        {"choices": [{"delta": {}}], "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 2}}},
        Usage(9, 2),
    ),
    "cerebras takes no reasoning back in a field": replays(
        "cerebras:llama-4", {"reasoning": None, "reasoning_content": None}
    ),
    "cerebras knows three efforts of gpt-oss, and its reasoning as text": replays(
        "cerebras:gpt-oss-120b", {"content": "hm", "reasoning_content": None}
    ),
    "cerebras switches the thinking of glm off alone, and keeps it where it is asked to": replays(
        "cerebras:zai-glm-4.7", {"content": "<think>hm</think>"}
    ),
    "cerebras leaves the thinking of qwen in the text": marks_are_read,
    "earlier groks take no effort": levels("xai:grok-4-0709", off={}, high={}),
    "grok 3 mini takes two": levels("xai:grok-3-mini", medium=effort("high"), off=effort("low")),
    "grok 4.3 takes four": levels("xai:grok-4.3", off=effort("none"), medium=effort("medium")),
    "later groks take three": levels("xai:grok-4.7", off=effort("low"), max=effort("high")),
    "grok counts reasoning beside the answer": counts(
        "xai:grok-4.7",
        {
            "usage": {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "completion_tokens_details": {"reasoning_tokens": 5},
            }
        },
        Usage(9, 7),
    ),
    "together knows efforts up to high": levels("together:zai-org/GLM-5.3", max=effort("high")),
}


def test_every_row_has_a_case_and_a_source() -> None:
    assert [quirk.name for quirk in QUIRKS] == list(CASES)
    assert all(quirk.source.startswith("https://") for quirk in QUIRKS)


@pytest.mark.parametrize("name", CASES)
def test_the_quirk(name: str) -> None:
    CASES[name]()


def test_a_service_without_rows_speaks_the_format_of_openai() -> None:
    request = OpenAIChat().request(call_of("work:some-model", CALLED, thinking="max", temperature=0.5))
    assert (request["reasoning_effort"], request["temperature"]) == ("xhigh", 0.5)
    assert request["messages"][1]["reasoning_content"] == "hm"


def test_members_of_several_rows_are_all_sent() -> None:
    request = OpenAIChat().request(call_of("groq:qwen/qwen3-32b", thinking="high"))
    assert (request["reasoning_format"], request["reasoning_effort"]) == ("parsed", "default")


def test_a_known_service_at_another_address_has_its_rows_and_the_length_of_the_answer() -> None:
    """A gateway in front of it may be anywhere; a key is enough to tell it from a server without limits."""
    call = call_of("openrouter:anthropic/claude-sonnet-5")
    provider = replace(call.endpoint.provider, base_url="http://localhost:4000/v1", needs_key=False)
    moved = replace(call.endpoint, provider=provider, base_url=provider.base_url)
    request = OpenAIChat().request(replace(call, endpoint=moved))
    assert (request["cache_control"], request["max_tokens"]) == ({"type": "ephemeral"}, 8_000)
    keyless = OpenAIChat().request(replace(call, endpoint=replace(moved, key=None)))
    assert "max_tokens" not in keyless
