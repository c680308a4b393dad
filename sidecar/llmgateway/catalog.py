"""Model cards: a catalogue of them, the built-in one, and the published ones.

A catalogue is a value: cards of the user's configuration make a new one, nothing is registered globally.

Published cards come from the package ``genai-prices``, completed by the table of families; without the
package from the table alone. The first look-up imports the package, which takes some tenths of a second: the
event loop looks up in a thread. Nothing here uses the network, and nothing raises.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from sidecar.llmgateway.contract import CostSheet, Modality, ModelCard
from sidecar.llmgateway.families import Family, family_of, is_of_family
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, Providers, parse_name

_OUTPUT_SHARE: Final = 4
_MAX_OUTPUT: Final = 32_768

_MOST_NAMES: Final = 12
_MOST_OF_MAKER: Final = 3
_VERSION: Final = re.compile(r"(?<!\d)(\d{1,2})(?:[.-](\d{1,2})(?![\db]))?(?![\db])")
_OTHER_USES: Final = re.compile(
    r":|^~|claude-\d-[a-z]|embed|image|audio|voice|tts|live|realtime|transcribe|search|research|cyber|rosalind|safeguard|guard"
    r"|robotics|whisper|instruct|computer-use|vision|orpheus|omni|nano-banana"
)

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
    """Return the card of *model_id*, built in or published, or None. Never raises.

    *model_id* is a plain id or ``provider:model``. The first one that is not built in costs an import of
    some tenths of a second.

    >>> get_card("mock-1").max_output_tokens, get_card("nobody-1")
    (4096, None)
    """
    return BUILT_IN.get(model_id) or published_card(model_id)


def published_card(name: str, providers: Providers = PROVIDERS_BY_NAME) -> ModelCard | None:
    """Return the published card of *name*, ``provider:model`` or a plain id, or None."""
    parts = parse_name(name)
    if parts.provider is not None:
        provider = providers.get(parts.provider)
        return card_of(name, provider, parts.model) if provider is not None else None
    # A plain id: the model is served by the company that makes it.
    found, family = _find(name, None), family_of(name)
    vendor = family.vendor if family is not None and is_of_family(name, family) else None
    serving = found.provider if found is not None else vendor
    by_name = (each for each in PROVIDERS_BY_NAME.values() if each.published_as == serving)
    provider = next(by_name, None) if serving is not None else None
    return None if provider is None else _card(name, provider, name, found, family)


def published_names(provider: Provider) -> tuple[str, ...]:
    """Return the models of *provider* for long work with tools, newest first; at most a dozen."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        found = next(each for each in get_snapshot().providers if each.id == provider.published_as)
        models = sorted(found.models, key=lambda model: version_of(model.id), reverse=True)
        names = [model.id for model in models if model.context_window or family_of(model.id)]
        retired = {model.id for model in models if model.deprecated}
    except Exception:
        # As in a look-up: without the package, or with another version of it, nothing is published.
        return ()
    kept: list[str] = []
    n_of_maker: Counter[str] = Counter()
    for name in names:
        family, is_of_router = family_of(name), "/" in name
        maker = family.vendor if family is not None else provider.published_as
        if name in retired or _OTHER_USES.search(name) or (is_of_router and family is None):
            continue
        # A service for models of many makers shows a few of each maker that is known here.
        if n_of_maker[str(maker)] < _MOST_OF_MAKER if is_of_router else maker == provider.published_as:
            n_of_maker[str(maker)] += 1
            kept.append(name)
    return tuple(kept[:_MOST_NAMES])


def version_of(model: str) -> tuple[int, int]:
    """Return the version in the name *model*; a size, or the date of a release, is none.

    >>> version_of("claude-sonnet-5-5"), version_of("gpt-6.1-sol"), version_of("gpt-oss-120b")
    ((5, 5), (6, 1), (0, 0))
    """
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def output_limit(window: int) -> int:
    """Return the longest answer, in tokens, of a model with only a known *window*: a quarter, 32,768 at most.

    >>> output_limit(8_192), output_limit(1_000_000)
    (2048, 32768)
    """
    return min(max(1, window // _OUTPUT_SHARE), _MAX_OUTPUT)


def card_of(name: str, provider: Provider, model: str) -> ModelCard | None:
    """Return the card of *model* as *provider* serves it, under the id *name*, or None."""
    found = _find(model, provider.published_as) if provider.published_as else None
    family = family_of(model)
    if found is None and (family is None or not is_of_family(model, family)):
        return None
    return _card(name, provider, model, found, family)


@dataclass(frozen=True, slots=True)
class _Published:
    """The package's entry of a model."""

    provider: str
    display_name: str | None
    window: int | None
    cost: CostSheet


def _find(model: str, published_as: str | None) -> _Published | None:
    """Return the entry of *model*, of any provider when *published_as* is None."""
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
        # The package is missing, does not know the model, or has changed: in each case nothing is published.
        return None
    return _Published(provider.id, found.name, found.context_window, cost)


def _price(price: Any) -> float | None:
    """Return the price of the first tier."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal | int | float) else None


def _card(
    name: str, provider: Provider, model: str, found: _Published | None, family: Family | None
) -> ModelCard | None:
    window = found.window if found is not None else None
    if family is not None:
        reserved = family.max_output if family.reserves_output else 0
        window = (window or family.window) - reserved
    if not window:
        return None
    modalities: tuple[Modality, ...] = ("text", "image") if family and family.images else ("text",)
    return ModelCard(
        name,
        provider.id,
        provider.api,
        (found.display_name if found is not None else None) or model,
        context_window=window,
        max_output_tokens=family.max_output if family else output_limit(window),
        modalities=modalities,
        reasoning=family is not None and family.reasoning,
        cost=found.cost if found is not None else CostSheet(0.0, 0.0),
        wire_id=model,
    )
