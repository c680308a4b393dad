"""Fast imports, for a process that a user waits for, and the command that installs an extra."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

DISTRIBUTION = "editor-sidecar"
"""The name of this project in a package index; the import name and the command are ``sidecar``."""


@contextmanager
def fast_imports() -> Iterator[None]:
    """Import without garbage collection, and exclude the new objects from it for good.

    The objects of a module live as long as the process. Collecting among them takes a tenth of the time.
    """
    with pause_collections():
        yield
        gc.freeze()


@contextmanager
def pause_collections() -> Iterator[None]:
    """Collect no garbage meanwhile, in no thread. One that begins inside another one changes nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def defer_import(module: str, name: str) -> Callable[[], Any]:
    """Return a function that calls *name* of *module*, which is loaded with the first call."""

    def call() -> Any:
        return getattr(import_module(module), name)()

    return call


def take_short_turns() -> None:
    """Let the event loop wait a millisecond, and not five, for a thread that computes or imports."""
    sys.setswitchinterval(0.001)


def install_command(extra: str) -> str:
    """Return the shell command that installs the packages of *extra* beside the running interpreter.

    The command names the interpreter, because the first ``pip`` on a user's path may belong to another.
    """
    return _pip_install(f"{DISTRIBUTION}[{extra}]")


def reinstall_command() -> str:
    """Return the shell command that installs this project and its parts again."""
    return _pip_install(DISTRIBUTION, "--force-reinstall ")


def _pip_install(requirement: str, flags: str = "") -> str:
    import shlex  # not above: only an error message needs it

    if sys.platform == "win32":
        command = f'"{sys.executable}" -m pip install {flags}"{requirement}"'
    else:
        command = f"{shlex.quote(sys.executable)} -m pip install {flags}'{requirement}'"
    return command
