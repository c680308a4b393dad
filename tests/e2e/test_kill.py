"""``kill -9`` at any moment of turns, compactions and undos: the next daemon has all that was acknowledged.

``make crash`` kills a daemon a hundred times, the suite twice; ``CRASH_SEED=2`` chooses other moments.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from scripted_sessions import DONE, call
from sidecar.conductor.contract import Elicitation, ElicitationAnswer
from sidecar.protocol.messages import NodeView
from sidecar_client import ClientEvent, ConnectionLost, Session, SidecarClient

if TYPE_CHECKING:
    from postgres_server import PostgresServer

N_KILLS = max(2, int(os.environ.get("CRASH_POINTS", "0")) // 100)
SEED = os.environ.get("CRASH_SEED", "1")
N_SESSIONS = 3
MAX_PROMPTS = 60
ANSWER = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 8
MODELS = {"fake-1": {"scripted": [[{"text": ANSWER, "deltas": 4}]] * 500}}

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]


@dataclass
class Known:
    """The acknowledgements that a client has of one session.

    *pending* is the operation that it waits for, and *seq* the newest event that it has received.
    """

    sid: str
    head: str | None = None
    prompts: list[str] = field(default_factory=list)
    pending: str = ""
    seq: int = 0


async def work(session: Session, known: Known, choice: random.Random) -> None:
    """Change the session until the daemon is gone, and note each acknowledgement."""
    while True:
        known.pending = choice.choice(["prompt", "prompt", "prompt", "compact", "undo"])
        if known.pending == "prompt":
            prompt = f"prompt {choice.random()}"
            known.head = (await session.run(prompt)).head
            known.prompts.append(prompt)
        elif known.pending == "compact":
            done = await session.compact()
            known.head = done.after_head if done.status == "completed" else known.head
        else:
            compactions = (await session.client.compact_list(session.sid)).compactions
            if any(done.undoable and done.status == "completed" for done in compactions):
                known.head = (await session.undo(force=True)).head


async def kill_at_event(client: SidecarClient, known: Known, pid: int, n_events: int) -> None:
    """Kill the daemon when *n_events* have arrived, and note the newest number that arrives at all."""
    async for event in client.events(known.sid, known.seq):
        known.seq = max(known.seq, event.seq)
        n_events -= 1
        if n_events == 0:
            os.kill(pid, signal.SIGKILL)


async def read_all(client: SidecarClient, sid: str) -> list[NodeView]:
    """Return the nodes of all branches."""
    nodes: list[NodeView] = []
    cursor: str | None = None
    while True:
        page = await client.session_read(sid, view="full", cursor=cursor, limit=1_000)
        nodes += page.nodes
        if (cursor := page.next_cursor) is None:
            return nodes


async def check(client: SidecarClient, known: Known) -> Session:
    """Compare a session of the next daemon with the acknowledgements; return it."""
    loaded = await client.session_load(known.sid)
    assert loaded.integrity.missing == ()
    assert loaded.seq >= known.seq, "a number of an event would stand for another one"
    nodes = await read_all(client, known.sid)
    stored = {block["text"] for node in nodes for block in node.blocks if node.role == "user"}
    assert set(known.prompts) <= stored
    parents = {node.id: node.parent for node in nodes}
    path, at = set[str](), loaded.snapshot.head
    while at is not None:
        path.add(at)
        at = parents[at]
    compactions = (await client.compact_list(known.sid)).compactions
    is_compacted = any(
        done.status == "completed" and done.before_head == known.head and done.after_head in path
        for done in compactions
    )
    is_undone = any(done.status == "undone" and done.after_head in path for done in compactions)
    acknowledged = known.head is None or known.head in path
    is_whole = {"compact": is_compacted, "undo": is_undone}.get(known.pending, False)
    assert acknowledged or is_whole, known
    known.head, known.seq = loaded.snapshot.head, loaded.seq
    return Session(client, known.sid, loaded.seq)


async def kill_daemons(tmp_path: Path) -> None:
    """Run daemons and kill them, with what each of them acknowledged compared by the next."""
    choice = random.Random(SEED)
    project = tmp_path / "project"
    project.mkdir()
    environment = {"INDUSAGI_HOME": str(tmp_path / "home")}
    known: list[Known] = []
    for _ in range(N_KILLS):
        client = await SidecarClient.spawn(cwd=project, env=environment, options={"models": MODELS}).start()
        try:
            sessions = [await check(client, each) for each in known]
            if len(known) == N_SESSIONS and len(known[0].prompts) > MAX_PROMPTS:
                known, sessions = known[1:], sessions[1:]
            while len(known) < N_SESSIONS:
                sessions.append(await client.start_session(project, model="fake-1"))
                known.append(Known(sessions[-1].sid))
            pid = (await client.status()).pid
            n_events = choice.randrange(1, 120)
            tasks = [
                asyncio.create_task(work(session, each, choice))
                for session, each in zip(sessions, known, strict=True)
            ]
            killing = asyncio.create_task(kill_at_event(client, known[0], pid, n_events))
            ends = await asyncio.gather(*tasks, killing, return_exceptions=True)
            # A session of which nothing was acknowledged need not be stored.
            known = [each for each in known if each.prompts]
            assert all(end is None or isinstance(end, ConnectionLost) for end in ends), ends
        finally:
            await client.close()
    client = SidecarClient.spawn(cwd=project, env=environment, options={"models": MODELS})
    async with client:
        for each in known:
            session = await check(client, each)
            assert (await session.run("go on")).stop_reason == "end_turn"


HALF: Final = [{"text": "The first half of it, "}, {"hang": True}]
ENDS: Final[Mapping[str, Any]] = {
    "whole": [{"text": "All of it."}],
    "stopped": HALF,
    "failed": [{"error": {"kind": "http", "message": "no such model", "status": 400}}],
    "killed": HALF,
}
"""The answer of a turn, by the way in which it ends."""

SHOWN: Final[Mapping[str, Any]] = {
    "whole": ("idle", None, None),
    "stopped": ("idle", None, "cancelled"),
    "failed": ("failed", "no such model", "no such model"),
    "killed": ("failed", "the daemon ended in the middle of the turn", "interrupted"),
}
"""The state of the session after that, its text, and a value of the last event."""


async def kill_behind_turns(tmp_path: Path) -> None:
    """Let turns end in each way, kill the daemon, and compare what the next one says of them."""
    project = tmp_path / "project"
    project.mkdir()
    environment = {"INDUSAGI_HOME": str(tmp_path / "home")}
    models = {end: {"scripted": [answer]} for end, answer in ENDS.items()}
    client = await SidecarClient.spawn(cwd=project, env=environment, options={"models": models}).start()
    sids: dict[str, str] = {}
    try:
        for end in ENDS:
            session = await client.start_session(project, model=end)
            sids[end] = session.sid
            await session.prompt("explain it")
            if end in ("stopped", "killed"):
                await session.wait_for("textDelta", timeout_s=60)
            if end == "stopped":
                await session.interrupt()
            if end != "killed":
                await session.wait_for(where=lambda event: event.kind in ("settled", "faulted"), timeout_s=60)
        os.kill((await client.status()).pid, signal.SIGKILL)
    finally:
        await client.close()
    async with SidecarClient.spawn(cwd=project, env=environment, options={"models": models}) as client:
        listed = {line.sid: (line.state, line.text) for line in (await client.session_list()).sessions}
        for end, (state, text, value) in SHOWN.items():
            # Before it is loaded; in a database the dead one has it open for a while.
            assert listed[sids[end]] in ((state, text), (None, None))
            for replay in ("full", {"lastTurns": 1}):
                events = client.events(sids[end])
                loaded = await client.session_load(sids[end], replay=replay)
                assert (loaded.snapshot.state, loaded.snapshot.text) == (state, text)
                past = [event async for event in read_past(events)]
                texts = [
                    block["text"]
                    for event in past
                    if event.kind == "message"
                    for block in event.data["content"]
                ]
                last = past[-1]
                assert texts == {"whole": ["All of it."], "stopped": ["The first half of it, "]}.get(end, [])
                if value is None:
                    assert last.kind == "message"
                    continue
                assert value in (last.data.get("stopReason"), last.data.get("message"), last.data.get("kind"))
                assert (last.seq, last.data["head"]) == (0, loaded.snapshot.head)
        # What was begun anew has forgotten it.
        session = Session(client, sids["killed"], loaded.seq)
        await session.prompt("again")
        await session.wait_for("textDelta", timeout_s=60)
        assert (await client.session_load(session.sid)).snapshot.state == "working"


async def read_past(events: AsyncIterable[ClientEvent]) -> AsyncIterator[ClientEvent]:
    """Yield the events of the past, up to what every client is sent of the present."""
    async for event in events:
        if event.kind == "commandsChanged":
            return
        yield event


async def test_the_next_daemon_says_how_the_newest_turn_has_ended(tmp_path: Path) -> None:
    await kill_behind_turns(tmp_path)


@pytest.mark.postgres
async def test_and_so_does_one_with_a_database(tmp_path: Path, server: PostgresServer, database: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'store = "{server.conninfo("ann", database)}"\n')
    await kill_behind_turns(tmp_path)


async def test_a_killed_daemon_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    await kill_daemons(tmp_path)


@pytest.mark.postgres
async def test_nor_does_one_that_keeps_its_sessions_in_a_database(
    tmp_path: Path, server: PostgresServer, database: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(f'store = "{server.conninfo("ann", database)}"\n')
    await kill_daemons(tmp_path)
    assert not (home / "sessions").exists()


async def test_a_kill_under_the_question_of_a_subagent_leaves_both_sessions_to_go_on(tmp_path: Path) -> None:
    """The turn is marked as interrupted, and the question is asked again where the sub-agent is opened."""
    asks = call("ask", questions=[{"question": "Which database?"}])
    first = {"fake-1": [call("task", title="Look", prompt="Look.", model="child-1")], "child-1": [asks]}
    second = {"fake-1": [DONE], "child-1": [[{"text": "took it"}]]}
    asked: asyncio.Queue[Elicitation] = asyncio.Queue()
    may_answer = asyncio.Event()

    async def answer(form: Elicitation) -> ElicitationAnswer:
        asked.put_nowait(form)
        await may_answer.wait()
        return ElicitationAnswer("accept", {"q1": "SQLite"})

    def daemon(scripts: Mapping[str, Any]) -> SidecarClient:
        models = {name: {"scripted": script} for name, script in scripts.items()}
        environment = {"INDUSAGI_HOME": str(tmp_path / "home")}
        return SidecarClient.spawn(cwd=tmp_path, env=environment, options={"models": models}, elicit=answer)

    killed = await daemon(first).start()
    try:
        session = await killed.start_session(tmp_path, model="fake-1")
        await session.prompt("look")
        child = (await asked.get()).child
        assert child is not None
        os.kill((await killed.status()).pid, signal.SIGKILL)
    finally:
        with suppress(ConnectionLost):
            await killed.close()
    may_answer.set()
    async with daemon(second) as client, asyncio.timeout(60):
        parent = await client.session_load(session.sid)
        assert (parent.snapshot.state, parent.snapshot.open_questions) == ("failed", ())
        assert parent.snapshot.text == "the daemon ended in the middle of the turn"
        (listed,) = (await client.session_list(parent=session.sid)).sessions
        assert listed.task == "interrupted"
        assert (await Session(client, session.sid, parent.seq).run("go on")).text == "done"
        assert asked.empty(), "the session of the sub-agent is not open"
        loaded = await client.session_load(child)
        assert (await asked.get()).sid == child
        async for event in client.events(child, loaded.seq):
            if event.kind == "settled":
                break
        nodes = (await client.session_read(child)).nodes
        assert "took it" in str(nodes[-1].blocks)
        assert (await client.session_load(child)).snapshot.open_questions == ()
