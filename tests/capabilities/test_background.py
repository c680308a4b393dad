"""Commands in the background: started at once, read bit by bit, ended with their session."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities.background import BASH_KILL, BASH_OUTPUT, MOST_RUNNING
from sidecar.capabilities.bash import BASH

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk, Life

pytestmark = [pytest.mark.processes, pytest.mark.skipif(os.name == "nt", reason="POSIX shells")]


async def start(desk: Desk, command: str) -> None:
    output = await desk.output(BASH, command=command, background=True)
    assert output.endswith("has been started in the background; bash_output shows its output]")


async def start_and_wait(desk: Desk, command: str) -> None:
    """Start *command* and wait until it has written a line into the named pipe ``up``."""
    os.mkfifo(desk.root / "up")
    await start(desk, command)
    assert await asyncio.to_thread((desk.root / "up").read_text) == "up\n"


async def test_a_command_goes_on_while_its_output_is_read(desk: Desk, life: Life) -> None:
    os.mkfifo(desk.root / "go")
    await start_and_wait(
        desk, f"exec 9>{life.path}; echo one; echo up > up; read line < go; echo $line; exit 3"
    )
    await desk.child_runs.wait()
    first = await desk.output(BASH_OUTPUT, id="bg1")
    assert first.endswith("[bg1: running for 0 s]")
    assert list(desk.children.values()) == [f"bash: {desk.background.get('bg1').line[:60]}"]
    await asyncio.to_thread((desk.root / "go").write_text, "two\n")
    rest = await desk.failure(BASH_OUTPUT, id="bg1", wait_s=30)
    assert first.removesuffix("[bg1: running for 0 s]") + rest == "one\ntwo\n[bg1: exit 3]"
    assert await desk.failure(BASH_OUTPUT, id="bg1") == "[bg1: exit 3]"
    await life.ends()


async def test_permission_is_asked_as_for_any_command(desk: Desk) -> None:
    desk.answer = False
    assert "not allowed by the user" in await desk.failure(BASH, command="true", background=True)
    assert desk.n_children == 0


async def test_the_model_is_told_once_unless_it_has_looked(desk: Desk) -> None:
    for command_id in ("bg1", "bg2"):
        await start(desk, "true")
        task = desk.background.get(command_id).task
        assert task is not None
        await task
    assert await desk.output(BASH_OUTPUT, id="bg2") == "[bg2: exit 0]"
    news = desk.background.take_news()
    assert news == "[the background command bg1 (true) has ended: exit 0; bash_output shows its output]"
    assert desk.background.take_news() == ""


async def test_a_command_is_ended_with_all_that_it_has_started(desk: Desk, life: Life) -> None:
    await start_and_wait(
        desk, f"exec 9>{life.path}; (setsid sleep 1000 &); echo up; echo up > up; sleep 1000"
    )
    assert await desk.output(BASH_KILL, id="bg1") == "up\n[bg1: was ended]"
    await life.ends()


async def test_the_end_of_a_session_ends_its_commands(desk: Desk, life: Life) -> None:
    await start_and_wait(desk, f"exec 9>{life.path}; echo up > up; sleep 1000")
    await desk.background.aclose()
    await life.ends()


async def test_only_so_many_run_at_once(desk: Desk) -> None:
    for _ in range(MOST_RUNNING):
        await start(desk, "sleep 1000")
    failure = await desk.failure(BASH, command="true", background=True)
    assert "8 commands are running in the background; end one with bash_kill: bg1, bg2" in failure


async def test_an_unknown_one_and_one_that_cannot_run(desk: Desk) -> None:
    assert "there is no background command 'bg7'; known are: none was" in await desk.failure(
        BASH_OUTPUT, id="bg7"
    )
    await start(desk, "a\0b")
    assert "[bg1: could not run: " in await desk.failure(BASH_OUTPUT, id="bg1", wait_s=30)


async def test_output_between_two_looks_is_bounded(desk: Desk) -> None:
    desk.max_output_chars = 3000
    await start(desk, "seq 100000")
    output = await desk.output(BASH_OUTPUT, id="bg1", wait_s=30)
    assert len(output) <= 3000
    assert "\n100000\n[bg1: exit 0]" in output
