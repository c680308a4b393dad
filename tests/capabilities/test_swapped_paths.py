"""A path that becomes another one while its permission question is open is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from file_powers import swap
from sidecar.capabilities.bash import BASH
from sidecar.capabilities.contract import Tool
from sidecar.capabilities.edit import EDIT, WRITE
from sidecar.capabilities.grep import GREP
from sidecar.capabilities.listing import LS
from sidecar.capabilities.read import READ
from sidecar.workspace.paths import ResolvedPath, resolve_path

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows"),
]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param(WRITE, {"path": "sub/new.txt", "content": "ours"}, id="a new file"),
        pytest.param(WRITE, {"path": "sub/f.txt", "content": "ours"}, id="a file that was read"),
        pytest.param(EDIT, {"path": "sub/f.txt", "old_text": "same", "new_text": "ours"}, id="an edit"),
        pytest.param(BASH, {"command": "echo ours > f.txt; cat f.txt", "cwd": "sub"}, id="a command"),
    ],
)
async def test_nothing_is_changed_behind_a_link_that_came_with_the_question(
    desk: Desk, tool: Tool, arguments: dict[str, str]
) -> None:
    outside = desk.put("../outside/f.txt", "same\n").parent.resolve()
    desk.put("sub/f.txt", "same\n")
    await desk.output(READ, path="sub/f.txt")
    desk.before_answer = lambda: swap(desk.root / "sub", outside)
    assert "has become a link" in await desk.failure(tool, **arguments)
    assert len(desk.asked) == 1
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("f.txt", "same\n")]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        pytest.param(READ, {"path": "../open/f.txt"}, id="read"),
        pytest.param(LS, {"path": "../open"}, id="ls"),
        pytest.param(GREP, {"path": "../open", "pattern": "e"}, id="grep"),
        pytest.param(BASH, {"command": "cat f.txt", "cwd": "../open"}, id="bash"),
    ],
)
async def test_nothing_is_read_behind_a_link_that_came_with_the_question(
    desk: Desk, tool: Tool, arguments: dict[str, str]
) -> None:
    desk.put("../open/f.txt", "free\n")
    secret = desk.put("../secret/f.txt", "secret\n").parent
    desk.before_answer = lambda: swap(desk.root.parent / "open", secret)
    assert "has become a link" in await desk.failure(tool, **arguments)
    assert len(desk.asked) == 1


async def test_a_folder_inside_that_leads_outside_by_now_is_not_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = desk.put("../secret/f.txt", "secret\n").parent
    desk.put("sub/f.txt", "free\n")

    def resolve_and_swap(spelled: str, cwd: Path, roots: Iterable[Path]) -> ResolvedPath:
        resolved = resolve_path(spelled, cwd, roots)
        swap(desk.root / "sub", secret)
        return resolved

    monkeypatch.setattr("sidecar.workspace.workspace.resolve_path", resolve_and_swap)
    assert "has become a link" in await desk.failure(READ, path="sub/f.txt")
