"""The sandbox of commands: no network, and writes only in the session's folders and in a private ``/tmp``.

``sandbox = true`` in the user's settings asks for it. Linux has it where ``bwrap`` is installed and may make
namespaces, macOS where ``sandbox-exec`` is. Where it is asked for and cannot be had, no command runs: none is
ever run without it instead.

The whole file system is there to be read, but for the sockets of services, since a service would act outside
for a command: the folders that hold them, and each other socket on which a program listens. Of the session's
folders the parts that something obeys without asking (repositories, settings, rules, start-up files) can be
read only, wherever below they lie. Names cannot be reserved: one that a command makes is moved aside when the
command has ended. A folder is named by its resolved path, and one that has become a link since is refused.

Building the argument lists is pure. The one for macOS has never run there; its tests compare the list.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import ClassVar, Final

from sidecar._internal.errors import SidecarError
from sidecar.capabilities.contract import ConfinedCommand
from sidecar.permissions.protected import SessionFolders, is_hidden, why_named
from sidecar.workspace.files import real_path, require_resolved
from sidecar.workspace.paths import is_inside

_BWRAP: Final = (
    *("--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_SOCKETS: Final = (Path("/run"), Path("/var/run"), Path("~/.docker"))
_PROGRAMS_IN_RUN: Final = Path("/run/current-system")
"""The programs of NixOS."""

_HIDING: Final = r"""
hide() {
  left=$1
  while [ "$left" -gt 0 ]; do
    shift; left=$((left - 1))
    if [ -S "$1" ]; then printf '%s\0' --ro-bind /dev/null "$1"; fi
  done
}
confine() { shift $(($1 + 1)); "$@" 8<&0 0<&4 3>&- 4<&-; }
exec 3>&1 4<&0
for turn in 1 2 3 4 5; do
  before=$(hide "$@" | wc -c)
  begun=$(hide "$@" | confine "$@" 9>&1 >&3)
  code=$?
  if [ -n "$begun" ] || [ "$(hide "$@" | wc -c)" -eq "$before" ]; then break; fi
done
exit $code"""
"""Runs ``bwrap`` with a number of sockets covered, which stand before it in the arguments.

