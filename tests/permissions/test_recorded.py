"""Recorded commands of other agents, each question answered "always": fewer than one in ten asks."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_lines import WORKDAY
from recorded_sessions import read_records, recordings
from sidecar.permissions.access import CommandAccess
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells and paths")

SHELLS = ("Bash", "exec_command", "shell_command")
FOLDER = re.compile(r'"(?:cwd|workdir)": ?"([^"]+)"')


def recorded_lines(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the command lines of a recording, with their folders where they name one."""
    for record in read_records(path):
        for call in record.get("tool_calls") or ():
            given = call.get("input")
            if call.get("name") in SHELLS and isinstance(given, dict):
                line = given.get("command") or given.get("cmd")
                if isinstance(line, list):
                    line = line[2] if len(line) == 3 else " ".join(map(str, line))
                if isinstance(line, str):
                    yield line, given.get("workdir")


def count_questions(policy: Policy, lines: Iterator[tuple[str, str | None]]) -> Counter[str]:
    """Return how many of *lines* ask, and how many there are, when each answer is "always"."""
    counted: Counter[str] = Counter()
    for line, folder in lines:
        verdict = policy.judge(CommandAccess(line, Path(folder) if folder else policy.place.roots[0]))
        counted.update(["lines", *(["asks"] if verdict.outcome == "ask" else [])])
        policy.granted.update(verdict.keys)
    return counted


def test_recorded_sessions_ask_for_less_than_one_in_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session begins in the folder that its recording names most often, and with no answer.

    Its files are not on this disk, so that a path without a suffix stands for a folder.
    """
    found = [Path(str(each.values[0])) for each in recordings(("claude-code", "codex"))]
    if not found[0].is_file():
        pytest.skip("the recorded sessions are not beside this checkout")
    monkeypatch.setattr(Path, "is_dir", lambda path: not path.suffix)
    total: Counter[str] = Counter()
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for path in found:
        folders = Counter(FOLDER.findall(path.read_text("utf-8", "replace")))
        root = Path(folders.most_common(1)[0][0]) if folders else Path("/project")
        by_file[path.stem] = count_questions(Policy(SessionFolders((root,))), recorded_lines(path))
        total.update(by_file[path.stem])
    assert total["lines"] > 1000
    assert total["asks"] < total["lines"] / 10, by_file


def test_a_working_day_asks_for_less_than_one_in_ten(tmp_path: Path) -> None:
    """The same for lines of our own, which are a part of the repository."""
    root = tmp_path.resolve()
    (root / "src").mkdir()
    counted = count_questions(Policy(SessionFolders((root,))), ((line, None) for line in WORKDAY))
    assert counted["asks"] < counted["lines"] / 10, counted
