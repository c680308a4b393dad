"""The files of the shared daemon of one state directory, in a folder that its user alone can enter.

A link in place of the folder is never followed, and a folder that others can enter is never repaired: its
content may be theirs. All programs with the same state directory find the same files, in every
environment.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

SOCKET_PATH_BYTES = 100
"""The longest path of a socket, in bytes. The shortest limit of a system is 104, with a zero at the end."""


class AttachError(Exception):
    """The shared daemon cannot be reached, or must not be trusted; the message says how to go on.

    It is shown to the user of the program and never crosses the wire. It is not a SidecarError, because that
    module would double the start of a shim.
    """


class DaemonPaths:
    """The files of the shared daemon of the state directory *home*.

    Attributes:
        folder: the folder of all of them, except for a socket with too long a path.
        socket: the unix socket for clients; on Windows there is none, and *tcp* names the port.
        lock: locked by the daemon as long as it lives.
        start_lock: locked by the program that starts it.
        log: the daemon's standard error.
        tcp: the loopback port and its token; exists only while the daemon listens there.
    """

    __slots__ = ("folder", "home", "lock", "log", "socket", "start_lock", "tcp")

    def __init__(self, home: Path) -> None:
        self.home = Path(os.path.realpath(home))
        self.folder = self.home / "run"
        self.lock = self.folder / "daemon.lock"
        self.start_lock = self.folder / "start.lock"
        self.log = self.folder / "daemon.log"
        self.tcp = self.folder / "tcp.json"
        self.socket = self.folder / "daemon.sock"
        if sys.platform != "win32" and len(os.fsencode(self.socket)) > SOCKET_PATH_BYTES:
            from hashlib import sha256

            # Not $TMPDIR: a program with another environment would look elsewhere.
            name = sha256(os.fsencode(self.folder)).hexdigest()[:24]
            self.socket = Path(f"/tmp/sidecar-{os.geteuid()}/{name}.sock")

    def make(self) -> None:
        """Create the missing folders. Raises AttachError for one that others could enter."""
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AttachError(f"cannot make the state directory {self.home}: {error.strerror}") from error
        for folder in {self.folder, self.socket.parent}:
            try:
                folder.mkdir(mode=0o700)
            except FileExistsError:
                pass
            except OSError as error:
                raise AttachError(f"cannot make {folder}: {error.strerror}") from error
            check_private(folder)

    def has_socket(self) -> bool:
        """Whether there is a socket to try. Raises AttachError if others could have put it there."""
        if not os.path.lexists(self.socket):
            return False
        check_private(self.socket.parent)
        return True


def check_private(folder: Path) -> None:
    """Raise AttachError unless *folder* is a folder of this user that nobody else can enter."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        raise AttachError(f"cannot look at {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise AttachError(f"{folder} is not a folder, and links are not followed; remove it")
    if sys.platform != "win32":  # there a folder in the profile of its user is private by inheritance
        if found.st_uid != os.geteuid():
            raise AttachError(f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}; remove it")
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077:
            raise AttachError(f"others can enter {folder} (mode {mode:o}): look into it, then chmod 700 it")
