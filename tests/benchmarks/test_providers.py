"""What an adapter adds to its SDK: its chunk rate, against the SDK's own in the same run."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    CostSheet,
    ModelCard,
    StreamOptions,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import Provider
from sidecar.llmgateway.providers import ProviderModels
from sidecar.llmgateway.providers.adapter import Adapter, Endpoint, ModelCall, SdkClient
from sidecar.llmgateway.providers.sanitize import WireRules, sanitize
from sidecar.llmgateway.providers.serving import ADAPTERS

SERVER = """
import asyncio, sys
sys.path.insert(0, sys.argv[3])
from provider_fakes import Ended, Said, fake_provider

async def main(api, n_chunks):
    scene = (Said(tuple(f"word {n} " for n in range(n_chunks))), Ended())
    async with fake_provider(api, [scene]) as fake:
        print(fake.http.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
SUPPORT = str(Path(__file__).parents[1] / "support")
N_CHUNKS = 3_000
ROUNDS = 4
LEAST_SHARE = 0.8
HELLO = Conversation((UserTurn((TextBlock("hello"),)),))


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic-messages", "google-generate"])
@pytest.mark.processes
def test_an_adapter_reads_at_four_fifths_of_its_sdks_own_rate(
    benchmark: BenchmarkFixture, api: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", "sk-fake")

    async def measure(base: str) -> tuple[float, float]:
        url = f"{base}/v1" if api.startswith("openai") else base
        provider = Provider("fake", api, url, key_env=("FAKE_KEY",))
        serving = ProviderModels(Credentials())
        place = Endpoint(provider, url, Credentials().find(provider))
        adapter: Adapter[Any, Any] = ADAPTERS[api]()
        connected = await asyncio.to_thread(adapter.connect, place)
        request = adapter.request(ModelCall(HELLO, StreamOptions(), _card(api), place))
        ours = serving.invoker(_card(api), provider)
        options = StreamOptions(cancel=CancelToken())
        sdk_s, our_s = [], []
        for _ in range(ROUNDS):
            sdk_s.append(await _seconds(lambda: _drain_sdk(adapter, connected, request)))
            our_s.append(await _seconds(lambda: _drain(aiter(ours(HELLO, options)))))
        await connected.close()
        await serving.aclose()
        return min(sdk_s), min(our_s)

    with _server(api) as base:
        sdk_s, our_s = benchmark.pedantic(lambda: asyncio.run(measure(base)), rounds=1)  # type: ignore[no-untyped-call]  # the library's own
    share = sdk_s / our_s
    with capsys.disabled():
        print(f"\n{api}: {N_CHUNKS / our_s:,.0f} chunks/s, {share:.0%} of the SDK's own rate")
    assert share >= LEAST_SHARE


def test_sanitizing_a_sound_conversation_costs_little_beside_sending_it(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the request it is for: 2,000 turns of a session with tools."""
    conversation = Conversation(tuple(turn for n in range(500) for turn in _round(n)))
    adapter = ADAPTERS["openai-chat"]()
    place = Endpoint(Provider("fake", "openai-chat"))
    rules: WireRules = adapter.rules

    def measure() -> tuple[float, float]:
        fitting, sending = [], []
        for _ in range(ROUNDS):
            began = process_time()
            fitted = sanitize(conversation, rules)
            middle = process_time()
            request = adapter.request(
                ModelCall(fitted.conversation, StreamOptions(), _card("openai-chat"), place)
            )
            json.dumps(request).encode()
            fitting.append(middle - began)
            sending.append(process_time() - middle)
        return min(fitting), min(sending)

    fitting_s, sending_s = benchmark.pedantic(measure, rounds=1)  # type: ignore[no-untyped-call]  # the library's own
    with capsys.disabled():
        print(f"\nmending : spelling 2,000 turns = {fitting_s / sending_s:.2f} ({fitting_s * 1000:.1f} ms)")
    assert fitting_s < 3 * sending_s


@contextmanager
def _server(api: str) -> Iterator[str]:
    """Serve in a process of its own, so that what is measured here is the client alone."""
    arguments = [sys.executable, "-c", SERVER, api, str(N_CHUNKS), SUPPORT]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def _round(n: int) -> tuple[Turn, ...]:
    call = ToolCallBlock(f"call_{n}", "read", {"path": f"src/module_{n}.py", "offset": n})
    return (
        UserTurn((TextBlock(f"question {n}"),)),
        AssistantTurn((TextBlock("let me look"), call)),
        ToolTurn((ToolResultBlock(call.id, "line of code\n" * 40),)),
        AssistantTurn((TextBlock("it says so " * 20),)),
    )


async def _seconds(work: Callable[[], Awaitable[int]]) -> float:
    gc.collect()
    began = process_time()
    assert await work() >= N_CHUNKS
    return process_time() - began


async def _drain_sdk(adapter: Adapter[Any, Any], connected: SdkClient[Any], request: dict[str, Any]) -> int:
    async with adapter.open(connected.client, request) as chunks:
        return await _drain(aiter(chunks))


async def _drain(items: AsyncIterator[Any]) -> int:
    count = 0
    async for _ in items:
        count += 1
    return count


def _card(api: str) -> ModelCard:
    return ModelCard(
        "fake:m",
        "fake",
        api,
        "Fake",
        context_window=100_000,
        max_output_tokens=8_000,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0, 0),
        wire_id="m",
    )
