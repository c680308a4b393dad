"""Diagnostics of a user's model setup: sentences on settings, on missing parts, and on the next step.

They read settings and list the models of local servers; no key is shown. The live check alone calls models:
one question to each, with the answer, the time and the price, and only when its user asks for it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from sidecar._internal.env import read_raw
from sidecar._internal.loading import install_command
from sidecar._internal.values import Value
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.channel import fold_reply
from sidecar.llmgateway.config import CONFIG_FILE, FOLDER_FILE
from sidecar.llmgateway.contract import (
    Conversation,
    Emission,
    ErrorEmission,
    GatewayError,
    StreamOptions,
    TextBlock,
    UserTurn,
    emissions_of,
    join_texts,
)
from sidecar.llmgateway.credentials import AUTH_FILE, Credentials, how_to_set
from sidecar.llmgateway.names import PROVIDERS_BY_NAME, Provider
from sidecar.llmgateway.providers import address_of, is_installed
from sidecar.llmgateway.providers.windows import is_local
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.llmgateway.survey import list_addresses
from sidecar.text.clip import one_line

_QUESTION: Final = Conversation((UserTurn((TextBlock("Answer with the one word: ready"),)),))
_ANSWER_TOKENS: Final = 2_048
_DEADLINE_S: Final = 90.0
_SHOWN_CHARS: Final = 60
_MAIN: Final = ("openai", "anthropic", "google")
_MODELS_SHOWN: Final = 6
_UNKNOWN_WINDOW: Final = f"of unknown size (context_window of a [models.NAME] in {CONFIG_FILE} sets it)"


class Diagnostic(Value):
    """One sentence on one subject; *is_well* is False for a setting of the user's that cannot work."""

    subject: str
    text: str
    is_well: bool = True


async def diagnose_models(home: Path, folder: Path) -> tuple[Diagnostic, ...]:
    """Return the diagnostics for a session in *folder*; *home* is the user's state directory.

    Never raises, and takes no more than a few seconds.
    """
    setup = ModelSetup.of_user(home)
    models = await ModelRegistry(setup=setup).at(folder, is_chosen=True)
    await models.list_servers()
    await models.ready(models.default)
    found = await asyncio.to_thread(lambda: list(_setup_diagnostics(models, setup.credentials, home, folder)))
    known = {**PROVIDERS_BY_NAME, **models.settings.providers}
    local = [
        name
        for name, address in list_addresses(known, (), guesses=setup.base.local_servers)
        if is_local(address)
    ]
    answering: list[Diagnostic] = []
    for name, names in models.survey.listed.items():
        shown = ", ".join(names[:_MODELS_SHOWN]) + (", ..." if len(names) > _MODELS_SHOWN else "")
        where = address_of(known[name]).base_url
        text = f"answers at {where} with {shown or 'no model'}; use it with {name}:MODEL"
        answering.append(Diagnostic(name, text))
    not_asked = f"not asked without an SDK; run: {install_command('openai')}"
    none = Diagnostic("local servers", f"none answers ({', '.join(local)})" if local else not_asked)
    return (*found, *(answering or (none,)))


def _setup_diagnostics(
    models: ModelRegistry, keys: Credentials, home: Path, folder: Path
) -> Iterator[Diagnostic]:
    if models.undecided is None:
        yield _model_diagnostic("model", models, keys, models.default)
    if models.remark is not None:
        yield Diagnostic("model", models.remark)
    if models.settings.summarizer is not None:
        yield _model_diagnostic("summarizer", models, keys, models.settings.summarizer)
    left = [*models.problems]
    for path in (home / CONFIG_FILE, folder / FOLDER_FILE):
        yield Diagnostic("settings", _with_absence(path))
        for problem in [each for each in left if each.startswith(f"{path}")]:
            left.remove(problem)
            text = problem.removeprefix(f"{path}").lstrip(",: ")
            yield Diagnostic("settings", f"  {text}", is_well=False)
    for problem in left:
        yield Diagnostic("settings", problem, is_well=False)
    if (key_problem := keys.problem()) is not None:
        yield Diagnostic("keys", key_problem, is_well=False)
    else:
        install = f"no keyring; to use it: {install_command('keyring')}"
        keyring = "the keyring" if keys.has_keyring else install
        yield Diagnostic("keys", f"the environment, {_with_absence(home / AUTH_FILE)}, {keyring}")
    main = [PROVIDERS_BY_NAME[name] for name in _MAIN if name not in models.settings.providers]
    for provider in (*main, *models.settings.providers.values()):
        # A main provider is listed in any case: it may be missing, or have no key.
        is_main = provider.id in _MAIN
        if not is_installed(provider):
            install = install_command(provider.extra)
            yield Diagnostic(provider.id, f"not installed; run: {install}", is_well=is_main)
            continue
        key = _key_diagnostic(provider, keys)
        text = f"{key.text}; use it with {provider.id}:MODEL" if key.is_well else key.text
        yield Diagnostic(provider.id, text, key.is_well or is_main)


