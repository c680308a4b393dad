"""Where the suite runs as root, which may open every file, permissions are tested as another user, too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from file_powers import DROPPED, drop_file_powers, opens_every_file
from repository import ROOT


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux" or not opens_every_file(), reason="this is an ordinary user")
def test_permissions_without_the_power_to_open_every_file(tmp_path: Path) -> None:
    """A process without two capabilities of root meets closed files as other users do."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += [
        "--basetemp",
        str(tmp_path / "run"),
        "-m",
        "ordinary_user",
        "tests/permissions",
        "tests/capabilities",
    ]
    command += ["tests/workspace/test_files.py", "tests/runtime/store/test_session_index.py"]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {DROPPED: "1"},
        preexec_fn=drop_file_powers,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    n_passed = re.search(r"(\d+) passed", ran.stdout)
    assert n_passed is not None
    assert int(n_passed[1]) > 20
    skipped = [line for line in ran.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in skipped if "no sandbox: " not in line] == []
