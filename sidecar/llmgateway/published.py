"""The published models: names, windows and prices from the package ``genai-prices``, and a file of answers.

The package makes its 2,000 models with pydantic, which takes 100 ms of processor time and 16 MB of memory. A
first session would wait for it, to name a dozen models. So each look-up is kept in a file of the state
directory, and the package is loaded for a question that is not there. The answers hold for the installed
package alone, and a price that a later day changes is not kept.

Without the package nothing is published. Nothing here uses the network, and nothing raises.
"""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from sidecar._internal.state_folder import read_state_file, replace_state_file
from sidecar._internal.values import Value
from sidecar.llmgateway.contract import CostSheet, PriceTier

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of the file; a larger one is not read."""

MOST_MODELS: Final = 2_000
"""Answers about models in the file; it keeps no further ones."""

_TIERED: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


class PublishedModel(Value):
    """The package's entry of a model; *window* in tokens."""

    provider: str
    display_name: str | None
    window: int | None
    cost: CostSheet


class PublishedName(Value):
    """A model in the list of its provider."""

    id: str
    has_window: bool
    is_retired: bool


class _Answers(Value):
    """The content of the file: the answers of one *package*."""

    package: str
    models: dict[str, PublishedModel | None]
    lists: dict[str, tuple[PublishedName, ...]]


class PublishedModels:
    """Look-ups of published models; *path* is the file that keeps the answers, None for none.

    >>> PublishedModels().find("gpt-4o", "openai").window
    128000
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._answers: _Answers | None = None
        self._is_changed = False

    def find(self, model: str, published_as: str | None) -> PublishedModel | None:
        """Return the entry of *model* at the provider *published_as*, None without one.

        A *published_as* of None stands for the maker of the model.
        """
        known, key = self._load_answers().models, f"{published_as or ''} {model}"
        if key in known:
            return known[key]
        found, is_final = look_up(model, published_as)
        if is_final and self._path is not None and len(known) < MOST_MODELS:
            known[key], self._is_changed = found, True
        return found

    def models_of(self, provider: str) -> tuple[PublishedName, ...]:
        """Return the models that are published of *provider*, in no order."""
        known = self._load_answers().lists
        if provider in known:
            return known[provider]
        try:
            models = next(each for each in _load().providers if each.id == provider).models
            listed = tuple(
                PublishedName(each.id, bool(each.context_window), bool(each.deprecated)) for each in models
            )
        except Exception:  # as in a look-up
            return ()
        if self._path is not None:
            known[provider], self._is_changed = listed, True
        return listed

    def save(self) -> None:
        """Store the new answers, if there are any. Blocks."""
        if self._path is None or self._answers is None or not self._is_changed:
            return
        self._is_changed = False
        answers = self._answers
        copied = _Answers(answers.package, dict(answers.models), dict(answers.lists))
        try:
            replace_state_file(self._path, msgspec.json.encode(copied))
        except OSError as error:
            _log.debug("the published models cannot be stored: %s", type(error).__name__)

    def _load_answers(self) -> _Answers:
        if self._answers is None:
            package = describe_package() if self._path is not None else ""
            answers = _Answers(package, {}, {})
            try:
                if self._path is not None:
                    stored = read_state_file(self._path, MOST_BYTES)
                    read = msgspec.json.decode(stored, type=_Answers)
                    answers = read if read.package == package else answers
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                pass  # it is written again
            self._answers = answers
        return self._answers


BUNDLED: Final = PublishedModels()
"""The package itself, for callers without a state directory."""


def describe_package() -> str:
    """Return the place and the time of the package's data, by which another version is noticed."""
    try:
        spec = find_spec("genai_prices")
        data = Path(str(spec.origin)).with_name("data.py") if spec is not None else Path()
        return f"{data} {data.stat().st_mtime_ns}"
    except (OSError, ValueError):
        return ""


def _load() -> Any:
    """Return the package's models. Raises ImportError without it."""
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def look_up(model: str, published_as: str | None) -> tuple[PublishedModel | None, bool]:
    """Return the package's entry of *model*, and whether it is the same on each later day."""
    now = datetime.now(UTC)
    try:
        provider, found = _load().find_provider_model(model, None, published_as, None)
        prices = found.get_prices(now)
        starts = {tier.start for name in _TIERED for tier in getattr(getattr(prices, name), "tiers", ())}
        base = [_price(getattr(prices, name)) for name in _TIERED]
        requests = _price(getattr(prices, "requests_kcount", None))
        cost = CostSheet(
            base[0] or 0.0,
            base[1] or 0.0,
            *base[2:],
            reasoning_per_mtok=_price(getattr(prices, "output_reasoning_mtok", None)),
            per_request=requests / 1_000 if requests is not None else None,
            tiers=tuple(tier_of(prices, start) for start in sorted(starts)),
        )
        conditions = [each.constraint for each in found.prices] if isinstance(found.prices, list) else []
        is_final = all(
            each is None or getattr(each, "start_date", date.max) <= now.date() for each in conditions
        )
    except LookupError:
        return None, True
    except Exception:
        # The package is missing or has changed: in either case nothing is published.
        return None, False
    return PublishedModel(provider.id, found.name, found.context_window, cost), is_final


def _price(price: Any, start: int = 0) -> float | None:
    """Return *price* for a call with more than *start* tokens of input."""
    at = getattr(price, "base", price)
    for tier in getattr(price, "tiers", ()):
        at = tier.price if tier.start <= start else at
    return float(at) if isinstance(at, Decimal | int | float) else None


def tier_of(prices: Any, start: int) -> PriceTier:
    """Return the *prices* of a model for calls with more than *start* tokens of input."""
    inward, outward, read, written = (_price(getattr(prices, name), start) for name in _TIERED)
    return PriceTier(start, inward or 0.0, outward or 0.0, read, written)
