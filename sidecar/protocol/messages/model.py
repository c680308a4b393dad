"""Messages of ``sidecar/model/*``."""

from __future__ import annotations

from typing import Literal

from sidecar._internal.values import Value


class ModelPrice(Value, kw_only=True):
    """The prices of a model, in US dollars for a million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ListedModel(Value, kw_only=True):
    """A model on offer; *model* is its value of the config option.

    *source* is ``configured`` in the settings, ``discovered`` on a server of this machine, ``published`` in
    the list of a provider, or ``builtIn``. *context_window* is 0 until it is known, *price* is left out where
    it is not, and *why_not* says why the model cannot be called now. A missing key shows only when it is
    called.
    """

    model: str
    name: str
    source: Literal["configured", "discovered", "published", "builtIn"]
    provider: str | None = None
    context_window: int = 0
    max_output_tokens: int = 0
    reasoning: bool = False
    images: bool = False
    price: ModelPrice | None = None
    why_not: str | None = None


class ModelListResult(Value):
    """The models of the settings, of providers with a key, of servers that answer, and the built-in one.

    *current* is the session's own. Any other `provider:model` may be chosen as well.
    """

    models: tuple[ListedModel, ...]
    current: str
