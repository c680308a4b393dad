"""The catalogue is a value; looking a model up never raises."""

from __future__ import annotations

from dataclasses import replace

from sidecar.llmgateway.catalog import BUILT_IN, Catalog, get_card


def test_mock_1_has_the_window_the_facts_name() -> None:
    card = get_card("mock-1")
    assert card is not None
    assert (card.context_window, card.max_output_tokens, card.provider) == (32_000, 4_096, "mock")


def test_offline_1_is_there_without_a_key() -> None:
    card = get_card("offline-1")
    assert card is not None
    assert (card.context_window, card.provider) == (32_000, "offline")


def test_an_unknown_model_is_none() -> None:
    assert get_card("nobody-1") is None


def test_cards_of_the_user_make_a_new_catalogue() -> None:
    mock = get_card("mock-1")
    assert mock is not None
    mine = BUILT_IN.with_cards([replace(mock, id="mine", wire_id="mine"), replace(mock, context_window=9)])
    assert [card.id for card in mine.cards] == ["offline-1", "mock-1", "mine"]
    assert mine.get("mock-1") == replace(mock, context_window=9)
    assert get_card("mock-1") == mock


def test_an_empty_catalogue_knows_nothing() -> None:
    assert Catalog([]).get("mock-1") is None
