"""The long tail through pydantic-ai: here by way of a provider whose format the fakes speak."""

from __future__ import annotations

from typing import Any

import pytest

from provider_fakes import Called, Cut, Ended, Refused, Said, Scene, Spent, Thought
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    ImageBlock,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallStartEmission,
    ToolResultBlock,
    ToolTurn,
    Usage,
)
from tests.llmgateway.providers.conftest import Play, StageMaker
from turns import user

pytest.importorskip("pydantic_ai", reason="the extra [pydantic-ai] is not installed")
pytestmark = pytest.mark.processes

OK: Scene = (Said(("ok",)), Ended())
FULL: Scene = (
    Thought(("hm",)),
    Said(("look",)),
    Called("c1", "read", ('{"path":', '"a"}')),
    Spent(10, 5, 90),
    Ended("tool_calls"),
)
GPT: dict[str, Any] = {"model": "openai-chat:gpt-5"}
HELLO = Conversation((user("hi"),), system="Be brief.")


async def test_a_call_and_its_result(on_stage: StageMaker) -> None:
    async with on_stage("pydantic-ai", FULL, OK, **GPT) as stage:
        await stage.play(HELLO, thinking="low")
        assert stage.emissions[:3] == [
            ThinkingEmission("hm"),
            TextEmission("look"),
            ToolCallStartEmission("c1", "read"),
        ]
        thought, *rest = stage.blocks
        assert rest == [TextBlock("look"), ToolCallBlock("c1", "read", {"path": "a"})]
        assert isinstance(thought, ThinkingBlock)
        assert (stage.reply.usage, stage.reply.stop) == (Usage(10, 5, 90), "tool_calls")
        results = ToolTurn((ToolResultBlock("c1", {"n": 1}), ImageBlock("image/png", "iVBORw0KGgo=")))
        turns = (*HELLO.turns, AssistantTurn(tuple(stage.blocks)), results, user("and?"))
        await stage.play(Conversation(turns, system="Be brief."), thinking="low")
    system, _, answer, tool, *shown = stage.sent[1]["messages"]
    assert (system["content"], answer["reasoning_content"]) == ("Be brief.", "hm")
    assert answer["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path":"a"}'}
    assert (tool["tool_call_id"], tool["content"]) == ("c1", '{"n":1}')
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("scene", "kind", "n_calls"),
    [
        ([Refused(401, "bad key", "invalid_api_key")], "auth", 1),
        ([Refused(429, "slow")], "rate_limit", 3),
        ([Refused(500, "oops")], "http", 3),
        ([Said(("half",)), Cut()], "transport", 3),
        ([Refused(400, "maximum context length is 9", "context_length_exceeded")], "http", 1),
    ],
)
async def test_failures_have_their_kind_and_are_tried_again_by_us(
    play: Play, scene: Scene, kind: str, n_calls: int
) -> None:
    stage = await play("pydantic-ai", scene, card=GPT)
    assert (stage.error.kind, len(stage.fake.calls)) == (kind, n_calls)
    assert stage.error.is_overflow == ("maximum context" in str(scene))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nobody:x", "Unknown provider"),
        ("x", "Unknown model"),
        ("cohere:command-a", "pip install"),
    ],
)
async def test_the_error_names_the_missing_part(play: Play, model: str, message: str) -> None:
    stage = await play("pydantic-ai", OK, card={"model": model})
    assert len(stage.emissions) == 1
    assert (stage.error.kind, message in stage.error.message) == ("unsupported", True)
