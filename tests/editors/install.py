"""Install a Neovim and an Emacs for the tests into ``.editors``, where the system has none.

Done with debootstrap, as root on Linux: 150 MB to load, 700 MB on the disk, about a minute. Elsewhere it says
what to do, and the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / ".editors"
SUITE: Final = "trixie"
"""The oldest Debian whose editors are new enough."""

_NVIM: Final = """#!/bin/sh
export VIMRUNTIME={root}/usr/share/nvim/runtime
exec {loader} --library-path {libraries} --argv0 nvim {root}/usr/bin/nvim "$@"
"""
_EMACS: Final = """#!/bin/sh
export EMACSLOADPATH={data}/lisp EMACSDATA={data}/etc EMACSDOC={data}/etc EMACSPATH={exec}
exec {loader} --library-path {libraries} {root}/usr/bin/emacs-nox --dump-file={dump} "$@"
"""


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def has(variable: str, name: str) -> bool:
    """Return whether an editor is named, was installed before, or is in the path."""
    return bool(os.environ.get(variable) or (FOLDER / "bin" / name).exists() or shutil.which(name))


def write_script(name: str, text: str) -> None:
    """Write a program that starts an editor with the libraries of its own system."""
    path = FOLDER / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def install() -> None:
    """Make a small Debian in the folder, and the two programs that start its editors."""
    root = FOLDER / SUITE
    FOLDER.mkdir(exist_ok=True)
    packages = "--include=neovim,emacs-nox,ca-certificates"
    say(f"installing Neovim and Emacs of Debian {SUITE} into {root}: 150 MB to load, about a minute")
    subprocess.run(
        ["debootstrap", "--variant=minbase", packages, SUITE, str(root)], check=True, stdout=sys.stderr
    )
    machine = os.uname().machine
    loader = next((root / "usr").glob("lib*/ld-linux*.so.*"))
    libraries = root / "usr" / "lib" / f"{machine}-linux-gnu"
    write_script("nvim", _NVIM.format(root=root, loader=loader, libraries=libraries))
    data = next((root / "usr/share/emacs").glob("[0-9]*"))
    executables = next((root / "usr/libexec/emacs").glob("*/*-linux-gnu"))
    dump = next(executables.glob("*.pdmp"))
    # Emacs looks for its compiled Lisp beside the folder of its program, which is the loader here.
    (root / "usr/native-lisp").symlink_to(root / "usr/lib/emacs" / data.name / "native-lisp")
    names = {"root": root, "loader": loader, "libraries": libraries}
    write_script("emacs", _EMACS.format(data=data, exec=executables, dump=dump, **names))


def main() -> None:
    """Install what is missing, or say how."""
    if has("SIDECAR_NVIM", "nvim") and has("SIDECAR_EMACS", "emacs"):
        return
    if sys.platform == "linux" and os.geteuid() == 0 and shutil.which("debootstrap"):
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"Neovim and Emacs could not be installed, their tests are skipped: {error}")
        return
    say("install Neovim 0.10 and Emacs 29, or debootstrap and run this as root; their tests are skipped")


if __name__ == "__main__":
    main()
