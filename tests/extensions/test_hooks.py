"""Hooks: input, verdict, bounds, and the end of everything that they start."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import HookVerdict, ToolReply
from sidecar.extensions.contract import Hook
from sidecar.extensions.hooks import NOTE_CHARS, HookGuard, Hooks

pytestmark = [pytest.mark.processes, pytest.mark.skipif(os.name == "nt", reason="POSIX shells")]


class Room:
    """A folder to run hooks in, with their warnings and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warnings: list[tuple[str, str]] = []
        self.n_running = 0

    def started(self, pid: int, name: str) -> Callable[[], None]:
        self.n_running += 1

        def on_gone() -> None:
            self.n_running -= 1

        return on_gone

    def hooks(self, *commands: str | Hook) -> Hooks:
        hooks = [each if isinstance(each, Hook) else Hook(event="prompt", command=each) for each in commands]
        warn = lambda title, text: self.warnings.append((title, text))  # noqa: E731
        return Hooks(hooks, "s1", self.folder, self.started, warn)

    async def run(self, *commands: str | Hook, **details: Any) -> HookVerdict:
        return await self.hooks(*commands).run("prompt", details, CancelToken())


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


async def test_a_hook_is_given_json_and_its_output_is_a_note(room: Room) -> None:
    verdict = await room.run("cat > seen.json; echo careful", prompt="do it")
    assert verdict == HookVerdict(None, "careful")
    assert json.loads((room.folder / "seen.json").read_text()) == {
        "event": "prompt",
        "sessionId": "s1",
        "cwd": str(room.folder),
        "prompt": "do it",
    }
    assert (room.warnings, room.n_running) == ([], 0)


async def test_exit_code_2_refuses_with_the_reason(room: Room) -> None:
    verdict = await room.run("echo one", "echo not today >&2; exit 2", "touch never")
    assert verdict == HookVerdict("not today", "one")
    assert not (room.folder / "never").exists()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param("echo oops >&2; exit 3", "exit code 3: oops", id="another exit code"),
        pytest.param("no-such-program-at-all", "exit code 127", id="no such program"),
        pytest.param(Hook(event="prompt", command="sleep 60", timeout_s=0.2), "after 0.2 s", id="too slow"),
    ],
)
async def test_a_hook_that_fails_is_told_and_the_work_goes_on(
    room: Room, command: str | Hook, why: str
) -> None:
    assert await room.run(command, "echo next") == HookVerdict(None, "next")
    ((_, text),) = room.warnings
    assert why in text


async def test_what_a_hook_prints_is_bounded_and_need_not_be_read(room: Room) -> None:
    verdict = await room.run("exec 0<&-; head -c 3000000 /dev/zero | tr '\\0' x", prompt="y" * 1_000_000)
    assert len(verdict.note) == NOTE_CHARS + len(" [cut]")


async def test_everything_that_a_hook_starts_ends_with_it(room: Room) -> None:
    os.mkfifo(room.folder / "life")
    started = "(exec 9>life; exec sleep 1000) & (setsid sh -c 'exec 8>life; exec sleep 1000') & "
    reader = os.open(room.folder / "life", os.O_RDONLY | os.O_NONBLOCK)
    hook = Hook(event="prompt", command=f"{started} sleep 1000", timeout_s=0.5)
    async with asyncio.timeout(60):
        await room.run(hook)
    os.set_blocking(reader, True)
    assert await asyncio.to_thread(os.read, reader, 1) == b""
    os.close(reader)
    assert room.n_running == 0


async def test_a_cancelled_call_ends_its_hook(room: Room) -> None:
    cancel = CancelToken()
    asyncio.get_running_loop().call_later(0.1, cancel.cancel, "stopped")
    async with asyncio.timeout(60):
        verdict = await room.hooks("sleep 1000", "touch never").run("prompt", {}, cancel)
    assert verdict == HookVerdict()
    assert not (room.folder / "never").exists()
    assert room.warnings == []


async def test_hooks_of_tools_are_chosen_by_name(room: Room) -> None:
    before = Hook(event="beforeTool", command="echo no >&2; exit 2", tools=("edit", "mcp__*"))
    after = Hook(event="afterTool", command="cat > after.json", tools=("read",))
    guard = HookGuard(lambda: room.hooks(before, after))
    assert (await guard.before("mcp__git__push", {}, CancelToken())).refusal == "no"
    assert (await guard.before("read", {}, CancelToken())).refusal is None
    await guard.after("read", {"path": "a"}, ToolReply("text", is_error=True), CancelToken())
    told = json.loads((room.folder / "after.json").read_text())
    assert (told["tool"], told["input"], told["output"], told["isError"]) == (
        "read",
        {"path": "a"},
        "text",
        True,
    )


async def test_hooks_get_no_secrets(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    assert (await room.run("echo [$SOME_API_KEY]")).note == "[]"
