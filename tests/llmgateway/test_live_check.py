"""The live check asks each configured model one question, and tells the answer, the time and the price."""

from __future__ import annotations

from pathlib import Path

import pytest

from provider_fakes import Ended, Refused, Said, Spent, fake_provider
from sidecar.llmgateway.config import CONFIG_FILE
from sidecar.llmgateway.diagnostics import ask_models

pytestmark = pytest.mark.processes

CONFIG = """
[providers.work]
base_url = "{work}/v1"
[providers.broken]
base_url = "{broken}/v1"
[models.big]
provider = "work"
name = "big-1"
context_window = 1000
cost = {{ input = 1, output = 2, per_request = 0.5 }}
[models.bad]
provider = "broken"
name = "bad-1"
"""


async def test_each_model_of_the_settings_is_asked_once(home: Path) -> None:
    said = [(Said(("ready",)), Spent(10, 5), Ended())]
    async with (
        fake_provider("openai-chat", said) as work,
        fake_provider("openai-chat", [[Refused(404, "no such model")]]) as broken,
    ):
        config = CONFIG.format(work=work.http.url, broken=broken.http.url)
        (home / CONFIG_FILE).write_text(config)
        found = {each.subject: each async for each in ask_models(home, home.parent)}
    assert sorted(found) == ["bad", "big"]
    assert found["big"].is_well
    assert found["big"].text.startswith('says "ready"; first sign after ')
    assert found["big"].text.endswith("10 tokens in, 5 out; 0.500020 USD")
    assert (found["bad"].is_well, "failed" in found["bad"].text) == (False, True)
    assert "no such model" in found["bad"].text
    assert (len(work.calls), len(broken.calls)) == (1, 1)


async def test_without_a_model_none_is_asked(home: Path) -> None:
    (found,) = [each async for each in ask_models(home, home.parent)]
    assert (found.subject, found.is_well) == ("live", True)
