"""The models of one daemon: a catalogue, its providers, the user's settings, and the default model.

Scripted models of a client join it before the first session; a folder with settings of its own gets a view of
its own. Nothing else changes it, except for windows that servers publish.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import field

from sidecar._internal.errors import InvalidInput
from sidecar._internal.loading import install_command
from sidecar._internal.values import Value
from sidecar.llmgateway.catalog import BUILT_IN, MOCK_CARD, OFFLINE_CARD
from sidecar.llmgateway.channel import Invoke, channel_of, contain_cancellation, with_fallback
from sidecar.llmgateway.config import (
    CONFIG_FILE,
    ModelSettings,
    UserSettings,
    from_environment,
    near_name,
    read_folder_settings,
    read_settings,
)
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    DoneEmission,
    Emission,
    GatewayError,
    ModelCard,
    Reply,
    StreamOptions,
    TextBlock,
    ToolResultBlock,
    Usage,
    emissions_of,
)
from sidecar.llmgateway.credentials import Credentials, system_keyring
from sidecar.llmgateway.gateway import PROVIDERS, Route, Routes, stream
from sidecar.llmgateway.names import OLLAMA, Provider, parse_name
from sidecar.llmgateway.providers import ProviderModels, address_of, is_installed
from sidecar.llmgateway.providers.windows import fetch_capabilities, fetch_window, is_local
from sidecar.llmgateway.published import BUNDLED, PublishedModels
from sidecar.llmgateway.scripted import model_from_json
from sidecar.llmgateway.survey import Proposal, Survey, load_for_survey, survey_machine

_CHARS_PER_TOKEN = 8
_LEAST_CUT = 1_024
"""A server that has read fewer tokens does not count the ones in its cache."""


class ModelSetup(Value, kw_only=True):
    """The keys, connections and settings that the registries of all folders share.

    The settings of a folder override *base*, and *upper* overrides them. Servers published *windows* and
    *capabilities*; *confirmed* holds the routes that were asked again after a call. *settings* are
    read again for the folders with files that may change providers; without them the list of *base* holds.
    """

    credentials: Credentials
    served: ProviderModels
    base: ModelSettings = field(default_factory=ModelSettings)
    upper: ModelSettings = field(default_factory=ModelSettings)
    windows: dict[Route, int] = field(default_factory=dict)
    capabilities: dict[Route, frozenset[str]] = field(default_factory=dict)
    confirmed: set[Route] = field(default_factory=set)
    settings: UserSettings | None = None
    published: PublishedModels = BUNDLED

    @classmethod
    def of_user(cls, home: Path) -> ModelSetup:
        """Return the setup of a user with the state directory *home*; reads files."""
        credentials, base = Credentials(home, system_keyring()), read_settings(home)
        return cls(
            credentials=credentials,
            served=ProviderModels(credentials, idle_timeout_s=base.model_idle_timeout_s),
            base=base,
            upper=from_environment(),
            settings=UserSettings(home),
            published=PublishedModels(home / "published-models.json"),
        )

    @classmethod
    def bare(cls) -> ModelSetup:
        """Return a setup with no settings, and keys from the environment alone."""
        credentials = Credentials()
        return cls(credentials=credentials, served=ProviderModels(credentials))


ModelOrigin: TypeAlias = Literal["configured", "discovered", "published", "builtIn"]
"""The user's settings, a server on this machine, a provider's published list, or the daemon itself."""


class ModelRegistry:
    """Models by id or ``provider:model``. *default* is used when neither client nor settings name one."""

    def __init__(
        self,
        catalog: Mapping[str, ModelCard] = BUILT_IN,
        providers: Mapping[str, Invoke] = PROVIDERS,
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
        shared = self._setup
        self._routes = Routes(self.settings, shared.windows, shared.capabilities, shared.published)
        self.survey = Survey()
        self._on_offer: tuple[str, ...] = ()

    @property
    def default(self) -> str:
        """The id of the model of a session that chooses none."""
        proposal = self._proposal()
        return self.settings.model or (proposal.model if proposal is not None else self._last_resort)

    def _proposal(self) -> Proposal | None:
        return self.survey.proposal() if self._last_resort == OFFLINE_CARD.id else None

    @property
    def remark(self) -> str | None:
        """One sentence on how the default was found; None when the user has chosen it."""
        if self.settings.model is not None:
            return None
        proposal = self._proposal()
        if proposal is None:
            return self.survey.advice()
        how = f'choose another with --model, /model, or model = "..." in {CONFIG_FILE}'
        advice = self.survey.advice()
        return f"{proposal.model} answers, because {proposal.reason}; {how}" + (
            f"; {advice}" if advice else ""
        )

    @property
    def undecided(self) -> str | None:
        """Why no model is the default: the file that may name one has a mistake; None when one is."""
        problem = self.settings.unreadable or self.settings.model_problem
        return problem if self.settings.model is None else None

    @property
    def problems(self) -> Sequence[str]:
        """The settings that are not used, as sentences for the user."""
        return self.settings.problems

    def card(self, model_id: str) -> ModelCard | None:
        """Return the card of *model_id*, or None when nothing is known of it."""
        return self.catalog.get(model_id) or self._routes.card(model_id)

    def why_not(self, model_id: str) -> str | None:
        """Return the reason why *model_id* cannot be called, None when it can be tried.

        A missing key shows only when it is called.
        """
        if model_id in self.catalog:
            return None
        route = self._routes.find(model_id)
        if route is None:
            provider = parse_name(model_id).provider
            near = near_name(provider, self._routes.providers) if provider is not None else None
            meant = f", did you mean {near}:?" if near is not None else ""
            return "; ".join((f"no provider serves it{meant}", *self.problems))
        if not is_installed(route.provider):
            extra = route.provider.extra
            return f"it needs the extra [{extra}]; run: {install_command(extra)}"
        return None

    def origin(self, model_id: str) -> ModelOrigin:
        """Return the place that *model_id* is known from: settings, a local server, a published list."""
        if model_id in self.catalog:
            return "builtIn"
        if model_id in self.settings.models:
            return "configured"
        provider = self.provider_of(model_id)
        return (
            "discovered" if provider is not None and is_local(address_of(provider).base_url) else "published"
        )

    def provider_of(self, model_id: str) -> Provider | None:
        """Return the provider of *model_id*; None for a built-in model, and for one without a provider."""
        route = self._route(model_id)
        return route.provider if route is not None else None

    def invoker(self, model_id: str) -> Invoke:
        """Return the invoker of *model_id*; without a provider it emits an ``unsupported`` error.

        Options that a call leaves open come from the settings.
        """
        route = self._route(model_id)
        if route is None:
            return partial(stream, model_id, catalog=self.catalog, providers=self.providers)
        card = self.card(model_id) or route.bare_card
        invoke, settings = self._setup.served.invoker(card, route.provider), self.settings

        def call(conversation: Conversation, options: StreamOptions) -> Channel:
            completed = replace(
                options,
                thinking=options.thinking or settings.thinking,
                max_output_tokens=options.max_output_tokens or settings.max_output_tokens,
            )
            channel = invoke(conversation, completed)
            if not is_local(address_of(route.provider).base_url):
                return channel

            async def emissions() -> AsyncIterator[Emission]:
                async with emissions_of(channel) as received:
                    async for emission in received:
                        if isinstance(emission, DoneEmission) and isinstance(emission.reply, Reply):
                            await self.check_window(route, conversation, emission.reply.usage, options)
                        yield emission

            return channel_of(emissions)

        return call

    async def check_window(
        self, route: Route, conversation: Conversation, usage: Usage, options: StreamOptions
    ) -> None:
        """Correct the window of *route* after a call, and warn about one that is smaller than expected.

        A local server may load a model with less than it published before. It is asked again after the first
        call, and whenever it has read much less than it was sent: some cut a conversation without a word.
        """
        setup, card = self._setup, self.card(route.name)
        n_read = usage.input_tokens + (usage.cache_read_tokens or 0)
        n_sent = least_tokens(conversation)
        is_cut = _LEAST_CUT <= n_read < n_sent
        if route in setup.confirmed and not is_cut:
            return
        setup.confirmed.add(route)
        window, expected = await self._fetch_window(route), card.context_window if card is not None else 0
        if window is None and is_cut:
            window = n_read
        if window is None:
            return
        setup.windows[route] = window
        warning = None
        if is_cut:
            warning = f"{route.name} has read {n_read:,} tokens of at least {n_sent:,}, and cut the rest off"
        elif window < expected:
            warning = f"{route.name} runs with a window of {window:,} tokens and not of {expected:,}"
        if warning is not None and options.on_warning is not None:
            options.on_warning(f"{warning}; start its server with a larger one, or set context_window for it")

    async def _fetch_window(self, route: Route, *, is_settable: bool = False) -> int | None:
        address = address_of(route.provider)
        if address.base_url is None:
            return None
        key = await self._find_key(route)
        return await fetch_window(address.base_url, route.model, key, is_settable=is_settable)

    async def _find_key(self, route: Route) -> str | None:
        try:
            found = await asyncio.to_thread(self._setup.credentials.find, route.provider)
        except GatewayError:
            return None  # the call itself reports a broken key; a server is asked without one
        return found.value if found is not None else None

    def summarizer(self, model_id: str) -> tuple[Invoke | None, ModelCard | None]:
        """Return the invoker that condenses conversations of *model_id*, and the card that prompts must fit.

        It is the summariser of the settings, with *model_id* itself as its fallback; else *model_id*. The
        built-in model writes no summaries: it is no fallback, and there is no invoker where it is named.
        """
        name = self.summarizer_id(model_id)
        if name == OFFLINE_CARD.id:
            return None, None
        card = self.card(name)
        if model_id in (name, OFFLINE_CARD.id):
            return contain_cancellation(self.invoker(name)), card
        # Prompts must fit either of the two: the smaller window counts.
        cards = [each for each in (card, self.card(model_id)) if each is not None]
        smaller = min(cards, key=lambda each: each.context_window, default=None)
        return with_fallback(self.invoker(name), contain_cancellation(self.invoker(model_id))), smaller

    def summarizer_id(self, model_id: str) -> str:
        """Return the id of the summariser of the settings where that can be called, else *model_id*."""
        name = self.settings.summarizer
        return model_id if name is None or self.why_not(name) is not None else name

    def names(self) -> Sequence[str]:
        """Return the ids that are offered, the default first; any ``provider:model`` works as well.

        Models of the settings come first, then models of providers and servers, each with its newest first,
        then the built-in one. The mock model is for tests of clients, and is found by its name alone.
        """
        built_in = (each for each in self.catalog if each != MOCK_CARD.id)
        return tuple(dict.fromkeys((self.default, *self.settings.models, *self._on_offer, *built_in)))

    async def ready(self, model_id: str) -> None:
        """Load the cards of all names, and fetch the window of *model_id* from its server. Never raises."""
        used = {model_id, self.settings.summarizer or model_id}
        setup = self._setup

        def load_cards() -> None:
            for name in {*used, *self.names()}:
                self.card(name)
            setup.published.save()

        await asyncio.to_thread(load_cards)

        async def learn(name: str) -> None:
            route = self._route(name)
            if route is None or route in setup.windows:
                return
            address = address_of(route.provider)
            if is_local(address.base_url) or self.card(name) is None:
                window = await self._fetch_window(route, is_settable=address.api == OLLAMA)
                if window is not None:
                    setup.windows[route] = window
            if address.api == OLLAMA and address.base_url is not None:
                able = await fetch_capabilities(address.base_url, route.model, await self._find_key(route))
                if able is not None:
                    setup.capabilities[route] = able

        await asyncio.gather(*map(learn, used))

    def warm_up(self, model_id: str) -> None:
        """Begin to make a client for *model_id*, so that its first call need not wait. Never raises."""
        if (route := self._route(model_id)) is not None:
            self._setup.served.warm_up(route.provider)

    def learn_window(self, model_id: str, tokens: int) -> None:
        """Use *tokens*, which a refusal named, as the window of *model_id* unless one is known."""
        route = self._routes.find(model_id)
        if route is not None and self.card(model_id) is None:
            self._setup.windows[route] = tokens

    def _route(self, model_id: str) -> Route | None:
        """Return the route of *model_id*, None when the catalogue has it."""
        return self._routes.find(model_id) if model_id not in self.catalog else None

    async def at(self, folder: Path, *, is_chosen: bool = False) -> ModelRegistry:
        """Return the registry for sessions in *folder*, with its settings and a new survey of the machine.

        Unless a model *is_chosen*, there or by the caller, its servers are asked for theirs.
        """
        setup = self._setup

        def read_folder() -> ModelSettings:
            user = setup.base if setup.settings is None else setup.settings.read()
            return read_folder_settings(folder, user)

        found = await asyncio.to_thread(read_folder)
        registry = self
        if found != ModelSettings():
            registry = ModelRegistry(
                self.catalog, self.providers, self._last_resort, setup=self._setup, folder=found
            )
        await registry._survey_machine(asks=not is_chosen and registry.settings.model is None)
        return registry

    async def list_servers(self) -> None:
        """Ask the servers of this machine for their models, which :meth:`names` has from then on."""
        await self._survey_machine(asks=True)

    async def _survey_machine(self, *, asks: bool) -> None:
        providers, guesses = self._routes.providers, self._setup.base.local_servers
        found = await survey_machine(providers, self._setup.credentials, asks=asks, guesses=guesses)
        survey = found if asks else replace(found, listed=self.survey.listed)
        self.survey = survey
        # In a thread, because it searches the published models.
        self._on_offer = await asyncio.to_thread(
            lambda: tuple(survey.names(providers, self._setup.published))
        )

    def load_ahead(self) -> None:
        """Load the packages that :meth:`at` uses, and the modules of the first call if it chooses; blocks."""
        setup = self._setup
        preferred = load_for_survey(self._routes.providers, setup.credentials, setup.published)
        if preferred is not None and self.settings.model is None:
            setup.served.load(preferred)

    def load_first_call(self) -> None:
        """Load the modules that the first call of the model of the settings needs; blocks.

        Raises:
            ImportError: its extra is not installed.
            GatewayError: the file of keys cannot be used.
        """
        if self.settings.model is not None and (route := self._route(self.settings.model)) is not None:
            self._setup.served.load(route.provider)

    async def aclose(self) -> None:
        """Close the connections to providers."""
        await self._setup.served.aclose()

    def add_scripted(self, named: Any) -> None:
        """Add the scripted models of ``initializationOptions.sidecar.models``: objects by model id.

        Raises InvalidInput, which names the wrong one; see :func:`model_from_json`.
        """
        if not isinstance(named, Mapping):
            raise InvalidInput("models must be an object of models by id")
        for model_id, spec in named.items():
            card, model = model_from_json(model_id, spec)
            self.catalog = {**self.catalog, card.id: card}
            self.providers = {**self.providers, card.provider: model}


def least_tokens(conversation: Conversation) -> int:
    """Return a number of tokens that *conversation* has at least: one for eight characters of its text.

    >>> from sidecar.llmgateway.contract import UserTurn
    >>> least_tokens(Conversation((UserTurn((TextBlock("x" * 80),)),)))
    10
    """
    blocks = [block for turn in conversation.turns for block in turn.blocks]
    n_chars = sum(len(block.text) for block in blocks if isinstance(block, TextBlock))
    n_chars += sum(len(str(block.output)) for block in blocks if isinstance(block, ToolResultBlock))
    return n_chars // _CHARS_PER_TOKEN