A socket that is removed before it is covered would end ``bwrap``. So the command writes to descriptor 9 that
it has begun; where it has not, and a socket is gone since, all is tried again without it.
"""

_BEGIN: Final = 'echo begun >&9; exec "$@" 9>&-'

_WITH_TMP: Final = """tmp=$(cd "$(mktemp -d)" && pwd -P) || exit
TMPDIR=$tmp sandbox-exec -D "TMP=$tmp" "$@"
code=$?; rm -rf "$tmp"; exit $code"""
"""Runs ``sandbox-exec`` on macOS with a folder for temporary files, which is removed afterwards."""

_PROFILE: Final = """(version 1)
(allow default)
(deny network*)
(deny appleevent-send lsopen)
(deny file-write*)
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (regex #"^/dev/(tty|fd/|stdout|stderr)"))
"""
_CHECK_S: Final = 10.0
_LISTENING: Final = Path("/proc/net/unix")
"""The table of Linux with a line for each socket in the file system."""

_ASIDE: Final = ".from-sandbox"
"""The end of the name of a file that a command must not make."""

_MAX_FOLDERS: Final = 20_000
_MAX_PROTECTED: Final = 2_000


class SandboxUnavailable(SidecarError):
    """The settings ask for a sandbox that this machine does not have."""

    kind: ClassVar[str] = "notPermitted"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"commands do not run, because the settings ask for a sandbox and {reason}",
            hint="install what is missing, or set sandbox = false in config.toml of the state directory",
        )


class Sandbox:
    """Confines commands; *hidden* are folders that they do not see, such as the state directory."""

    def __init__(self, hidden: Iterable[Path] = ()) -> None:
        self._hidden = tuple(hidden)
        self._problem: str | None = None
        self._is_checked = False

    async def confine(self, argv: Sequence[str], cwd: Path, roots: Sequence[Path]) -> ConfinedCommand:
        """Return the command that runs *argv* in the sandbox.

        Args:
            argv: the command.
            cwd: the resolved folder that it runs in.
            roots: the resolved folders that it may write to.

        Raises:
            SandboxUnavailable: this machine has no sandbox.
            FileAccessError: one of *roots* has become a link.
        """

        def confine() -> ConfinedCommand:
            if not self._is_checked:
                self._problem, self._is_checked = find_problem(), True
            if self._problem is not None:
                raise SandboxUnavailable(self._problem)
            for root in roots:
                require_resolved(root)
            found = list_protected(roots)
            known = {identify(path) for path in found}
            real = [real_path(path) for path in found]
            if sys.platform == "darwin":
                command = with_sandbox_exec(argv, cwd, roots, protected=real, hidden=self._hidden)
            else:
                hidden = (*self._hidden, *list_sockets(roots))
                command = with_bwrap(argv, cwd, roots, protected=real, hidden=hidden)

            async def take_back() -> tuple[Path, ...]:
                return await asyncio.to_thread(move_new_aside, roots, known)

            return ConfinedCommand(command, take_back)

        return await asyncio.to_thread(confine)


def find_problem() -> str | None:
    """Return why this machine has no sandbox, None when it has one. Runs a program, and waits for it."""
    program = {"linux": "bwrap", "darwin": "sandbox-exec"}.get(sys.platform)
    if program is None:
        return f"there is none for {sys.platform}"
    found = shutil.which(program)
    if found is None:
        return f"{program} is not installed"
    options = _BWRAP if program == "bwrap" else ("-p", _PROFILE)
    try:
        subprocess.run(
            [found, *options, "/bin/sh", "-c", "exit 0"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_CHECK_S,
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return f"{found} does not work here ({reason})"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{found} does not work here ({type(error).__name__})"
    return None


def list_protected(roots: Iterable[Path]) -> list[Path]:
    """Return the parts of *roots* that a command can only read, links among them.

    The search goes from the roots down and stops after many folders, so that nearer repositories come first.
    """
    found: list[Path] = []
    open_folders = deque(roots)
    n_folders = 0
    while open_folders and n_folders < _MAX_FOLDERS and len(found) < _MAX_PROTECTED:
        n_folders += 1
        with suppress(OSError), os.scandir(open_folders.popleft()) as entries:
            for entry in entries:
                # The name alone decides: the folders above it are not protected.
                if why_named(entry.name):
                    found.append(Path(entry.path))
                elif entry.is_dir(follow_symlinks=False):
                    open_folders.append(Path(entry.path))
    return found


def identify(path: Path) -> tuple[int, int] | None:
    """Return the numbers by which the system knows the file or link *path* wherever it is moved to."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def move_new_aside(roots: Sequence[Path], known: Container[tuple[int, int] | None]) -> tuple[Path, ...]:
    """Rename the protected parts of *roots* that are not *known*, and return their new paths.

    They stay beside their place, under a name that no program obeys, for the user to look at.
    """
    moved: list[Path] = []
    for path in list_protected(roots):
        if identify(path) in known:
            continue
        names = (f"{path.name}{_ASIDE}{number or ''}" for number in count())
        aside = next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))
        with suppress(OSError):
            os.rename(path, aside)
            moved.append(aside)
    return tuple(moved)


