"""A workspace on a temporary folder, closed when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sidecar.workspace.buffers import Editor
from sidecar.workspace.workspace import Workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """Return a workspace that compares at once and closes behind itself."""
    workspace = Workspace(check_delay_s=0)
    yield workspace
    await workspace.close()


@pytest.fixture
def editor(workspace: Workspace) -> Editor:
    """Return an editor that takes no edits."""
    return workspace.editor()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a temporary folder under its real name."""
    return tmp_path.resolve()


@pytest.fixture
def file(root: Path) -> Path:
    """Return a file with the text ``disk``."""
    path = root / "a.py"
    path.write_text("disk")
    return path
