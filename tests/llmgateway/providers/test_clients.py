"""What calls need is imported in a thread once a model is chosen or called; the event loop goes on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_cards import provider_card
from provider_fakes import Cut, Ended, Refused, Said, Scene, fake_provider
from sidecar.llmgateway.contract import ApiKind, DoneEmission, GatewayError, StreamOptions
from sidecar.llmgateway.credentials import Credentials, Key
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider
from sidecar.llmgateway.providers import ProviderModels
from sidecar.llmgateway.providers.adapter import Endpoint, SdkClient
from sidecar.llmgateway.providers.serving import ADAPTERS, ClientPool
from tests.llmgateway.providers.conftest import HELLO, Play, StageMaker

SDKS = ("openai", "anthropic", "google.genai", "pydantic_ai", "pydantic", "httpx2", "genai_prices", "keyring")

PLACES = (
    ("openai-chat", "openai", "OPENAI_BASE_URL", "/v1"),
    ("anthropic-messages", "anthropic", "ANTHROPIC_BASE_URL", ""),
    ("google-generate", "google", "GOOGLE_GEMINI_BASE_URL", ""),
)
PROGRAM = f"""
import asyncio, json, os, sys
import sidecar.boot, sidecar.llmgateway.registry, sidecar.llmgateway.providers

def loaded():
    return [name for name in {SDKS!r} if name in sys.modules]

at_first = loaded()

from sidecar.llmgateway.contract import *
from sidecar.llmgateway.registry import ModelRegistry
from provider_fakes import Ended, Said, fake_provider

async def warm_and_call(api, name, variable, path):
    async with fake_provider(api, [(Said(("x",)), Ended())]) as fake:
        os.environ |= {{f"{{name.upper()}}_API_KEY": "sk-fake", variable: f"{{fake.http.url}}{{path}}"}}
        models = ModelRegistry()
        models.warm_up("offline-1")
        models.warm_up("no such model")
        models.warm_up(f"{{name}}:a-model")
        warming = asyncio.all_tasks() - {{asyncio.current_task()}}
        await asyncio.wait(warming)
        is_loaded, n_asked = "httpx2" in sys.modules, len(fake.http.asked)
        hello = Conversation((UserTurn((TextBlock("hi"),)),))
        invoke = models.invoker(f"{{name}}:a-model")
        *_, last = [each.kind async for each in invoke(hello, StreamOptions())]
        await models.aclose()
    return [len(warming), is_loaded, n_asked, last]

calls = [asyncio.run(warm_and_call(*place)) for place in {PLACES!r}]
print(json.dumps([at_first, calls, loaded()]))
"""

SUPPORT = str(Path(__file__).parents[2] / "support")

GEMINI = provider_card("google-generate", "gemini-x", "google")


@pytest.mark.processes
def test_a_client_with_a_key_is_made_before_the_first_call_and_no_sdk_is_imported() -> None:
    """Before a model is chosen or called, nothing is; then the HTTP client and the list of prices."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": SUPPORT},
        capture_output=True,
        check=True,
        timeout=60,
    )
    at_first, calls, in_the_end = json.loads(done.stdout)
    assert at_first == []
    assert calls == [[1, True, 0, "done"]] * len(PLACES)
    assert not {"openai", "anthropic", "google.genai"} & set(in_the_end)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("api", "name", "own"),
    [
        ("openai-chat", "OPENAI", {"openai-organization": "org-1", "openai-project": "p-1"}),
        ("openai-responses", "OPENAI", {"openai-organization": "org-1", "openai-project": "p-1"}),
        ("anthropic-messages", "ANTHROPIC", {"anthropic-version": "2026-10-21"}),
    ],
)
async def test_the_environment_adds_headers_as_it_does_for_an_sdk(
    play: Play, api: str, name: str, own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "p-1")
    monkeypatch.setenv(f"{name}_CUSTOM_HEADERS", "X-Team: blue\nno header\nauthorization: Bearer other")
    (asked,) = (await play(api, (Said(("x",)), Ended()))).fake.calls
    sent = {each: asked.headers[each] for each in (*own, "x-team", "authorization")}
    assert sent == {**own, "x-team": "blue", "authorization": "Bearer other"}


