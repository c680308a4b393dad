"""Loading of modules: as fast as it can be done, and how a user installs the packages of an extra.

Imports nothing itself; a process that somebody waits for loads this module first.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["DISTRIBUTION", "install_command", "loading"]

DISTRIBUTION = "editor-sidecar"
"""The name of this project in a package index; the import name and the command are ``sidecar``."""


@contextmanager
def loading() -> Iterator[None]:
    """Import in this block: nothing of it is looked at for garbage, then or ever.

    What a module makes stays as long as the process; to look for garbage among it takes a tenth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def install_command(extra: str) -> str:
    """Return the shell command that installs the packages of *extra* beside the running interpreter.

    The command names the interpreter, because the first ``pip`` on a user's path may belong to another.
    """
    import shlex  # not above: only an error message needs it

    requirement = f"{DISTRIBUTION}[{extra}]"
    if sys.platform == "win32":
        return f'"{sys.executable}" -m pip install "{requirement}"'
    return f"{shlex.quote(sys.executable)} -m pip install '{requirement}'"
