"""Published models come from their package, and once they were looked up from a file."""

from __future__ import annotations

import os
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from sidecar.llmgateway import published
from sidecar.llmgateway.published import PublishedModels


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "published-models.json"


def take_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no later look-up load the package."""
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)


def test_a_later_daemon_finds_the_same_without_the_package(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [("gpt-5", "openai"), ("claude-sonnet-4-5", None), ("gpt-5", "no-provider"), ("nothing", None)]
    first = PublishedModels(path)
    found, listed = [first.find(*each) for each in asked], first.models_of("anthropic")
    first.save()
    assert [each is not None for each in found] == [True, True, False, False]
    assert len(listed) > 3
    take_package(monkeypatch)
    later = PublishedModels(path)
    assert [later.find(*each) for each in asked] == found
    assert later.models_of("anthropic") == listed
    assert (later.find("gpt-4o", "openai"), later.models_of("openai")) == (None, ())


def test_a_package_that_is_missing_is_asked_again_by_the_next_daemon(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        take_package(without)
        models = PublishedModels(path)
        assert (models.find("gpt-5", "openai"), models.models_of("openai")) == (None, ())
        models.save()
    assert not path.exists()
    assert PublishedModels(path).find("gpt-5", "openai") is not None


def test_the_answers_of_another_version_of_the_package_are_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = PublishedModels(path)
    models.find("gpt-5", "openai")
    models.save()
    monkeypatch.setattr(published, "describe_package", lambda: "another")
    take_package(monkeypatch)
    assert PublishedModels(path).find("gpt-5", "openai") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"package": 1}'])
def test_a_file_that_is_not_valid_is_written_again(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    models = PublishedModels(path)
    found = models.find("gpt-5", "openai")
    models.save()
    assert PublishedModels(path).find("gpt-5", "openai") == found
    assert path.read_bytes() != content


@pytest.mark.parametrize(("days", "is_kept"), [(-1, True), (1, False)])
def test_a_price_that_a_later_day_changes_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch, days: int, is_kept: bool
) -> None:
    from genai_prices.types import ConditionalPrice, StartDateConstraint

    snapshot: Any = published._load()
    _, model = snapshot.find_provider_model("gpt-5", None, "openai", None)
    starts = StartDateConstraint(date.today() + timedelta(days=days))
    later = ConditionalPrice(constraint=starts, prices=model.get_prices(None))
    monkeypatch.setattr(model, "prices", [ConditionalPrice(prices=later.prices), later])
    models = PublishedModels(path)
    assert models.find("gpt-5", "openai") is not None
    models.save()
    assert path.exists() == is_kept


@pytest.mark.skipif(os.name == "nt", reason="there a folder is private by inheritance")
def test_the_file_is_for_its_user_alone_and_written_only_for_new_answers(path: Path) -> None:
    models = PublishedModels(path)
    models.find("gpt-5", "openai")
    models.save()
    assert path.stat().st_mode & 0o077 == 0
    path.unlink()
    models.save()
    PublishedModels(path).save()
    assert not path.exists()


def test_a_file_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    models = PublishedModels(tmp_path / "file" / "published-models.json")
    assert models.find("gpt-5", "openai") is not None
    models.save()
