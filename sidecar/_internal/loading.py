"""Parts that are loaded when they are first used, and the command that installs an extra.

The command names the place that this project was installed from, as its installer has recorded it, such as a
checkout. Its name alone would do for a package index only.
"""

from __future__ import annotations

import os
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
    """Return the shell command that installs the packages of *extra* beside the running interpreter."""
    return _shell_line(install_arguments(extra))


def reinstall_command() -> str:
    """Return the shell command that installs this project and its parts again."""
    return _shell_line(install_arguments())


def install_arguments(extra: str | None = None) -> list[str]:
    """Return the program and arguments that install *extra*; without one all of the project, again.

    They name the interpreter, because the first ``pip`` on a user's path may belong to another. uv makes
    environments without a ``pip``.
    """
    from importlib.util import find_spec  # not above, as all here: only a message needs it

    has_pip = find_spec("pip") is not None
    command = [sys.executable, "-m", "pip"] if has_pip else ["uv", "pip"]
    command += ["install", *([] if has_pip else ["--python", sys.executable])]
    if extra is None:
        command.append("--force-reinstall" if has_pip else "--reinstall")
    return command + find_requirements(f"[{extra}]" if extra else "")


def find_requirements(extra: str) -> list[str]:
    """Return this project with *extra* as an installer takes it, from the place it was installed from."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    checkout, origin = Path(__file__).parents[2], {}
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        if (checkout / "pyproject.toml").is_file():
            origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        folder = url2pathname(urlsplit(url).path)
        return [*(["-e"] if origin["dir_info"].get("editable") else []), f"{folder}{extra}"]
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info'].get('commit_id', 'HEAD')}"
    return [f"{DISTRIBUTION}{extra} @ {url}" if url else f"{DISTRIBUTION}{extra}"]


def _shell_line(command: list[str]) -> str:
    import shlex

    if os.name == "nt":
        return " ".join(part if part.replace("-", "").isalnum() else f'"{part}"' for part in command)
    return shlex.join(command)
