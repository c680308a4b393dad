"""A daemon that dies between any two writes: what is loaded then is how it was before or how it is after."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from long_talks import DIGEST, LONG, open_session
from properties import cuts_of
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import Turn
from sidecar.llmgateway.scripted import Hang, Say
from sidecar.runtime.store.lines import append_lines


@dataclass
class Disk:
    """What the session files held after each write."""

    moments: list[dict[str, bytes]] = field(default_factory=list)
    folder: Path = Path()

    def look(self) -> None:
        self.moments.append({path.name: path.read_bytes() for path in self.folder.glob("*.jsonl")})


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    seen = Disk()

    def append_and_look(path: Path, data: bytes) -> None:
        append_lines(path, data)
        seen.folder = path.parent
        seen.look()

    monkeypatch.setattr("sidecar.runtime.store.lines.append_lines", append_and_look)
    return seen


async def reloaded(make_stage: Any, disk: Disk, folder: Path) -> Any:
    """Yield a stage over the files of each moment, as a daemon would find them that starts then."""
    for number, files in enumerate(tuple(disk.moments)):
        store = folder / f"then-{number}"
        store.mkdir()
        for name, data in files.items():
            (store / name).write_bytes(data)
        yield await make_stage([[Say("again")]], repeat=True, store=store)


def states(session: Session) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    """Return the conversation, and how each compaction of it ended."""
    return tuple(session.record.history.turns), tuple(done.status for done in session.record.compactions.all)


async def a_talk(make_stage: Any) -> tuple[Any, Session]:
    stage = await make_stage([[Say(LONG)], [Say(LONG)], [Say(LONG)], [Say(DIGEST)], [Say("since")]])
    session = await stage.session(title="Parser")
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    return stage, session


async def test_a_first_prompt_is_stored_with_its_session(make_stage: Any, disk: Disk, tmp_path: Path) -> None:
    """Who kills the daemon in the middle of the first answer finds the session in the list, where it was."""
    stage, session = await open_session(make_stage, [[Hang()]])
    await session.submit(({"type": "text", "text": "a long job"},))
    async for later in reloaded(make_stage, disk, tmp_path):
        (found,) = await later.hub.list()
        assert (found.sid, found.cwd, found.title) == (session.sid, str(stage.folder), "a long job")
        loaded = (await later.hub.load(session.sid)).session
        assert (list(loaded.record.history.turns), loaded.info.model) == (
            list(session.record.history.turns),
            "scripted-1",
        )
    session.turns.prompts.interrupt(None, "drop")


async def test_a_compaction_and_its_record_are_one(make_stage: Any, disk: Disk, tmp_path: Path) -> None:
    """What is shorter can be taken back, and what was taken back holds all that came since."""
    stage, session = await a_talk(make_stage)
    disk.moments.clear()
    disk.look()
    allowed = {states(session)}
    await session.compact(CompactionRequest()).outcome
    allowed.add(states(session))
    await stage.ask(session, "four")
    (compaction,) = session.record.compactions.all
    prompt, answer = list(session.record.history.turns)[-2:]
    turns, statuses = states(session)
    allowed |= {(turns, statuses), (turns[:-1], statuses)}
    await session.undo(None, force=True, expect_head=None)
    allowed.add(states(session))
    assert list(session.record.history.turns)[-2:] == [prompt, answer]
    seen = set()
    async for later in reloaded(make_stage, disk, tmp_path):
        loaded = (await later.hub.load(session.sid)).session
        assert states(loaded) in allowed
        seen.add(states(loaded))
        if "completed" in states(loaded)[1]:
            await loaded.undo(compaction.compaction_id, force=True, expect_head=None)
    assert len(seen) == len(allowed)


async def test_an_undo_is_whole_wherever_it_is_cut(make_stage: Any, tmp_path: Path) -> None:
    """The head never moves before the turns that came after the compaction are there."""
    store = tmp_path / "store"
    stage = await make_stage([[Say(LONG)], [Say(DIGEST)], [Say("since")]], repeat=True, store=store)
    session = await stage.session(title="Parser")
    for prompt in ("one", "two", "three"):
        await stage.ask(session, prompt)
    await session.compact(CompactionRequest(force=True)).outcome
    await stage.ask(session, "four")
    file = store / f"{session.sid}.jsonl"
    before, n_before = states(session), file.stat().st_size
    await session.undo(None, force=True, expect_head=None)
    after, data = states(session), file.read_bytes()
    later = await make_stage(store=tmp_path / "later")
    copy = tmp_path / "later" / file.name
    copy.parent.mkdir()
    seen = []
    for cut in (n_before, *cuts_of(data, n_before)):
        copy.write_bytes(data[:cut])
        loaded = (await later.hub.load(session.sid)).session
        seen.append(states(loaded))
        await later.hub.close(session.sid)
        copy.with_name(f"{copy.name}.torn").unlink(missing_ok=True)
    n_unchanged = seen.index(after)
    assert seen == [before] * n_unchanged + [after] * (len(seen) - n_unchanged)


async def test_a_fork_is_whole_or_not_there(make_stage: Any, disk: Disk, tmp_path: Path) -> None:
    stage, session = await a_talk(make_stage)
    disk.moments.clear()
    forked = await stage.hub.fork(ForkOf(session.sid))
    async for later in reloaded(make_stage, disk, tmp_path):
        assert {found.sid for found in await later.hub.list()} == {session.sid, forked.sid}
        loaded = (await later.hub.load(forked.sid)).session
        assert (list(loaded.record.history.turns), loaded.info.cwd) == (
            list(session.record.history.turns),
            str(stage.folder),
        )


async def test_no_number_stands_for_two_events(make_stage: Any, tmp_path: Path) -> None:
    """A client asks for the events after the last one that it has, also after the daemon was killed."""
    _, session = await open_session(make_stage, [[Say("one")]], "one", store=tmp_path / "store")
    folder = tmp_path / "store"
    for process in range(3):
        session.introduce()
        last = session.record.log.seq
        store = tmp_path / f"after-{process}"
        shutil.copytree(folder, store)
        later = await make_stage(store=store)
        session = (await later.hub.load(session.sid)).session
        assert session.record.log.seq >= last
        folder = store


async def test_the_numbers_go_on_after_a_proper_end(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]], "one")
    for _ in range(3):
        session.introduce()
        last = session.record.log.seq
        await stage.hub.close(session.sid)
        session = (await stage.hub.load(session.sid)).session
        assert session.record.log.seq == last
