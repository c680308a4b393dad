"""From the name of a model to who serves it and what is known of it, under the user's settings.

A name that can be served may still have no card: nothing is known of its window then. Looking a name up never
raises, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sidecar.llmgateway.config import CostEntry, ModelEntry, ModelSettings
from sidecar.llmgateway.contract import CostSheet, Modality, ModelCard
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, parse_name
from sidecar.llmgateway.published import card_of, published_card

__all__ = ["Route", "Routes"]

_OUTPUT_SHARE: Final = 4
_MAX_OUTPUT: Final = 32_768
_FREE: Final = CostSheet(0.0, 0.0)
_NO_ENTRY: Final = ModelEntry()


@dataclass(frozen=True, slots=True)
class Route:
    """The model *model* of *provider*, under the name it was asked for."""

    name: str
    provider: Provider
    model: str

    @property
    def bare_card(self) -> ModelCard:
        """What a call needs to know at least; window and limit are 0, for unknown."""
        return ModelCard(
            self.name,
            self.provider.id,
            self.provider.api,
            self.model,
            context_window=0,
            max_output_tokens=0,
            modalities=("text", "image"),
            reasoning=False,
            cost=_FREE,
            wire_id=self.model,
        )


class Routes:
    """The names that can be served. *windows* are those that servers told, by route; shared and growing."""

    def __init__(
        self, settings: ModelSettings | None = None, windows: Mapping[Route, int] | None = None
    ) -> None:
        self._settings = settings or ModelSettings()
        self._windows = windows if windows is not None else {}
        self._providers = {**PROVIDERS_BY_NAME, **self._settings.providers}
        # A session asks for its card at every turn; a price list is searched once for each name.
        self._found: dict[str, Route | None] = {}
        self._published: dict[Route, ModelCard | None] = {}

    def find(self, name: str) -> Route | None:
        """Return who serves *name*, or None when nobody is known to.

        >>> Routes().find("ollama:qwen3:8b").model, Routes().find("nobody:x")
        ('qwen3:8b', None)
        """
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> Route | None:
        parts = parse_name(name)
        entry = self._settings.models.get(name, _NO_ENTRY)
        provider = self._providers.get(entry.provider or parts.provider or "")
        if provider is not None:
            model = entry.name or (parts.model if parts.provider == provider.id else name)
            return Route(name, provider, model)
        published = published_card(name) if parts.provider is None and entry.provider is None else None
        if published is None:
            return None
        return Route(name, self._providers[published.provider], entry.name or published.wire_id)

    def card(self, name: str) -> ModelCard | None:
        """Return what is known of *name*: from the user first, then the server, then what is published."""
        route = self.find(name)
        if route is None:
            return None
        entry = self._settings.models.get(name, _NO_ENTRY)
        if route not in self._published:
            self._published[route] = card_of(name, route.provider, route.model)
        card = self._published[route]
        window = entry.context_window or self._windows.get(route) or (card.context_window if card else 0)
        if not window:
            return None
        if card is None or card.context_window != window:
            known = card or route.bare_card
            most = card.max_output_tokens if card is not None else _MAX_OUTPUT
            limit = min(most, max(1, window // _OUTPUT_SHARE))
            card = replace(known, context_window=window, max_output_tokens=limit)
        return _as_told(card, entry)


def _as_told(card: ModelCard, entry: ModelEntry) -> ModelCard:
    """Return *card* with what the user says of the model."""
    seen: tuple[Modality, ...] = ("text", "image") if entry.images else ("text",)
    return replace(
        card,
        max_output_tokens=entry.max_output_tokens or card.max_output_tokens,
        reasoning=card.reasoning if entry.reasoning is None else entry.reasoning,
        modalities=card.modalities if entry.images is None else seen,
        cost=_cost(entry.cost) if entry.cost is not None else card.cost,
    )


def _cost(cost: CostEntry) -> CostSheet:
    return CostSheet(cost.input, cost.output, cost.cache_read, cost.cache_write)
