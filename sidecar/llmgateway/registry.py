"""The models of one daemon: a catalogue, who serves it, and which one is the default.

Scripted models named by a client join it before the first session; nothing else changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sidecar._internal.errors import InvalidInput
from sidecar.llmgateway.catalog import BUILT_IN, OFFLINE_CARD, Catalog
from sidecar.llmgateway.contract import CostSheet, ModelCard
from sidecar.llmgateway.gateway import PROVIDERS, Invoke, ProviderFactory, stream
from sidecar.llmgateway.scripted import ScriptedModel, script_from_json

__all__ = ["ModelRegistry"]

_WINDOW_TOKENS = 32_000
_OUTPUT_TOKENS = 4_096


class ModelRegistry:
    """Models by id. *default* answers when a client names none."""

    def __init__(
        self,
        catalog: Catalog = BUILT_IN,
        providers: Mapping[str, ProviderFactory] = PROVIDERS,
        default: str = OFFLINE_CARD.id,
    ) -> None:
        self.catalog = catalog
        self.providers = providers
        self.default = default

    def card(self, model_id: str) -> ModelCard | None:
        """Return what is known of *model_id*, or None."""
        return self.catalog.get(model_id)

    def invoker(self, model_id: str) -> Invoke:
        """Return how to call *model_id*; one that nobody serves answers with an ``unsupported`` error."""
        return partial(stream, model_id, catalog=self.catalog, providers=self.providers)

    def names(self) -> Sequence[str]:
        """Return the ids on offer, the default first."""
        others = (card.id for card in self.catalog.cards if card.id != self.default)
        return (self.default, *others)

    def add_scripted(self, named: Any) -> None:
        """Add the scripted models of ``initializationOptions.sidecar.models``: objects by model id.

        Each is ``{"scripted": [steps], "contextWindow"?: tokens, "maxOutputTokens"?: tokens}``.
        Raises InvalidInput saying which one is wrong.
        """
        if not isinstance(named, Mapping):
            raise InvalidInput("models must be an object of models by id")
        for model_id, spec in named.items():
            self._add_one(str(model_id), spec)

    def _add_one(self, model_id: str, spec: Any) -> None:
        if not isinstance(spec, Mapping) or "scripted" not in spec:
            raise InvalidInput(f"models.{model_id} must be an object with a scripted list of steps")
        try:
            model = ScriptedModel(script_from_json(spec["scripted"]))
        except ValueError as error:
            raise InvalidInput(f"models.{model_id}.scripted: {error}") from None
        provider = f"scripted:{model_id}"
        self.catalog = self.catalog.with_cards([_scripted_card(model_id, provider, spec)])
        self.providers = {**self.providers, provider: lambda card: model}


def _scripted_card(model_id: str, provider: str, spec: Mapping[str, Any]) -> ModelCard:
    return ModelCard(
        model_id,
        provider,
        "mock",
        f"{model_id} (scripted)",
        context_window=_tokens(model_id, spec, "contextWindow", _WINDOW_TOKENS),
        max_output_tokens=_tokens(model_id, spec, "maxOutputTokens", _OUTPUT_TOKENS),
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0.0, 0.0),
    )


def _tokens(model_id: str, spec: Mapping[str, Any], name: str, default: int) -> int:
    value = spec.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInput(f"models.{model_id}.{name} must be a positive integer")
    return value
