"""A crash at any byte of a session file costs nothing that was acknowledged.

``make crash`` cuts the file at 10,000 bytes, or at every one of fewer; the suite cuts it at some of them.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fake_tools import FakeTool
from long_talks import open_session
from sidecar.capabilities.contract import ToolReply
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.errors import FolderUnknownError
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import Turn
from sidecar.llmgateway.scripted import Call, Say
from sidecar.runtime.store import heal

N_POINTS = int(os.environ.get("CRASH_POINTS", "60"))
ANSWER = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 8


@dataclass(frozen=True)
class Step:
    """The state of a session after an operation was acknowledged, and the size of its file then.

    *is_whole*: the operation happens as a whole; the turns of a prompt are stored one after another.
    """

    turns: tuple[Turn, ...]
    statuses: tuple[str, ...]
    size: int
    is_whole: bool

    def allows(self, turns: tuple[Turn, ...], statuses: tuple[str, ...], following: Step | None) -> bool:
        """Whether a session that was cut after this step may load as *turns* and *statuses*."""
        if (turns, statuses) == (self.turns, self.statuses):
            return True
        if following is None or following.is_whole:
            return following is not None and (turns, statuses) == (following.turns, following.statuses)
        parts = range(len(self.turns), len(following.turns) + 1)
        return any(turns == heal(following.turns[:n_turns]) for n_turns in parts)


class Life:
    """A session, and the steps of its life."""

    def __init__(self, session: Session, file: Path) -> None:
        self.session = session
        self.file = file
        self.steps = [Step((), (), 0, is_whole=False)]

    async def step(self, operation: Awaitable[Any], *, is_whole: bool = True) -> Any:
        """Wait for *operation*, and record the state after it."""
        result = await operation
        turns, statuses = state_of(self.session)
        self.steps.append(Step(turns, statuses, self.file.stat().st_size, is_whole))
        return result


def state_of(session: Session) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    return tuple(session.record.history.turns), tuple(done.status for done in session.record.compactions.all)


async def live(stage: Any, store: Path) -> tuple[Life, bytes]:
    """Return a session with everything in its life that moves its head, and the file of its fork."""
    session = await stage.session(title="Parser", policy={"keepRecent": 100})
    life = Life(session, store / f"{session.sid}.jsonl")

    async def ask(prompt: str) -> None:
        await life.step(stage.ask(session, prompt), is_whole=False)

    async def compact() -> None:
        done = await life.step(session.compact(CompactionRequest(force=True)).outcome)
        assert done.status == "completed"

    for prompt in ("one", "two", "three"):
        await ask(prompt)
    await compact()
    await ask("four")
    await life.step(session.undo(None, force=True, expect_head=None))
    await ask("five")
    await life.step(session.rewind(session.record.history.current[-3].node_id, expect_head=None))
    await ask("six")
    await life.step(session.drop([session.record.history.current[0].node_id], expect_head=None))
    await compact()
    fork = await stage.hub.fork(ForkOf(session.sid))
    await ask("seven")
    await life.step(session.undo(None, force=True, expect_head=None))
    return life, (store / f"{fork.sid}.jsonl").read_bytes()


def spread(n_bytes: int, n_points: int) -> list[int]:
    """Return *n_points* places in *n_bytes* at the same distance, or all of them."""
    return sorted({*range(0, n_bytes + 1, max(1, n_bytes // n_points)), n_bytes})


async def test_a_crash_at_any_byte_costs_nothing_that_was_acknowledged(
    make_stage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With compactions, undo, rewind, drop and a fork: each is there as a whole, or not at all."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    script = [[Call("look", {"n": 1})], [Say(ANSWER)]] * 40
    tools = [FakeTool("look", ToolReply("found it"))]
    stage = await make_stage(script, tools=tools, store=tmp_path / "store")
    life, fork = await live(stage, tmp_path / "store")
    data, steps = life.file.read_bytes(), life.steps
    later = await make_stage(store=tmp_path / "later")
    copy = tmp_path / "later" / life.file.name
    copy.parent.mkdir()

    async def load(content: bytes) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
        copy.write_bytes(content)
        copy.with_name(f"{copy.name}.torn").unlink(missing_ok=True)
        loaded = (await later.hub.load(copy.stem, str(stage.folder))).session
        found = state_of(loaded)
        await later.hub.close(loaded.sid)
        return found

    for cut in spread(len(data), N_POINTS):
        done = max(index for index, step in enumerate(steps) if step.size <= cut)
        following = steps[done + 1] if done + 1 < len(steps) else None
        assert steps[done].allows(*await load(data[:cut]), following), f"cut at byte {cut}"
    whole = await load(fork)
    for cut in spread(len(fork) - 1, N_POINTS // 10):
        assert (await load(fork[:cut]))[0] in ((), whole[0])


async def test_a_fork_that_is_cut_is_not_a_session_of_no_folder(make_stage: Any, tmp_path: Path) -> None:
    stage, session = await open_session(make_stage, [[Say(ANSWER)]], "one", store=tmp_path / "store")
    fork = await stage.hub.fork(ForkOf(session.sid))
    await stage.hub.close(fork.sid)
    file = tmp_path / "store" / f"{fork.sid}.jsonl"
    file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(FolderUnknownError):
        await stage.hub.load(fork.sid)
    assert [found.sid for found in await stage.hub.list()] == [session.sid]
