"""Guests: other clients of a daemon that belongs to one client, such as an editor, and ends with it.

The daemon listens at a unix socket with its process id for a name, in the folder that its user alone can
enter. A program that finds a session locked gets that process id with the error, and joins there. The life
of the daemon does not depend on its guests, and nothing fails because they cannot come. On Windows none can.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar.attach.paths import AttachError, DaemonPaths
from sidecar.transport.processes import is_alive

_log = logging.getLogger("sidecar.attach")

_FOREVER_S: Final = 7 * 24 * 3600.0


def guest_socket(home: Path, pid: int) -> Path:
    """Return the path at which the daemon *pid* of the state directory *home* may listen."""
    shared = DaemonPaths(home).socket
    return shared.with_name(f"{shared.stem}-{pid}.sock")


if sys.platform != "win32":
    from sidecar.attach.broker import Broker, OpenFrontend
    from sidecar.attach.streams import over_socket, read_hello
    from sidecar.attach.unix import UnixListener, admit_own_user

    def admit_guests(home: Path, open_frontend: OpenFrontend) -> UnixListener | None:
        """Listen for guests of this process; None when that is not possible. Close it at the end."""
        path = guest_socket(home, os.getpid())
        try:
            DaemonPaths(home).make()
            remove_stale_sockets(path.parent)
            broker = Broker(open_frontend, lambda: True, _FOREVER_S)
            return UnixListener(
                path, admit_own_user(), lambda found: broker.serve(over_socket(found), read_hello)
            )
        except (AttachError, OSError) as error:
            _log.info(f"no other client can join: {type(error).__name__}")
            return None


def remove_stale_sockets(folder: Path) -> None:
    """Remove the sockets in *folder* of daemons that were killed."""
    for path in folder.glob("*-*.sock"):
        pid = path.stem.rpartition("-")[2]
        if pid.isdecimal() and not is_alive(int(pid)):
            with suppress(OSError):
                path.unlink()
