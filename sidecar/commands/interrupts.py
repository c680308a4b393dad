"""Ctrl-C, and being told to end: what runs is stopped in order, and nothing is left half done.

What a command has changed it puts back on its way out, so every way out is a cancellation of its one task.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, Final, Self, TypeAlias

__all__ = ["INTERRUPTED", "Interrupts", "ended_by_signals"]

INTERRUPTED: Final = 130
"""The exit code of a command that was interrupted, as shells have it."""

_Handler: TypeAlias = Callable[[int, FrameType | None], object]
_Before: TypeAlias = list[tuple[signal.Signals, Any]]
"""Signals and what was done at them before."""


class Interrupts:
    """Ctrl-C while it is entered: it stops what runs; when nothing can be stopped any more, it leaves.

    To leave is to cancel the task that has entered it.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], object] | None = None
        self._before: _Before = []

    def __enter__(self) -> Self:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        handlers: dict[signal.Signals, Callable[[], object]] = dict.fromkeys(_ending(), task.cancel)
        handlers[signal.SIGINT] = partial(self._pressed, task)
        self._before = [
            (number, signal.signal(number, _calling(loop, handler))) for number, handler in handlers.items()
        ]
        return self

    def __exit__(self, *_exc: object) -> None:
        _restore(self._before)

    @contextlib.contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call *stop* at the first Ctrl-C inside; the second leaves."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def _pressed(self, task: asyncio.Task[object]) -> None:
        stop, self._stop = self._stop, None
        if stop is None:
            task.cancel()
        else:
            stop()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what runs inside as Ctrl-C does, so that it can put things back."""
    before = [(number, signal.signal(number, _raise_interrupt)) for number in _ending()]
    try:
        yield
    finally:
        _restore(before)


def _ending() -> list[signal.Signals]:
    """Return the signals that tell a program to end and that its starter has not had ignored."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        return []
    found = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP", "SIGBREAK")]
    return [number for number in found if number and signal.getsignal(number) is not signal.SIG_IGN]


def _calling(loop: asyncio.AbstractEventLoop, handler: Callable[[], object]) -> _Handler:
    # Works on every system, where loop.add_signal_handler does not.
    return lambda _number, _frame: loop.call_soon_threadsafe(handler)


def _raise_interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def _restore(before: _Before) -> None:
    for number, handler in before:
        signal.signal(number, handler)