def list_sockets(roots: Sequence[Path]) -> list[Path]:
    """Return the sockets in the file system on which programs of this machine listen.

    Those in *roots* are left out, unless they lie in a hidden folder: they belong to the work at hand.

    The table has the path by which a program named its socket. One that is relative is looked for from the
    root and from the folder of each process that holds the socket. A process that has changed its folder
    since, or that another user runs, is not found so.
    """
    try:
        lines = _LISTENING.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return []
    named = [fields for line in lines if len(fields := line.split(maxsplit=7)) == 8]
    relative = {inode: name for *_, inode, name in named[1:] if not name.startswith(("/", "@"))}
    folders = list_holders(relative) if relative else []
    paths = [Path(name) for *_, name in named if name.startswith("/")]
    paths += [Path("/", name) for name in relative.values()]
    paths += [Path(os.path.normpath(folder / relative[inode])) for inode, folder in folders]
    place = SessionFolders(tuple(roots))
    return [
        path
        for path in dict.fromkeys(paths)
        if stat_mode(path) == stat.S_IFSOCK and (not is_inside(path, roots) or is_hidden(path, place))
    ]


def list_holders(inodes: Container[str]) -> list[tuple[str, Path]]:
    """Return the sockets of Linux with *inodes* that a process holds, each with the folder of the process."""
    found: dict[tuple[str, Path], None] = {}
    for process in os.scandir("/proc"):
        with suppress(OSError):
            folder = Path(os.readlink(f"{process.path}/cwd"))
            for name in os.listdir(f"{process.path}/fd"):
                with suppress(OSError):  # closed since
                    inode = os.readlink(f"{process.path}/fd/{name}").removeprefix("socket:[").rstrip("]")
                    if inode in inodes:
                        found[inode, folder] = None
    return [*found]


def stat_mode(path: Path) -> int:
    """Return the kind of the file or link *path*, such as ``stat.S_IFSOCK``; 0 where there is none."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0


def with_bwrap(
    argv: Sequence[str],
    cwd: Path,
    roots: Sequence[Path],
    *,
    protected: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
) -> list[str]:
    """Return the command of Linux. A later mount covers earlier ones, so that outer folders come first."""
    services = [folder for name in _SOCKETS if is_folder(folder := name.expanduser())]
    empty = [Path("/tmp"), *services, *filter(is_folder, hidden)]
    mounts = [("--tmpfs", folder) for folder in empty]
    mounts += [("--ro-bind", _PROGRAMS_IN_RUN)] if os.path.exists(_PROGRAMS_IN_RUN) else []
    mounts += [*(("--bind", root) for root in roots), *(("--ro-bind-try", path) for path in protected)]
    options: list[str] = []
    for option, path in sorted(mounts, key=lambda mount: len(mount[1].parts)):
        options += [option, str(path)] if option == "--tmpfs" else [option, str(path), str(path)]
    options += ["--setenv", "TMPDIR", "/tmp", "--chdir", str(cwd)]
    sockets = [
        str(path)
        for path in hidden
        if stat_mode(path) == stat.S_IFSOCK and (not is_inside(path, empty) or is_inside(path, roots))
    ]
    if not sockets:
        return ["bwrap", *_BWRAP, *options, "--", *argv]
    covering = ["/bin/sh", "-c", _HIDING, "sh", str(len(sockets)), *sockets]
    begin = ["/bin/sh", "-c", _BEGIN, "sh"]
    return [*covering, "bwrap", *_BWRAP, *options, "--args", "8", "--", *begin, *argv]


def is_folder(path: Path) -> bool:
    """Whether *path* is a folder that something can be mounted on: a link is not."""
    return os.path.isdir(path) and not os.path.islink(path)


def with_sandbox_exec(
    argv: Sequence[str],
    cwd: Path,
    roots: Sequence[Path],
    *,
    protected: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
) -> list[str]:
    """Return the command of macOS, where the last rule that matches counts; paths are parameters."""
    rules, parameters = ['(allow file-write* (subpath (param "TMP")))'], list[str]()
    for action, paths in (
        ("allow file-write*", roots),
        ("deny file-write*", protected),
        ("deny file-read* file-write*", hidden),
    ):
        for path in paths:
            name = f"P{len(rules)}"
            parameters += ["-D", f"{name}={path}"]
            rules.append(f'({action} (subpath (param "{name}")))')
    return ["/bin/sh", "-c", _WITH_TMP, "sh", "-p", _PROFILE + "\n".join(rules), *parameters, *argv]
