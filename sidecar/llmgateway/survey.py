"""The survey of a machine: the keys and the local servers that are there, and the models that they offer.

A key or a server is a choice by itself: its models are to be used without naming one. The survey proposes
one for sessions that name none, and lists the rest for pickers. A proposal is for long work with tools at a
moderate price; any other model is a choice of the user's. No model is called, and no key leaves the machine
except to an address that its user has set.

A server is asked where a list of models is wanted or nothing is chosen: at each address that the user has
set, and at the ports of Ollama and LM Studio. Other programs of this machine are left in peace.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec import field

from sidecar._internal.env import read_raw
from sidecar._internal.loading import install_command
from sidecar._internal.values import Value
from sidecar.llmgateway.catalog import published_names
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.credentials import Credentials, load_keyring
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, Providers
from sidecar.llmgateway.providers import address_of, is_installed
from sidecar.llmgateway.providers.windows import is_local, list_models
from sidecar.llmgateway.published import BUNDLED, PublishedModels

PROPOSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "claude-sonnet-5-5",
        "openai": "gpt-6.1-sol",
        "google": "gemini-4-argon",
        "openrouter": "anthropic/claude-sonnet-5.5",
        "moonshotai": "kimi-k3.1-pro",
        "xai": "grok-4.7",
        "deepseek": "deepseek-v4-pro",
        "mistral": "mistral-large-4",
        "zai": "glm-5.3",
        "together": "moonshotai/Kimi-K3.1-Pro",
        "fireworks": "accounts/fireworks/models/kimi-k3",
        "cerebras": "gpt-oss-120b",
        "groq": "openai/gpt-oss-120b",
    }
)
"""The model that is proposed of each hosted provider; the first provider with a key counts."""

_OWN_PORTS: Final = ("ollama", "lmstudio")
"""The servers with a port that hardly any other program has; 8000 and 8080 belong to everybody."""

_IN_KEYRING: Final = ("anthropic", "openai", "google")
"""The providers that the keyring is searched for in any case: a look-up in it takes its time."""

_KEYRING_S: Final = 1.5
_OTHER_USES: Final = re.compile(
    r"embed|rerank|whisper|tts|moderat|guard|image|audio|diffusion", re.IGNORECASE
)


class Proposal(Value):
    """The model for a session that names none, and the reason in words that complete "because"."""

    model: str
    reason: str


class Survey(Value, kw_only=True):
    """The providers that can be called now.

    Attributes:
        keys: the source of the key of each provider that needs one, in the order of preference.
        listed: the models of each server that lists them, newest first: local servers, and those at an
            address that the user has set.
        missing: the extra of each provider that has a key and no SDK.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def proposal(self) -> Proposal | None:
        """Return the best model that is there, None without a key and a server.

        >>> Survey(keys={"google": "GOOGLE_API_KEY"}, listed={"ollama": ("qwen3:8b",)}).proposal()
        Proposal(model='google:gemini-4-argon', reason='GOOGLE_API_KEY is set')
        """
        for provider, source in self.keys.items():
            names = self.listed.get(provider) or (PROPOSED.get(provider, ""),)
            if names[0]:
                reason = f"{source} is set" if source.isupper() else f"its key is in {source}"
                return Proposal(f"{provider}:{names[0]}", reason)
        for provider, names in self.listed.items():
            if names:
                return Proposal(f"{provider}:{names[0]}", f"{provider} runs on this machine")
        return None

    def advice(self) -> str | None:
        """Return the next step for a key that nothing can use, None without one."""
        for provider, extra in self.missing.items():
            return f"there is a key for {provider}; it needs the extra [{extra}]: {install_command(extra)}"
        return None

    def names(self, providers: Providers, published: PublishedModels = BUNDLED) -> Iterator[str]:
        """Yield the models of all *providers* that can be called, newest first for each of them."""
        for provider in dict.fromkeys((*self.keys, *self.listed)):
            proposed = [PROPOSED[provider]] if provider in PROPOSED else []
            names = self.listed.get(provider) or (*proposed, *published_names(providers[provider], published))
            yield from (f"{provider}:{name}" for name in names)


