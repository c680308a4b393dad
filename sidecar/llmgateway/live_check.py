"""The live check of a user's models: one question to each, with the answer, the time and the price.

This is the only diagnosis that calls models, and it does so only when its user asks for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.channel import fold_reply
from sidecar.llmgateway.contract import (
    Conversation,
    Emission,
    ErrorEmission,
    GatewayError,
    StreamOptions,
    TextBlock,
    UserTurn,
    emissions_of,
)
from sidecar.llmgateway.diagnostics import Diagnostic
from sidecar.llmgateway.registry import ModelRegistry, ModelSetup
from sidecar.text.clip import one_line

_QUESTION: Final = Conversation((UserTurn((TextBlock("Answer with the one word: ready"),)),))
_ANSWER_TOKENS: Final = 2_048
_DEADLINE_S: Final = 90.0
_SHOWN_CHARS: Final = 60


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
    text = "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))
    shown = one_line(text, _SHOWN_CHARS)
    usage = reply.usage
    n_input = usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    dollars = card.cost.price(usage) if card is not None else usage.cost
    price = f"{dollars:.6f} USD" if dollars is not None else "no known price"
    times = f"first sign after {first_s or took_s:.1f} s, end after {took_s:.1f} s"
    tokens = f"{n_input} tokens in, {usage.output_tokens} out"
    return Diagnostic(name, f'says "{shown}"{tries}; {times}; {tokens}; {price}')
