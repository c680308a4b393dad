"""Where the shared daemon of one state directory is found: a folder that its user alone can enter.

Never follows a link in place of the folder, and never mends one that others could enter: what is in there may
be theirs. Every program that uses the same state directory comes to the same place, whatever its environment.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from sidecar.attach.errors import AttachError

__all__ = ["SOCKET_PATH_BYTES", "Place", "check_private", "make_private"]

SOCKET_PATH_BYTES = 100
"""The longest path a socket gets, in bytes; the shortest limit of a system is 104, its last byte zero."""


class Place:
    """The files of the shared daemon of the state directory *home*.

    Attributes:
        folder: the folder of all of them but, when its path is too long for a socket, the socket.
        socket: what clients connect to; on Windows there is none, and *tcp* says where to.
        lock: held by the daemon as long as it lives.
        start_lock: held by whoever starts it.
        log: what it writes to its standard error.
        tcp: the loopback port where it listens besides, and its token; only while it does.
    """

    __slots__ = ("folder", "home", "lock", "log", "socket", "start_lock", "tcp")

    def __init__(self, home: Path) -> None:
        self.home = Path(os.path.realpath(home))
        self.folder = self.home / "run"
        self.lock = self.folder / "daemon.lock"
        self.start_lock = self.folder / "start.lock"
        self.log = self.folder / "daemon.log"
        self.tcp = self.folder / "tcp.json"
        self.socket = _socket_path(self.folder)

    def make(self) -> None:
        """Make the folders that are not there. Raises AttachError for one that others could enter."""
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise AttachError(f"cannot make the state directory {self.home}: {error.strerror}") from error
        for folder in {self.folder, self.socket.parent}:
            make_private(folder)

    def exists(self) -> bool:
        """Whether there is a socket to try. Raises AttachError where others could have put it there."""
        if not os.path.lexists(self.socket):
            return False
        check_private(self.socket.parent)
        return True


def make_private(folder: Path) -> None:
    """Make *folder*, whose parent exists, for this user alone. Raises AttachError for another's."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise AttachError(f"cannot make {folder}: {error.strerror}") from error
    check_private(folder)


def check_private(folder: Path) -> None:
    """Raise AttachError unless *folder* is a folder of this user that nobody else can enter."""
    try:
        found = os.lstat(folder)
    except OSError as error:
        raise AttachError(f"cannot look at {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise AttachError(f"{folder} is no folder, and links are not followed; remove it")
    if sys.platform != "win32":  # there a folder in the profile of its user is private by inheritance
        if found.st_uid != os.geteuid():
            raise AttachError(f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}; remove it")
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077:
            raise AttachError(f"others can enter {folder} (mode {mode:o}): look into it, then chmod 700 it")


def _socket_path(folder: Path) -> Path:
    wanted = folder / "daemon.sock"
    if sys.platform != "win32" and len(os.fsencode(wanted)) > SOCKET_PATH_BYTES:
        from hashlib import sha256

        # Not $TMPDIR and the like: programs with another environment would look for it elsewhere.
        name = sha256(os.fsencode(folder)).hexdigest()[:24]
        return Path(f"/tmp/sidecar-{os.geteuid()}/{name}.sock")
    return wanted
