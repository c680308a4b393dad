"""Parts that are loaded when they are first used, and the command that installs an extra."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

DISTRIBUTION = "editor-sidecar"
"""The name of this project in a package index; the import name and the command are ``sidecar``."""


def defer_import(module: str, name: str) -> Callable[[], Any]:
    """Return a function that calls *name* of *module*, which is loaded with the first call."""

    def call() -> Any:
        return getattr(import_module(module), name)()

    return call


def take_short_turns() -> None:
    """Let the event loop wait a millisecond, and not five, for a thread that computes or imports.

    While one computes, a message of another process is answered after 1.4 ms and not after 5.4 ms: the words
    of an answer stream on at four times the rate.
    """
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
