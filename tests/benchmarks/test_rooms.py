"""What the rooms cost: a linear budget step, few summariser calls, a fast index."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measures import fastest, measured, tell
from room_events import FakeSessionArchive, make_message
from sidecar.rooms import EventSource, MockAIProvider, Room, RoomContext, RoomEvent, TextContent
from sidecar.rooms.knowledge.sessions import SessionsIndex
from sidecar.rooms.knowledge.words import choose_ranking_words, query_words
from sidecar.rooms.knowledge.workspace import FilesIndex
from sidecar.rooms.memory import MemoryResult, SlidingWindowMemory, SummarizingMemory
from sidecar.rooms.memory.budget import MemoryLimits
from sidecar.rooms.memory.plan import plan_retrieve, view_with_summary
from sidecar.rooms.memory.summaries import SummaryChain

SOURCE = EventSource(channel_id="ws", channel_type="websocket")
N_FILES = 10_000
ASKED_FOR = (*"parse token budget window cache expire load user index error session read".split(),)  # noqa: SIM905
QUERIES = (
    "where is parseTokenBudget called?",
    "the window cache does not expire",
    "load_user_index",
    "src/module7/file4007.py",
    "error while the session is read: permission denied",
)


T = TypeVar("T")


def event(number: int, n_chars: int) -> RoomEvent:
    """An event of a size."""
    return RoomEvent(id=f"e{number}", room_id="r", source=SOURCE, content=TextContent("x" * n_chars))


def test_a_retrieve_grows_with_the_room_it_is_shown(benchmark: BenchmarkFixture) -> None:
    """All of it but the model: also sorting out, fingerprints and names."""
    events = [event(number, 400) for number in range(20_000)]
    current = event(-1, 10)

    def retrieve(n_events: int) -> None:
        room = RoomContext(room=Room(id="r"), recent_events=events[:n_events])
        inner = MemoryResult(events=list(events[:n_events]))
        limits = MemoryLimits(max_context_tokens=50_000)
        reading = plan_retrieve(
            inner, room, current, SummaryChain(), limits=limits, is_fresh=lambda made_at: True
        )
        assert reading.cut is not None
        view_with_summary(reading, "notes")

    half, whole = fastest(lambda: retrieve(10_000), lambda: retrieve(20_000), rounds=7)
    measured(benchmark, lambda: retrieve(20_000))
    tell(f"retrieve: 10,000 events {half * 1e3:.0f} ms, 20,000 {whole * 1e3:.0f} ms: {whole / half:.2f}x")
    assert whole / half <= 3


def test_a_summariser_is_called_once_for_many_events(benchmark: BenchmarkFixture) -> None:
    """120 turns of 250 tokens in a window of 10,000: a dozen calls, each event shown once."""
    provider = MockAIProvider(["notes " * 150])

    async def talk() -> None:
        memory = SummarizingMemory(SlidingWindowMemory(), provider, 10_000)
        events: list[RoomEvent] = []
        for number in range(120):
            events.append(event(number, 999))
            room = RoomContext(room=Room(id="r"), recent_events=events)
            await memory.retrieve("r", events[-1], room)

    measured(benchmark, lambda: asyncio.run(talk()))
    n_chars = sum(len(str(call.messages[0].content)) for call in provider.calls)
    n_turns_over = 120 - 33
    tell(f"120 turns: {len(provider.calls)} calls for {n_turns_over} turns over tier 2, {n_chars} characters")
    assert len(provider.calls) <= n_turns_over / 6
    assert n_chars <= 2 * 120 * 1000


def make_workspace(root: Path) -> list[Path]:
    """Write 10,000 files of 10 to 60 lines whose words are as uneven as those of code."""
    dice = random.Random(7)
    syllables = (
        "ba",
        "ce",
        "di",
        "fo",
        "gu",
        "ha",
        "je",
        "ki",
        "lo",
        "mu",
        "na",
        "pe",
        "ro",
        "su",
        "ta",
        "ve",
    )
    stems = ["".join(dice.choices(syllables, k=3)) for _ in range(3000)]
    stems[100:112] = ASKED_FOR
    weights = list(accumulate(1 / (rank + 20) for rank in range(len(stems))))
    paths = []
    for number in range(N_FILES):
        path = root / "src" / f"module{number % 100}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        words = iter(dice.choices(stems, cum_weights=weights, k=4 * dice.randint(10, 60)))
        lines = (
            f"    {a}{b.title()} = {c}_{d}()" for a, b, c, d in zip(words, words, words, words, strict=True)
        )
        path.write_text("\n".join(lines))
        paths.append(path)
    return paths


def test_workspace_index(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """10,000 files: the rate, a refresh without changes, one change, and queries against the bare ones."""
    paths = make_workspace(tmp_path)
    database = tmp_path / "index.db"
    source = FilesIndex(
        lambda: paths,
        Path.read_text,
        root=tmp_path,
        database=database,
        on_progress=lambda _done, _total: None,
        on_error=lambda error: pytest.fail(str(error)),
    )

    async def build() -> None:
        source.refresh()
        await source.wait_until_idle()

    async def steps() -> tuple[float, float, float, float]:
        start = time.perf_counter()
        await build()
        built = time.perf_counter()
        await build()
        refreshed = time.perf_counter()
        paths[0].write_text("parseTokenBudget")
        source.note_change(paths[0])
        await source.wait_until_idle()
        changed = time.perf_counter()
        asked = [await timed(query) for query in QUERIES * 9]
        return built - start, refreshed - built, changed - refreshed, median(asked)

    async def timed(query: str) -> float:
        start = time.perf_counter()
        assert await source.find(query, limit=5)
        return time.perf_counter() - start

    async def run() -> tuple[float, float, float, float]:
        try:
            return await steps()
        finally:
            await source.close()

    build_s, refresh_s, change_s, search_s = measured(benchmark, lambda: asyncio.run(run()))
    bare_s = bare_query_seconds(database)
    tell(
        f"{N_FILES} files: {N_FILES / build_s:.0f} files/s, unchanged {N_FILES / refresh_s:.0f} files/s, "
        f"one change {change_s * 1e3:.1f} ms, query {search_s * 1e3:.2f} ms, bare {bare_s * 1e3:.2f} ms, "
        f"{search_s / bare_s:.2f}x"
    )
    assert search_s / bare_s <= 3
    assert change_s <= build_s / 20
    assert refresh_s <= build_s / 2


def bare_query_seconds(database: Path) -> float:
    """The median of the same questions put to FTS5 directly."""
    connection = sqlite3.connect(database)
    (n_rows,) = connection.execute("SELECT count(*) FROM chunk").fetchone()
    times = []
    for query in QUERIES * 9:
        counts = {
            word: connection.execute(
                "SELECT count(*) FROM chunk WHERE chunk MATCH ?", (f'"{word}"',)
            ).fetchone()[0]
            for word in query_words(query)
        }
        match = " OR ".join(f'"{word}"' for word in choose_ranking_words(counts, n_rows, 5000))
        start = time.perf_counter()
        connection.execute(
            "SELECT rowid, rank FROM chunk WHERE chunk MATCH ? ORDER BY rank LIMIT 5", (match,)
        ).fetchall()
        times.append(time.perf_counter() - start)
    connection.close()
    return median(times)


def test_sessions_index(benchmark: BenchmarkFixture) -> None:
    """20,000 messages: the rate, and what feeding them again costs."""
    dice = random.Random(3)
    words = [f"word{number}" for number in range(5000)]
    entries = [
        make_message(f"s{number % 50}", f"n{number}", " ".join(dice.choices(words, k=60)))
        for number in range(20_000)
    ]

    async def run() -> tuple[float, float]:
        source = SessionsIndex(FakeSessionArchive(), Path("/project"), None, on_error=print)
        start = time.perf_counter()
        await source.add(entries)
        fed = time.perf_counter()
        await source.add(entries)
        again = time.perf_counter()
        await source.close()
        return fed - start, again - fed

    first_s, again_s = measured(benchmark, lambda: asyncio.run(run()))
    tell(f"20,000 messages: {20_000 / first_s:.0f}/s, unchanged {20_000 / again_s:.0f}/s")
    assert again_s <= first_s / 2
