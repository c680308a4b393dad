"""The files of the shared daemon of one state directory, in a folder that its user alone can enter.

A link in place of the folder is never followed, and a folder that others can enter is never repaired: its
content may be theirs. All programs with the same state directory find the same files, in every
environment.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # as type checkers know it: a shim is quicker without the module
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

    The paths are made when they are read: a shim that finds a daemon needs the name of its socket alone.

    Attributes:
        socket_name: the path of the unix socket for clients; on Windows there is none, and *tcp* names the
            port.
    """

    __slots__ = ("_folder", "_home", "socket_name")

    def __init__(self, home: Path | str) -> None:
        self._home = os.path.realpath(home)
        self._folder = os.path.join(self._home, "run")
        self.socket_name = os.path.join(self._folder, "daemon.sock")
        if sys.platform != "win32" and len(os.fsencode(self.socket_name)) > SOCKET_PATH_BYTES:
            from hashlib import sha256

            # Not $TMPDIR: a program with another environment would look elsewhere.
            name = sha256(os.fsencode(self._folder)).hexdigest()[:24]
            self.socket_name = f"/tmp/sidecar-{os.geteuid()}/{name}.sock"

    @property
    def home(self) -> Path:
        """The state directory."""
        return to_path(self._home)

    @property
    def folder(self) -> Path:
        """The folder of all files, except for a socket with too long a path."""
        return to_path(self._folder)

    @property
    def socket(self) -> Path:
        """The unix socket for clients."""
        return to_path(self.socket_name)

    @property
    def lock(self) -> Path:
        """Locked by the daemon as long as it lives."""
        return self.folder / "daemon.lock"

    @property
    def start_lock(self) -> Path:
        """Locked by the program that starts the daemon."""
        return self.folder / "start.lock"

    @property
    def log(self) -> Path:
        """The daemon's standard error."""
        return self.folder / "daemon.log"

    @property
    def tcp(self) -> Path:
        """The loopback port and its token; exists only while the daemon listens there."""
        return self.folder / "tcp.json"

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
        if not os.path.lexists(self.socket_name):
            return False
        check_private(os.path.dirname(self.socket_name))
        return True


def guest_socket(home: Path, pid: int) -> Path:
    """Return the path at which the daemon *pid* of the state directory *home* may listen."""
    shared = DaemonPaths(home).socket
    return shared.with_name(f"{shared.stem}-{pid}.sock")


def to_path(name: str) -> Path:
    """Return *name* as a path."""
    from pathlib import Path

    return Path(name)


def check_private(folder: Path | str) -> None:
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
