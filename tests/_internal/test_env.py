"""The environment registry: branded names, foreign names, and the state directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar._internal import env


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        pytest.param("home", "INDUSAGI_HOME", id="upper-cased and prefixed"),
        pytest.param("agent-dir", "INDUSAGI_AGENT_DIR", id="a dash becomes an underscore"),
        pytest.param("Agent_Dir", "INDUSAGI_AGENT_DIR", id="an underscore stays"),
        pytest.param("", "INDUSAGI_", id="an empty suffix is not refused"),
    ],
)
def test_env_name(suffix: str, name: str) -> None:
    assert env.env_name(suffix) == name
    assert env.ENV_PREFIX == "INDUSAGI"


def test_read_env_reads_the_branded_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUSAGI_LOG", "debug")
    monkeypatch.delenv("INDUSAGI_AGENT_DIR", raising=False)
    assert (env.read_env("log"), env.read_env("agent-dir")) == ("debug", None)


def test_read_raw_reads_the_literal_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.delenv("NOBODY_SETS_THIS", raising=False)
    assert (env.read_raw("AWS_REGION"), env.read_raw("NOBODY_SETS_THIS")) == ("eu-north-1", None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, "{home}/.pindusagi", id="unset: the default"),
        pytest.param("", "{home}/.pindusagi", id="empty counts as unset"),
        pytest.param("~/state", "{home}/state", id="a tilde is expanded"),
        pytest.param("/somewhere/else", "/somewhere/else", id="an absolute path is taken as it is"),
    ],
)
def test_indusagi_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    if value is None:
        monkeypatch.delenv("INDUSAGI_HOME", raising=False)
    else:
        monkeypatch.setenv("INDUSAGI_HOME", value)
    assert env.indusagi_home() == Path(expected.format(home=tmp_path))
