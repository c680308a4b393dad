"""What is on a machine: keys, servers, their models, and the model for a session that names none."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from provider_fakes import fake_provider
from sidecar.llmgateway import survey as surveying
from sidecar.llmgateway.catalog import published_names
from sidecar.llmgateway.credentials import Credentials
from sidecar.llmgateway.names import PROVIDERS_BY_NAME
from sidecar.llmgateway.survey import Proposal, Survey, load_for_survey, survey_machine


@pytest.mark.parametrize(
    ("keys", "listed", "model"),
    [
        ({}, {}, None),
        ({}, {"ollama": ()}, None),
        ({"anthropic": "K"}, {}, "anthropic:claude-sonnet-5-5"),
        ({"google": "K"}, {"ollama": ("qwen3:8b",)}, "google:gemini-4-argon"),
        ({}, {"ollama": ("qwen3:8b",)}, "ollama:qwen3:8b"),
        ({"openai": "K"}, {"openai": ("mine-2", "mine-1")}, "openai:mine-2"),
    ],
)
def test_the_model_for_a_session_that_names_none(
    keys: dict[str, str], listed: dict[str, Any], model: str | None
) -> None:
    proposal = Survey(keys=keys, listed=listed).proposal()
    assert (proposal.model if proposal is not None else None) == model


async def test_a_key_without_its_package_is_a_piece_of_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    monkeypatch.setattr(surveying, "is_installed", lambda provider: provider.id != "anthropic")
    found = await survey_machine(PROVIDERS_BY_NAME, Credentials())
    assert (found.proposal(), found.keys) == (None, {})
    assert "there is a key for anthropic; it needs the extra [anthropic]: " in str(found.advice())


async def test_the_keyring_is_searched_when_no_key_is_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def search(name: str) -> str | None:
        asked.append(name)
        return "sk-1" if name == "openai" else None

    found = await survey_machine(PROVIDERS_BY_NAME, Credentials(keyring=search))
    assert (found.keys, asked) == ({"openai": "keyring"}, ["anthropic", "openai", "google"])
    monkeypatch.setenv("GROQ_API_KEY", "sk-2")
    asked.clear()
    found = await survey_machine(PROVIDERS_BY_NAME, Credentials(keyring=search))
    assert (found.keys, asked) == ({"groq": "GROQ_API_KEY"}, [])


def test_the_keyring_is_loaded_ahead_where_it_will_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is not searched before a session asks for it, because that may open a dialogue."""
    loaded: list[str] = []
    monkeypatch.setattr(surveying, "load_keyring", lambda: loaded.append("keyring"))
    monkeypatch.setattr(surveying, "published_names", lambda *_: loaded.append("published models"))
    assert load_for_survey(PROVIDERS_BY_NAME, Credentials()) is None
    assert loaded == []
    keys = Credentials(keyring=lambda name: pytest.fail("it was searched"))
    load_for_survey(PROVIDERS_BY_NAME, keys)
    assert loaded == ["keyring"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert load_for_survey(PROVIDERS_BY_NAME, keys) is PROVIDERS_BY_NAME["openai"]
    assert loaded == ["keyring", "published models"]


async def test_a_keyring_that_waits_for_its_user_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    unlocked = Event()
    monkeypatch.setattr(surveying, "_KEYRING_S", 0.01)

    def search(name: str) -> str | None:
        unlocked.wait(10)
        return None

    assert await survey_machine(PROVIDERS_BY_NAME, Credentials(keyring=search)) == Survey()
    unlocked.set()


@pytest.mark.processes
async def test_a_local_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [{"id": "bge-embed"}, {"id": "old", "created": 1}, {"id": "new", "created": 2}]
    async with fake_provider("openai-chat", [], {"/v1/models": {"data": data}}) as fake:
        monkeypatch.setenv("LMSTUDIO_BASE_URL", f"{fake.http.url}/v1")
        found = await survey_machine(PROVIDERS_BY_NAME, Credentials())
    assert found == Survey(listed={"lmstudio": ("new", "old")})
    assert found.proposal() == Proposal("lmstudio:new", "lmstudio runs on this machine")


@pytest.mark.parametrize("name", ["anthropic", "openai", "google", "openrouter", "moonshotai", "xai"])
def test_the_published_models_are_few_and_the_newest_first(name: str) -> None:
    names = published_names(PROVIDERS_BY_NAME[name])
    assert 3 <= len(names) <= 12
    assert surveying.PROPOSED[name] in names


def test_every_proposal_is_of_a_known_provider() -> None:
    assert set(surveying.PROPOSED) <= set(PROVIDERS_BY_NAME)


async def test_servers_are_asked_only_where_their_models_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports that belong to everybody are asked only once the user has named them."""
    asked: list[str] = []

    async def list_models(address: str, key: str | None) -> None:
        asked.append(address)

    monkeypatch.setattr(surveying, "list_models", list_models)
    for name in ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    await survey_machine(PROVIDERS_BY_NAME, Credentials(), asks=False)
    assert asked == []
    await survey_machine(PROVIDERS_BY_NAME, Credentials())
    assert asked == ["http://localhost:11434/v1", "http://localhost:1234/v1"]
    asked.clear()
    monkeypatch.setenv("VLLM_BASE_URL", "http://localhost:8001/v1")
    await survey_machine(PROVIDERS_BY_NAME, Credentials(), guesses=False)
    assert asked == ["http://localhost:8001/v1"]
