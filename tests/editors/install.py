"""Install a Neovim and an Emacs for the tests into ``.editors``, where the system has none.

Done with debootstrap, as root on Debian: 150 MB to load, 700 MB on the disk, a minute or two. Elsewhere it
says what to do, and the tests are skipped.
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
exec {root}/usr/bin/nvim "$@"
"""
_EMACS: Final = """#!/bin/sh
export EMACSLOADPATH={data}/lisp EMACSDATA={data}/etc EMACSDOC={data}/etc EMACSPATH={exec}
exec {root}/usr/bin/emacs-nox --dump-file={dump} "$@"
"""


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def is_debian_root() -> bool:
    """Return whether packages of Debian can be installed here."""
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_packages(*names: str) -> None:
    """Install packages of Debian. Raises CalledProcessError."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *names]):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def has(variable: str, name: str) -> bool:
    """Return whether an editor is named, was installed before, or is in the path."""
    return bool(os.environ.get(variable) or (FOLDER / "bin" / name).exists() or shutil.which(name))


def write_script(name: str, text: str) -> None:
    """Write a program that starts an editor with the libraries of its own system."""
    path = FOLDER / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def give_libraries(root: Path, *programs: str) -> None:
    """Let *programs* of the system at *root* load its libraries and not those of the system around it."""
    loader = next((root / "usr").glob("lib*/ld-linux*.so.*"))
    libraries = root / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    patch = [str(loader), "--library-path", str(libraries), str(root / "usr/bin/patchelf")]
    for name in programs:
        wanted = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(libraries)]
        subprocess.run([*patch, *wanted, str(root / "usr/bin" / name)], check=True)


def install() -> None:
    """Make a small Debian in the folder, and the two programs that start its editors."""
    root = FOLDER / SUITE
    FOLDER.mkdir(exist_ok=True)
    if shutil.which("debootstrap") is None:
        install_packages("debootstrap")
    packages = "--include=neovim,emacs-nox,patchelf,ca-certificates"
    say(f"installing Neovim and Emacs of Debian {SUITE} into {root}: 150 MB to load, a minute or two")
    subprocess.run(
        ["debootstrap", "--variant=minbase", packages, SUITE, str(root)], check=True, stdout=sys.stderr
    )
    give_libraries(root, "nvim", "emacs-nox")
    write_script("nvim", _NVIM.format(root=root))
    data = next((root / "usr/share/emacs").glob("[0-9]*"))
    executables = next((root / "usr/libexec/emacs").glob("*/*-linux-gnu"))
    dump = next(executables.glob("*.pdmp"))
    # Emacs looks for its compiled Lisp beside the folder of its program.
    (root / "usr/native-lisp").symlink_to(root / "usr/lib/emacs" / data.name / "native-lisp")
    write_script("emacs", _EMACS.format(root=root, data=data, exec=executables, dump=dump))


def main() -> None:
    """Install what is missing, or say how."""
    if has("SIDECAR_NVIM", "nvim") and has("SIDECAR_EMACS", "emacs"):
        return
    if is_debian_root():
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"Neovim and Emacs could not be installed, their tests are skipped: {error}")
        return
    say("install Neovim 0.10 and Emacs 29, or run this as root on Debian; their tests are skipped")


if __name__ == "__main__":
    main()
