"""The handle on a session: prompts, streams, waiting, compaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sidecar_client import ClientEvent, EventsLost, Session, SidecarClient, SidecarClientError
from sidecar_client.scripted import NO_ANSWER, ScriptedDaemon
from wire_shapes import SNAPSHOT, USAGE

COMPACTION: dict[str, Any] = {
    "compactionId": "k",
    "engine": "windowBudget",
    "trigger": "manual",
    "status": "in_progress",
    "preTokens": 9,
    "preCount": 4,
    "droppedCount": 2,
    "cut": 2,
    "microcompacted": 0,
    "beforeHead": "h",
    "undoable": False,
}
STARTED = {"turnId": "t", "userNodeId": None, "disposition": "started", "seq": 3}
RAN = {"turnId": "t", "stopReason": "end_turn", "head": "h", "usage": USAGE, "text": "hi", "seq": 9}


def daemon() -> ScriptedDaemon:
    opened = {"snapshot": SNAPSHOT, "configOptions": [], "usage": USAGE, "seq": 2}
    return ScriptedDaemon(
        {
            "sidecar/session/new": lambda _: {"sid": "s", **opened},
            "sidecar/session/load": lambda _: {**opened, "integrity": {"ok": True}},
            "sidecar/session/close": lambda _: {"seq": 12},
            "sidecar/turn/start": lambda _: STARTED,
            "sidecar/turn/run": lambda _: RAN,
            "sidecar/turn/interrupt": lambda _: {"accepted": True, "seq": 4},
            "sidecar/context/usage": lambda _: USAGE,
            "sidecar/context/files": lambda _: {"files": []},
            "sidecar/compact/start": lambda _: {"compactionId": "k", "disposition": "started", "seq": 3},
            "sidecar/compact/undo": lambda _: {"head": "h", "restoredTokens": 5, "seq": 9},
        }
    )


async def session_of(client: SidecarClient) -> Session:
    return await client.start_session()


async def test_a_session_starts_in_an_absolute_folder_and_takes_text_for_blocks() -> None:
    script = daemon()
    async with script.client() as client:
        session = await client.start_session("sub", model="offline-1")
        ran = await session.run("hello")
        await session.prompt([{"type": "text", "text": "again"}], when_busy="reject")
    (new,) = script.params_of("sidecar/session/new")
    assert new["cwd"].endswith("sub")
    assert new["cwd"] != "sub"
    assert new["model"] == "offline-1"
    assert ran.text == "hi"
    assert script.params_of("sidecar/turn/run")[0]["input"] == [{"type": "text", "text": "hello"}]
    assert script.params_of("sidecar/turn/start") == [
        {"sid": "s", "input": [{"type": "text", "text": "again"}], "whenBusy": "reject"}
    ]


async def test_the_sugar_asks_for_its_own_session() -> None:
    script = daemon()
    async with script.client() as client:
        session = await client.load_session("s")
        assert (await session.interrupt()).accepted
        assert (await session.usage()).window == 100
        assert await session.files() == ()
        assert (await session.undo(force=True)).restored_tokens == 5
        await session.close()
    assert script.params_of("sidecar/turn/interrupt") == [{"sid": "s", "queue": "keep"}]
    assert script.params_of("sidecar/context/usage") == [{"sid": "s", "detail": True}]
    assert script.params_of("sidecar/compact/undo") == [{"sid": "s", "force": True, "files": "keep"}]


async def test_a_stream_is_one_turn_with_its_gaps_and_its_end() -> None:
    script = daemon()
    async with script.client() as client:
        session = await session_of(client)
        script.event("s", 3, "phase", "t", phase="invoking")
        script.event("s", 4, "infoChanged", title="x")
        script.notify("sidecar/gap", {"sid": "s", "from": 5, "to": 6, "reason": "slow"})
        script.event("s", 7, "settled", "before", turnId="before")
        script.event("s", 8, "settled", "t", turnId="t")
        script.event("s", 9, "phase", "next", phase="invoking")
        kinds = [(event.seq, event.kind) async for event in session.stream("hi")]
    assert kinds == [(3, "phase"), (6, "gap"), (8, "settled")]
    assert session.seq == 8


async def test_a_stream_ends_with_a_fault_too() -> None:
    script = daemon()
    async with script.client() as client:
        session = await session_of(client)
        script.event("s", 4, "faulted", "t", errorKind="modelFailed")
        assert [event.kind async for event in session.stream("hi")] == ["faulted"]


async def test_a_stream_or_a_wait_never_outlives_its_session() -> None:
    script = daemon()
    async with script.client() as client:
        session = await session_of(client)
        waiting = asyncio.create_task(session.wait_for("settled"))
        stream = asyncio.ensure_future(anext(session.stream("hi")))
        await script.wait_for("sidecar/turn/start")
        await session.close()
        for task in (waiting, stream):
            with pytest.raises(SidecarClientError, match="closed"):
                await task


async def test_waiting_finds_earlier_events_and_reads_on() -> None:
    script = daemon()
    async with script.client() as client:
        session = await session_of(client)
        script.event("s", 1, "message", messageId="before the handle")
        for seq in (3, 4, 5):
            script.event("s", seq, "message", messageId=f"m{seq}")
        script.event("s", 6, "settled", turnId="t")
        await session.wait_for(where=lambda event: event.seq == 3)
        found = await session.wait_for("message", where=lambda event: event.data["messageId"] != "m4")
        settled = await session.wait_for("settled")
        assert [found.seq, settled.seq, session.seq] == [5, 6, 6]
        assert (await anext(session.events(0))).seq == 1


async def test_waiting_has_a_time_limit() -> None:
    async with daemon().client() as client:
        session = await session_of(client)
        with pytest.raises(TimeoutError, match="no settled event of 's' in 0 s"):
            await session.wait_for("settled", timeout_s=0)


async def test_waiting_fails_when_the_awaited_event_may_be_lost() -> None:
    script = daemon()
    async with script.client() as client:
        session = await session_of(client)
        for seq in range(3, 14):
            script.event("s", seq, "toolFinished", content="x" * 1_000_000)
        await asyncio.sleep(0)  # the daemon's messages come before this is over
        with pytest.raises(EventsLost, match="events 3 to") as caught:
            await session.wait_for("settled")
        gap: ClientEvent = await session.wait_for("gap")
    assert (caught.value.sid, caught.value.first, caught.value.last) == ("s", 3, gap.seq)


@pytest.mark.parametrize("status", ["completed", "noop", "failed", "cancelled"])
async def test_compacting_waits_for_its_own_outcome(status: str) -> None:
    script = daemon()
    async with script.client() as client:
        session = await session_of(client)
        script.event("s", 3, "compaction", **{**COMPACTION, "compactionId": "other", "status": "failed"})
        script.event("s", 4, "compaction", **COMPACTION)
        script.event("s", 5, "compaction", **{**COMPACTION, "status": status, "summary": "in short"})
        outcome = await session.compact("windowBudget", instructions="keep the plan")
    assert (outcome.status, outcome.summary) == (status, "in short")
    assert script.params_of("sidecar/compact/start")[0]["instructions"] == "keep the plan"


async def test_an_interrupted_run_is_cancelled_at_the_daemon() -> None:
    script = daemon()
    script.answers["sidecar/turn/run"] = lambda _: NO_ANSWER
    async with script.client() as client:
        session = await session_of(client)
        task = asyncio.create_task(session.run("a long story"))
        await script.wait_for("sidecar/turn/run")
        task.cancel()
        await asyncio.wait([task])
    assert len(script.params_of("$/cancelRequest")) == 1
