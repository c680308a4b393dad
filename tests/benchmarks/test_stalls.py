"""How long the event loop stands still while a long session is loaded, moved, compacted, shown and closed.

The processor time of the loop counts, against that of a pass which reads every message once, in the same
run; the time of the whole process is only shown. Each figure is the best of the rounds. What does more with
each message of a conversation than to look at it takes 10 passes and more, and belongs into a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measures import fastest, like_daemon, watch
from sidecar.boot import Daemon, build
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.hub import ForkOf, NewSession
from sidecar.conductor.window.compaction.expanding import ExpandRequest
from sidecar.conversation import Entry, FileRead
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    UserTurn,
)
from sidecar.protocol import messages as m
from sidecar.runtime.store import SessionStore
from sidecar.service.handlers.session import export, tree

SHORT, LONG = 10_000, 100_000
ENGINES = ("agentcore", "summarizing", "runtime")
ROUNDS = 2
MOST_PASSES = 6


@dataclass
class Cost:
    """One operation in seconds: its longest stall, as work of all threads and of the loop; the whole time."""

    stall_s: float = float("inf")
    work_s: float = float("inf")
    total_s: float = float("inf")

    async def measure(self, work: Awaitable[Any]) -> Any:
        async with watch() as stalls:
            began = time.perf_counter()
            result = await work
            self.total_s = min(self.total_s, time.perf_counter() - began)
        self.stall_s = min(self.stall_s, max(each.process_s for each in stalls))
        self.work_s = min(self.work_s, max(each.loop_s for each in stalls))
        return result


def converse(folder: Path, n_messages: int) -> Iterator[Entry]:
    """Yield a conversation in which each prompt reads a file."""
    for number in range(n_messages // 4):
        path, call = str(folder / f"m{number % 200}.py"), f"call-{number}"
        asked = f"prompt {number}: look at {path} and mend the retry; keep the limit at {number % 17}"
        yield Entry(UserTurn((TextBlock(asked),)), "user")
        blocks = (TextBlock(f"I look at file {number}."), ToolCallBlock(call, "read", {"path": path}))
        yield Entry(AssistantTurn(blocks), "assistant")
        result = ToolResultBlock(call, f"def retry_{number}(n):\n    return n * {number}\n" * 4, False)
        read = FileRead(path=path, uri=f"file://{path}", hash=f"{number:032x}", source="disk", call_id=call)
        yield Entry(ToolTurn((result,)), "tool", reads=(read,))
        yield Entry(
            AssistantTurn((TextBlock(f"Mended {number}: it doubles now, and the tests pass."),)), "assistant"
        )


def start(home: Path) -> Daemon:
    daemon = build(home)
    daemon.models.add_scripted(
        {"fake-1": {"scripted": [[{"text": "ok"}]] * 100, "contextWindow": 100_000_000}}
    )
    return daemon


async def store_session(home: Path, folder: Path, n_messages: int) -> str:
    """Store a session with *n_messages*, with a record for each prompt, and return its id."""
    daemon = start(home)
    sid = (await daemon.service.hub.new(NewSession(str(folder), model="fake-1"))).sid
    await daemon.service.aclose()
    store = SessionStore(home / "sessions")
    [meta] = (await store.open(sid)).records[-1:]
    journal = store.journal(sid)
    await journal.load()
    await journal.append([*converse(folder, n_messages)])
    await journal.append_records([meta] * (n_messages // 4))
    return sid


def read_once(entries: Iterable[Entry]) -> int:
    """Return the characters of text in *entries*."""
    blocks = (block for entry in entries for block in entry.turn.blocks)
    return sum(len(block.text) for block in blocks if isinstance(block, TextBlock))


async def measure(home: Path, sid: str) -> tuple[dict[str, Cost], float]:
    """Return the cost of each operation, and the seconds of a pass over the conversation."""
    costs: defaultdict[str, Cost] = defaultdict(Cost)
    passes_s: list[float] = []
    for number in range(ROUNDS):
        daemon = start(home)
        hub = daemon.service.hub
        session = (await costs["load"].measure(hub.load(sid))).session
        entries = session.record.history.current
        nodes = entries.node_ids
        passes_s += fastest(partial(read_once, entries), rounds=3)
        print(f"\nround {number + 1} of {ROUNDS} with {len(nodes):,} messages ...", flush=True)
        for name, node in (("near", nodes[-5]), ("half", nodes[len(nodes) // 2 - 1]), ("far", nodes[3])):
            await costs[f"rewind {name}"].measure(session.rewind(node, expect_head=None))
            await costs[f"rewind {name} and back"].measure(session.rewind(nodes[-1], expect_head=None))
        engine = session.info.engine
        await costs["preview"].measure(session.preview(CompactionRequest(engine=engine)))
        await costs["compare"].measure(session.compare(CompactionRequest(engine=engine), detail=False))
        await costs["compact"].measure(session.compact(CompactionRequest()).outcome)
        await costs["expand"].measure(session.expand(ExpandRequest(), expect_head=None))
        await session.undo(None, force=False, expect_head=None)
        await costs["undo"].measure(session.undo(None, force=False, expect_head=None))
        await costs["drop"].measure(session.drop(nodes[4:5], expect_head=None))
        await session.rewind(nodes[-1], expect_head=None)
        client: Any = SimpleNamespace(hub=hub)
        await costs["tree"].measure(tree(client, m.SidParams(sid)))
        await costs["export"].measure(export(client, m.SessionExportParams(sid)))
        fork = await costs["fork"].measure(hub.fork(ForkOf(sid, nodes[len(nodes) // 2 - 1])))
        await costs["close"].measure(hub.close(fork.sid))
        await hub.delete(fork.sid)
        for other in ENGINES:
            await costs[f"choose {other}"].measure(session.choose("engine", other))
            await costs[f"plan {other}"].measure(session.preview(CompactionRequest(engine=other)))
            await costs[f"judge {other}"].measure(session.judge(CompactionRequest()))
            done = await costs[f"compact {other}"].measure(session.compact(CompactionRequest()).outcome)
            if done.undoable:
                undone = session.undo(done.compaction_id, force=True, expect_head=None)
                await costs[f"undo {other}"].measure(undone)
        await session.choose("engine", engine)
        await daemon.service.aclose()
    return costs, min(passes_s)


def test_nothing_that_moves_a_long_conversation_stalls_the_loop(benchmark: Any, tmp_path: Path) -> None:
    async def run(n_messages: int) -> tuple[dict[str, Cost], float]:
        home = tmp_path / f"home-{n_messages}"
        sid = await store_session(home, tmp_path, n_messages)
        return await measure(home, sid)

    def run_both() -> tuple[dict[str, Cost], dict[str, Cost], float]:
        with like_daemon():
            short, _ = asyncio.run(run(SHORT))
            return short, *asyncio.run(run(LONG))

    short, long, pass_s = benchmark.pedantic(run_both, rounds=1)
    print(f"\na pass over {LONG:,} messages: {1e3 * pass_s:.0f} ms")
    for name, cost in long.items():
        growth = cost.total_s / short[name].total_s
        print(
            f"{name:22} {LONG:,} messages: work {1e3 * cost.work_s:4.0f} ms, {cost.work_s / pass_s:.1f} "
            f"passes, stall {1e3 * cost.stall_s:4.0f} ms; "
            f"whole {cost.total_s:5.2f} s, {growth:4.1f} times that of {SHORT:,}"
        )
    assert max(cost.work_s for cost in long.values()) <= MOST_PASSES * pass_s
