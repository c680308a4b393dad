"""Ctrl-C in a command that waits."""

from __future__ import annotations

import asyncio
import signal

import pytest

from sidecar.commands.with_daemon import Interrupts


async def test_the_first_ctrl_c_stops_and_the_second_one_leaves() -> None:
    stopped = asyncio.Event()

    async def work() -> None:
        with Interrupts() as interrupts, interrupts.on_first(stopped.set):
            signal.raise_signal(signal.SIGINT)
            await stopped.wait()
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(work())


async def test_one_that_comes_while_a_turn_ends_is_for_the_prompt_behind_it() -> None:
    stopped, told = asyncio.Event(), asyncio.Event()
    with Interrupts() as interrupts:
        with interrupts.on_first(stopped.set):
            signal.raise_signal(signal.SIGINT)
            await stopped.wait()
        signal.raise_signal(signal.SIGINT)
        with interrupts.on_first(told.set):
            await told.wait()
