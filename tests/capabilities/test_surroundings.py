"""The lines about the machine and the folder that a model is told."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import date
from pathlib import Path

import pytest

from sidecar.capabilities.surroundings import describe_surroundings
from tests.capabilities.conftest import git

TODAY = date(2026, 3, 14)


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="needs a shell script")
async def test_the_folder_the_date_and_the_tools_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "setup.py").touch()
    tool = tmp_path / "bin" / "python3"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho Python 3.14.9\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    lines = (await describe_surroundings([tmp_path, tmp_path / "more"], TODAY)).splitlines()
    assert lines[:2] == [f"- folder: {tmp_path}", f"- further folder: {tmp_path / 'more'}"]
    assert lines[2] == "- date: 2026-03-14"
    assert "- shell: bash" in lines or "- shell: sh" in lines
    assert lines[-1] == "- python3: Python 3.14.9"


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
async def test_the_branch_and_the_state_of_a_repository_are_told(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert "- git: branch main, without a commit; clean when" in await describe_surroundings(
        [tmp_path], TODAY
    )
    (tmp_path / "a.py").write_text("a")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    assert "- git: branch main; clean when the session began" in await describe_surroundings(
        [tmp_path], TODAY
    )
    (tmp_path / "a.py").write_text("b")
    (tmp_path / "new.py").touch()
    told = await describe_surroundings([tmp_path], TODAY)
    assert "- git: branch main; 1 files changed, 1 not tracked when the session began" in told


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt" or shutil.which("git") is None, reason="needs git and a shell script")
async def test_no_program_of_a_strangers_repository_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init")
    script = tmp_path / "monitor"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o700)
    git(tmp_path, "config", "core.fsmonitor", str(script))
    (tmp_path / "setup.py").touch()
    (tmp_path / "python3").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    told = await describe_surroundings([tmp_path], TODAY)
    assert "git" not in told
    assert not (tmp_path / "ran").exists()


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt" or shutil.which("git") is None, reason="needs git and a shell script")
@pytest.mark.parametrize("is_submodule", [False, True], ids=["missing objects", "submodule"])
async def test_no_program_is_run_by_a_remote_or_a_submodule(tmp_path: Path, is_submodule: bool) -> None:
    """Git asks a promisor remote for the objects that are missing, and looks into each submodule."""
    script = tmp_path / "program"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o700)
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, outer) if is_submodule else (outer,):
        git(folder, "init")
        (folder / "a.py").write_text("a")
        git(folder, "add", ".")
        git(folder, "commit", "-m", "first")
    if is_submodule:
        git(inner, "config", "filter.x.clean", str(script))
        (inner / ".gitattributes").write_text("* filter=x\n")
        (inner / "a.py").write_text("b")
    else:
        git(outer, "config", "core.repositoryFormatVersion", "1")
        git(outer, "config", "extensions.partialClone", "origin")
        git(outer, "config", "remote.origin.url", ".")
        git(outer, "config", "remote.origin.uploadpack", str(script))
        for found in (outer / ".git" / "objects").glob("??/*"):
            found.unlink()
    told = await describe_surroundings([outer], TODAY)
    assert ("git: branch main" in told) == is_submodule
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a folder without permissions")
async def test_a_folder_that_is_gone_is_described_all_the_same(tmp_path: Path) -> None:
    told = await describe_surroundings([tmp_path / "gone"], TODAY)
    assert told.startswith(f"- folder: {tmp_path / 'gone'}")
