"""Hostile command lines are never covered, whatever the user has always allowed before."""

from __future__ import annotations

import os

import pytest

from command_lines import BENIGN, OWN, PUBLISHED
from sidecar.permissions.access import CommandAccess, EditAccess
from sidecar.permissions.policy import Policy
from tests.permissions.conftest import policy_after

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells and paths")


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """A policy in a folder with a repository, after "always" to every benign line."""
    root = tmp_path_factory.mktemp("permissions").resolve() / "project"
    for name in (".git/hooks", "src", "tests", "tools", "build", "link"):
        (root / name).mkdir(parents=True)
    for name in ("README.md", "src/main.py", "package.json", "a.tar", "-rf"):
        (root / name).write_text("x\n", encoding="utf-8")
    (root.parent / "other").mkdir()
    policy = policy_after(BENIGN, root)
    policy.granted.update(policy.judge(EditAccess(root / "a.py", is_inside=True)).keys)
    return policy


@pytest.mark.parametrize("line", BENIGN)
def test_a_benign_line_asks_at_most_once(generous: Policy, line: str) -> None:
    verdict = generous.judge(CommandAccess(line, generous.place.roots[0]))
    is_fed = "|" in line
    assert verdict.outcome == "allow" or is_fed, verdict


@pytest.mark.parametrize(
    "within",
    [
        pytest.param("{}", id="alone"),
        pytest.param("git status | {}", id="in its pipe"),
        pytest.param("(git status; {}\n)", id="in a subshell"),
    ],
)
def test_a_hostile_line_is_never_covered(generous: Policy, within: str) -> None:
    root = generous.place.roots[0]
    lines = [within.replace("{}", decoded(line)) for line in (*OWN, *PUBLISHED)]
    assert [line for line in lines if generous.judge(CommandAccess(line, root)).outcome != "ask"] == []


def decoded(line: str) -> str:
    """Return *line* with the characters that it spells by their escapes."""
    line = line.encode("ascii", "backslashreplace").decode("unicode_escape") if "\\u" in line else line
    return line.replace("\\r", "\r")


def test_there_are_enough_of_them() -> None:
    assert len(set(OWN)) >= 200
    assert len(set(PUBLISHED)) >= 100
    assert not {*OWN, *PUBLISHED} & set(BENIGN)
