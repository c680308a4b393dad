"""Recorded commands of all other agents, each question answered "always": fewer than one in ten asks."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_lines import WORKDAY
from recorded_sessions import Record, read_records, recordings
from sidecar.permissions.access import CommandAccess
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells and paths")

SHELLS = (
    *("Bash", "bash", "shell", "exec_command", "shell_command", "run_shell_command", "execute_bash"),
    "run_commands",
)
FOLDER = re.compile(r'"(?:cwd|workdir)": ?"([^"]+)"')
ABSOLUTE = re.compile(r"(?<![\w.~*])/[\w.@+-]+/[\w./@+-]+")
CODE_CALL = re.compile(r'\bcmd"?\s*:\s*("(?:\\.|[^"\\])*")')
"""A command in the code of an agent that calls its shell from a script."""


def recorded_lines(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the command lines of a recording, with their folders where they name one."""
    calls = (call for record in read_records(path) for call in record.get("tool_calls") or ())
    for call in calls:
        given = call.get("input")
        if isinstance(given, dict):
            for line in command_lines(call, given):
                yield line, given.get("workdir")


def command_lines(call: Record, given: Record) -> list[str]:
    """Return the command lines of one call with the arguments *given*."""
    if call.get("name") == "exec":
        return [json.loads(text) for text in CODE_CALL.findall(str(given.get("input")))]
    if call.get("name") not in SHELLS:
        return []
    line = given.get("command") or given.get("cmd") or given.get("commands")
    if call["name"] == "run_commands":
        return [str(each) for each in line or ()]
    if isinstance(line, list):
        line = line[2] if len(line) == 3 else " ".join(map(str, line))
    return [line] if isinstance(line, str) else []


def find_root(path: Path) -> Path:
    """Return the folder that a recording names first, else the one that the paths in it have in common."""
    folder = FOLDER.search(path.read_text("utf-8", "replace"))
    if folder:
        return Path(folder[1])
    named = [Path(text) for line, _ in recorded_lines(path) for text in ABSOLUTE.findall(line)]
    folders = [each.parent if each.suffix else each for each in named if each.parts[1] not in ("tmp", "dev")]
    common = Path(os.path.commonpath(folders)) if folders else Path("/")
    return common if common.name else Path("/project")


def count_questions(policy: Policy, lines: Iterator[tuple[str, str | None]]) -> Counter[str]:
    """Return how many of *lines* ask, and how many there are, when each answer is "always"."""
    counted: Counter[str] = Counter()
    for line, folder in lines:
        verdict = policy.judge(CommandAccess(line, Path(folder) if folder else policy.place.roots[0]))
        counted.update(["lines", *(["asks"] if verdict.outcome == "ask" else [])])
        policy.granted.update(verdict.keys)
    return counted


@pytest.mark.slow
def test_recorded_sessions_ask_for_less_than_one_in_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session begins in its own folder, and with no answer.

    Its files are not on this disk, so that a path without a suffix stands for a folder.
    """
    found = [Path(str(each.values[0])) for each in recordings()]
    if not found[0].is_file():
        pytest.skip("the recorded sessions are not beside this checkout")
    monkeypatch.setattr(os.path, "isdir", lambda path: not Path(path).suffix)
    total: Counter[str] = Counter()
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for path in found:
        policy = Policy(SessionFolders((find_root(path),)))
        by_file[path.stem] = count_questions(policy, recorded_lines(path))
        total.update(by_file[path.stem])
    assert total["lines"] > 1000
    assert total["asks"] < total["lines"] / 10, by_file


def test_a_working_day_asks_for_less_than_one_in_ten(tmp_path: Path) -> None:
    """The same for lines of our own, which are a part of the repository."""
    root = tmp_path.resolve()
    (root / "src").mkdir()
    counted = count_questions(Policy(SessionFolders((root,))), ((line, None) for line in WORKDAY))
    assert counted["asks"] < counted["lines"] / 10, counted
