"""What searching and typing cost, as ratios of the same run, and how long the event loop is ever held up."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fake_tools import RecordedReads
from measures import fastest, measured, tell
from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import PermissionDecision, ToolContext
from sidecar.capabilities.grep import GREP
from sidecar.capabilities.read import READ
from sidecar.workspace.contract import TextChange, TextRange
from sidecar.workspace.line_index import LineText
from sidecar.workspace.paths import path_to_uri
from sidecar.workspace.workspace import Workspace

pytestmark = pytest.mark.processes
"""A search runs in a process of its own."""

N_FILES = 10_000
LINES = "".join(f"    value_{n} = compute(value_{n - 1}, offset={n})  # some comment\n" for n in range(60))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of 10,000 source files, one in a hundred with a needle, and a few ignore rules."""
    root = tmp_path_factory.mktemp("tree").resolve()
    (root / ".gitignore").write_text("*.log\n/out/\n*.py[cod]\n!keep.log\n.cache/\n")
    for folder in range(100):
        (root / f"package_{folder:03}").mkdir()
        for number in range(N_FILES // 100):
            needle = "def needle_function(self):\n" if number == 7 else ""
            (root / f"package_{folder:03}" / f"module_{number:03}.py").write_text(LINES + needle)
    return root


def context_for(root: Path, workspace: Workspace) -> ToolContext:
    async def yes(ask: object) -> PermissionDecision:
        return PermissionDecision(True)

    return ToolContext(
        call_id="c",
        cwd=root,
        roots=(root,),
        workspace=workspace,
        reads=RecordedReads(workspace.tracker("s", lambda stale: None)),
        ask=yes,
        progress=lambda text: None,
        set_plan=lambda plan: None,
        child_started=lambda pid, what: lambda: None,
        max_output_chars=30_000,
    )


def search_plainly(paths: list[str], pattern: re.Pattern[bytes]) -> int:
    """Do the least there is to do: open, read, search the bytes; the paths are given."""
    found = 0
    for path in paths:
        with open(path, "rb") as file:
            found += len(pattern.findall(file.read()))
    return found


async def search_with_the_tool(root: Path, pattern: str) -> int:
    workspace = Workspace()
    reply = await GREP.run({"pattern": pattern}, context_for(root, workspace), CancelToken())
    await workspace.close()
    return str(reply.output).count("needle_function")


def best_of(n: int, run: Callable[[], object]) -> float:
    """Return the shortest of *n* runs, in seconds."""
    times = []
    for _ in range(n):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("needle_function", id="plain text"),
        pytest.param(r"def\s+needle_\w+\(", id="regular expression"),
        pytest.param(r"(?:class|def) \w*(?:needle|Needle)_?(?:function|Function)\b", id="alternatives"),
    ],
)
def test_grep_against_a_plain_loop(benchmark: BenchmarkFixture, tree: Path, pattern: str) -> None:
    """At most 1.5 times a bare loop over the same files; process start, ignore rules and all."""
    compiled = re.compile(pattern.encode())
    paths = sorted(str(path) for path in tree.rglob("*.py"))
    assert search_plainly(paths, compiled) == asyncio.run(search_with_the_tool(tree, pattern)) == 100
    plain_s = best_of(3, lambda: search_plainly(paths, compiled))
    tool_s = best_of(3, lambda: asyncio.run(search_with_the_tool(tree, pattern)))
    benchmark.pedantic(lambda: asyncio.run(search_with_the_tool(tree, pattern)), rounds=1)  # type: ignore[no-untyped-call]  # it has no types
    print(f"\ngrep {pattern!r}: {tool_s / plain_s:.2f} of a plain loop ({tool_s:.3f} s of {plain_s:.3f} s)")
    assert tool_s <= 1.5 * plain_s


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
def test_grep_against_ripgrep(benchmark: BenchmarkFixture, tree: Path) -> None:
    """By processor time, that of the children included, for a word in one file of a hundred."""
    workspace = Workspace()
    context = context_for(tree, workspace)

    def search() -> None:
        asyncio.run(GREP.run({"pattern": "needle_function"}, context, CancelToken()))

    def ripgrep() -> None:
        subprocess.run(["rg", "--line-number", "needle_function", tree], capture_output=True, check=True)

    def used_s(work: Callable[[], object]) -> float:
        before = sum(os.times()[:4])
        work()
        return sum(os.times()[:4]) - before

    def measure() -> tuple[float, float]:
        times_s = [(used_s(ripgrep), used_s(search)) for _ in range(5)]
        return min(rg_s for rg_s, _ in times_s), min(own_s for _, own_s in times_s)

    rg_s, own_s = measured(benchmark, measure)
    tell(f"grep: {own_s / rg_s:.1f}x of ripgrep ({own_s:.2f} s of {rg_s:.2f} s)")
    assert own_s <= 4 * rg_s


def test_a_read_costs_a_few_bare_reads(benchmark: BenchmarkFixture, tree: Path) -> None:
    """Of a small file, by the tool, against one in a thread: one hand-over, links, permission and numbers."""
    path, n_reads = tree / "package_000" / "module_000.py", 200

    async def measure() -> tuple[float, float]:
        workspace, times_s = Workspace(), list[tuple[float, float]]()
        context, cancel = context_for(tree, workspace), CancelToken()
        for _ in range(20):
            began = time.process_time()
            for _ in range(n_reads):
                await asyncio.to_thread(path.read_text)
            between = time.process_time()
            for _ in range(n_reads):
                await READ.run({"path": str(path)}, context, cancel)
            times_s.append((between - began, time.process_time() - between))
        await workspace.close()
        return min(bare_s for bare_s, _ in times_s), min(tool_s for _, tool_s in times_s)

    bare_s, tool_s = measured(benchmark, lambda: asyncio.run(measure()))
    tell(f"a read: {tool_s / bare_s:.1f}x of a bare one in a thread ({tool_s / n_reads * 1e6:.0f} us)")
    assert tool_s <= 7 * bare_s


def type_into(text: LineText, line: int, n_keys: int) -> None:
    """Type *n_keys* characters, with a line end now and then, as an editor reports them."""
    for key in range(n_keys):
        at = TextRange(line, 0, line, 0)
        text.apply(TextChange("\n" if key % 20 == 0 else "x", at), "utf-16")


def test_a_keystroke_costs_its_line_and_not_the_file(benchmark: BenchmarkFixture) -> None:
    """In a buffer of 100,000 lines a keystroke costs little more than in one of 1,000."""
    line = "some line of ordinary length, with words in it\n"
    small, large = LineText(line * 1_000), LineText(line * 100_000)
    type_into(small, 500, 1)
    type_into(large, 50_000, 1)
    small_s = best_of(5, lambda: type_into(small, 500, 1000))
    large_s = best_of(5, lambda: type_into(large, 50_000, 1000))
    benchmark.pedantic(lambda: type_into(large, 50_000, 1000), rounds=1)  # type: ignore[no-untyped-call]  # it has no types
    print(f"\na keystroke in 100k lines: {large_s / small_s:.2f} of one in 1k ({large_s * 1000:.1f} us)")
    assert large_s <= 5 * small_s


@dataclass
class Heart:
    """Beats on the event loop, and knows the longest time between two beats."""

    longest_s: float = 0.0

    async def beat(self) -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.longest_s, last = max(self.longest_s, now - last), now


async def longest_stall_s(work: Awaitable[object]) -> float:
    """Return the longest time that *work* held up the event loop."""
    heart = Heart()
    beating = asyncio.ensure_future(heart.beat())
    await asyncio.sleep(0.01)
    await work
    beating.cancel()
    return heart.longest_s


MOST_PASSES = 3
"""The loop waits at most as long as it takes to divide 10 MB into lines so often."""

TEN_MB = "some line of ordinary length, with words in it\n" * 205_000


async def read_ten_mb(root: Path, workspace: Workspace) -> None:
    await READ.run({"path": "big.txt"}, context_for(root, workspace), CancelToken())


async def type_into_ten_mb(root: Path, workspace: Workspace) -> None:
    path = root / "big.txt"
    uri = path_to_uri(path)
    editor = workspace.editor()
    editor.open_buffer(uri, version=1, text=TEN_MB)
    view = await workspace.view(path)
    workspace.tracker("s", lambda stale: None).expect(view.path, view.uri, view.hash)
    for version in range(2, 50):
        at = TextRange(100_000, 5, 100_000, 5)
        editor.change_buffer(uri, version=version, changes=[TextChange("x", at)], encoding="utf-16")
        await asyncio.sleep(0)
    await workspace.settle()


async def write_ten_mb(root: Path, workspace: Workspace) -> None:
    await workspace.write(root / "copy.txt", TEN_MB, expected_hash=None)


async def grep_everything(root: Path, workspace: Workspace) -> None:
    await GREP.run({"pattern": r"(\w+)\s+=\s+never"}, context_for(root, workspace), CancelToken())


@pytest.mark.parametrize("work", [read_ten_mb, type_into_ten_mb, write_ten_mb, grep_everything])
def test_the_event_loop_is_never_held_up(
    benchmark: BenchmarkFixture, tree: Path, work: Callable[[Path, Workspace], Awaitable[None]]
) -> None:
    """Whatever the size of the work, nothing else waits for more than a few passes over 10 MB."""
    (tree / "big.txt").write_text(TEN_MB)

    async def measure() -> float:
        workspace = Workspace(limit_bytes=20_000_000)
        stall_s = await longest_stall_s(work(tree, workspace))
        await workspace.close()
        (tree / "copy.txt").unlink(missing_ok=True)
        return stall_s

    stalls_s = [asyncio.run(measure()) for _ in range(3)]
    benchmark.pedantic(lambda: asyncio.run(measure()), rounds=1)  # type: ignore[no-untyped-call]  # it has no types
    (pass_s,) = fastest(TEN_MB.splitlines, rounds=3)
    passes = min(stalls_s) / pass_s
    print(f"\n{work.__name__}: the event loop waited {min(stalls_s) * 1000:.0f} ms, {passes:.1f} passes")
    assert passes < MOST_PASSES
