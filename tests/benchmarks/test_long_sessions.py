"""How long requests about a long session keep everyone else waiting, and what a list of many sessions costs.

While a request is answered, the longest time is measured for which the event loop did nothing else: the work
of all threads of this process in it. The measure for it is one pass over the session that encodes each of its
messages: a request that is made on the loop costs about as much. ``LONG_SESSION`` sets the number of
messages.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from measures import fastest, like_daemon, watch
from memory_stream import MemoryClient, MemoryStream
from sidecar.boot import build
from sidecar.commands.launch import server_info
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.events import Notice
from sidecar.conductor.hub import NewSession
from sidecar.conductor.record.shelf import describe_stored
from sidecar.conversation import Entry, FileRead
from sidecar.importing.contract import ImportedSession, ImportReport
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    UserTurn,
)
from sidecar.runtime.store import SessionGraph, SessionStore, turn_to_record
from sidecar.runtime.store.node_offsets import offsets_path
from sidecar.runtime.store.place import ALL_SESSIONS
from sidecar.runtime.store.session_index import SETTLED_NS
from sidecar.server import LspConnection, LspOptions
from sidecar.service.contract import Backend

T = TypeVar("T")

N_MESSAGES = int(os.environ.get("LONG_SESSION", "100000"))
N_SESSIONS = 10_000
N_BACKLOG = 50_000
MOST_OF_PASS = 0.1
MOST_OF_STATES = 3.0
MOST_OF_SCAN = 0.6
MOST_OF_PAGE = 0.06
WORDS = "some words about the parser, its open brackets, and what came of it in the end. " * 4

REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session/load", {"replay": "full"}),
    ("session/load", {"replay": {"lastTurns": 10}}),
    ("attach", {}),
    ("session/read", {"limit": 1000}),
    ("session/read", {"limit": 1000, "cursor": str(N_MESSAGES // 2)}),
    ("session/read", {"limit": 1000, "view": "full"}),
    ("session/tree", {}),
    ("context/files", {}),
    ("context/usage", {"detail": True}),
    *(("session/export", {"format": form}) for form in ("markdown", "json", "jsonl", "claude-code", "codex")),
    ("compact/compare", {}),
    ("compact/compare", {"detail": True}),
)


class CountingStream(MemoryStream):
    """A client that reads at once, and keeps nothing; *awaited* are the answers that it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.n_bytes = 0
        self.awaited: dict[bytes, asyncio.Event] = {}

    def write(self, data: bytes) -> None:
        self.n_bytes += len(data)
        for begin, has_come in self.awaited.items():
            if begin in data:
                has_come.set()


class Caller:
    """Asks a daemon in this process, over the bytes of a language client."""

    def __init__(self, home: Path) -> None:
        self.daemon = build(home)
        self.stream = CountingStream()
        self._client = MemoryClient()
        self._client.stream = self.stream
        self._numbers = count(1)
        backend = Backend(self.daemon.service, self.daemon.workspace)
        LspConnection(self.stream, LspOptions(info=server_info(), open_backend=lambda _: backend)).start()

    async def answer(self, method: str, params: dict[str, Any]) -> None:
        """Ask, and return once the answer has gone out."""
        number = next(self._numbers)
        begin, has_come = b'"id":"r%d"' % number, asyncio.Event()
        self.stream.awaited[begin] = has_come
        self._client.ask(f"r{number}", method, params)
        await has_come.wait()
        del self.stream.awaited[begin]

    async def ask(self, method: str, params: dict[str, Any]) -> None:
        """Ask, and return once everything that the request leads to has gone out."""
        await self.answer(method, params)
        await self.answer("sidecar/nothing", {"sid": params.get("sid")})

    async def measure_waits(self, method: str, params: dict[str, Any], other: str) -> float:
        """Return the longest wait for an answer about session *other* while a request is carried out.

        It is measured in seconds of processor time.
        """
        asking = asyncio.ensure_future(self.ask(method, params))
        longest_s = 0.0
        while not asking.done():
            began = time.process_time()
            await asyncio.sleep(0)  # it comes while the loop is busy
            await self.answer("sidecar/context/usage", {"sid": other})
            longest_s = max(longest_s, time.process_time() - began)
        return longest_s

    async def measure(self, method: str, params: dict[str, Any]) -> tuple[float, float, int]:
        """Return the seconds of a request, the longest of them on the loop, and the bytes that went out."""
        before = self.stream.n_bytes
        gc.collect()
        async with watch() as stalls:
            began = time.perf_counter()
            await self.ask(method, params)
            took_s = time.perf_counter() - began
        return took_s, max(each.process_s for each in stalls), self.stream.n_bytes - before


