"""What is said of a user's setup of models: what can be asked, what is wrong, what to set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from provider_fakes import fake_provider
from sidecar._internal.loading import install_command
from sidecar.llmgateway import diagnostics, survey
from sidecar.llmgateway.config import CONFIG_FILE, FOLDER_FILE
from sidecar.llmgateway.credentials import AUTH_FILE
from sidecar.llmgateway.diagnostics import Diagnostic, diagnose_models

SECRET = "sk-proj-0123456789abcdefghij"


async def found(home: Path) -> dict[str, Diagnostic]:
    told = await diagnose_models(home, home.parent)
    assert SECRET not in str(told)
    return {finding.subject: finding for finding in told}


async def check(home: Path, well: Mapping[str, str] = {}, unwell: Mapping[str, str] = {}) -> None:
    """*well* and *unwell* hold a part of what is said by what it is about."""
    told = await found(home)
    for about, said in {**well, **unwell}.items():
        assert said in told[about].text
    assert [about for about, finding in told.items() if not finding.is_well] == list(unwell)


async def test_with_nothing_set_all_is_well_and_the_next_step_is_named(home: Path) -> None:
    no_key = "no key; set {}, or run: sidecar login"
    await check(
        home,
        well={
            "model": "it does not reason; for another one run: sidecar login",
            "openai": no_key.format("OPENAI_API_KEY"),
            "anthropic": no_key.format("ANTHROPIC_API_KEY"),
            "google": no_key.format("GOOGLE_API_KEY"),
            "local servers": "none answers (ollama, lmstudio, llamacpp, vllm)",
        },
    )


async def test_a_model_that_can_be_called(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (home / CONFIG_FILE).write_text('model = "openai:gpt-5"\nsummarizer = "ollama:small"\n')
    await check(
        home,
        well={
            "model": "openai:gpt-5, window 272,000 tokens, key from OPENAI_API_KEY",
            "summarizer": "ollama:small, window of unknown size (context_window of a [models.NAME] in "
            "config.toml sets it), no key, and none is needed, at http://",
            "openai": "key from OPENAI_API_KEY; use it with openai:MODEL",
        },
    )


@pytest.mark.parametrize(
    ("config", "unwell"),
    [
        ('model = "openai:gpt-5"', {"model": "no key; set OPENAI_API_KEY"}),
        ('model = "nobody:x"', {"model": "nobody:x cannot be called: no provider serves it"}),
        ('summarizer = "google:x"', {"summarizer": "no key; set GOOGLE_API_KEY"}),
        ('modle = "x"', {"settings": "  line 1: modle is not used: there is no such setting"}),
        ('model = "opnai:x"', {"model": "cannot be called: no provider serves it, did you mean openai:?"}),
        (
            '[providers.work]\nbase_url = "https://models.example/v1"\nkey_env = "WORK_KEY"',
            {"work": "no key; set WORK_KEY"},
        ),
    ],
)
async def test_a_setting_that_cannot_work_is_not_well(
    home: Path, config: str, unwell: dict[str, str]
) -> None:
    (home / CONFIG_FILE).write_text(config)
    told = await diagnose_models(home, home.parent)
    wrong: Sequence[Diagnostic] = [finding for finding in told if not finding.is_well]
    assert [finding.subject for finding in wrong] == list(unwell)
    assert all(unwell[finding.subject] in finding.text for finding in wrong)


async def test_credentials_that_an_sdk_finds_itself_are_as_good_as_a_key(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", SECRET)
    (home / CONFIG_FILE).write_text('model = "anthropic:claude-sonnet-4-5"')
    await check(
        home, well={"model": "window 200,000 tokens, credentials of its own, by ANTHROPIC_AUTH_TOKEN"}
    )


async def test_keys_that_others_can_read_are_reported_once(home: Path) -> None:
    (home / AUTH_FILE).write_text(f'{{"openai": "{SECRET}"}}')
    (home / AUTH_FILE).chmod(0o644)
    await check(
        home,
        well={"openai": "no key that can be used, see auth.json"},
        unwell={"keys": "auth.json can be read by others (mode 0644)"},
    )
    (home / AUTH_FILE).chmod(0o600)
    await check(home, well={"openai": "key from auth.json; use it with"})


async def test_a_setting_that_a_folder_may_not_make_is_reported(home: Path) -> None:
    (home.parent / FOLDER_FILE).write_text('[providers.evil]\nbase_url = "https://evil.example"\n')
    told = await diagnose_models(home, home.parent)
    (wrong,) = [finding for finding in told if not finding.is_well]
    assert "because this folder is not trusted" in wrong.text


async def test_a_missing_extra_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "is_installed", lambda provider: False)
    monkeypatch.setattr(survey, "is_installed", lambda provider: False)
    await check(
        home,
        well={
            "google": f"not installed; run: {install_command('google')}",
            "local servers": f"not asked without an SDK; run: {install_command('openai')}",
        },
    )


@pytest.mark.processes
async def test_a_server_next_door_lists_its_models(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"data": [{"id": f"model-{n}"} for n in range(8)]}
    async with fake_provider("openai-chat", [], {"/v1/models": listed}) as fake:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{fake.http.url}/v1")
        told = await found(home)
    assert told["ollama"].text.endswith(
        "with model-0, model-1, model-2, model-3, model-4, model-5, ...; use it with ollama:MODEL"
    )
