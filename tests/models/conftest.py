"""Sessions of a whole daemon in this process, whose models are real SDKs against fakes of their providers.

What a user sets is set here as a user sets it: the providers' own variables, ``config.toml``, ``auth.json``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from memory_stream import MemoryClient
from provider_fakes import FakeProvider, Scene, fake_provider
from sidecar.boot import Daemon, build
from sidecar.commands.launch import server_info
from sidecar.conductor.hub import NewSession
from sidecar.conductor.record.queue import TurnOutcome
from sidecar.conductor.session import Session
from sidecar.llmgateway.config import from_environment, read_settings
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.providers import ProviderModels
from sidecar.llmgateway.providers.calling import RetryDeps, RetryPolicy
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.protocol.codec import event_to_wire
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend

KEYS = {
    "OPENAI_API_KEY": "sk-proj-0123456789abcdefghij",
    "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdefghij",
    "GOOGLE_API_KEY": "AIzaSy0123456789abcdefghijklmnopqrstuvwx",
}
PLACES = {
    "openai-chat": ("openai-chat", "OPENAI_BASE_URL", "/v1"),
    "openai-responses": ("openai-responses", "OPENAI_BASE_URL", "/v1"),
    "anthropic-messages": ("anthropic", "ANTHROPIC_BASE_URL", ""),
    "google-generate": ("google", "GOOGLE_GEMINI_BASE_URL", ""),
}
"""The provider of each API, the variable that moves it, and what stands behind the server's address."""

KNOWN = """
[models.known]
provider = "{provider}"
name = "fake-1"
context_window = {window}
max_output_tokens = 1000
reasoning = true
images = true
"""


@dataclass
class Stage:
    """A daemon and the providers its models are at."""

    daemon: Daemon
    folder: Path
    home: Path
    fakes: Mapping[str, FakeProvider]
    pauses: list[float]
    sessions: list[Session] = field(default_factory=list)

    @property
    def fake(self) -> FakeProvider:
        """The only provider."""
        (fake,) = self.fakes.values()
        return fake

    async def session(self, model: str = "known", **wanted: Any) -> Session:
        """Begin a conversation."""
        session = await self.daemon.service.hub.new(NewSession(str(self.folder), model=model, **wanted))
        self.sessions.append(session)
        return session

    async def ask(self, session: Session, prompt: str) -> TurnOutcome:
        """Send *prompt* and return how its turn ended."""
        return await (await session.submit(({"type": "text", "text": prompt},))).outcome


def events(session: Session, *kinds: str) -> list[dict[str, Any]]:
    """Return what *session* has told, as clients get it: of these *kinds*, or all."""
    told = [event_to_wire(event) for event in session.record.log.after(0, 10_000)]
    return [event for event in told if not kinds or event["kind"] in kinds]


class StageMaker(Protocol):
    def __call__(
        self, scenes: Mapping[str, Sequence[Scene]], *, config: str = "", window: int = 100_000
    ) -> AbstractAsyncContextManager[Stage]: ...


@pytest.fixture
def on_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StageMaker:
    """Return a context manager: ``async with on_stage({api: scenes}) as stage``."""
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    home, folder = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    folder.mkdir()

    @asynccontextmanager
    async def stage(
        scenes: Mapping[str, Sequence[Scene]], *, config: str = "", window: int = 100_000
    ) -> AsyncIterator[Stage]:
        async with AsyncExitStack() as stack:
            fakes = {}
            for api, played in scenes.items():
                provider, variable, path = PLACES[api]
                fakes[api] = await stack.enter_async_context(fake_provider(api, played))
                monkeypatch.setenv(variable, f"{fakes[api].http.url}{path}")
                known = KNOWN.format(provider=provider, window=window)
                (home / "config.toml").write_text(config or known)
            pauses: list[float] = []

            async def noted(seconds: float) -> None:
                pauses.append(seconds)

            keys = Credentials(home)
            serving = ProviderModels(keys, RetryDeps(RetryPolicy(max_attempts=3), noted, lambda: 1.0))
            setup = ModelSetup(
                credentials=keys, served=serving, base=read_settings(home), upper=from_environment()
            )
            daemon = build(home, models=ModelRegistry(setup=setup))
            try:
                yield Stage(daemon, folder, home, fakes, pauses)
            finally:
                await daemon.service.aclose()

    return stage


@pytest.fixture
def told() -> Any:
    """Return :func:`events`."""
    return events


async def connected(stage: Any) -> MemoryClient:
    """Return a client of ours that has shaken hands."""
    client, daemon = MemoryClient(), stage.daemon
    backend = Backend(daemon.service, daemon.workspace)
    LspConnection(client.stream, LspOptions(info=server_info(), open_backend=lambda _: backend)).start()
    experimental = {"sidecar": {"protocol": [1]}}
    said = {"processId": None, "rootUri": None, "capabilities": {"experimental": experimental}}
    await client.request("hi", "initialize", said)
    return client
