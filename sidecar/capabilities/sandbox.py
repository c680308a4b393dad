"""The sandbox of commands: no network, and writes only in the session's folders and in a private ``/tmp``.

``sandbox = true`` in the user's settings asks for it. Linux has it where ``bwrap`` is installed and may make
namespaces, macOS where ``sandbox-exec`` is. Where it is asked for and cannot be had, no command runs: none is
ever run without it instead.

The whole file system is there to be read, but for the folders with the sockets of services, since a service
would act outside for a command. Of the session's folders the parts that something obeys without
asking (repositories, settings, rules, start-up files) can be read only, wherever below they lie, as far as
they exist. A folder is named by its resolved path, and one that has become a link since is refused.

Building the argument lists is pure. The one for macOS has never run there; its tests compare the list.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from sidecar._internal.errors import SidecarError
from sidecar.permissions.protected import why_named
from sidecar.workspace.handles import require_resolved

_BWRAP: Final = (
    *("--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_SOCKETS: Final = (Path("/run"), Path("/var/run"), Path("~/.docker"))
_PROGRAMS_IN_RUN: Final = Path("/run/current-system")
"""The programs of NixOS."""

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

    async def confine(self, argv: Sequence[str], cwd: Path, roots: Sequence[Path]) -> list[str]:
        """Return the command that runs *argv* in the sandbox.

        Args:
            argv: the command.
            cwd: the resolved folder that it runs in.
            roots: the resolved folders that it may write to.

        Raises:
            SandboxUnavailable: this machine has no sandbox.
            FileAccessError: one of *roots* has become a link.
        """

        def confine() -> list[str]:
            if not self._is_checked:
                self._problem, self._is_checked = find_problem(), True
            if self._problem is not None:
                raise SandboxUnavailable(self._problem)
            for root in roots:
                require_resolved(root)
            build = with_sandbox_exec if sys.platform == "darwin" else with_bwrap
            return build(argv, cwd, roots, protected=list_protected(roots), hidden=self._hidden)

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
    """Return the parts of *roots* that a command can only read; one that is a link is followed.

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
                    found.append(Path(os.path.realpath(entry.path)))
                elif entry.is_dir(follow_symlinks=False):
                    open_folders.append(Path(entry.path))
    return found


def with_bwrap(
    argv: Sequence[str],
    cwd: Path,
    roots: Sequence[Path],
    *,
    protected: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
) -> list[str]:
    """Return the command of Linux. A later mount covers earlier ones, so that outer folders come first."""
    sockets = [folder for name in _SOCKETS if is_folder(folder := name.expanduser())]
    mounts = [("--tmpfs", folder) for folder in (Path("/tmp"), *sockets, *filter(is_folder, hidden))]
    mounts += [("--ro-bind", _PROGRAMS_IN_RUN)] if os.path.exists(_PROGRAMS_IN_RUN) else []
    mounts += [*(("--bind", root) for root in roots), *(("--ro-bind", path) for path in protected)]
    options: list[str] = []
    for option, path in sorted(mounts, key=lambda mount: len(mount[1].parts)):
        options += [option, str(path)] if option == "--tmpfs" else [option, str(path), str(path)]
    return ["bwrap", *_BWRAP, *options, "--setenv", "TMPDIR", "/tmp", "--chdir", str(cwd), "--", *argv]


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
