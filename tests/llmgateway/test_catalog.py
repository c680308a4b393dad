"""The catalogue is a value; a look-up of a card, built in or published, never raises."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway import catalog
from sidecar.llmgateway.catalog import family_of, get_card, published_card
from sidecar.llmgateway.contract import CostSheet, Usage
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, ModelName, parse_name


def test_the_card_of_mock_1() -> None:
    card = get_card("mock-1")
    assert card is not None
    assert (card.context_window, card.max_output_tokens, card.provider) == (32_000, 4_096, "mock")


def test_offline_1_is_there_without_a_key() -> None:
    card = get_card("offline-1")
    assert card is not None
    assert (card.context_window, card.provider) == (32_000, "offline")


@pytest.mark.parametrize(
    ("name", "provider", "wire_id", "window", "max_output", "reasoning"),
    [
        ("gpt-4o", "openai", "gpt-4o", 128_000, 16_384, False),
        ("openai:gpt-4o", "openai", "gpt-4o", 128_000, 16_384, False),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5", 200_000, 64_000, True),
        ("anthropic:claude-opus-4-8", "anthropic", "claude-opus-4-8", 1_000_000, 128_000, True),
        ("google:gemini-2.5-pro", "google", "gemini-2.5-pro", 1_048_576, 65_536, True),
        ("gemini:gemini-2.5-flash", "gemini", "gemini-2.5-flash", 1_048_576, 65_536, True),
    ],
)
def test_the_published_card_of_a_model(
    name: str, provider: str, wire_id: str, window: int, max_output: int, *, reasoning: bool
) -> None:
    card = get_card(name)
    assert card is not None
    found = (
        card.id,
        card.provider,
        card.wire_id,
        card.context_window,
        card.max_output_tokens,
        card.reasoning,
    )
    assert found == (name, provider, wire_id, window, max_output, reasoning)
    assert card.cost.input_per_mtok > 0


def test_a_window_shared_with_the_answer_holds_the_rest() -> None:
    card = get_card("openai:gpt-5")
    assert card is not None
    assert (card.context_window, card.max_output_tokens) == (400_000 - 128_000, 128_000)


@pytest.mark.parametrize(
    "name",
    [
        "nobody-1",
        "gpt-9",
        "openai:nothing-of-the-kind",
        "nobody:gpt-5",
        "claude-opus-5-garbage",
        "",
        ":",
        "a:",
    ],
)
def test_no_unknown_name_has_a_card(name: str) -> None:
    assert get_card(name) is None


@given(st.text() | st.builds("{}:{}".format, st.sampled_from(sorted(PROVIDERS_BY_NAME)), st.text()))
def test_no_name_raises(name: str) -> None:
    card = get_card(name)
    assert card is None or card.context_window > 0


def test_without_the_price_list_the_table_of_families_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    card = published_card("claude-sonnet-4-5-20250929")
    assert card is not None
    assert (card.provider, card.context_window, card.cost) == ("anthropic", 200_000, CostSheet(0.0, 0.0))
    assert published_card("openrouter:anthropic/claude-sonnet-4.5") is not None
    assert published_card("grok-2") is None


@pytest.mark.parametrize(
    ("name", "window", "max_output"),
    [
        ("anthropic:claude-sonnet-5-5", 1_000_000, 128_000),
        ("claude-opus-5-5", 1_000_000, 128_000),
        ("anthropic:claude-haiku-5-5", 1_000_000, 128_000),
        ("gpt-6-sol", 922_000, 128_000),
        ("gemini-3.1-flash-lite", 1_048_576, 65_536),
    ],
)
def test_a_new_version_of_a_family_has_its_limits_without_the_price_list(
    monkeypatch: pytest.MonkeyPatch, name: str, window: int, max_output: int
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    card = published_card(name)
    assert card is not None
    assert (card.context_window, card.max_output_tokens, card.reasoning) == (window, max_output, True)


def test_every_family_is_found_by_its_own_name() -> None:
    for family in catalog._FAMILIES:
        assert family_of(family.prefix) == family
        assert 0 < family.max_output <= family.window
        assert family.vendor in PROVIDERS_BY_NAME


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("openai:gpt-5", ModelName("openai", "gpt-5")),
        ("ollama:qwen3:8b", ModelName("ollama", "qwen3:8b")),
        ("gpt-5", ModelName(None, "gpt-5")),
        (":x", ModelName(None, ":x")),
        ("x:", ModelName(None, "x:")),
    ],
)
def test_a_name_has_two_parts(name: str, parts: ModelName) -> None:
    assert parse_name(name) == parts


def test_the_price_of_a_call_has_its_tier_its_cache_and_its_reasoning() -> None:
    card = get_card("anthropic:claude-sonnet-4-5")
    assert card is not None
    assert card.cost.price(Usage(1_000_000 - 900_000, 0)) == pytest.approx(0.3)
    assert card.cost.price(Usage(100_000, 0, 100_001)) == pytest.approx(0.1 * 6 + 0.100001 * 0.6)
    deep = get_card("openrouter:perplexity/sonar-deep-research")
    assert deep is not None
    assert deep.cost.price(Usage(0, 2_000_000, reasoning_tokens=1_000_000)) == pytest.approx(8 + 3)
    assert CostSheet(0, 0).price(Usage(1, 1)) is None
    assert CostSheet(0, 0, per_request=0.01).price(Usage(1, 1)) == 0.01
