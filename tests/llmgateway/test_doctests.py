"""The examples in docstrings hold."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from sidecar.llmgateway import catalog, channel, config, credentials, names, routing
from sidecar.llmgateway.offline import digest, intent, model
from sidecar.llmgateway.providers import (
    anthropic_messages,
    calling,
    failures,
    fields,
    google_generate,
    openai_sdk,
    sanitize,
    windows,
)
from sidecar.llmgateway.scripted import parse

MODULES: tuple[ModuleType, ...] = (
    anthropic_messages,
    calling,
    catalog,
    channel,
    config,
    credentials,
    digest,
    failures,
    fields,
    google_generate,
    intent,
    model,
    names,
    openai_sdk,
    parse,
    routing,
    sanitize,
    windows,
)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_the_examples_hold(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