def _with_absence(path: Path) -> str:
    return f"{path}{'' if os.path.isfile(path) else ': there is none'}"  # in a closed folder too


def _model_diagnostic(subject: str, models: ModelRegistry, keys: Credentials, name: str) -> Diagnostic:
    """Return whether the model *name* can be called, as far as that is known before it is called."""
    if name == OFFLINE_CARD.id:
        built_in = "offline-1, built in; it finds and cites, it does not reason"
        another = f'for another one run: sidecar login; or write model = "provider:model" into {CONFIG_FILE}'
        return Diagnostic(subject, f"{built_in}; {another}")
    why_not = models.why_not(name)
    if why_not is not None:
        # The problems of the files stand below them.
        why_not = why_not.removesuffix("; ".join(("", *models.problems)))
        return Diagnostic(subject, f"{name} cannot be called: {why_not}", is_well=False)
    provider, card = models.provider_of(name), models.card(name)
    window = f"{card.context_window:,} tokens" if card is not None else _UNKNOWN_WINDOW
    if provider is None:
        return Diagnostic(subject, f"{name}, window {window}")
    key = _key_diagnostic(provider, keys)
    where = address_of(provider).base_url
    text = f"{name}, window {window}, {key.text}" + (f", at {where}" if where else "")
    return Diagnostic(subject, text, key.is_well)


def _key_diagnostic(provider: Provider, keys: Credentials) -> Diagnostic:
    try:
        key = keys.find(provider)
    except GatewayError:
        # The problem of the file has a diagnostic of its own.
        return Diagnostic(AUTH_FILE, f"no key that can be used, see {AUTH_FILE}", is_well=False)
    if key is not None:
        return Diagnostic(key.source, f"key from {key.source}")
    if (own := next(filter(read_raw, provider.own_env), None)) is not None:
        return Diagnostic(own, f"credentials of its own, by {own}")
    if provider.needs_key:
        return Diagnostic("", f"no key; {how_to_set(provider)}", is_well=False)
    return Diagnostic("", "no key, and none is needed")


async def ask_models(home: Path, folder: Path) -> AsyncIterator[Diagnostic]:
    """Ask each configured model one question, all at once, and yield the results as they come.

    Configured are the models of the settings, and the newest one of each server and of each provider with a
    key.
    """
    models = await ModelRegistry(setup=ModelSetup.of_user(home)).at(folder, is_chosen=True)
    await models.list_servers()
    offered = (
        next((name for name in models.names() if name.startswith(f"{provider}:")), None)
        for provider in (*models.survey.keys, *models.survey.listed)
    )
    chosen = (models.default, models.settings.summarizer, *models.settings.models, *offered)
    names = dict.fromkeys(name for name in chosen if name is not None and name != OFFLINE_CARD.id)
    try:
        for result in asyncio.as_completed([ask_model(models, name) for name in names]):
            yield await result
        if not names:
            yield Diagnostic("live", "no model is configured, so that none was asked")
    finally:
        await models.aclose()


async def ask_model(models: ModelRegistry, name: str) -> Diagnostic:
    """Ask the model *name* a short question; return its answer, the time, the tokens and the price."""
    why_not = models.why_not(name)
    if why_not is not None:
        return Diagnostic(name, f"was not asked: {why_not}", is_well=False)
    await models.ready(name)
    began, first_s, n_tries, failure = time.monotonic(), None, 1, None

    def on_retry(attempt: int, max_attempts: int, delay_ms: int, error: GatewayError) -> None:
        nonlocal n_tries
        n_tries = attempt + 1

    channel = models.invoker(name)(
        _QUESTION, StreamOptions(max_output_tokens=_ANSWER_TOKENS, on_retry=on_retry)
    )
    emissions: list[Emission] = []
    try:
        async with asyncio.timeout(_DEADLINE_S), emissions_of(channel) as received:
            async for emission in received:
                first_s = first_s or time.monotonic() - began
                emissions.append(emission)
                if isinstance(emission, ErrorEmission):
                    failure = emission.error.message
    except TimeoutError:
        failure = f"no answer within {_DEADLINE_S:g} s"
    tries = f" after {n_tries} tries" if n_tries > 1 else ""
    if failure is not None:
        return Diagnostic(name, f"failed{tries}: {failure}", is_well=False)
    took_s, reply, card = time.monotonic() - began, fold_reply(name, emissions), models.card(name)
    text = join_texts(reply.blocks)
    shown = one_line(text, _SHOWN_CHARS)
    usage = reply.usage
    n_input = usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    dollars = card.cost.price(usage) if card is not None else usage.cost
    price = f"{dollars:.6f} USD" if dollars is not None else "no known price"
    times = f"first sign after {first_s or took_s:.1f} s, end after {took_s:.1f} s"
    tokens = f"{n_input} tokens in, {usage.output_tokens} out"
    return Diagnostic(name, f'says "{shown}"{tries}; {times}; {tokens}; {price}')
