"""``sidecar serve --shared --daemon``: the daemon that several clients share, until nobody needs it.

One for a state directory: it holds the lock of its place as long as it lives. It stays in the foreground;
whoever starts it detaches it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from typing import Final

from sidecar._internal.env import indusagi_home
from sidecar._internal.file_lock import FileLock
from sidecar._internal.loading import loading
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.attach.preamble import READY
from sidecar.attach.tcp import bind_loopback, open_port
from sidecar.commands.logs import log_to_stderr
from sidecar.transport.lifetime import Lifetime, supervise
from sidecar.transport.lifetime import run as run_to_end
from sidecar.transport.stdio import take_stdio

if sys.platform == "win32":
    from sidecar.attach.loopback import is_answering
    from sidecar.attach.tcp import open_listener
else:
    from sidecar.attach.connecting import is_answering
    from sidecar.attach.unix import open_listener

__all__ = ["run"]

_LEAVING_S: Final = 10.0
"""How long to wait for a daemon that lets nobody in any more and is about to end."""

_POLL_S: Final = 0.05


def run(options: argparse.Namespace) -> int:
    """Serve; the process ends from within, unless another daemon answers or something forbids it."""
    output = take_stdio().write_fd
    paths = DaemonPaths(indusagi_home())
    try:
        paths.make()
        lock = FileLock(paths.lock)
        if not _take(lock, paths):
            _say_ready(output, paths)
            return 0
        port = bind_loopback(options.listen) if options.listen else None
    except AttachError as error:
        sys.stderr.write(f"sidecar: {error}\n")
        return 1
    log_to_stderr(options.log)
    os.chdir(paths.home)  # the folder it was started in may have to be unmounted or removed
    return run_to_end(lambda lifetime: _serve(paths, port, output, options.idle_exit, lifetime))


def _take(lock: FileLock, paths: DaemonPaths) -> bool:
    """Take the lock of *place*; False when a daemon has it and answers. Raises AttachError."""
    deadline = time.monotonic() + _LEAVING_S
    while not lock.try_take():
        if is_answering(paths):
            return False
        if time.monotonic() > deadline:
            holder = f"process {lock.read_holder()}, which holds {paths.lock},"
            raise AttachError(f"{holder} does not answer at {paths.socket}; end it")
        time.sleep(_POLL_S)
    lock.write_holder()
    return True


async def _serve(
    paths: DaemonPaths, port: socket.socket | None, output: int, idle_s: float, lifetime: Lifetime
) -> int:
    with loading():  # not before the lock is ours: it loads everything
        from sidecar.commands.host import Host

    host = Host(paths, idle_s)
    host.broker.add_listener(open_listener(paths, host.broker))
    if port is not None:
        host.broker.add_listener(open_port(port, paths, host.broker))
    _say_ready(output, paths)
    try:
        return await supervise(lifetime, host.broker, host.daemon.service.aclose)
    finally:
        paths.tcp.unlink(missing_ok=True)


def _say_ready(output: int, paths: DaemonPaths) -> None:
    """Tell the starter that clients may come, and let go of its pipe."""
    os.write(output, READY + b" at %b\n" % os.fsencode(paths.socket))
    os.close(output)
