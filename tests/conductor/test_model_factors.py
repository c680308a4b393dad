"""The factors of models: learned from usage, kept on disk, and used where nothing better is known."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_cards import card
from sidecar.conductor.token_estimate import MAX_FILE_BYTES, MAX_MODELS, MAX_RATIOS, ModelFactors, read_ratios
from sidecar.llmgateway.contract import Usage, UsageEmission
from sidecar.llmgateway.scripted import Say

CARD = card(200_000)


def learned(*ratios: float, path: Path | None = None) -> ModelFactors:
    factors = ModelFactors(path)
    for ratio in ratios:
        factors.learn(CARD, estimated=10_000, reported=int(10_000 * ratio))
    return factors


@pytest.mark.parametrize(
    ("ratios", "factor"),
    [
        pytest.param((), 1.0, id="nothing is known"),
        pytest.param((1.3, 1.3), 1.0, id="two calls say nothing yet"),
        pytest.param((1.3, 1.2, 1.25), 1.25, id="the median of three"),
        pytest.param((1.2, 1.2, 2.9, 1.2, 0.5), 1.2, id="outliers change nothing"),
        pytest.param((9.0, 9.0, 9.0, 0.1, 0.1), 1.0, id="no tokenizer explains these"),
        pytest.param((1.1,) * 20 + (1.4,) * 20, 1.4, id="old calls are forgotten"),
    ],
)
def test_the_factor_is_the_median_of_the_newest_ratios(ratios: tuple[float, ...], factor: float) -> None:
    assert learned(*ratios).of(CARD) == factor


def test_small_requests_and_unknown_models_teach_nothing() -> None:
    factors = ModelFactors()
    for _ in range(5):
        factors.learn(CARD, estimated=500, reported=1_500)
        factors.learn(None, estimated=10_000, reported=15_000)
    assert (factors.of(CARD), factors.of(None)) == (1.0, 1.0)


def test_factors_are_kept_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "home" / "model-factors.json"

    async def learn() -> None:
        learned(1.3, 1.3, 1.3, path=path)

    asyncio.run(learn())  # it waits for the threads
    assert ModelFactors(path).of(CARD) == 1.3
    assert json.loads(path.read_bytes()) == {"ratios": {"mock/m": [1.3, 1.3, 1.3]}}
    assert [each.name for each in path.parent.iterdir()] == ["model-factors.json"]
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "model-factors.json"

    async def learn() -> None:
        factors = ModelFactors(path)
        for number in range(2 * MAX_MODELS):
            each = replace(CARD, id=f"{number} {'long name ' * 40}")
            for _ in range(2 * MAX_RATIOS):
                factors.learn(each, estimated=10_000, reported=12_345)
            await asyncio.sleep(0)

    asyncio.run(learn())
    assert 0 < path.stat().st_size < MAX_FILE_BYTES
    assert 0 < len(read_ratios(path)) <= MAX_MODELS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\x00",
        b"[]",
        b'{"ratios": 3}',
        b'{"ratios": {"mock/m": "x"}}',
        b'{"ratios": {"mock/m": [null, "1", 1e9, -1, NaN]}}',
        b"[" * 50_000,
        b'{"ratios": {"mock/m": [' + b"1.2, " * MAX_FILE_BYTES,
    ],
)
def test_any_other_file_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model-factors.json"
    path.write_bytes(content)
    assert ModelFactors(path).of(CARD) == 1.0


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX links and pipes")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_not_read(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "model-factors.json")
    assert ModelFactors(tmp_path / "model-factors.json").of(CARD) == 1.0


async def test_a_disk_that_refuses_costs_no_turn(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    factors = learned(1.3, 1.3, 1.3, 1.3, path=tmp_path / "file" / "model-factors.json")
    assert factors.of(CARD) == 1.3


async def test_a_session_without_usage_is_weighed_by_what_other_sessions_learned(make_stage: Any) -> None:
    stage = await make_stage([[Say("ok"), UsageEmission(Usage(12_000, 5))]], window=400_000, repeat=True)
    for _ in range(3):
        await stage.ask(await stage.session(engine="none"), "the parser keeps a stack of brackets. " * 1_000)
    other = await stage.session(engine="none")
    usage = other.window.request.usage(detail=True)
    assert usage.by is not None
    assert usage.factor is not None
    assert usage.factor > 1.0
    assert (
        usage.used
        == usage.by.system + usage.by.tool_defs
        == round(usage.factor * other.window.head.overhead().total)
    )
