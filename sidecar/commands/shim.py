"""``sidecar serve --shared``: between this client's standard input and output and the daemon it shares.

Loads nothing of the daemon: an editor waits for it.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from sidecar._internal.env import indusagi_home
from sidecar.attach.paths import AttachError, DaemonPaths

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["run"]

_STDIN, _STDOUT = 0, 1


def run(options: Namespace) -> int:
    """Pass bytes on until the client or the daemon leaves; return the exit code."""
    paths = DaemonPaths(indusagi_home())
    try:
        return _attach(paths, options)
    except AttachError as error:
        sys.stderr.write(f"sidecar: {error}\n")
        return 1


def _attach(paths: DaemonPaths, options: Namespace) -> int:
    if sys.platform == "win32":
        from sidecar.attach.loopback import connect_or_start
    else:
        from sidecar.attach.connecting import connect_or_start
    from sidecar.attach.shim import DaemonGone, leave_after, pump
    from sidecar.transport.processes import wait_for_parent, wait_for_process

    parent = os.getppid()
    daemon = connect_or_start(paths, _daemon(options))
    # Not before: starting a daemon forks, which wants a process without threads.
    leave_after(partial(wait_for_parent, parent))
    if options.client_process_id:
        leave_after(partial(wait_for_process, options.client_process_id))
    try:
        return pump(daemon, _STDIN, _STDOUT)
    except DaemonGone:
        raise AttachError(f"the shared daemon is gone; {paths.log} may say why") from None


def _daemon(options: Namespace) -> tuple[str, ...]:
    """Return how the daemon is started, when there is none."""
    settings = ("--log", options.log, "--idle-exit", f"{options.idle_exit:g}")
    return (sys.executable, "-P", "-m", "sidecar", "serve", "--shared", "--daemon", *settings)
