"""What is known of models before they are called: a catalogue of cards, and the built-in one.

A catalogue is a value. Cards of the user's configuration make a new one; nothing is ever registered globally.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sidecar.llmgateway.contract import CostSheet, ModelCard

__all__ = ["BUILT_IN", "MOCK_CARD", "OFFLINE_CARD", "Catalog", "get_card"]

_FREE: Final = CostSheet(input_per_mtok=0.0, output_per_mtok=0.0)

MOCK_CARD: Final = ModelCard(
    "mock-1",
    "mock",
    "mock",
    "Mock 1",
    context_window=32_000,
    max_output_tokens=4_096,
    modalities=("text",),
    reasoning=False,
    cost=_FREE,
)
"""Fixed text, for the first steps of a client."""

OFFLINE_CARD: Final = ModelCard(
    "offline-1",
    "offline",
    "offline",
    "Offline 1 (built in, no network)",
    context_window=32_000,
    max_output_tokens=4_096,
    modalities=("text",),
    reasoning=False,
    cost=_FREE,
)
"""The embedded model: finds and cites, needs no key."""


class Catalog:
    """Model cards by id; of two cards with one id the later one counts.

    >>> Catalog([MOCK_CARD]).get("mock-1").context_window
    32000
    """

    __slots__ = ("_by_id",)

    def __init__(self, cards: Iterable[ModelCard]) -> None:
        self._by_id = {card.id: card for card in cards}

    @property
    def cards(self) -> tuple[ModelCard, ...]:
        """The cards, in the order they were given."""
        return tuple(self._by_id.values())

    def get(self, model_id: str) -> ModelCard | None:
        """Return the card of *model_id*, or None when it is unknown. Never raises."""
        return self._by_id.get(model_id)

    def with_cards(self, cards: Iterable[ModelCard]) -> Catalog:
        """Return a catalogue of these cards and *cards*, which take precedence."""
        return Catalog((*self.cards, *cards))


BUILT_IN: Final = Catalog((OFFLINE_CARD, MOCK_CARD))
"""The models that need neither a key nor a network."""


def get_card(model_id: str) -> ModelCard | None:
    """Return the card of *model_id*, built in or published, or None (facts 1.1). Never raises.

    *model_id* is a plain id or ``provider:model``. The first one that is not built in costs an import of
    some tenths of a second.

    >>> get_card("mock-1").max_output_tokens, get_card("nobody-1")
    (4096, None)
    """
    built_in = BUILT_IN.get(model_id)
    if built_in is not None:
        return built_in
    # Imported on first use: the contract's importers should not pay for a price list.
    from sidecar.llmgateway.published import published_card

    return published_card(model_id)
