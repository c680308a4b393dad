"""Prompts that were acknowledged and wait are in the queue again when another process loads the session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from long_talks import emitted, open_session
from properties import cuts_of
from sidecar.conductor.contract import Author
from sidecar.conductor.events import Notice, QueueChanged, Settled
from sidecar.conductor.session import Session
from sidecar.llmgateway.contract import join_texts
from sidecar.llmgateway.scripted import Hang, Say, WaitFor
from turns import text

WAITING = [[Hang()]]


def queued(session: Session) -> list[str]:
    return ["".join(block["text"] for block in item.input) for item in session.turns.prompts.items()]


def asked(session: Session) -> list[str]:
    return [join_texts(turn.blocks) for turn in session.record.history.turns if turn.role == "user"]


async def a_session_with_a_queue(make_stage: Any, *prompts: str) -> tuple[Any, Session]:
    stage, session = await open_session(make_stage, WAITING)
    for prompt in prompts:
        await session.submit(text(prompt))
    return stage, session


async def load_after_crash(
    make_stage: Any, sid: str, folder: Path, store: Path | None = None
) -> tuple[Any, Session]:
    """Load a session as it is on disk now, in a process that knows nothing of the other one."""
    copy = folder / "after the crash"
    copy.mkdir(parents=True)
    for file in ((store or folder) / "store").glob("*.jsonl"):
        (copy / file.name).write_bytes(file.read_bytes())
    other = await make_stage([[Say("fine")]], repeat=True, store=copy)
    return other, (await other.hub.load(sid)).session


async def test_the_queue_survives_a_crash(make_stage: Any, tmp_path: Path) -> None:
    _, session = await a_session_with_a_queue(make_stage, "one", "two", "three")
    _, loaded = await load_after_crash(make_stage, session.sid, tmp_path)
    assert (asked(loaded), queued(loaded), loaded.is_busy) == (["one"], ["two", "three"], False)


async def test_the_restored_prompts_run_with_the_next_one(make_stage: Any, tmp_path: Path) -> None:
    _, session = await a_session_with_a_queue(make_stage, "one", "two", "three")
    other, loaded = await load_after_crash(make_stage, session.sid, tmp_path)
    receipt = await loaded.submit(text("four"))
    assert (receipt.disposition, receipt.position) == ("queued", 3)
    await receipt.outcome
    assert asked(loaded) == ["one", "two", "three", "four"]
    await other.hub.close(loaded.sid)
    assert queued((await other.hub.load(loaded.sid)).session) == []


async def test_the_queue_survives_an_orderly_end(make_stage: Any) -> None:
    """Whoever waits for a prompt is told that it did not run."""
    stage, session = await a_session_with_a_queue(make_stage, "one", "two")
    (item,) = session.turns.prompts.items()
    await stage.hub.aclose()
    ended = emitted(session, Settled)
    assert (ended[0].turn_id, ended[0].stop_reason) == (item.turn_id, "cancelled")
    other = await make_stage()
    loaded = (await other.hub.load(session.sid)).session
    assert queued(loaded) == ["two"]
    assert loaded.turns.prompts.items()[0].turn_id != item.turn_id


async def test_a_client_that_loads_the_session_is_told(make_stage: Any) -> None:
    stage, session = await a_session_with_a_queue(make_stage, "one", "two")
    await stage.hub.aclose()
    other = await make_stage()
    loaded = (await other.hub.load(session.sid)).session
    loaded.introduce()
    loaded.introduce()
    events = [event.data for event in loaded.record.log.after(0)]
    assert [event for event in events if isinstance(event, QueueChanged)] == [
        QueueChanged(loaded.turns.prompts.items(), 1)
    ]
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert (notice.severity, notice.title) == ("warning", "Prompts are queued again")


async def test_a_session_that_a_client_closes_drops_its_queue(make_stage: Any) -> None:
    stage, session = await a_session_with_a_queue(make_stage, "one", "two")
    await stage.hub.close(session.sid)
    assert queued((await stage.hub.load(session.sid)).session) == []


async def test_a_prompt_that_was_removed_or_edited_is_restored_so(make_stage: Any, tmp_path: Path) -> None:
    _, session = await a_session_with_a_queue(make_stage, "one", "two", "three")
    first, second = session.turns.prompts.items()
    session.turns.prompts.remove(first.item_id)
    session.turns.prompts.edit(second.item_id, text("three, edited"))
    await session.record.store_queue()
    _, loaded = await load_after_crash(make_stage, session.sid, tmp_path)
    assert queued(loaded) == ["three, edited"]
    loaded.turns.prompts.remove(loaded.turns.prompts.items()[0].item_id)
    assert queued(loaded) == []


async def test_a_steered_prompt_that_has_not_entered_is_restored(make_stage: Any, tmp_path: Path) -> None:
    stage, session = await open_session(make_stage, [[Say("on"), WaitFor("go"), Say("e")], [Say("both")]])
    started = await session.submit(text("one"))
    while not any(event.kind == "textDelta" for event in session.record.log.after(0)):
        await stage.settle()
    receipt = await session.submit(text("by the way"), when_busy="steer", author=Author("c1", "Zed"))
    assert receipt.disposition == "steered"
    _, loaded = await load_after_crash(make_stage, session.sid, tmp_path)
    assert (asked(loaded), queued(loaded)) == (["one"], ["by the way"])
    stage.model.gate("go").set()
    await started.outcome
    _, later = await load_after_crash(make_stage, session.sid, tmp_path / "later", tmp_path)
    assert (asked(later), queued(later)) == (["one", "by the way"], [])


async def test_a_prompt_that_ran_is_never_restored(make_stage: Any, tmp_path: Path) -> None:
    """Its node and the queue without it are one write: no crash leaves both, or none."""
    stage, session = await open_session(make_stage, [[Say("a")], [Say("b")], [Hang()]])
    receipts = [await session.submit(text(prompt)) for prompt in ("one", "two", "three")]
    file = next((tmp_path / "store").glob("*.jsonl"))
    n_acknowledged = file.stat().st_size
    await receipts[1].outcome
    data = file.read_bytes()
    for cut in cuts_of(data):
        folder = tmp_path / f"cut {cut}"
        folder.mkdir()
        (folder / file.name).write_bytes(data[:cut])
        other = await make_stage(store=folder)
        if await other.shelf.place.exists(session.sid):
            loaded = (await other.hub.load(session.sid, str(stage.folder))).session
            seen = asked(loaded) + queued(loaded)
            assert len(seen) == len(set(seen)), cut
            assert cut < n_acknowledged or {"two", "three"} <= set(seen), cut
            await other.hub.aclose()
