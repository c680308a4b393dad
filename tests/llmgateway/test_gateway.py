"""``stream``: from a model's id to its channel, without an exception on any path."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway import collect_reply, stream
from sidecar.llmgateway.catalog import MOCK_CARD
from sidecar.llmgateway.contract import (
    Conversation,
    ErrorEmission,
    GatewayError,
    StreamOptions,
    TextBlock,
    Usage,
)
from sidecar.llmgateway.gateway import PROVIDERS, mock_model
from turns import user

HELLO = Conversation((user("hello"),))


async def test_mock_1_streams_fixed_text_and_its_usage() -> None:
    reply = await collect_reply(stream("mock-1", HELLO))
    assert (reply.model, reply.usage, reply.stop) == ("mock-1", Usage(8, 5), "complete")
    assert reply.blocks == (TextBlock("Hello from the mock model."),)


async def test_mock_1_honours_cancel_within_one_emission() -> None:
    token = CancelToken()
    seen = []
    async for emission in stream("mock-1", HELLO, StreamOptions(cancel=token)):
        seen.append(emission.kind)
        token.cancel()
    assert seen == ["text", "error"]


async def test_a_card_may_stand_for_the_id() -> None:
    reply = await collect_reply(stream(replace(MOCK_CARD, id="unlisted"), HELLO))
    assert reply.model == "mock-1"


@pytest.mark.parametrize(
    ("model", "providers", "kind", "message"),
    [
        pytest.param(
            "gpt-9", PROVIDERS, "unsupported", "known models: offline-1, and provider:model", id="model"
        ),
        pytest.param("mock-1", {"x": mock_model}, "unsupported", "set it up, or choose", id="provider"),
    ],
)
async def test_a_model_without_a_provider_is_an_error_emission(
    model: str, providers: dict[str, object], kind: str, message: str
) -> None:
    emissions = [each async for each in stream(model, HELLO, providers=providers)]  # type: ignore[arg-type]  # a plain table of the cases
    assert len(emissions) == 1
    assert isinstance(emissions[0], ErrorEmission)
    error = emissions[0].error
    assert isinstance(error, GatewayError)
    assert (error.kind, message in error.message) == (kind, True)
