"""The registry: what a name comes to under the user's settings, and why another cannot be served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from provider_fakes import Ended, FakeProvider, Hang, Refused, Said, Spent, fake_provider
from sidecar._internal.loading import install_command
from sidecar.llmgateway import collect_reply, gateway, stream
from sidecar.llmgateway.catalog import family_of, output_limit
from sidecar.llmgateway.contract import (
    Conversation,
    DoneEmission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    StreamOptions,
    TextBlock,
)
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from turns import user

HELLO = Conversation((user("hello"),))
MINE = """
[providers.mine]
base_url = "{url}/v1"
"""


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "INDUSAGI_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    pages = {"/props": {"default_generation_settings": {"n_ctx": 4_000}}}
    async with fake_provider("openai-chat", [(Said(("hi",)), Ended())], pages) as served:
        yield served


def card_of(models: ModelRegistry, name: str) -> ModelCard:
    """Return the card of a model that must have one."""
    card = models.card(name)
    assert card is not None
    return card


def registry(home: Path, config: str = "") -> ModelRegistry:
    (home / "config.toml").write_text(config)
    return ModelRegistry(setup=ModelSetup.of_user(home))


def test_offline_1_is_the_default_when_nothing_is_set(tmp_path: Path) -> None:
    models = registry(tmp_path)
    assert (models.default, models.names()) == ("offline-1", ("offline-1",))
    assert models.why_not("offline-1") is None


def test_the_settings_name_the_default_and_the_environment_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = 'model = "openai:gpt-5"\n[models.fast]\nprovider = "openai"\nname = "gpt-5-mini"'
    models = registry(tmp_path, config)
    assert models.names() == ("openai:gpt-5", "fast", "offline-1")
    monkeypatch.setenv("INDUSAGI_MODEL", "mock-1")
    assert registry(tmp_path, config).default == "mock-1"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("openai:gpt-5", None),
        ("gpt-5", None),
        ("ollama:anything-at-all", None),
        ("nobody-1", "no provider serves it"),
        ("nobody:x", "no provider serves it"),
    ],
)
def test_which_names_can_be_tried(tmp_path: Path, name: str, why: str | None) -> None:
    assert registry(tmp_path).why_not(name) == why


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.llmgateway.registry.is_installed", lambda provider: False)
    why = registry(tmp_path).why_not("anthropic:claude-opus-5")
    assert why == f"it needs the extra [anthropic]; run: {install_command('anthropic')}"


def test_settings_of_the_user_override_the_published_card(tmp_path: Path) -> None:
    models = registry(
        tmp_path,
        """
        [models."openai:gpt-4o"]
        context_window = 9000
        max_output_tokens = 500
        reasoning = true
        images = false
        cost = { input = 7.0, output = 8.0 }
        """,
    )
    card = card_of(models, "openai:gpt-4o")
    assert (card.context_window, card.max_output_tokens, card.reasoning) == (9_000, 500, True)
    assert (card.modalities, card.cost.input_per_mtok) == (("text",), 7.0)


def test_an_unpublished_model_has_a_card_only_by_the_users_settings(tmp_path: Path) -> None:
    assert registry(tmp_path).card("ollama:qwen3:8b") is None
    models = registry(tmp_path, '[models."ollama:qwen3:8b"]\ncontext_window = 8192')
    card = card_of(models, "ollama:qwen3:8b")
    assert (card.context_window, card.max_output_tokens, card.wire_id) == (8_192, 2_048, "qwen3:8b")


def test_the_facts_of_a_name_of_ones_own_hold_for_the_model_itself(tmp_path: Path) -> None:
    own = '[models.big]\nprovider = "ollama"\nname = "qwen3:8b"\ncontext_window = 8192'
    models = registry(tmp_path, own)
    sizes = {
        name: card and card.context_window
        for name in ("big", "ollama:qwen3:8b", "ollama:qwen3:4b")
        for card in [models.card(name)]
    }
    assert sizes == {"big": 8_192, "ollama:qwen3:8b": 8_192, "ollama:qwen3:4b": None}


@pytest.mark.processes
async def test_the_window_is_fetched_from_a_local_server(tmp_path: Path, fake: FakeProvider) -> None:
    models = registry(tmp_path, MINE.format(url=fake.http.url))
    assert models.card("mine:gpt-4o") is not None
    await models.ready("mine:gpt-4o")
    card = card_of(models, "mine:gpt-4o")
    assert (card.context_window, card.max_output_tokens) == (4_000, 1_000)
    n_asked = len(fake.http.asked)
    await models.ready("mine:gpt-4o")
    assert len(fake.http.asked) == n_asked


@pytest.mark.processes
async def test_the_window_of_a_known_hosted_model_is_not_fetched(
    tmp_path: Path, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.llmgateway.registry.is_local", lambda url: False)
    models = registry(tmp_path, MINE.format(url=fake.http.url))
    await models.ready("mine:gpt-4o")
    await models.ready("openai:gpt-4o")
    await models.ready("nobody:x")
    await models.ready("mock-1")
    assert fake.http.asked == []


@pytest.mark.processes
async def test_a_named_model_answers(tmp_path: Path, fake: FakeProvider) -> None:
    config = f"{MINE.format(url=fake.http.url)}\n[models.fast]\nprovider = 'mine'\nname = 'qwen3:8b'"
    models = registry(tmp_path, config)
    reply = await collect_reply(models.invoker("fast")(HELLO, StreamOptions()))
    assert (reply.model, reply.blocks) == ("fast", (TextBlock("hi"),))
    assert fake.sent[0]["model"] == "qwen3:8b"
    await models.aclose()


@pytest.mark.processes
async def test_the_knobs_of_the_settings_are_turned_where_a_call_leaves_them(
    tmp_path: Path, fake: FakeProvider
) -> None:
    knobs = 'thinking = "low"\nmax_output_tokens = 77'
    known = "[models.'mine:m']\nreasoning = true\ncontext_window = 9000"
    models = registry(tmp_path, f"{knobs}\n{MINE.format(url=fake.http.url)}\n{known}")
    for options in (StreamOptions(), StreamOptions(thinking="high", max_output_tokens=5)):
        await collect_reply(models.invoker("mine:m")(HELLO, options))
    assert [(sent["reasoning_effort"], sent["max_tokens"]) for sent in fake.sent] == [
        ("low", 77),
        ("high", 5),
    ]
    await models.aclose()


async def test_a_folder_that_is_listed_later_is_trusted_then(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    (folder / ".sidecar.toml").write_text('[providers.x]\nbase_url = "http://x"')
    models = registry(home, "")
    assert "not trusted" in (await models.at(folder)).problems[0]
    (home / "config.toml").write_text(f"trusted = ['{folder}']")
    assert (await models.at(folder)).problems == ()


async def test_a_folder_has_its_own_view(tmp_path: Path) -> None:
    home, folder, other = tmp_path / "home", tmp_path / "folder", tmp_path / "other"
    for each in (home, folder, other):
        each.mkdir()
    (folder / ".sidecar.toml").write_text('model = "mock-1"\n[providers.x]\nbase_url = "http://x"')
    models = registry(home, 'model = "openai:gpt-5"')
    view = await models.at(folder)
    assert (view.default, models.default) == ("mock-1", "openai:gpt-5")
    assert "not trusted" in view.problems[0]
    assert await models.at(other) is models


async def test_the_environments_word_counts_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".sidecar.toml").write_text('model = "mock-1"')
    monkeypatch.setenv("INDUSAGI_MODEL", "openai:gpt-5")
    assert (await registry(tmp_path).at(tmp_path)).default == "openai:gpt-5"


@pytest.mark.processes
async def test_condensing_has_a_model_of_its_own_and_falls_back(tmp_path: Path, fake: FakeProvider) -> None:
    config = f'summarizer = "mine:small"\n{MINE.format(url=fake.http.url)}'
    models = registry(tmp_path, config)
    await models.ready("mine:small")
    invoke, card = models.summarizer("mock-1")
    assert invoke is not None
    assert card is not None
    assert (card.id, card.context_window) == ("mine:small", 4_000)
    assert (await collect_reply(invoke(HELLO, StreamOptions()))).model == "mine:small"
    fake._scenes[:] = [[Refused(401, "no")]]
    assert (await collect_reply(invoke(HELLO, StreamOptions()))).model == "mock-1"
    await models.aclose()


@pytest.mark.processes
async def test_the_built_in_model_condenses_nothing(tmp_path: Path, fake: FakeProvider) -> None:
    """It is the model of a session, or the summarizer of the settings; another one works alone then."""
    assert registry(tmp_path).summarizer("offline-1") == (None, None)
    assert registry(tmp_path, 'summarizer = "offline-1"').summarizer("mock-1") == (None, None)
    models = registry(tmp_path, f'summarizer = "mine:small"\n{MINE.format(url=fake.http.url)}')
    await models.ready("offline-1")
    invoke, card = models.summarizer("offline-1")
    assert invoke is not None
    assert card == models.card("mine:small")
    fake._scenes[:] = [[Refused(401, "no")]]
    with pytest.raises(GatewayError):
        await collect_reply(invoke(HELLO, StreamOptions()))
    await models.aclose()


def test_without_one_the_sessions_model_condenses(tmp_path: Path) -> None:
    for config in ("", 'summarizer = "mock-1"', 'summarizer = "nobody:x"'):
        models = registry(tmp_path, config)
        assert models.summarizer("mock-1")[1] == models.card("mock-1")


@pytest.mark.processes
async def test_a_program_without_a_registry_calls_by_name(
    fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.http.url}/v1")
    reply = await collect_reply(stream("openai:qwen", HELLO))
    assert (reply.model, reply.blocks) == ("openai:qwen", (TextBlock("hi"),))
    card = replace(gateway.Routes().find("openai:qwen").bare_card, id="x")  # type: ignore[union-attr]  # it is known
    assert (await collect_reply(stream(card, HELLO))).model == "x"


def test_a_card_is_made_once_until_its_server_publishes_more() -> None:
    windows: dict[gateway.Route, int] = {}
    routes = gateway.Routes(windows=windows)
    route, card = routes.find("gpt-5"), routes.card("gpt-5")
    assert route is not None
    assert card is not None
    assert routes.card("gpt-5") is card
    windows[route] = 5_000
    limit = min(card.max_output_tokens, output_limit(5_000))
    assert routes.card("gpt-5") == replace(card, context_window=5_000, max_output_tokens=limit)


async def test_a_call_without_a_key_names_the_variable_to_set(tmp_path: Path) -> None:
    models = registry(tmp_path)
    (only,) = [each async for each in models.invoker("openai:gpt-5")(HELLO, StreamOptions())]
    assert isinstance(only, ErrorEmission)
    assert only.error.kind == "auth"
    assert only.error.message.startswith("no key for openai; set OPENAI_API_KEY, or run: sidecar login")


async def test_an_unknown_name_is_an_error_emission(tmp_path: Path) -> None:
    (only,) = [each async for each in registry(tmp_path).invoker("nobody:x")(HELLO, StreamOptions())]
    assert isinstance(only, ErrorEmission)
    assert "provider:model, such as openai:gpt-5" in only.error.message


LONG = Conversation((user("words " * 6_000),))


@pytest.mark.processes
@pytest.mark.parametrize(
    ("conversation", "read", "running", "window", "warning"),
    [
        pytest.param(
            HELLO, 20, 4_096, 4_096, "runs with a window of 4,096 tokens and not of 32,768", id="less"
        ),
        pytest.param(HELLO, 20, 32_768, 32_768, None, id="as asked for"),
        pytest.param(LONG, 2_048, 2_048, 2_048, "has read 2,048 tokens of at least 4,500", id="cut off"),
        pytest.param(
            LONG, 2_048, None, 2_048, "has read 2,048 tokens of at least 4,500", id="cut off, silent"
        ),
        pytest.param(LONG, 9_000, 32_768, 32_768, None, id="a long one that was read"),
    ],
)
async def test_the_window_of_a_local_model_is_checked_after_the_first_call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    conversation: Conversation,
    read: int,
    running: int | None,
    window: int,
    warning: str | None,
) -> None:
    warnings: list[str] = []
    pages: dict[str, Any] = {"/api/show": {"model_info": {"qwen3.context_length": 40_960}}}
    scene = (Said(("hi",)), Spent(read, 1), Ended())
    async with fake_provider("ollama-chat", [scene], pages) as fake:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{fake.http.url}/v1")
        models = registry(tmp_path)
        await models.ready("ollama:qwen3")
        card = card_of(models, "ollama:qwen3")
        assert card.context_window == 32_768
        fake.pages["/api/ps"] = {"models": [{"name": "qwen3", "context_length": running}]}
        if running is None:
            fake.pages.clear()
        for _ in range(2):
            options = StreamOptions(on_warning=warnings.append)
            await collect_reply(models.invoker("ollama:qwen3")(conversation, options))
        await models.aclose()
    card = card_of(models, "ollama:qwen3")
    assert card.context_window == window
    assert len(set(warnings)) == (0 if warning is None else 1)
    assert (warning or "") in "".join(warnings)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("able", "modalities", "reasoning"),
    [
        (["completion", "tools", "thinking"], ("text",), True),
        (["completion", "vision"], ("text", "image"), False),
    ],
)
async def test_ollama_publishes_what_a_model_can_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    able: list[str],
    modalities: tuple[str, ...],
    *,
    reasoning: bool,
) -> None:
    shown = {"capabilities": able, "model_info": {"q.context_length": 40_960}}
    async with fake_provider("ollama-chat", [(Said(("hi",)), Ended())], {"/api/show": shown}) as served:
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{served.http.url}/v1")
        models = registry(tmp_path)
        await models.ready("ollama:some-model")
    card = card_of(models, "ollama:some-model")
    assert (card.context_window, card.modalities, card.reasoning) == (32_768, modalities, reasoning)


@pytest.mark.processes
async def test_the_time_of_silence_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_provider("openai-chat", [[Hang()], (Said(("hi",)), Ended())]) as served:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{served.http.url}/v1")
        models = registry(tmp_path, "model_idle_timeout_s = 0.2\n")
        failures: list[str] = []
        options = StreamOptions(on_retry=lambda *told: failures.append(told[-1].message))
        *_, done = [each async for each in models.invoker("openai:some-model")(HELLO, options)]
        await models.aclose()
    assert isinstance(done, DoneEmission)
    assert "it sent nothing for 0.2 s" in failures[0]


@pytest.mark.parametrize(
    ("config", "loaded"),
    [
        pytest.param('model = "openai:gpt-5"', ["httpx2"], id="of the model in the settings"),
        pytest.param(
            'model = "anthropic:claude-sonnet-5-5"', ["anthropic"], id="the SDK to find credentials"
        ),
        pytest.param('model = "offline-1"', [], id="nothing for a model without one"),
        pytest.param("", [], id="nothing where nothing is chosen"),
    ],
)
def test_what_the_first_call_needs_is_loaded_ahead(
    config: str, loaded: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[str]()
    monkeypatch.setattr("sidecar.llmgateway.providers.serving.import_module", found.append)
    registry(tmp_path, config).load_first_call()
    assert found[:1] == loaded


def test_a_key_at_hand_is_a_choice_whose_first_call_is_loaded_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[str]()
    monkeypatch.setattr("sidecar.llmgateway.providers.serving.import_module", found.append)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    registry(tmp_path, 'model = "offline-1"').load_ahead()
    assert found == []
    registry(tmp_path).load_ahead()
    assert found[:1] == ["httpx2"]


async def test_a_session_with_a_model_asks_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a list that was wanted before stay on offer."""
    asked: list[str] = []

    async def list_models(address: str, key: str | None) -> tuple[str, ...]:
        asked.append(address)
        return ("found",)

    monkeypatch.setattr("sidecar.llmgateway.survey.list_models", list_models)
    for name in ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    models = registry(tmp_path, "")
    await models.at(tmp_path, is_chosen=True)
    await registry(tmp_path, 'model = "mock-1"').at(tmp_path)
    assert asked == []
    await models.list_servers()
    await models.at(tmp_path, is_chosen=True)
    assert "ollama:found" in models.names()
    assert sorted(asked) == sorted(set(asked))


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5.2",
        "openai:gpt-5.2",
        "openai-chat:gpt-5.2",
        "openrouter:openai/gpt-5.2",
        "pydantic-ai:openai:gpt-5.2",
        "azure:gpt-5.2",
        "work:gpt-5.2",
        "big",
    ],
)
def test_a_model_has_the_facts_of_its_family_by_each_name(tmp_path: Path, name: str) -> None:
    config = """
[providers.work]
base_url = "https://models.example.com/v1"
[models.big]
provider = "openai"
name = "gpt-5.2"
"""
    card = card_of(registry(tmp_path, config), name)
    facts = card.context_window, card.max_output_tokens, card.reasoning, "image" in card.modalities
    family = family_of(card.wire_id)
    assert (facts, family is not None and family.patches) == ((272_000, 128_000, True, True), True)
