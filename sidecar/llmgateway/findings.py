"""What a user's setup of models comes to, said in sentences: for whoever looks what is there and what to set.

Looks, and asks servers next door for their models; calls no model, and shows no key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar._internal.env import read_raw
from sidecar._internal.loading import install_command
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.config import CONFIG_FILE, FOLDER_FILE, ModelSettings
from sidecar.llmgateway.contract import GatewayError
from sidecar.llmgateway.credentials import AUTH_FILE, Credentials, how_to_set
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider, sdk_of
from sidecar.llmgateway.providers import address_of, is_installed
from sidecar.llmgateway.providers.windows import is_local, list_models
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup

__all__ = ["Finding", "look_around"]

_MAIN: Final = ("openai", "anthropic", "google")
_MODELS_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing; *is_well* is False for what the user has set and cannot work."""

    about: str
    said: str
    is_well: bool = True


async def look_around(home: Path, folder: Path) -> tuple[Finding, ...]:
    """Return what a session in *folder* of the user whose state is in *home* finds.

    Never raises, and takes no more than a few seconds.
    """
    setup = ModelSetup.of_user(home)
    models = await ModelRegistry(setup=setup).at(folder)
    await models.ready(models.default)
    found = await asyncio.to_thread(lambda: list(_settings(models, setup.credentials, home, folder)))
    return (*found, *await _servers(models.settings))


def _settings(models: ModelRegistry, keys: Credentials, home: Path, folder: Path) -> Iterator[Finding]:
    yield _model("model", models, keys, models.default)
    if models.settings.summarizer is not None:
        yield _model("summarizer", models, keys, models.settings.summarizer)
    for problem in models.problems:
        yield Finding("settings", problem, is_well=False)
    yield from (_file("settings", path) for path in (home / CONFIG_FILE, folder / FOLDER_FILE))
    yield _keys(home, keys)
    for provider in _worth_saying(models.settings):
        yield _provider(provider, keys, is_main=provider.id in _MAIN)


def _file(about: str, path: Path) -> Finding:
    return Finding(about, f"{path}{'' if path.is_file() else ': there is none'}")


def _keys(home: Path, keys: Credentials) -> Finding:
    """Say which places of keys there are, and what is wrong with the file of them."""
    if (problem := keys.problem()) is not None:
        return Finding("keys", problem, is_well=False)
    keyring = "the keyring" if keys.has_keyring else f"no keyring; to use it: {install_command('keyring')}"
    return Finding("keys", f"the environment, {_file('', home / AUTH_FILE).said}, {keyring}")


def _model(about: str, models: ModelRegistry, keys: Credentials, name: str) -> Finding:
    """Return whether the model *name* can be called, as far as that shows before it is."""
    if name == OFFLINE_CARD.id:
        built_in = "offline-1, built in; it finds and cites, it does not reason"
        another = f'for another one write model = "provider:model" into {CONFIG_FILE}, or pass --model'
        return Finding(about, f"{built_in}; {another}")
    why_not = models.why_not(name)
    if why_not is not None:
        return Finding(about, f"{name} cannot be called: {why_not}", is_well=False)
    provider, card = models.provider_of(name), models.card(name)
    window = f"{card.context_window:,} tokens" if card is not None else "of unknown size"
    if provider is None:
        return Finding(about, f"{name}, window {window}")
    key = _key(provider, keys)
    where = address_of(provider).base_url
    said = f"{name}, window {window}, {key.said}" + (f", at {where}" if where else "")
    return Finding(about, said, key.is_well)


def _worth_saying(settings: ModelSettings) -> Iterator[Provider]:
    """Yield the providers that most people ask for, and the user's own."""
    yield from (PROVIDERS_BY_NAME[name] for name in _MAIN if name not in settings.providers)
    yield from settings.providers.values()


def _provider(provider: Provider, keys: Credentials, *, is_main: bool) -> Finding:
    if not is_installed(provider):
        extra, _ = sdk_of(provider)
        return Finding(provider.id, f"not installed; run: {install_command(extra)}", is_well=is_main)
    key = _key(provider, keys)
    said = f"{key.said}; ask with {provider.id}:MODEL" if key.is_well else key.said
    # A provider nobody has chosen may well be without a key.
    return Finding(provider.id, said, key.is_well or is_main)


def _key(provider: Provider, keys: Credentials) -> Finding:
    try:
        key = keys.find(provider)
    except GatewayError:
        # What is wrong with the file of keys is said once.
        return Finding(AUTH_FILE, f"no key that can be used, see {AUTH_FILE}", is_well=False)
    if key is not None:
        return Finding(key.source, f"key from {key.source}")
    if (own := next(filter(read_raw, provider.own_env), None)) is not None:
        return Finding(own, f"credentials of its own, by {own}")
    if provider.needs_key:
        return Finding("", f"no key; {how_to_set(provider)}", is_well=False)
    return Finding("", "no key, and none is asked for")


async def _servers(settings: ModelSettings) -> tuple[Finding, ...]:
    """Say which servers of this machine answer, and with which models."""
    known = {**PROVIDERS_BY_NAME, **settings.providers}.values()
    addresses = [(each.id, address_of(each).base_url) for each in known if each.base_url]
    local = {name: url for name, url in addresses if url is not None and is_local(url)}
    lists = await asyncio.gather(*(list_models(url) for url in local.values()))
    answering = {name: models for name, models in zip(local, lists, strict=True) if models is not None}
    if not answering:
        return (Finding("local servers", f"none answers ({', '.join(local)})"),)
    return tuple(Finding(name, _served(name, local[name], models)) for name, models in answering.items())


def _served(name: str, url: str, models: tuple[str, ...]) -> str:
    shown = ", ".join(models[:_MODELS_SHOWN]) + (", ..." if len(models) > _MODELS_SHOWN else "")
    return f"answers at {url} with {shown or 'no model'}; ask with {name}:MODEL"
