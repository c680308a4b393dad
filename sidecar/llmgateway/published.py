"""Cards of models from the published prices (``genai-prices``), completed by the table in ``limits``.

Works offline, and without the package, then with the table alone. A model that neither knows is None; nothing
here raises. The first look-up imports the package, which takes some tenths of a second: the event loop asks
from a thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from sidecar.llmgateway.contract import CostSheet, Modality, ModelCard
from sidecar.llmgateway.limits import Family, family_of, is_of_family
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, Providers, parse_name

__all__ = ["card_of", "published_card"]

_OUTPUT_SHARE: Final = 4
_MAX_OUTPUT: Final = 32_768
"""The longest answer of a model of which only the window is known: a quarter of it, and at most this."""


def published_card(name: str, providers: Providers = PROVIDERS_BY_NAME) -> ModelCard | None:
    """Return what is published of the model *name*, ``provider:model`` or a plain id, or None."""
    parts = parse_name(name)
    if parts.provider is None:
        return _plain_card(name)
    provider = providers.get(parts.provider)
    return card_of(name, provider, parts.model) if provider is not None else None


def card_of(name: str, provider: Provider, model: str) -> ModelCard | None:
    """Return the card of *model* as *provider* serves it, under the id *name*, or None."""
    found = _find(model, provider.published_as) if provider.published_as else None
    family = family_of(model)
    if found is None and (family is None or not is_of_family(model, family)):
        return None
    return _card(name, provider, model, found, family)


@dataclass(frozen=True, slots=True)
class _Published:
    """What the package says of a model."""

    provider: str
    display_name: str | None
    window: int | None
    cost: CostSheet


def _plain_card(name: str) -> ModelCard | None:
    """Return the card of a model named without its provider: whoever makes it serves it."""
    found, family = _find(name, None), family_of(name)
    vendor = family.vendor if family is not None and is_of_family(name, family) else None
    serving = found.provider if found is not None else vendor
    by_name = (each for each in PROVIDERS_BY_NAME.values() if each.published_as == serving)
    provider = next(by_name, None) if serving is not None else None
    return None if provider is None else _card(name, provider, name, found, family)


def _find(model: str, published_as: str | None) -> _Published | None:
    """Return what is published of *model*, of whichever provider when *published_as* is None."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        provider, found = get_snapshot().find_provider_model(model, None, published_as, None)
        prices = found.get_prices(datetime.now(UTC))
        cost = CostSheet(
            _price(prices.input_mtok) or 0.0,
            _price(prices.output_mtok) or 0.0,
            _price(prices.cache_read_mtok),
            _price(prices.cache_write_mtok),
        )
    except Exception:
        # The package is missing, does not know the model, or has changed: all three are "not published".
        return None
    return _Published(provider.id, found.name, found.context_window, cost)


def _price(price: Any) -> float | None:
    """Return the price of the first tier."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else None


def _card(
    name: str, provider: Provider, model: str, found: _Published | None, family: Family | None
) -> ModelCard | None:
    window = _window(found, family)
    if not window:
        return None
    modalities: tuple[Modality, ...] = ("text", "image") if family and family.images else ("text",)
    return ModelCard(
        name,
        provider.id,
        provider.api,
        (found.display_name if found is not None else None) or model,
        context_window=window,
        max_output_tokens=family.max_output if family else min(window // _OUTPUT_SHARE, _MAX_OUTPUT),
        modalities=modalities,
        reasoning=family is not None and family.reasoning,
        cost=found.cost if found is not None else CostSheet(0.0, 0.0),
        wire_id=model,
    )


def _window(found: _Published | None, family: Family | None) -> int | None:
    published = found.window if found is not None else None
    if family is None:
        return published
    if published is None:
        return family.input_window
    return published - family.max_output if family.reserves_output else published
