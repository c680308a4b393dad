"""Calls with a path in a folder that the user may not enter ask where they must, and fail readably."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from file_powers import ordinary_user
from sidecar.capabilities.apply_patch import APPLY_PATCH
from sidecar.capabilities.toolbox import UNLISTED_TOOLS, default_tools

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

pytestmark = pytest.mark.processes

TOOLS = {tool.descriptor.name: tool for tool in (*default_tools(), *UNLISTED_TOOLS, APPLY_PATCH)}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"path": "{closed}/a"}),
    ("read", {"path": "{closed}"}),
    ("grep", {"pattern": "x", "path": "{closed}"}),
    ("grep", {"pattern": "x", "path": "{closed}/deep"}),
    ("find", {"name": "*", "path": "{closed}/deep"}),
    ("glob", {"pattern": "**/*.py", "path": "{closed}/deep"}),
    ("ls", {"path": "{closed}"}),
    ("ls", {"path": "{closed}/deep"}),
    ("edit", {"path": "{closed}/a", "old_text": "a", "new_text": "b"}),
    ("write", {"path": "{closed}/a", "content": "b"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Add File: {closed}/b\n+b\n*** End Patch"}),
    ("bash", {"command": "cat {closed}/a"}),
    ("bash", {"command": "cp -r . {closed}/a"}),
    ("bash", {"command": "ls", "cwd": "{closed}"}),
    ("bash", {"command": "ls", "cwd": "{closed}/deep"}),
)


@pytest.fixture(params=["../outside", "inside"])
def closed(desk: Desk, request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = (desk.root / str(request.param)).resolve()
    (folder / "deep").mkdir(parents=True)
    folder.chmod(0o000)
    yield folder
    folder.chmod(0o700)


@ordinary_user
@pytest.mark.parametrize(("name", "arguments"), CALLS)
async def test_it_ends_readably(desk: Desk, closed: Path, name: str, arguments: dict[str, Any]) -> None:
    given = {key: str(value).replace("{closed}", str(closed)) for key, value in arguments.items()}
    failure = await desk.failure(TOOLS[name], **given)
    assert "Error" not in failure, "no name of an exception"
    assert "denied" in failure or "not enter" in failure, failure
    if not closed.is_relative_to(desk.root) and TOOLS[name].kind != "edit":
        assert desk.asked != []
