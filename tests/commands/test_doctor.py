"""What ``sidecar doctor`` says of a machine; the daemon it starts has a test of its own."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from sidecar.commands import doctor
from sidecar.llmgateway.diagnostics import Diagnostic


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory, no model to look for, and no daemon to start."""

    async def diagnose_models(_home: Path, _folder: Path) -> tuple[Diagnostic, ...]:
        return (Diagnostic("model", "offline-1"),)

    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "diagnose_models", diagnose_models)
    monkeypatch.setattr(doctor, "run_with_daemon", lambda main, cwd: 0)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *lines: str, code: int = 0) -> str:
    """Run it, and look for each of *lines*."""
    found = doctor.run(Namespace())
    out = capsys.readouterr().out
    assert found == code, out
    assert [line for line in lines if line not in out] == []
    return out


def test_all_is_well(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, f"state\t{home}, can be written", "model\toffline-1", "shared\tnone is running")


def test_a_bad_finding_about_models_fails_the_report(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def diagnose_models(_home: Path, _folder: Path) -> tuple[Diagnostic, ...]:
        return (Diagnostic("keys", "can be read by others", is_well=False), Diagnostic("model", "x"))

    monkeypatch.setattr(doctor, "diagnose_models", diagnose_models)
    check(capsys, "keys\tcan be read by others", "model\tx", code=1)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        pytest.param("a_file", "a_file cannot be written; set INDUSAGI_HOME", id="a file"),
        pytest.param("~no-such-user/x", "set INDUSAGI_HOME to a folder", id="the home of nobody"),
    ],
)
def test_a_state_directory_that_cannot_be_is_not_well(
    place: str, message: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "a_file").write_text("")
    monkeypatch.setenv("INDUSAGI_HOME", place if place.startswith("~") else str(home / place))
    check(capsys, message, code=1)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_files_that_others_can_read_are_closed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "sessions").mkdir(mode=0o755)
    (home / "sessions" / "s.jsonl").touch(mode=0o644)
    check(capsys, "privacy\tothers could read or enter 2 files and folders there; now they cannot")
    assert "privacy" not in check(capsys)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_files_of_somebody_else_are_not_well(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    check(capsys, f"privacy\tothers can read or enter {home}, and 0 more", code=1)


def test_a_daemon_that_does_not_start_is_not_well(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "run_with_daemon", lambda main, cwd: 1)
    check(capsys, "daemon\tdoes not start", code=1)
