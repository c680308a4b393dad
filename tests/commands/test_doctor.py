"""What ``sidecar doctor`` says of a machine; the daemon it starts has a test of its own."""

from __future__ import annotations

import errno
import os
import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands import doctor
from sidecar.llmgateway.diagnostics import Diagnostic, diagnose_models
from sidecar_client import ConnectionLost, SidecarClient


class FakeDaemon:
    """A daemon that starts and tells its memory."""

    async def status(self) -> Namespace:
        return Namespace(rss_bytes=1)


@asynccontextmanager
async def spawn(**_options: object) -> AsyncIterator[FakeDaemon]:
    yield FakeDaemon()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory, no model to look for, and no daemon to start."""

    async def diagnose_models(_home: Path, _folder: Path) -> tuple[Diagnostic, ...]:
        return (Diagnostic("model", "offline-1"),)

    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "diagnose_models", diagnose_models)
    monkeypatch.setattr(SidecarClient, "spawn", spawn)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *lines: str, code: int = 0) -> str:
    """Run it, and look for each of *lines*."""
    found = doctor.run(Namespace(live=False, fix=False))
    out = capsys.readouterr().out
    assert found == code, out
    assert [line for line in lines if line not in out] == [], out
    return out


def test_all_is_well(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, f"state\t{home}, can be written", "model\toffline-1", "shared\tnone is running")


def test_the_extensions_are_listed_and_why_others_are_not(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home / "user"))
    monkeypatch.setenv("USERPROFILE", str(home / "user"))
    check(capsys, "extensions\tnone; the guide's")
    (home / "commands").mkdir()
    (home / "commands" / "fix.md").write_text("Fix it.")
    (home / "config.toml").write_text('[[hooks]]\non = "stop"\ncommand = "x"\n')
    (project / ".mcp.json").write_text("{}")
    check(
        capsys,
        "extensions\tcommands: /fix; hooks: stop",
        ".mcp.json is not used, because this folder is not trusted",
    )


def test_a_bad_finding_about_models_fails_the_report(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def diagnose_models(_home: Path, _folder: Path) -> tuple[Diagnostic, ...]:
        return (Diagnostic("keys", "can be read by others", is_well=False), Diagnostic("model", "x"))

    monkeypatch.setattr(doctor, "diagnose_models", diagnose_models)
    check(capsys, "keys\tcan be read by others", "model\tx", code=1)


@pytest.mark.parametrize(
    ("setting", "problem", "text", "code"),
    [
        pytest.param("false", None, "sandbox\toff; write sandbox = true in", 0, id="off"),
        pytest.param("true", None, "sandbox\ton; commands have no network", 0, id="on"),
        pytest.param("true", "bwrap is gone", "so that no command runs: bwrap is gone", 1, id="missing"),
    ],
)
def test_the_sandbox_is_shown(
    setting: str,
    problem: str | None,
    text: str,
    code: int,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / "config.toml").write_text(f"sandbox = {setting}\n")
    monkeypatch.setattr(doctor, "find_problem", lambda: problem)
    check(capsys, text, code=code)


def test_settings_of_compactions_that_are_turned_off_are_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.toml").write_text("[compaction]\nby_price = false\nprepare = false\n")
    check(capsys, f"compaction\tturned off in {home / 'config.toml'}: prepare, by_price", code=0)


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
    def fail(**_options: object) -> None:
        raise ConnectionLost("the process ended", exit_code=1, stderr_tail="No module named 'msgspec'")

    monkeypatch.setattr(SidecarClient, "spawn", fail)
    out = check(capsys, "daemon\tdoes not start: the process ended", "No module named 'msgspec'", code=1)
    assert "sidecar doctor" not in out


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs the permissions of POSIX")
@pytest.mark.parametrize("place", ["closed", "closed/state"])
def test_a_state_directory_that_cannot_be_entered_is_not_well(
    place: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = home / "closed"
    (closed / "state").mkdir(parents=True)
    real_stat, real_access = os.stat, os.access

    def is_below(path: object) -> bool:
        return str(path).startswith(f"{closed}{os.sep}")

    def stat(path: Any, **options: Any) -> os.stat_result:
        if is_below(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_stat(path, **options)

    # Imitated, for the tests may run as a user who may enter everything.
    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(
        os, "access", lambda path, mode: not is_below(path) and path != closed and real_access(path, mode)
    )
    monkeypatch.setattr(doctor, "diagnose_models", diagnose_models)
    monkeypatch.setenv("INDUSAGI_HOME", str(home / place))
    check(
        capsys,
        f"{home / place} cannot be written; set INDUSAGI_HOME",
        "keys\tauth.json cannot be read",
        code=1,
    )
