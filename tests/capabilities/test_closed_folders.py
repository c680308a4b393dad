"""Calls with a path in a folder that the user may not enter ask where they must, and fail readably."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from file_powers import ordinary_user
from sidecar.capabilities.apply_patch import APPLY_PATCH
from sidecar.capabilities.sandbox import Sandbox, find_problem
from sidecar.capabilities.toolbox import UNLISTED_TOOLS, default_tools

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

pytestmark = pytest.mark.processes

_PROBLEM = find_problem() if sys.platform == "linux" else "bwrap is for Linux"

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


@ordinary_user
@pytest.mark.skipif(_PROBLEM is not None, reason=f"no sandbox: {_PROBLEM}")
@pytest.mark.parametrize("arguments", [given for name, given in CALLS if name == "bash"])
async def test_a_command_in_the_sandbox_does_so_too(
    desk: Desk, closed: Path, arguments: dict[str, Any]
) -> None:
    desk.confine = Sandbox([desk.root.parent / "state"]).confine
    given = {key: str(value).replace("{closed}", str(closed)) for key, value in arguments.items()}
    failure = await desk.failure(TOOLS["bash"], **given)
    assert "Error" not in failure, "no name of an exception"
    # The sandbox has a /tmp of its own, in which the folder outside is not.
    assert any(words in failure for words in ("denied", "not enter", "No such file")), failure
    assert list(desk.root.parent.rglob("*.from-sandbox")) == []


@ordinary_user
@pytest.mark.skipif(_PROBLEM is not None, reason=f"no sandbox: {_PROBLEM}")
async def test_a_closed_folder_keeps_no_command_out_of_the_sandbox(desk: Desk, closed: Path) -> None:
    desk.confine = Sandbox([desk.root.parent / "state"]).confine
    assert "[exit 0]" in await desk.output(TOOLS["bash"], command="echo x > new && mkdir -p a/b")
    assert desk.text("new") == "x\n"
