"""Running a command with a daemon of its own: start, errors as messages, Ctrl-C and other signals.

A command puts its changes back on its way out, so every way out is a cancellation of its one task.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from sidecar._internal.env import expand_home, indusagi_home
from sidecar_client import (
    ConnectionLost,
    ElicitHandler,
    PermissionHandler,
    Setup,
    SidecarClient,
    SidecarClientError,
    SidecarRequestError,
    reject,
)

INTERRUPTED: Final = 130
"""The exit code of a command that was interrupted, as shells have it."""

_NEXT_STEPS: Final = {
    "sessionNotFound": '"sidecar sessions" lists the stored ones',
    "compactionNotFound": "/compact makes one",
}
"""The next step by kind of error, where a terminal user has another one than a client of the protocol."""

_WRONG_ARGUMENTS: Final = ("modelNotFound", "invalidParams")
_METHOD: Final = re.compile(r"\bsidecar/[a-z]+")
"""A method of the protocol, which nobody can call from a terminal."""


def run_with_daemon(
    main: Callable[[SidecarClient], Awaitable[int]],
    cwd: str | Path,
    *,
    permission: PermissionHandler = reject,
    elicit: ElicitHandler | None = None,
    joins: bool = False,
) -> int:
    """Run *main* with a client of a new daemon, and return its exit code.

    Args:
        main: the work of the command.
        cwd: the folder that the daemon works in; 2 is returned when it is not a folder.
        permission: answers the daemon's permission requests.
        elicit: answers forms, None where nobody can.
        joins: join the shared daemon where one is running.
    """
    folder = expand_home(str(cwd))

    async def work() -> int:
        setup: Setup = {"permission": permission, **({"elicit": elicit} if elicit else {})}
        client = make_client(folder, setup) if joins else SidecarClient.spawn(cwd=folder, **setup)
        async with client:
            return await main(client)

    return run_to_end(work) if check_folder(cwd) else 2


def check_folder(cwd: str | Path) -> bool:
    """Whether *cwd* is a folder; else the user is told."""
    folder = expand_home(str(cwd))
    if not os.path.isdir(folder):
        found = "this is not a folder" if os.path.exists(folder) else "this folder does not exist"
        report_problem(f"sidecar: {cwd}: {found}; name another folder, or leave it out to work here")
        return False
    return True


def make_client(folder: Path, setup: Setup) -> SidecarClient:
    """Return a client of the shared daemon when one is running, else of a daemon of its own in *folder*."""
    if sys.platform != "win32":  # there the shared daemon has no unix socket
        from sidecar.attach.connecting import is_answering
        from sidecar.attach.paths import DaemonPaths

        paths = DaemonPaths(indusagi_home())
        if is_answering(paths):
            return SidecarClient.connect(paths.socket, **setup)
    return SidecarClient.spawn(cwd=folder, **setup)


def run_to_end(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run *work* and return its exit code: 1 when the daemon fails, 130 when it is interrupted.

    It is 2 when the daemon refuses an argument, such as the name of a model.

    SIGTERM and SIGHUP interrupt it as Ctrl-C does, so that it can put its changes back; also in the
    background, where shells have Ctrl-C ignored.
    """

    async def run() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt(_number: int, _frame: object) -> None:
            loop.call_soon_threadsafe(task.cancel)

        saved: list[tuple[signal.Signals, Any]] = []
        if threading.current_thread() is threading.main_thread():  # only there can signals be handled
            found = (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP", "SIGBREAK"))
            # One that was inherited as ignored stays so.
            numbers = [each for each in found if each and signal.getsignal(each) is not signal.SIG_IGN]
            saved = [(number, signal.signal(number, interrupt)) for number in numbers]
        try:
            return await work()
        finally:
            for number, handler in saved:
                signal.signal(number, handler)

    try:
        return asyncio.run(run())
    except SidecarClientError as error:
        report_problem(f"sidecar: {format_error(error)}")
        is_wrong = isinstance(error, SidecarRequestError) and error.kind in _WRONG_ARGUMENTS
        return 2 if is_wrong else 1
    except asyncio.CancelledError:
        return INTERRUPTED


def report_problem(text: str) -> None:
    """Write an error message to standard error."""
    from sidecar.commands.terminal import Screen  # not above: a daemon is started before a screen is loaded

    Screen(sys.stderr).problem(text)


def format_error(error: SidecarClientError) -> str:
    """Return *error* as a message for the user, with the next step."""
    if isinstance(error, SidecarRequestError):
        hint = _NEXT_STEPS.get(error.kind) or without_wire_words(error.hint or "")
        return f"{error.message}; {hint}" if hint else error.message
    if isinstance(error, ConnectionLost):
        return f'{error}\n"sidecar doctor" looks for the cause'
    return str(error)


def without_wire_words(hint: str) -> str:
    """Return *hint* without its parts that only a client of the protocol can follow.

    >>> without_wire_words("sidecar/session/tree names its nodes; /rewind works without one")
    '/rewind works without one'
    """
    return "; ".join(part for part in hint.split("; ") if not _METHOD.search(part))


def print_json(value: Mapping[str, Any]) -> None:
    """Write *value* to standard output as one line of JSON, always in UTF-8."""
    print_text(json.dumps(value, ensure_ascii=False) + "\n")


def print_text(text: str) -> None:
    """Write *text* to standard output as it is, always in UTF-8."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


class Interrupts:
    """Ctrl-C while this context is active: it stops the current work, or else leaves.

    To leave is to cancel the task that has entered the context. The loop judges a press when it comes to it,
    so that one right behind the end of a turn is for the prompt that follows.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], object] | None = None

    def __enter__(self) -> Self:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop_or_leave() -> None:
            stop, self._stop = self._stop or task.cancel, None
            stop()

        # Works on every system; loop.add_signal_handler does not.
        self._before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(stop_or_leave))
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextlib.contextmanager
    def on_first(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call *stop* at the first Ctrl-C inside; the second one leaves."""
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None
