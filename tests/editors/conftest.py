"""The editors themselves: where they are, the project they open, and screens that are kept to be looked at.

The day that is lived in each of them is in ``day.py``.

An editor is named by a variable (``SIDECAR_NVIM``, ``SIDECAR_EMACS``), else it is the one that ``make
editors`` installed, else the one in the path. A test of an editor that is
absent or too old is skipped, and says why.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.editors.scenes import WORDS

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".editors"
DAEMON = (sys.executable, "-m", "sidecar")
LANGUAGE_SERVER = Path(__file__).with_name("language_server.py")
N_LINES = 300


def editor(variable: str, name: str, version: str, oldest: tuple[int, int]) -> str:
    """Return the editor's program; skip the test where it is absent, or older than *oldest*.

    Args:
        variable: the environment variable that names it.
        name: its program.
        version: a regular expression for the two numbers of its version in what ``--version`` prints.
        oldest: the oldest version that will do.
    """
    installed = INSTALLED / "bin" / name
    program = os.environ.get(variable) or (str(installed) if installed.exists() else shutil.which(name))
    if program is None:
        pytest.skip(f"no {name} here; make editors installs one, {variable} names one")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(version, said.stdout)
    assert found is not None, said.stdout + said.stderr
    if (int(found[1]), int(found[2])) < oldest:
        pytest.skip(
            f"{program} is too old: {found[0]}, and {'.'.join(map(str, oldest))} is the oldest that will do"
        )
    return program


def stored_text(environment: Mapping[str, str]) -> str:
    """Return the files of all sessions."""
    stored = Path(environment["INDUSAGI_HOME"], "sessions").rglob("*.jsonl")
    return "".join(path.read_text(encoding="utf-8") for path in stored)


def kill_daemon(pid: int) -> None:
    """Kill the daemon that a descendant of process *pid* has started."""
    started = psutil.Process(pid).children(recursive=True)
    daemon = next(each for each in started if each.cmdline()[: len(DAEMON)] == list(DAEMON))
    os.kill(daemon.pid, signal.SIGKILL)


def tool_outputs(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the results of tools among the nodes of a session, in order."""
    return [
        block["output"] for node in nodes for block in node["blocks"] if block.get("kind") == "tool_result"
    ]


def write_foreign_session(home: Path, project: Path) -> None:
    """Write a conversation of another agent."""
    folder = home / ".claude" / "projects" / re.sub(r"\W", "-", str(project))
    folder.mkdir(parents=True)
    common = {"sessionId": "s", "cwd": str(project), "timestamp": "2026-01-01T00:00:00Z", "version": "2.0.0"}
    user = {"role": "user", "content": "a question of before"}
    answer = {
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "an answer of before"}],
    }
    lines = (
        {**common, "type": "user", "uuid": "u1", "parentUuid": None, "message": user},
        {**common, "type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": answer},
    )
    (folder / "11111111-1111-4111-8111-111111111111.jsonl").write_text(
        "".join(f"{json.dumps(each)}\n" for each in lines)
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with ``words.txt`` and ``a.py``: a first line, many worth a compaction, a last line."""
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    (folder / ".git").mkdir()
    lines = (f"value_{number} = {number}\n" for number in range(N_LINES))
    (folder / "words.txt").write_text(WORDS)
    (folder / "a.py").write_text("".join(("answer = 42\n", *lines, "end = 1\n")))
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment without the user's own settings and conversations."""
    home = tmp_path / "home"
    home.mkdir()
    names = ("HOME", "INDUSAGI_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    python_path = os.pathsep.join(filter(None, sys.path))
    return {**{name: str(home) for name in names}, "PYTHONPATH": python_path, "TERM": "xterm-256color"}


@pytest.fixture
def keep(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], None]:
    """Write a screen to ``SIDECAR_SCREENS``, as *name* in a folder of the test."""
    folder = Path(os.environ.get("SIDECAR_SCREENS") or tmp_path / "screens") / request.node.name

    def write(name: str, screen: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.txt").write_text(screen + "\n", encoding="utf-8")

    return write


def output_of(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return both outputs of an editor that runs *command* in *folder* to its end, without failing."""
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr
