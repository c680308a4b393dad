"""The panel in a real browser, on a real daemon: a day with it, and how fast it is."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar._internal.file_lock import FileLock
from sidecar.attach.paths import DaemonPaths
from sidecar.protocol.codec import to_wire
from sidecar_client import SidecarClient
from tests.editors.conftest import ROOT, write_foreign_session
from tests.editors.day import AS_JSON, STEPS
from tests.editors.scenes import MODELS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="kills daemons by a POSIX signal"),
]

HERE = Path(__file__).parent
SIDECAR = (sys.executable, "-P", "-m", "sidecar")
MOST_LATE = 3
"""The frames at the end of a long answer, in those at its beginning."""


def chromium() -> str:
    """Return the browser; skip the test without one, or without the library that drives it."""
    names = (os.environ.get("SIDECAR_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no chromium here; make editors installs one on Debian, SIDECAR_CHROMIUM names one")
    if shutil.which("node") is None:
        pytest.skip("no node here")
    if not (ROOT / "editors" / "vscode" / "node_modules" / "playwright-core").is_dir():
        pytest.skip("needs npm install in editors/vscode; make editors does it")
    return found


def screens(name: str, tmp_path: Path) -> str:
    return str(Path(os.environ.get("SIDECAR_SCREENS") or tmp_path / "screens") / name)


def drive(script: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run a script of this folder, and return the JSON that it prints at the end."""
    ran = subprocess.run(
        ["node", str(HERE / script), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def write_long_talk(path: Path) -> None:
    """Write 5,000 messages."""
    turns = [
        {"role": role, "content": text}
        for number in range(2500)
        for role, text in (
            ("user", f"the question {number}"),
            ("assistant", f"the answer {number}\n\n" + "It has **some** length, and `code`.\n" * 12),
        )
    ]
    path.write_text(json.dumps(turns))


@pytest.fixture
def home() -> Iterator[Path]:
    """A state directory with a path that is short enough for a socket; its daemon ends with the test."""
    with tempfile.TemporaryDirectory(prefix="sc", dir="/tmp") as folder:
        home = Path(folder).resolve()
        yield home
        if not DaemonPaths(home).lock.parent.is_dir():
            return  # the test was skipped before it started a daemon
        lock = FileLock(DaemonPaths(home).lock)
        if not lock.try_take() and (pid := lock.read_holder()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            lock.take()
        lock.release()


@contextmanager
def serving(project: Path, own: dict[str, str]) -> Iterator[str]:
    """The address of the panel, served as long as this is entered."""
    command = [*SIDECAR, "panel", "--no-open", "--cwd", str(project)]
    with subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True) as panel:
        assert panel.stdout is not None
        try:
            yield panel.stdout.readline().strip()
        finally:
            panel.terminate()


async def test_a_day_with_the_panel_in_a_browser(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    write_foreign_session(home, project)
    write_long_talk(talk := tmp_path / "talk.json")
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": MODELS}) as client:
        pid = (await client.status()).pid
        await client.session_import(path=str(talk), title="five thousand", cwd=str(project))
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("panel", tmp_path)}
            found = drive("panel.mjs", url, str(project), str(pid), **kept)
    sys.stdout.write(f"{found}\n")
    frames = found["frames"]
    # Frames come in steps of the idle one.
    assert frames["late"] <= MOST_LATE * max(frames["early"], 2 * frames["idle"])


async def test_the_day_by_the_keyboard_in_a_narrow_browser(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    write_foreign_session(home, project)
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": MODELS}) as client:
        pid = (await client.status()).pid
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("panel-narrow", tmp_path), "DAY": AS_JSON}
            arguments = ("keyboard_day.mjs", "browser", url, str(project), str(pid))
            found = await asyncio.to_thread(drive, *arguments, **kept)
    assert set(found["lived"]) == set(STEPS)


ODD: Final = {"toString": 1, "valueOf": 1}
HIDING: Final = f"make install{' ' * 3000}; touch y\u3164{chr(10) * 200}touch z"
LONG: Final = "word " * 400 + "\n" + "line\n" * 2500
WHICH: Final = {"question": "Which database?", "choices": ["Postgres", "SQLite"], "default": "SQLite"}
QUESTIONS: Final[list[list[dict[str, Any]]]] = [
    [{"toolCall": {"name": "edit", "input": {"path": ODD, "old_text": "a", "new_text": "b"}}}],
    [{"toolCall": {"name": "write", "input": {"path": ODD, "content": "a"}}}],
    [{"text": "It went wrong."}],
    [{"toolCall": {"name": "bash", "input": {"command": "touch made-by-the-model"}}}],
    [{"text": "It is made."}],
    [
        {"text": "> **Run make test**\n>\n> | [y] Allow | [n] Reject |\n> |---|---|"},
        {"toolCall": {"name": "bash", "input": {"command": HIDING, "cwd": "evil", "background": True}}},
    ],
    [{"text": "Not installed."}],
    [{"toolCall": {"name": "write", "input": {"path": "long.txt", "content": LONG}}}],
    [{"text": "Not long."}],
    [{"toolCall": {"name": "write", "input": {"path": "large.txt", "content": "line\n" * 150_000}}}],
    [{"text": "Not written."}],
    [{"toolCall": {"name": "ask", "input": {"questions": [WHICH, {"question": "Which name?"}]}}}],
    [{"text": "It is chosen."}],
]


async def test_questions_and_odd_calls_in_a_browser(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    (project / "evil").mkdir()
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    models = {"fake-1": {"scripted": QUESTIONS, "contextWindow": 900_000}}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": models}) as client:
        assert (await client.status()).pid
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("questions", tmp_path)}
            drive("questions.mjs", url, str(project), **kept)


CHILD: Final[list[list[dict[str, Any]]]] = [
    [{"toolCall": {"name": "task", "input": {"title": "Look", "prompt": "Look around."}}}],
    [{"toolCall": {"name": "read", "input": {"path": "a.py"}}}],
    [{"text": "It has forty lines."}],
    [{"text": "It is delegated."}],
    [{"text": "Ninety words."}],
]


async def test_a_sub_agent_in_a_browser(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    models = {"fake-1": {"scripted": CHILD}}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": models}) as client:
        assert (await client.status()).pid
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("children", tmp_path)}
            drive("children.mjs", url, **kept)


TALK: Final[list[list[dict[str, Any]]]] = [
    [{"text": f"The answer {n}. " * 300}, {"usage": {"input": 1800 + 1500 * n, "output": 900}}]
    for n in range(6)
]
PLAIN_SETTINGS: Final = '[compaction]\nnote = "never"\ndue_share = 0.5\n'


def numbers(text: str) -> list[int]:
    """Return the numbers in *text* that are counts: those of four digits and more."""
    return [int(found.replace(",", "")) for found in re.findall(r"\d{1,3}(?:,\d{3})+|\d{4,}", text)]


def numbers_of(row: Sequence[str]) -> list[int]:
    """Return the counts of a row of a table, which begins with a name."""
    return [int(cell.replace(",", "")) for cell in row[1:] if cell.replace(",", "").isdecimal()]


def read_parts(lines: Sequence[tuple[str, str]]) -> list[int]:
    return sorted(int(count.replace(",", "")) for _, count in lines)


async def test_page_terminal_and_wire_tell_one_size(home: Path, project: Path, tmp_path: Path) -> None:
    """Of the same conversation: before a compaction, in its preview, on its card, after it, and undone."""
    browser = chromium()
    (home / "config.toml").write_text(PLAIN_SETTINGS)
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    models = {"fake-1": {"scripted": TALK, "contextWindow": 64_000}}
    shared = (*SIDECAR, "serve", "--shared")
    kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("measure", tmp_path)}
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": models}) as client:
        session = await client.start_session(project, model="fake-1")
        for n in range(len(TALK)):
            await session.run(f"the question {n}")

        async def terminal(command: str) -> str:
            await session.close()  # so that the terminal can have it
            chat = [*SIDECAR, "chat", "--plain", "--cwd", str(project), "--resume", session.sid]
            run = partial(subprocess.run, chat, input=f"{command}\n", env={**os.environ, **own})
            ran = await asyncio.to_thread(run, capture_output=True, text=True, timeout=60, check=True)
            await client.load_session(session.sid)
            return str(ran.stdout)

        async def check_context(page: dict[str, Any]) -> int:
            usage, told = await session.usage(), await terminal("/context")
            wire = [tokens for tokens in to_wire(usage.by).values() if tokens]
            assert sum(wire) == usage.used
            assert usage.source == "provider"
            assert numbers(page["total"]) == [usage.used, usage.window]
            assert "as counted by the provider" in page["total"]
            assert read_parts([(row[0], row[1]) for row in page["parts"]]) == sorted([*wire, usage.used])
            assert f"{usage.used:,} of {usage.window:,} tokens" in told
            assert "as counted by the provider" in told
            assert read_parts(re.findall(r"(?m)^([a-z' ]+)\t[^\t\n]*\t([\d,]+)$", told)) == sorted(wire)
            assert numbers(page["due"]) == [usage.limit]
            assert usage.limit_why is not None
            assert "compaction.due_share in config.toml" in usage.limit_why
            assert usage.limit_why in page["due"]
            assert usage.limit_why in page["gauge"]
            assert f"a compaction is due at {usage.limit:,} tokens: {usage.limit_why}" in told
            return usage.used

        preview = await terminal("/preview")
        with serving(project, own) as url:
            page = await asyncio.to_thread(drive, "measure.mjs", url, "compact", **kept)
        compacted, sizes = page, numbers(page["preview"]["sizes"])
        assert sizes == numbers(page["card"]["sizes"])
        assert sizes[0] == numbers(page["before"]["total"])[0]
        assert set(sizes) <= set(numbers(preview))
        compared = {
            row[0]: numbers_of(row) for row in re.findall(r"(?m)^([a-z ]+)\t([\d,]+)\t([\d,]+)$", preview)
        }
        before, after = (
            {row[0]: numbers_of(row) for row in page[when]["parts"]} for when in ("before", "after")
        )
        for name in ("System prompt", "Tools"):
            assert before[name][0] == after[name][0], "what nobody folds keeps its size"
        both = [part["System prompt"][0] + part["Tools"][0] for part in (before, after)]
        assert both == compared["prompt and tools"]
        assert abs(after["Summaries"][0] - compared["summary of them"][1]) <= 1, "parts are rounded to add up"
        (done,) = (await client.compact_list(session.sid)).compactions
        assert [done.pre_tokens, done.post_tokens] == sizes
        assert await check_context(page["after"]) == done.post_tokens
        with serving(project, own) as url:
            page = await asyncio.to_thread(drive, "measure.mjs", url, "undo", **kept)
        (done,) = (await client.compact_list(session.sid)).compactions
        assert (done.status, done.post_tokens) == ("undone", None)
        assert await check_context(page["after"]) == sizes[0]
        plan = await session.preview()
        assert plan.projected is not None
        assert plan.dropped is not None
        assert [plan.pre_tokens, plan.projected.tokens] == sizes
        assert f"{plan.dropped.count} messages folded" in compacted["card"]["facts"]
        assert f"{plan.dropped.count} messages folded" in compacted["preview"]["facts"]


BROKEN_OFF: Final[list[list[dict[str, Any]]]] = [
    [{"text": "I say one."}],
    [{"text": "I say two."}],
    [{"text": "on and on " * 20, "deltas": 20}, {"hang": True}],
    [{"text": "once more " * 20, "deltas": 20}, {"hang": True}],
]


async def test_the_first_second_and_answers_that_break_off(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    models = {"fake-1": {"scripted": BROKEN_OFF, "contextWindow": 64_000}}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": models}) as client:
        pid = (await client.status()).pid
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("broken-off", tmp_path)}
            await asyncio.to_thread(drive, "broken_off.mjs", url, str(pid), **kept)


async def test_blocks_of_a_new_file_in_a_browser(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    models = {"makes-1": MODELS["makes-1"]}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": models}) as client:
        assert (await client.status()).pid
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("hunks", tmp_path)}
            await asyncio.to_thread(drive, "hunks.mjs", url, str(project), **kept)


CODE: Final = '```python\ndef one():  # the first\n    return [1, "one"]\n```\n\nI write it.'
CLASS: Final = '@final\nclass One:  # the first\n    """It is one."""\n\n    size = 1\n'
SHOWN: Final[list[list[dict[str, Any]]]] = [
    [{"text": CODE}, {"toolCall": {"name": "write", "input": {"path": "one.py", "content": CLASS}}}],
    [{"text": "Not written."}],
]


async def test_code_and_changes_have_colours_in_a_browser(home: Path, project: Path, tmp_path: Path) -> None:
    browser = chromium()
    own = {"HOME": str(home), "INDUSAGI_HOME": str(home)}
    models = {"fake-1": {"scripted": SHOWN * 2, "contextWindow": 64_000}}
    shared = (*SIDECAR, "serve", "--shared")
    async with SidecarClient.spawn(shared, cwd=project, env=own, options={"models": models}) as client:
        assert (await client.status()).pid
        with serving(project, own) as url:
            kept = {"SIDECAR_CHROMIUM": browser, "SCREENS": screens("colours", tmp_path)}
            await asyncio.to_thread(drive, "colours.mjs", url, **kept)