def long_session(folder: Path, n_messages: int) -> ImportedSession:
    """Return a session of rounds of ten messages: a prompt, four reads of files, an answer."""
    graph = SessionGraph("long", clock=count().__next__)
    for number in range(n_messages // 10):
        prompt = UserTurn((TextBlock(f"{number}: fix src/m{number % 300}.py. {WORDS}"),))
        graph.append_entry(Entry(prompt, "user"))
        for call in range(4):
            call_id, path = f"c{number}-{call}", f"{folder}/src/m{(number + call) % 300}.py"
            ask = ToolCallBlock(call_id, "read", {"path": path})
            graph.append_entry(Entry(AssistantTurn((TextBlock("I look."), ask)), "assistant"))
            result = ToolTurn((ToolResultBlock(call_id, f"{number} {call} {WORDS}"),))
            read = FileRead(
                path=path, uri=f"file://{path}", hash=f"{number:032x}", source="disk", call_id=call_id
            )
            graph.append_entry(Entry(result, "tool", reads=(read,)))
        graph.append_entry(Entry(AssistantTurn((TextBlock(f"Done with {number}. {WORDS}"),)), "assistant"))
    return ImportedSession(
        cwd=str(folder),
        title="long",
        created_at=0,
        updated_at=0,
        entries=tuple(graph.entries.values()),
        leaf=graph.leaf,
        compactions=(),
        report=ImportReport(format="codex", entries={}, n_reads=0, n_compactions=0, notes={}),
    )


async def open_long(folder: Path, session: ImportedSession) -> tuple[Caller, str]:
    """Return a caller that has opened *session*, and the id of the session."""
    caller = Caller(folder / "home")
    experimental = {"sidecar": {"protocol": [1]}}
    given = {"processId": None, "rootUri": None, "capabilities": {"experimental": experimental}}
    await caller.ask("initialize", given)
    sid = (await caller.daemon.service.hub.import_session(session, NewSession(str(folder)))).sid
    await caller.ask("sidecar/session/load", {"sid": sid})
    return caller, sid


def measure_pass(session: ImportedSession) -> float:
    """Return the seconds of processor time in which each message of *session* is encoded."""
    [pass_s] = fastest(
        lambda: [msgspec.json.encode(turn_to_record(entry.turn)) for entry in session.entries], rounds=2
    )
    sys.stdout.write(f"\n{N_MESSAGES:,} messages, one pass {pass_s * 1e3:.0f} ms\n")
    return pass_s


async def measure_waits(folder: Path) -> dict[str, float]:
    """Return the longest wait of another session while a past is sent, from the store and from the log.

    Each is a share of one pass.
    """
    session = long_session(folder, N_MESSAGES)
    pass_s = measure_pass(session)
    caller, sid = await open_long(folder, session)
    hub = caller.daemon.service.hub
    other = (await hub.new(NewSession(str(folder)))).sid
    await caller.ask("sidecar/session/load", {"sid": other})
    log = hub.session(sid).record.log
    for _ in range(N_BACKLOG):
        log.append(Notice("info", WORDS))
    waits = {}
    for method, given in (("session/load", {"replay": "full"}), ("attach", {"fromSeq": log.seq - N_BACKLOG})):
        runs = [await caller.measure_waits(f"sidecar/{method}", {"sid": sid, **given}, other) for _ in "12"]
        waits[method] = min(runs) / pass_s
        times = f"{min(runs) * 1e3:.0f} ms, {waits[method]:.3f} of a pass"
        sys.stdout.write(f"\nlongest wait beside {method} of {N_MESSAGES:,} messages: {times}\n")
    await caller.daemon.service.aclose()
    return waits


async def measure_requests(folder: Path) -> dict[str, float]:
    """Return the longest stall of each request as a share of one pass."""
    session = long_session(folder, N_MESSAGES)
    pass_s = measure_pass(session)
    caller, sid = await open_long(folder, session)
    shares = {}
    for number, (method, given) in enumerate(REQUESTS):
        runs = []
        for turn in range(2):
            path = {"path": str(folder / f"export-{number}-{turn}")} if method == "session/export" else {}
            runs.append(await caller.measure(f"sidecar/{method}", {"sid": sid, **given, **path}))
        took_s, stall_s, n_bytes = map(min, zip(*runs, strict=True))
        name = " ".join((method, *map(str, given.values())))
        shares[name] = stall_s / pass_s
        times = f"{took_s * 1e3:8.1f} ms, stall {stall_s * 1e3:6.1f} ms ({shares[name]:.3f} of a pass)"
        sys.stdout.write(f"{name:30} {times}, {n_bytes / 1e3:9.1f} kB\n")
    await caller.daemon.service.aclose()
    return shares


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def test_no_request_about_a_long_session_stalls_the_others(benchmark: Any, tmp_path: Path) -> None:
    with like_daemon():
        shares = benchmark.pedantic(lambda: asyncio.run(measure_requests(tmp_path)), rounds=1)
    assert {name: share for name, share in shares.items() if share > MOST_OF_PASS} == {}


def test_a_long_past_holds_back_no_answer_about_another_session(benchmark: Any, tmp_path: Path) -> None:
    with like_daemon():
        waits = benchmark.pedantic(lambda: asyncio.run(measure_waits(tmp_path)), rounds=1)
    assert max(waits.values()) <= MOST_OF_PASS


def test_a_page_of_a_stored_session_costs_little_of_reading_it(benchmark: Any, tmp_path: Path) -> None:
    session, store = long_session(tmp_path, N_MESSAGES), SessionStore(tmp_path)
    asyncio.run(store.journal("s").adopt([], session.entries, session.leaf))
    file = tmp_path / "s.jsonl"
    while time.time_ns() < file.stat().st_ctime_ns + 2 * SETTLED_NS:
        pass  # of a file that was written a moment ago nothing is kept

    def read() -> None:
        assert len(asyncio.run(SessionStore(tmp_path).page("s", range(1000), of_path=True))) == 1000

    def read_first() -> None:
        offsets_path(file).unlink(missing_ok=True)
        read()

    def compare() -> list[float]:
        return fastest(lambda: SessionStore(tmp_path)._read("s"), read_first, read, rounds=3)

    whole_s, first_s, again_s = benchmark.pedantic(compare, rounds=1)
    times = f"{first_s * 1e3:.0f} ms, again {again_s * 1e3:.0f} ms; all {whole_s * 1e3:.0f} ms"
    sys.stdout.write(f"\n1,000 of {N_MESSAGES:,} stored messages: {times}\n")
    assert first_s <= MOST_OF_SCAN * whole_s
    assert again_s <= MOST_OF_PAGE * whole_s


def test_a_list_of_many_sessions_costs_little_more_than_a_look_at_their_files(
    benchmark: Any, tmp_path: Path
) -> None:
    meta = {"type": "meta", "cwd": "/p", "model": "m", "engine": "windowBudget", "created_at": 1}
    for number in range(N_SESSIONS):
        line = msgspec.json.encode({**meta, "sid": "", "title": f"session {number}", "updated_at": number})
        (tmp_path / f"{number:032x}.jsonl").write_bytes(line + b"\n")
    newest_ns = max(path.stat().st_ctime_ns for path in tmp_path.iterdir())
    while time.time_ns() < newest_ns + 2 * SETTLED_NS:
        pass  # files that were written a moment ago are read again

    def look() -> None:
        with os.scandir(tmp_path) as files:
            assert sum(file.stat().st_size > 0 for file in files) >= N_SESSIONS

    def list_all(store: SessionStore) -> Callable[[], object]:
        lister = store.lister(SessionSummary, describe_stored)
        return lambda: asyncio.run(lister(ALL_SESSIONS))  # type: ignore[arg-type]  # it is a coroutine

    def compare() -> tuple[float, float]:
        first = list_all(SessionStore(tmp_path))
        unread_s = seconds(first)
        states_s = min(seconds(look) for _ in range(7))
        fresh_s = min(seconds(list_all(SessionStore(tmp_path))) for _ in range(7))
        again_s = min(seconds(first) for _ in range(7))
        times = (unread_s, fresh_s, again_s, states_s)
        names = ("without an index", "a new process", "again", "only the states of the files")
        told = (f"{name} {each * 1e3:.0f} ms" for name, each in zip(names, times, strict=True))
        sys.stdout.write(f"\n{N_SESSIONS:,} sessions: {', '.join(told)}\n")
        return fresh_s / states_s, again_s / states_s

    fresh, again = benchmark.pedantic(compare, rounds=1)
    assert again <= MOST_OF_STATES
    assert fresh <= 2 * MOST_OF_STATES
