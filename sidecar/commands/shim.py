"""``sidecar shim``, ``sidecar serve --shared``: standard input and output of a client, joined to a daemon.

A client waits for it, so it loads nothing of the daemon.
"""

from __future__ import annotations

import sys
from functools import partial

from sidecar._internal.env import indusagi_home, name_of_home
from sidecar.attach.paths import AttachError, DaemonPaths, guest_socket
from sidecar.transport.processes import STARTED_BY, wait_for_parent, wait_for_process, was_left_behind

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
    from argparse import Namespace
    from socket import socket

_STDIN, _STDOUT = 0, 1


def run(options: Namespace) -> int:
    """Copy bytes until the client or the daemon leaves; return the exit code."""
    from sidecar.attach.connecting import connect_or_start
    from sidecar.attach.shim import DaemonLost, leave_after, pump

    if was_left_behind(_STDIN):
        return 1
    home = name_of_home()
    paths = DaemonPaths(indusagi_home() if home.startswith("~") else home)
    settings = ("--log", options.log, "--idle-exit", f"{options.idle_exit:g}")
    command = (sys.executable, "-P", "-m", "sidecar", "serve", "--shared", "--daemon", *settings)
    try:
        daemon = connect_or_start(paths, command) if options.join is None else join(paths, options.join)
        # Not before: starting a daemon forks, which needs a process without threads.
        if STARTED_BY != 0:
            leave_after(wait_for_parent)
        if options.client_process_id:
            leave_after(partial(wait_for_process, options.client_process_id))
        return pump(daemon, _STDIN, _STDOUT)
    except AttachError as error:
        sys.stderr.write(f"sidecar: {error}\n")
    except DaemonLost:
        shared = f"the shared daemon is gone; {paths.log} may say why"
        gone = shared if options.join is None else f"process {options.join}, whose daemon this was, has ended"
        sys.stderr.write(f"sidecar: {gone}\n")
    return 1


def join(paths: DaemonPaths, pid: int) -> socket:
    """Return a connection to the daemon of process *pid*, its own or the shared one. Raises AttachError."""
    if sys.platform != "win32":
        from sidecar._internal.file_lock import FileLock
        from sidecar.attach.connecting import connect

        holder = None
        if paths.lock.exists():
            lock = FileLock(paths.lock)
            holder = lock.read_holder()
            lock.release()
        if holder != pid:
            paths.socket_name = str(guest_socket(paths.home, pid))
        if (found := connect(paths)) is not None:
            return found
    raise AttachError(f"no daemon of process {pid} can be joined here; end that program, or go on there")
