"""``sandbox = true`` in the user's settings: every command of a model is confined, or does not run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from daemon_in_memory import client_in_memory
from sidecar.capabilities.sandbox import find_problem
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar_client import allow

pytestmark = pytest.mark.processes

COMMAND = "touch inside; touch ~/outside; cat ~/state/config.toml; echo end"


async def run_command(project: Path) -> tuple[str, list[str]]:
    """Return the report on a command that a model runs, and the titles of the questions about it."""
    asked: list[str] = []

    def answer(request: PermissionRequest) -> PermissionAnswer:
        asked.append(request.title)
        return allow(request)

    call = {"toolCall": {"name": "bash", "input": {"command": COMMAND}}}
    options = {"models": {"fake-1": {"scripted": [[call], [{"text": "done"}]]}}}
    async with client_in_memory(project, permission=answer, options=options) as client:
        session = await client.start_session(project, model="fake-1")
        events = [event async for event in session.stream("go")]
    (finished,) = [event for event in events if event.kind == "toolFinished"]
    return str(finished.data["content"]), asked


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    (home / "state").mkdir(parents=True)
    project.mkdir()
    (home / "state" / "config.toml").write_text("sandbox = true\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("INDUSAGI_HOME", str(home / "state"))
    return home, project


@pytest.mark.skipif(
    sys.platform != "linux" or find_problem() is not None, reason="there is no working bwrap here"
)
async def test_a_command_writes_in_the_project_alone(folders: tuple[Path, Path]) -> None:
    home, project = folders
    content, asked = await run_command(project)
    assert asked == [f"Run {COMMAND} (in the sandbox)"]
    assert "config.toml: No such file or directory" in content
    assert content.endswith("end\n[exit 0]")
    assert (project / "inside").exists()
    assert not (home / "outside").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="empties the path of a POSIX system")
async def test_no_command_runs_where_there_is_no_sandbox(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, project = folders
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "touch", "cat"):
        (programs / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(programs))
    content, asked = await run_command(project)
    assert "the settings ask for a sandbox and" in content
    assert "is not installed" in content
    assert (asked, list(project.iterdir())) == ([], [])