async def survey_machine(
    providers: Providers, credentials: Credentials, *, asks: bool = True, guesses: bool = True
) -> Survey:
    """Return the survey of *providers*; takes three seconds at most, and never raises.

    Args:
        credentials: the keys of the user.
        asks: whether servers are asked for their models; else none is listed.
        guesses: whether a server on this machine is looked for at a port that the user has not set.
    """
    at_hand = credentials.without_keyring()
    sources = await asyncio.to_thread(lambda: dict(find_key_sources(providers, at_hand, PROPOSED)))
    if not sources and credentials.has_keyring:
        try:
            async with asyncio.timeout(_KEYRING_S):
                names = {*_IN_KEYRING, *await asyncio.to_thread(credentials.names_in_keyring)}
                wanted = [name for name in PROPOSED if name in names]
                look_up = partial(find_key_sources, providers, credentials, wanted)
                sources = await asyncio.to_thread(lambda: dict(look_up()))
        except TimeoutError:
            # It waits for the user to unlock it.
            sources = {}

    def look() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        missing = {name: providers[name].extra for name in sources if not is_installed(providers[name])}
        keys = {name: source for name, source in sources.items() if name not in missing}
        return missing, keys, dict(list_addresses(providers, keys, guesses=guesses)) if asks else {}

    # In a thread: it looks for packages with a hundred system calls, and each may wait for a busy thread.
    missing, keys, addresses = await asyncio.to_thread(look)

    async def ask(name: str, address: str) -> tuple[str, ...] | None:
        try:
            key = await asyncio.to_thread(at_hand.find, providers[name])
        except GatewayError:
            key = None
        models = await list_models(address, key.value if key is not None else None)
        return None if models is None else tuple(each for each in models if not _OTHER_USES.search(each))

    lists = await asyncio.gather(*(ask(name, address) for name, address in addresses.items()))
    listed = {name: names for name, names in zip(addresses, lists, strict=True) if names is not None}
    return Survey(keys=keys, listed=listed, missing=missing)


def load_for_survey(
    providers: Providers, credentials: Credentials, published: PublishedModels = BUNDLED
) -> Provider | None:
    """Load the packages of a survey: the published models for a key at hand, else the keyring.

    Blocks. Returns the provider that the survey will prefer, None without a key at hand.
    """
    at_hand = credentials.without_keyring()
    for name, _source in find_key_sources(providers, at_hand, PROPOSED):
        published_names(providers[name], published)
        return providers[name]
    if credentials.has_keyring:
        load_keyring()
    return None


def list_addresses(
    providers: Providers, keys: Collection[str], *, guesses: bool = True
) -> Iterator[tuple[str, str]]:
    """Yield the addresses of servers that list their models, by provider; see :func:`survey_machine`."""
    for name, provider in providers.items():
        address = address_of(provider).base_url
        if address is None or provider.extra != "openai" or not is_installed(provider):
            continue
        is_moved = name in keys and address != provider.base_url
        known = PROVIDERS_BY_NAME.get(name)
        is_set = known is None or address != known.base_url
        is_wanted = is_set or (guesses and name in _OWN_PORTS)
        if is_moved or (is_wanted and is_local(address) and not provider.needs_key):
            yield name, address


def find_key_sources(
    providers: Providers, credentials: Credentials, names: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the source of the key of each of the providers *names* that has one; blocks."""
    for name in names:
        provider = providers[name]
        try:
            key = credentials.find(provider)
        except GatewayError:
            # The call itself, and doctor, report a key or a file of keys that cannot be used.
            continue
        own = next(filter(read_raw, provider.own_env), None)
        if key is not None or own is not None:
            yield name, key.source if key is not None else str(own)
