"""The long tail through pydantic-ai: here by way of a provider whose format the fakes speak."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from provider_fakes import (
    Called,
    Cut,
    Ended,
    FakeProvider,
    Refused,
    Said,
    Scene,
    Spent,
    Thought,
    fake_provider,
)
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    CostSheet,
    DoneEmission,
    ErrorEmission,
    ImageBlock,
    ModelCard,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallStartEmission,
    ToolResultBlock,
    ToolTurn,
    Usage,
    UserTurn,
)
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import PROVIDERS_BY_NAME
from sidecar.llmgateway.providers import ProviderModels
from sidecar.llmgateway.providers.calling import RetryDeps, RetryPolicy

pytestmark = pytest.mark.processes

OK: Scene = (Said(("ok",)), Ended())
FULL: Scene = (
    Thought(("hm",)),
    Said(("look",)),
    Called("c1", "read", ('{"path":', '"a"}')),
    Spent(10, 5, 90),
    Ended("tool_calls"),
)


class Stage:
    def __init__(self, fake: FakeProvider, serving: ProviderModels) -> None:
        self.fake, self.serving = fake, serving

    async def play(self, conversation: Conversation, model: str = "openai-chat:gpt-5") -> list[Any]:
        card = ModelCard(
            f"pydantic-ai:{model}",
            "pydantic-ai",
            "pydantic-ai",
            "Long tail",
            context_window=1_000,
            max_output_tokens=100,
            modalities=("text", "image"),
            reasoning=True,
            cost=CostSheet(0, 0),
            wire_id=model,
        )
        invoke = self.serving.invoker(card, PROVIDERS_BY_NAME["pydantic-ai"])
        return [emission async for emission in invoke(conversation, StreamOptions(thinking="low"))]


@pytest.fixture
async def staged(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    pytest.importorskip("pydantic_ai", reason="the extra [pydantic-ai] is not installed")
    async with fake_provider("openai-chat", request.param) as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.http.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")

        async def at_once(seconds: float) -> None:
            return None

        stage = Stage(fake, ProviderModels(Credentials(), RetryDeps(RetryPolicy(max_attempts=3), at_once)))
        yield stage
        await stage.serving.aclose()


def hello(**more: Any) -> Conversation:
    return Conversation((UserTurn((TextBlock("hi"),)),), **more)


@pytest.mark.parametrize("staged", [(FULL, OK)], indirect=True)
async def test_a_call_and_its_result(staged: Stage) -> None:
    played = await staged.play(hello(system="Be brief."))
    done = played[-1]
    assert played[:3] == [ThinkingEmission("hm"), TextEmission("look"), ToolCallStartEmission("c1", "read")]
    assert isinstance(done, DoneEmission)
    thought, *rest = done.reply.blocks
    assert rest == [TextBlock("look"), ToolCallBlock("c1", "read", {"path": "a"})]
    assert isinstance(thought, ThinkingBlock)
    assert (done.reply.usage, done.reply.stop) == (Usage(10, 5, 90), "tool_calls")  # type: ignore[union-attr]  # it is done

    results = ToolTurn((ToolResultBlock("c1", {"n": 1}), ImageBlock("image/png", "iVBORw0KGgo=")))
    turns = (*hello().turns, AssistantTurn(done.reply.blocks), results, UserTurn((TextBlock("and?"),)))
    await staged.play(Conversation(turns, system="Be brief."))
    system, _, assistant, tool, *shown = staged.fake.sent[1]["messages"]
    assert (system["content"], assistant["reasoning_content"]) == ("Be brief.", "hm")
    assert assistant["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path":"a"}'}
    assert (tool["tool_call_id"], tool["content"]) == ("c1", '{"n":1}')
    assert len(shown) == 2


@pytest.mark.parametrize(
    ("staged", "kind", "n_calls"),
    [
        (([Refused(401, "bad key", "invalid_api_key")],), "auth", 1),
        (([Refused(429, "slow")],), "rate_limit", 3),
        (([Refused(500, "oops")],), "http", 3),
        (([Said(("half",)), Cut()],), "transport", 3),
    ],
    indirect=["staged"],
)
async def test_failures_have_their_kind_and_are_tried_again_by_us(
    staged: Stage, kind: str, n_calls: int
) -> None:
    last = (await staged.play(hello()))[-1]
    assert isinstance(last, ErrorEmission)
    assert (last.error.kind, len(staged.fake.calls)) == (kind, n_calls)


@pytest.mark.parametrize(
    "staged", [([Refused(400, "maximum context length is 9", "context_length_exceeded")],)], indirect=True
)
async def test_overflow_is_known_here_too(staged: Stage) -> None:
    last = (await staged.play(hello()))[-1]
    assert last.error.is_overflow


@pytest.mark.parametrize(
    ("staged", "model", "kind", "message"),
    [
        ((OK,), "nobody:x", "unsupported", "Unknown provider"),
        ((OK,), "x", "unsupported", "Unknown model"),
        ((OK,), "cohere:command-a", "unsupported", "pip install"),
    ],
    indirect=["staged"],
)
async def test_the_error_names_the_missing_part(staged: Stage, model: str, kind: str, message: str) -> None:
    (only,) = await staged.play(hello(), model)
    assert only.error.kind == kind
    assert message in only.error.message
