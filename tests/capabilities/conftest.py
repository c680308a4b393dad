"""A desk for tools: a folder, a workspace on it, and a user who answers; and a pipe that shows who lives."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fake_tools import RecordedReads
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.background import BackgroundCommands
from sidecar.capabilities.contract import (
    AskEditor,
    Confine,
    PermissionDecision,
    PermissionQuestion,
    PlanEntry,
    Tool,
    ToolContext,
    ToolReply,
)
from sidecar.workspace.contract import StaleFile
from sidecar.workspace.paths import path_to_uri
from sidecar.workspace.workspace import Workspace


@dataclass
class Desk:
    """What a tool is given, and what it did with it."""

    root: Path
    workspace: Workspace
    answer: bool = True
    hunks: Mapping[tuple[int, int], str | None] = field(default_factory=dict)
    max_output_chars: int = 30_000
    sees_images: bool = False
    may_fetch_private: bool = False
    output_folder: Path | None = None
    background: BackgroundCommands = field(default_factory=BackgroundCommands)
    asked: list[PermissionQuestion] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    has_progress: asyncio.Event = field(default_factory=asyncio.Event)
    stale: list[StaleFile] = field(default_factory=list)
    plan: tuple[PlanEntry, ...] = ()
    children: dict[int, str] = field(default_factory=dict)
    n_children: int = 0
    cancel: CancelToken = field(default_factory=CancelToken)
    before_answer: Callable[[], object] = lambda: None
    confine: Confine | None = None
    ask_editor: AskEditor | None = None
    child_runs: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.reads = RecordedReads(self.workspace.tracker("s", self.stale.append))

    def put(self, name: str, text: str | bytes = "") -> Path:
        """Write a file below the root, as anybody could."""
        path = Path(os.path.normpath(self.root / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def text(self, name: str) -> str:
        return (self.root / name).read_bytes().decode()

    def ranges(self, name: str) -> Sequence[tuple[int, int | None]] | None:
        """Return the lines of a file that the model knows, none for all of it; None where it knows none."""
        record = self.reads.get(self.root / name)
        return None if record is None else record.ranges

    def open(self, name: str, text: str, version: int = 1) -> None:
        """Open a file in the editor, with *text* in its buffer."""
        self.workspace.editor().open_buffer(path_to_uri(self.root / name), version=version, text=text)

    def context(self, call_id: str = "c1") -> ToolContext:
        return ToolContext(
            call_id=call_id,
            cwd=self.root,
            roots=(self.root,),
            workspace=self.workspace,
            reads=self.reads,
            ask=self._ask,
            progress=self._on_progress,
            set_plan=self._set_plan,
            child_started=self._child_started,
            max_output_chars=self.max_output_chars,
            confine=self.confine,
            sees_images=self.sees_images,
            may_fetch_private=self.may_fetch_private,
            output_folder=self.output_folder,
            background=self.background,
            ask_editor=self.ask_editor,
        )

    async def run(self, tool: Tool, arguments: Mapping[str, Any] | None = None, **more: Any) -> ToolReply:
        """Run *tool* and return its reply."""
        return await tool.run({**(arguments or {}), **more}, self.context(), self.cancel)

    async def output(self, tool: Tool, **arguments: Any) -> str:
        """Run *tool*, which must not fail, and return its output."""
        reply = await self.run(tool, arguments)
        assert not reply.is_error, reply.output
        assert isinstance(reply.output, str)
        return reply.output

    async def failure(self, tool: Tool, **arguments: Any) -> str:
        """Run *tool*, which must fail, and return its output."""
        reply = await self.run(tool, arguments)
        assert reply.is_error, reply.output
        assert isinstance(reply.output, str)
        return reply.output

    async def _ask(self, ask: PermissionQuestion) -> PermissionDecision:
        self.asked.append(ask)
        self.before_answer()
        return PermissionDecision(self.answer, hunks=self.hunks)

    def _on_progress(self, text: str) -> None:
        self.progress.append(text)
        self.has_progress.set()

    def _set_plan(self, plan: tuple[PlanEntry, ...]) -> None:
        self.plan = plan

    def _child_started(self, pid: int, what: str) -> Callable[[], None]:
        self.children[pid] = what
        self.n_children += 1
        self.child_runs.set()

        def gone() -> None:
            del self.children[pid]

        return gone


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Return a desk whose root is a folder of its own, with room for an outside beside it."""
    root = tmp_path.resolve() / "root"  # noqa: ASYNC240 - nothing else runs here
    root.mkdir()
    workspace = Workspace(check_delay_s=0, edit_settles_s=0.1)
    desk = Desk(root, workspace)
    yield desk
    await desk.background.aclose()
    await workspace.close()
    assert desk.children == {}, "a child was never reported as gone"


def git(folder: Path, *arguments: str) -> str:
    """Run git in *folder*, with an identity and without the settings of this machine; return what it says."""
    options = ("-c", "user.name=dev", "-c", "user.email=dev@example.com", "-c", "init.defaultBranch=main")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", *options, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


class Life:
    """A named pipe that processes hold open while they live: it ends when the last of them is gone."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "life"
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def ends(self) -> None:
        """Wait until nobody holds the pipe; must be called after somebody did."""
        os.set_blocking(self._reader, True)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(os.read, self._reader, 1) == b""
        os.close(self._reader)


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)
