"""The same scene over each provider gives the same emissions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from provider_fakes import Called, Ended, Said, Scene, Spent, Thought
from sidecar.llmgateway.contract import (
    Block,
    DoneEmission,
    Emission,
    Reply,
    StopEmission,
    StopReason,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    Usage,
    UsageEmission,
)
from sidecar.llmgateway.providers.assembly import join_deltas
from tests.llmgateway.providers.conftest import FORMATS, Play, StageMaker

pytestmark = pytest.mark.processes

MODEL = "fake:fake-1"
NONE = Usage(0, 0)


def plain(emissions: Sequence[Emission]) -> list[Emission]:
    """Return *emissions* without what differs by nature: signatures, and how texts and arguments were cut."""
    return [
        DoneEmission(replace(each.reply, blocks=unsigned(each.reply.blocks)))
        if isinstance(each, DoneEmission) and isinstance(each.reply, Reply)
        else each
        for each in join_deltas(emissions)
    ]


def unsigned(blocks: Sequence[Block]) -> tuple[Block, ...]:
    bare = (replace(block, signature=None) if isinstance(block, ThinkingBlock) else block for block in blocks)
    return tuple(block for block in bare if block != ThinkingBlock(""))


def end(blocks: tuple[Block, ...], usage: Usage, stop: StopReason) -> list[Emission]:
    told: list[Emission] = [UsageEmission(usage)] if usage != NONE else []
    return [*told, StopEmission(stop), DoneEmission(Reply(MODEL, blocks, usage, stop))]


SCENES: list[Any] = [
    pytest.param(
        (Said(("Hel", "lo")), Spent(10, 5), Ended()),
        [TextEmission("Hello"), *end((TextBlock("Hello"),), Usage(10, 5), "complete")],
        id="prose comes whole",
    ),
    pytest.param(
        (Thought(("h", "m")), Said(("ok",)), Ended()),
        [
            ThinkingEmission("hm"),
            TextEmission("ok"),
            *end((ThinkingBlock("hm"), TextBlock("ok")), NONE, "complete"),
        ],
        id="reasoning goes before prose; usage that is not told is not made up",
    ),
    pytest.param(
        (Thought(("hm",)), Called("c1", "read", ('{"path":', '"a"}')), Ended("tool_calls")),
        [
            ThinkingEmission("hm"),
            ToolCallStartEmission("c1", "read"),
            ToolCallDeltaEmission("c1", '{"path":"a"}'),
            *end((ThinkingBlock("hm"), ToolCallBlock("c1", "read", {"path": "a"})), NONE, "tool_calls"),
        ],
        id="a call comes with its arguments",
    ),
    pytest.param(
        (
            Called("c1", "read", ('{"path":"a"}',)),
            Called("c2", "read", ('{"path":"b"}',)),
            Ended("tool_calls"),
        ),
        [
            ToolCallStartEmission("c1", "read"),
            ToolCallDeltaEmission("c1", '{"path":"a"}'),
            ToolCallStartEmission("c2", "read"),
            ToolCallDeltaEmission("c2", '{"path":"b"}'),
            *end(
                (ToolCallBlock("c1", "read", {"path": "a"}), ToolCallBlock("c2", "read", {"path": "b"})),
                NONE,
                "tool_calls",
            ),
        ],
        id="calls in parallel keep their order and their ids",
    ),
    pytest.param(
        (Said(("x",)), Spent(10, 5, cache_read=90), Ended()),
        [TextEmission("x"), *end((TextBlock("x"),), Usage(10, 5, 90), "complete")],
        id="input excludes what the cache held",
    ),
    pytest.param(
        (Said(("cut",)), Spent(1, 2), Ended("max_output")),
        [TextEmission("cut"), *end((TextBlock("cut"),), Usage(1, 2), "max_output")],
        id="an answer cut at its limit says so",
    ),
    pytest.param(
        (Said(("no",)), Ended("refusal")),
        [TextEmission("no"), *end((TextBlock("no"),), NONE, "refusal")],
        id="a refusal says so",
    ),
    pytest.param(
        (Said(("日本 ", "🙂\u2028\r\n", "\x00")), Ended()),
        [
            TextEmission("日本 🙂\u2028\r\n\x00"),
            *end((TextBlock("日本 🙂\u2028\r\n\x00"),), NONE, "complete"),
        ],
        id="any character arrives as it was said",
    ),
]


@pytest.mark.parametrize("api", FORMATS)
@pytest.mark.parametrize(("scene", "emissions"), SCENES)
async def test_the_same_scene_gives_the_same_emissions(
    play: Play, api: str, scene: Scene, emissions: list[Emission]
) -> None:
    if api == "ollama-chat" and (Ended("refusal") in scene or Spent(10, 5, cache_read=90) in scene):
        pytest.skip("Ollama reports neither a refusal nor a cache")
    stage = await play(api, scene)
    assert plain(stage.emissions) == emissions
    assert (stage.repairs, stage.retries) == ([], [])


WRITE_CACHES = ("openai-chat", "openai-responses", "anthropic-messages")


@pytest.mark.parametrize("api", WRITE_CACHES)
async def test_usage_has_the_tokens_written_to_the_cache(play: Play, api: str) -> None:
    stage = await play(api, (Said(("x",)), Spent(10, 5, 90, 7), Ended()))
    assert UsageEmission(Usage(10, 5, 90, 7)) in stage.emissions


@pytest.mark.parametrize(
    ("api", "pieces", "arguments"),
    [
        *((api, ('{"path": "a',), '{"path": "a') for api in WRITE_CACHES),
        *((api, (), {}) for api in FORMATS),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_arguments_that_are_no_json_stay_text_and_none_are_an_empty_object(
    play: Play, api: str, pieces: tuple[str, ...], arguments: Any
) -> None:
    stage = await play(api, (Called("c1", "read", pieces), Ended("tool_calls")))
    assert stage.blocks == (ToolCallBlock("c1", "read", arguments),)


async def test_a_channel_that_is_read_again_calls_again(on_stage: StageMaker) -> None:
    async with on_stage("openai-chat", (Said(("x",)), Ended())) as stage:
        channel = stage.call()
        first, second = [[e async for e in channel] for _ in range(2)]
    assert first == second
    assert len(stage.fake.calls) == 2
