"""Scenes played over real SDKs against the fakes of the providers, on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest

from model_cards import provider_card
from provider_fakes import FakeProvider, Scene, fake_provider
from sidecar.llmgateway.contract import (
    Block,
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    Reply,
    StreamOptions,
    TextBlock,
    ToolDescriptor,
    UserTurn,
)
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider
from sidecar.llmgateway.providers import ProviderModels
from sidecar.llmgateway.providers.calling import RetryDeps, RetryPolicy

FORMATS = ("openai-chat", "openai-responses", "anthropic-messages", "google-generate", "ollama-chat")
"""The formats that we speak ourselves: they all promise the same, unless a test says otherwise."""

Sleep = Callable[[float], Awaitable[None]]
KEY = "sk-test-0123456789abcdef"
READ = ToolDescriptor(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
HELLO = Conversation((UserTurn((TextBlock("hello"),)),), system="Be brief.", tools=(READ,))


@dataclass
class Stage:
    """A model of a faked provider, and what was heard of its calls."""

    fake: FakeProvider
    serving: ProviderModels
    provider: Provider
    card: ModelCard
    pauses: list[float] = field(default_factory=list)
    retries: list[tuple[int, int, int, str]] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    emissions: Sequence[Emission] = ()
    """Those of the last call."""

    def call(self, conversation: Conversation = HELLO, **options: Any) -> Channel:
        """Return the channel of one call."""
        heard = StreamOptions(on_retry=self._on_retry, on_repair=self.repairs.append)
        return self.serving.invoker(self.card, self.provider)(conversation, replace(heard, **options))

    async def play(self, conversation: Conversation = HELLO, **options: Any) -> list[Emission]:
        """Make one call and return what it emits."""
        self.emissions = [emission async for emission in self.call(conversation, **options)]
        return self.emissions

    @property
    def reply(self) -> Reply:
        """The reply of the last call, which must have succeeded."""
        last = self.emissions[-1]
        assert isinstance(last, DoneEmission), last
        assert isinstance(last.reply, Reply)
        return last.reply

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks of the last reply."""
        return self.reply.blocks

    @property
    def error(self) -> GatewayError:
        """The error of the last call, which must have failed."""
        last = self.emissions[-1]
        assert isinstance(last, ErrorEmission), last
        return last.error

    @property
    def sent(self) -> Sequence[Any]:
        """The bodies of the requests so far."""
        return self.fake.sent

    def _on_retry(self, attempt: int, max_attempts: int, delay_ms: int, error: GatewayError) -> None:
        self.failures.append(error.message)
        self.retries.append((attempt, max_attempts, delay_ms, error.kind))


class StageMaker(Protocol):
    def __call__(
        self,
        api: str,
        *scenes: Scene,
        model: str = "fake-1",
        sleep: Sleep | None = None,
        idle_timeout_s: float | None = None,
        **card: Any,
    ) -> AbstractAsyncContextManager[Stage]: ...


@pytest.fixture
def on_stage(monkeypatch: pytest.MonkeyPatch) -> StageMaker:
    """Return a context manager: ``async with on_stage(api, scene, ...) as stage``."""
    monkeypatch.setenv("FAKE_KEY", KEY)
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)

    @asynccontextmanager
    async def stage(
        api: str,
        *scenes: Scene,
        model: str = "fake-1",
        sleep: Sleep | None = None,
        idle_timeout_s: float | None = None,
        **card: Any,
    ) -> AsyncIterator[Stage]:
        async with fake_provider("openai-chat" if api == "pydantic-ai" else api, scenes) as fake:
            path = "/v1" if api.startswith("openai") else ""
            served_by = Provider("fake", api, f"{fake.http.url}{path}", key_env=("FAKE_KEY",))
            if api == "pydantic-ai":
                monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.http.url}/v1")
                monkeypatch.setenv("OPENAI_API_KEY", KEY)
                served_by = PROVIDERS_BY_NAME["pydantic-ai"]
            pauses: list[float] = []

            async def noted(seconds: float) -> None:
                pauses.append(seconds)

            retrying = RetryDeps(RetryPolicy(max_attempts=3), sleep or noted, lambda: 1.0)
            serving = ProviderModels(Credentials(), retrying, idle_timeout_s)
            made = replace(provider_card(api, model), **card)
            try:
                yield Stage(fake, serving, served_by, made, pauses)
            finally:
                await serving.aclose()

    return stage


class Play(Protocol):
    async def __call__(
        self,
        api: str,
        *scenes: Scene,
        asked: Conversation = HELLO,
        n_calls: int = 1,
        card: Mapping[str, Any] = {},
        **options: Any,
    ) -> Stage: ...


@pytest.fixture
def play(on_stage: StageMaker) -> Play:
    """Return a function that makes one call, or several alike, and returns the stage for a look at them."""

    async def play(
        api: str,
        *scenes: Scene,
        asked: Conversation = HELLO,
        n_calls: int = 1,
        card: Mapping[str, Any] = {},
        **options: Any,
    ) -> Stage:
        async with on_stage(api, *scenes, **card) as stage:
            for _ in range(n_calls):
                await stage.play(asked, **options)
        return stage

    return play
