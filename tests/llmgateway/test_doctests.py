"""The examples in docstrings hold."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from sidecar.llmgateway import catalog, channel, config, credentials, names, routing
from sidecar.llmgateway.offline import digest, intent, model
from sidecar.llmgateway.providers import (
    anthropic_messages,
    body,
    calling,
    chat_messages,
    dialect,
    failures,
    fields,
    google_generate,
    ollama_chat,
    openai_chat,
    openai_sdk,
    quirks,
    sanitize,
    windows,
)
from sidecar.llmgateway.scripted import parse

MODULES: tuple[ModuleType, ...] = (
    anthropic_messages,
    body,
    calling,
    catalog,
    chat_messages,
    channel,
    config,
    credentials,
    dialect,
    digest,
    failures,
    fields,
    google_generate,
    intent,
    model,
    names,
    ollama_chat,
    openai_chat,
    openai_sdk,
    parse,
    quirks,
    routing,
    sanitize,
    windows,
)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_examples_hold(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
