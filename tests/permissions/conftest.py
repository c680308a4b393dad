"""A folder for a session, and policies for which a user has answered "always"."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from sidecar.permissions.access import CommandAccess
from sidecar.permissions.policy import Policy
from sidecar.permissions.protected import SessionFolders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a session, with room for an outside beside it."""
    root = tmp_path.resolve() / "project"
    root.mkdir()
    return root


def policy_after(lines: Iterable[str], root: Path) -> Policy:
    """Return the policy of a session in which each of *lines* was answered with "always"."""
    policy = Policy(SessionFolders((root,)))
    policy.granted.update(*(keys_of(line, root) for line in lines))
    return policy


@cache
def keys_of(line: str, root: Path) -> frozenset[str]:
    """Return what an answer "always" to *line* covers, in a session without another answer."""
    return frozenset(Policy(SessionFolders((root,))).judge(CommandAccess(line, root)).keys)
