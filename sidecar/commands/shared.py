"""``sidecar serve --shared --daemon``: the daemon that several clients share, until no client needs it.

There is one for each state directory: it holds a lock there as long as it lives. It runs in the foreground;
its starter detaches it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Final

from sidecar._internal.allocator import keep_collections_brief
from sidecar._internal.env import indusagi_home
from sidecar._internal.file_lock import FileLock
from sidecar._internal.loading import take_short_turns
from sidecar.attach.connecting import READY, is_answering
from sidecar.attach.listening import bind_loopback, open_listener, open_port
from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.commands.launch import log_to_stderr
from sidecar.transport.lifetime import Lifetime, supervise
from sidecar.transport.lifetime import run as run_to_end
from sidecar.transport.stdio import take_stdio

_LEAVING_S: Final = 10.0
"""How long to wait for a daemon that accepts no more clients and is about to end."""

_POLL_S: Final = 0.05


def run(options: argparse.Namespace) -> int:
    """Serve; the process ends from within, unless another daemon is running or something forbids it."""
    output = take_stdio().write_fd
    paths = DaemonPaths(indusagi_home())
    try:
        paths.make()
        if not take_lock(paths):
            _report_ready(output, paths)
            return 0
        port = bind_loopback(options.listen) if options.listen else None
    except AttachError as error:
        sys.stderr.write(f"sidecar: {error}\n")
        return 1

    async def serve(lifetime: Lifetime) -> int:
        from sidecar.commands.host import Host

        host = Host(paths, options.idle_exit)
        host.broker.add_listener(open_listener(paths, host.broker))
        if port is not None:
            host.broker.add_listener(open_port(port, paths, host.broker))
        _report_ready(output, paths)
        try:
            return await supervise(lifetime, host.broker, host.daemon.service.aclose)
        finally:
            paths.tcp.unlink(missing_ok=True)

    keep_collections_brief()
    take_short_turns()
    log_to_stderr(options.log)
    os.chdir(paths.home)  # the folder it was started in may have to be unmounted or removed
    return run_to_end(serve)


def take_lock(paths: DaemonPaths) -> bool:
    """Take the daemon's lock for good; False when a daemon has it and answers. Raises AttachError."""
    lock = FileLock(paths.lock)
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


def _report_ready(output: int, paths: DaemonPaths) -> None:
    """Write to the starter that clients can connect, and close its pipe."""
    os.write(output, READY + b" at %b\n" % os.fsencode(paths.socket))
    os.close(output)