@pytest.mark.processes
async def test_a_redirect_takes_no_key_of_google_to_another_host(play: Play) -> None:
    """An HTTP client leaves out the header ``Authorization`` there, and no other one: it is not followed."""
    moved = Refused(307, "moved", headers=(("location", "http://127.0.0.1:1/elsewhere"),))
    assert (await play("google-generate", (moved,))).error.message.endswith("hung up: moved")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("scene", "outcome"),
    [
        pytest.param((Said(("x",)), Ended()), "done", id="an answer"),
        pytest.param((Refused(401, "who are you?"),), "fake does not accept the key (401)", id="a refusal"),
        pytest.param((Cut(),), "cannot be reached, or hung up", id="a broken connection"),
    ],
)
async def test_without_a_key_the_sdk_of_anthropic_signs_with_its_own_credentials(
    on_stage: StageMaker, scene: Scene, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAKE_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-sdk")
    async with on_stage("anthropic-messages", scene) as stage:
        stage.provider = replace(stage.provider, own_env=("ANTHROPIC_AUTH_TOKEN",))
        last = (await stage.play())[-1]
    assert {asked.headers["authorization"] for asked in stage.fake.calls} == {"Bearer token-of-the-sdk"}
    assert outcome in (last.kind if isinstance(last, DoneEmission) else stage.error.message)


@pytest.mark.processes
async def test_one_client_serves_every_call(on_stage: StageMaker) -> None:
    async with on_stage("openai-chat", (Said(("x",)), Ended())) as stage:
        await asyncio.gather(*(stage.play() for _ in range(3)))
        assert len(stage.serving._clients) == 1
        (clients,) = stage.serving._clients.values()
        assert len(clients._of_this_loop().tasks) == 1


class Connections:
    """Makes clients, and remembers where to, and which of them were closed."""

    def __init__(self) -> None:
        self.made: list[Endpoint] = []
        self.closed: list[str] = []
        self.may_end = threading.Event()
        self.may_end.set()
        self.failures: list[GatewayError] = []

    def connect(self, place: Endpoint) -> SdkClient[str]:
        self.may_end.wait()
        name = f"client {len(self.made)}"
        self.made.append(place)
        if self.failures:
            raise self.failures.pop()

        async def close() -> None:
            self.closed.append(name)

        return SdkClient(name, close)

    def pool(self, keys: Credentials | None = None) -> ClientPool[str]:
        return ClientPool(PROVIDERS_BY_NAME["ollama"], None, keys or Credentials(), self.connect)


async def test_a_client_that_could_not_be_made_is_made_again() -> None:
    """A key may be set meanwhile."""
    connections = Connections()
    connections.failures.append(GatewayError("auth", "no key"))
    clients = connections.pool()
    with pytest.raises(GatewayError, match="no key"):
        await clients.get()
    _, connected = await clients.get("sk-call")
    assert (connected.client, connections.made[1].key) == ("client 1", Key("sk-call", "the call"))
    assert (await clients.get())[1].client == "client 2"
    await clients.aclose()


async def test_the_first_call_gets_the_client_that_was_made_early() -> None:
    connections = Connections()
    clients = connections.pool()
    clients.warm_up()
    clients.warm_up()
    opened = await clients.get()
    clients.warm_up()
    assert await clients.get() is opened
    assert len(connections.made) == 1
    await clients.aclose()


async def test_a_keyring_is_not_searched_before_a_call() -> None:
    searched: list[str] = []

    def search(name: str) -> str:
        searched.append(name)
        return "sk-kept"

    clients = Connections().pool(Credentials(keyring=search))
    clients.warm_up()
    early = clients._of_this_loop().tasks[None]
    await asyncio.wait((early,))
    assert searched == []
    endpoint, _ = await clients.get()
    assert (searched, endpoint.key) == (["ollama"], Key("sk-kept", "keyring"))
    await clients.aclose()


async def test_closing_does_not_wait_for_a_client_that_is_being_made() -> None:
    connections = Connections()
    connections.may_end.clear()
    clients = connections.pool()
    clients.warm_up()
    await clients.aclose()
    assert not connections.may_end.is_set()
    connections.may_end.set()


async def test_a_refused_key_is_looked_up_again_and_its_client_closed_at_the_end() -> None:
    connections = Connections()
    clients = connections.pool()
    await clients.get()
    clients.forget(None)
    clients.forget(None)
    await clients.get()
    assert (len(connections.made), connections.closed) == (2, [])
    await clients.aclose()
    assert sorted(connections.closed) == ["client 0", "client 1"]


async def test_the_error_of_a_missing_sdk_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.llmgateway.providers.serving.find_spec", lambda name: None)
    with pytest.raises(GatewayError, match=r"-m pip install .*\[openai\]'") as caught:
        await Connections().pool().get()
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize("name", ["openai", "anthropic", "google"])
async def test_the_error_of_a_missing_key_names_the_variable(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    provider = PROVIDERS_BY_NAME[name]
    for variable in (*provider.key_env, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    clients: ClientPool[Any] = ClientPool(provider, None, Credentials(), ADAPTERS[provider.api]().connect)
    with pytest.raises(GatewayError, match=f"no key for {name}; set ") as caught:
        await clients.get()
    assert caught.value.kind == "auth"


@pytest.mark.processes
@pytest.mark.parametrize("api", ["anthropic-messages", "google-generate", "openai-chat"])
async def test_a_server_of_the_user_gets_no_key_of_another_provider(
    api: ApiKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "the-key-of-another")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    async with fake_provider(api, [(Said(("ok",)), Ended())]) as fake:
        provider = Provider("mine", api, fake.http.url, needs_key=False)
        serving = ProviderModels(Credentials())
        invoke = serving.invoker(replace(GEMINI, id="mine:m", provider="mine", api=api), provider)
        *_, done = [each async for each in invoke(HELLO, StreamOptions())]
        await serving.aclose()
    (asked,) = fake.calls
    assert isinstance(done, DoneEmission)
    assert "the-key-of-another" not in str(asked.headers)


class CloudCredentials:
    """Credentials of Google Cloud that have expired."""

    valid = False
    token = "old"

    def refresh(self, request: object) -> None:
        self.valid, self.token = True, "new"


@pytest.mark.processes
async def test_google_cloud_is_called_with_a_fresh_token_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import google.auth

    monkeypatch.setattr(google.auth, "default", lambda scopes: (CloudCredentials(), "project-1"))
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"):
        monkeypatch.delenv(name, raising=False)
    async with fake_provider("google-generate", [(Said(("ok",)), Ended())]) as fake:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", fake.http.url)
        serving = ProviderModels(Credentials())
        invoke = serving.invoker(GEMINI, PROVIDERS_BY_NAME["google"])
        *_, done = [each async for each in invoke(HELLO, StreamOptions())]
        await serving.aclose()
    (asked,) = fake.calls
    assert isinstance(done, DoneEmission)
    assert asked.headers["authorization"] == "Bearer new"
    assert asked.path.startswith(
        "/v1beta1/projects/project-1/locations/global/publishers/google/models/gemini-x:streamGenerateContent"
    )


@pytest.mark.processes
@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "speaks SOCKS; run: pip install socksio"),
        ("HTTPS_PROXY", "foo://127.0.0.1:1", "a proxy in the environment cannot be used"),
        ("SSL_CERT_FILE", "/nowhere/x.pem", "cannot be read (No such file or directory)"),
    ],
)
async def test_an_environment_in_which_no_client_can_be_made_is_named_at_once(
    on_stage: StageMaker, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, found: str
) -> None:
    async with on_stage("openai-chat", []) as stage:
        monkeypatch.setenv(variable, value)
        await stage.play()
    assert (stage.error.kind, found in stage.error.message) == ("unsupported", True), stage.error.message
    assert (stage.retries, len(stage.emissions)) == ([], 1)
