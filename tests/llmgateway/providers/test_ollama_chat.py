"""Ollama's own format: each call sets the window, and what does not fit is refused and not cut off."""

from __future__ import annotations

import pytest

from provider_fakes import Ended, Said
from sidecar.llmgateway.contract import (
    Conversation,
    ImageBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
)
from sidecar.llmgateway.providers.ollama_chat import ollama_messages
from tests.llmgateway.providers.conftest import Play, StageMaker
from turns import assistant, user


def test_a_conversation_as_messages() -> None:
    thought = ThinkingBlock("hm", "chat:thinking")
    turns = (
        user("see", ImageBlock("image/png", "aGk=")),
        assistant(thought, "ok"),
        user("go on"),
        assistant(thought, "look", ToolCallBlock("c1", "read", {"path": "a"})),
        ToolTurn((ToolResultBlock("c1", {"lines": 1}),)),
    )
    function = {"name": "read", "arguments": {"path": "a"}}
    assert list(ollama_messages("Be brief.", turns)) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "see", "images": ["aGk="]},
        {"role": "assistant", "content": "ok", "thinking": "hm"},
        {"role": "user", "content": "go on"},
        {
            "role": "assistant",
            "content": "look",
            "thinking": "hm",
            "tool_calls": [{"id": "c1", "function": function}],
        },
        {"role": "tool", "tool_name": "read", "tool_call_id": "c1", "content": '{"lines":1}'},
    ]


OK = (Said(("ok",)), Ended())


@pytest.mark.processes
async def test_a_request_sets_the_window_and_forbids_cutting(on_stage: StageMaker) -> None:
    async with on_stage("ollama-chat", OK) as stage:
        await stage.play(thinking="high", max_output_tokens=77, temperature=0.5)
        await stage.play(Conversation((user("hi"),)), thinking="off")
    body, other = stage.sent
    assert body["options"] == {"num_ctx": 100_000, "num_predict": 77, "temperature": 0.5}
    assert (body["truncate"], body["shift"], body["think"], other["think"]) == (False, False, True, False)
    assert ([tool["function"]["name"] for tool in body["tools"]], "tools" in other) == (["read"], False)


@pytest.mark.processes
async def test_the_server_keeps_the_model_loaded_as_long_as_its_user_set(
    on_stage: StageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_KEEP_ALIVE", raising=False)
    async with on_stage("ollama-chat", OK) as stage:
        await stage.play()
        monkeypatch.setenv("OLLAMA_KEEP_ALIVE", "-1")
        await stage.play()
    assert [body["keep_alive"] for body in stage.sent] == ["30m", "-1"]


@pytest.mark.processes
async def test_a_model_without_a_parser_leaves_its_calls_in_the_text(play: Play) -> None:
    text = '<think>hm</think><tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    thinking, call = (await play("ollama-chat", [Said((text,)), Ended()])).blocks
    assert isinstance(call, ToolCallBlock)
    assert (thinking, call.name, call.input) == (ThinkingBlock("hm", "chat:text"), "read", {"path": "a"})
