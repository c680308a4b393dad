"""The models of one daemon: a catalogue, who serves it, the user's settings, and which model is the default.

Scripted models named by a client join it before the first session; a folder with settings of its own gets a
view of its own. Nothing else changes it, but for windows that servers have told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sidecar._internal.errors import InvalidInput
from sidecar._internal.loading import install_command
from sidecar.llmgateway.catalog import BUILT_IN, OFFLINE_CARD, Catalog
from sidecar.llmgateway.config import ModelSettings, from_environment, read_folder_settings, read_settings
from sidecar.llmgateway.contract import Channel, Conversation, CostSheet, ModelCard, StreamOptions
from sidecar.llmgateway.credentials import Credentials, system_keyring
from sidecar.llmgateway.falling_back import falling_back
from sidecar.llmgateway.gateway import PROVIDERS, Invoke, ProviderFactory, stream
from sidecar.llmgateway.names import Provider, sdk_of
from sidecar.llmgateway.providers import Serving, address_of, is_installed
from sidecar.llmgateway.providers.windows import ask_window, is_local
from sidecar.llmgateway.routing import Route, Routes
from sidecar.llmgateway.scripted import ScriptedModel, script_from_json

__all__ = ["ModelRegistry", "ModelSetup"]

_WINDOW_TOKENS = 32_000
_OUTPUT_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class ModelSetup:
    """What a registry stands on besides its catalogue.

    *base* are the settings below those of a folder, *upper* those above. *windows* are what servers told.
    """

    credentials: Credentials
    serving: Serving
    base: ModelSettings = field(default_factory=ModelSettings)
    upper: ModelSettings = field(default_factory=ModelSettings)
    windows: dict[Route, int] = field(default_factory=dict)

    @classmethod
    def of_user(cls, home: Path) -> ModelSetup:
        """Return the setup of the user whose state is in *home*; reads files."""
        credentials = Credentials(home, system_keyring())
        return cls(credentials, Serving(credentials), read_settings(home), from_environment())

    @classmethod
    def bare(cls) -> ModelSetup:
        """Return a setup with no settings, and keys from the environment alone."""
        credentials = Credentials()
        return cls(credentials, Serving(credentials))


class ModelRegistry:
    """Models by id or ``provider:model``. *default* answers when neither client nor settings name one."""

    def __init__(
        self,
        catalog: Catalog = BUILT_IN,
        providers: Mapping[str, ProviderFactory] = PROVIDERS,
        default: str = OFFLINE_CARD.id,
        *,
        setup: ModelSetup | None = None,
        folder: ModelSettings | None = None,
    ) -> None:
        self.catalog = catalog
        self.providers = providers
        self._setup = setup or ModelSetup.bare()
        self._last_resort = default
        self.settings = self._setup.base.under(folder or ModelSettings()).under(self._setup.upper)
        self._routes = Routes(self.settings, self._setup.windows)

    @property
    def default(self) -> str:
        """The id used when nothing is chosen."""
        return self.settings.model or self._last_resort

    @property
    def problems(self) -> Sequence[str]:
        """What the user should know about settings that are not used."""
        return self.settings.problems

    def card(self, model_id: str) -> ModelCard | None:
        """Return what is known of *model_id*, or None."""
        return self.catalog.get(model_id) or self._routes.card(model_id)

    def why_not(self, model_id: str) -> str | None:
        """Return why *model_id* cannot be called, None when it can be tried; keys show when it is called."""
        if self.catalog.get(model_id) is not None:
            return None
        route = self._routes.find(model_id)
        if route is None:
            return "; ".join(("nobody is known to serve it", *self.problems))
        if not is_installed(route.provider):
            extra, _ = sdk_of(route.provider)
            return f"it needs the extra [{extra}]; run: {install_command(extra)}"
        return None

    def provider_of(self, model_id: str) -> Provider | None:
        """Return who serves *model_id*; None for what is built in, and for what nobody is known to serve."""
        route = self._routes.find(model_id) if self.catalog.get(model_id) is None else None
        return route.provider if route is not None else None

    def invoker(self, model_id: str) -> Invoke:
        """Return how to call *model_id*; one that nobody serves answers with an ``unsupported`` error."""
        route = self._routes.find(model_id) if self.catalog.get(model_id) is None else None
        if route is None:
            return partial(stream, model_id, catalog=self.catalog, providers=self.providers)
        card = self.card(model_id) or route.bare_card
        return self._with_knobs(self._setup.serving.invoker(card, route.provider))

    def summarizer(self, model_id: str) -> tuple[Invoke, ModelCard | None]:
        """Return how the conversations of *model_id* are condensed, and the card that prompts must fit.

        That is the summariser of the settings, with *model_id* itself where that one fails; else *model_id*.
        """
        own, own_card = self.invoker(model_id), self.card(model_id)
        name = self.settings.summarizer
        if name is None or name == model_id or self.why_not(name) is not None:
            return own, own_card
        card = self.card(name)
        return falling_back(self.invoker(name), own), _smaller(card, own_card)

    def names(self) -> Sequence[str]:
        """Return the ids on offer, the default first; any ``provider:model`` may be named besides."""
        known = (self.default, *(card.id for card in self.catalog.cards), *self.settings.models)
        return tuple(dict.fromkeys(known))

    async def ready(self, model_id: str) -> None:
        """Learn what takes time: what is published, what the server of *model_id* tells. Never raises."""
        asked = {model_id, self.settings.summarizer or model_id}
        await asyncio.to_thread(lambda: [self.card(name) for name in {*asked, *self.names()}])
        await asyncio.gather(*(self._ask_window(name) for name in asked))

    def learn_window(self, model_id: str, tokens: int) -> None:
        """Take *tokens* for the window of *model_id*, of which none is known: a refusal told of it."""
        route = self._routes.find(model_id)
        if route is not None and self.card(model_id) is None:
            self._setup.windows[route] = tokens

    async def _ask_window(self, model_id: str) -> None:
        route = self._routes.find(model_id) if self.catalog.get(model_id) is None else None
        address = address_of(route.provider).base_url if route is not None else None
        if route is None or address is None or route in self._setup.windows:
            return
        if is_local(address) or self.card(model_id) is None:
            key = await asyncio.to_thread(self._key, route)
            window = await ask_window(address, route.model, key)
            if window is not None:
                self._setup.windows[route] = window

    async def at(self, folder: Path) -> ModelRegistry:
        """Return the models as a session in *folder* sees them: with the settings of that folder."""
        found = await asyncio.to_thread(read_folder_settings, folder, self._setup.base.trusted)
        if found == ModelSettings():
            return self
        return ModelRegistry(self.catalog, self.providers, self._last_resort, setup=self._setup, folder=found)

    async def aclose(self) -> None:
        """Close the connections to providers."""
        await self._setup.serving.aclose()

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

    def _key(self, route: Route) -> str | None:
        try:
            key = self._setup.credentials.find(route.provider)
        except Exception:
            # The call itself says what is wrong with a key; here it only means to ask without one.
            return None
        return key.value if key is not None else None

    def _with_knobs(self, invoke: Invoke) -> Invoke:
        """Return *invoke* with the knobs of the settings where a call leaves them open."""
        settings = self.settings
        if settings.thinking is None and settings.max_output_tokens is None:
            return invoke

        def call(conversation: Conversation, options: StreamOptions) -> Channel:
            turned = replace(
                options,
                thinking=options.thinking or settings.thinking,
                max_output_tokens=options.max_output_tokens or settings.max_output_tokens,
            )
            return invoke(conversation, turned)

        return call


def _smaller(one: ModelCard | None, other: ModelCard | None) -> ModelCard | None:
    """Return the card with the smaller window: what is condensed must fit whichever model is asked."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda card: card.context_window)


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
