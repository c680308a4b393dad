"""The machine and the folder that an agent works on, in a few lines for a model.

Looked at once for a session, so that the head of its requests stays the same. A stranger's folder is not
trusted: git only runs where the repository's configuration names no program, and tools are asked for their
versions outside of the folder.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from sidecar.capabilities.bash import shell_argv
from sidecar.permissions.repository import find_repository, names_programs

_TIMEOUT_S: Final = 2.0
_MOST_TOOLS: Final = 4
_GIT: Final = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_TOOLS: Final = (
    (("pyproject.toml", "setup.py", "requirements.txt"), ("python3", "--version")),
    (("package.json",), ("node", "--version")),
    (("Cargo.toml",), ("cargo", "--version")),
    (("go.mod",), ("go", "version")),
    (("pom.xml", "build.gradle", "build.gradle.kts"), ("java", "--version")),
    (("Gemfile",), ("ruby", "--version")),
    (("CMakeLists.txt",), ("cmake", "--version")),
)
"""Files of a project, and the command that tells the version of the tool that builds it."""


async def describe_surroundings(roots: Sequence[Path], today: date) -> str:
    """Return the lines about the machine and the folders *roots*, of which the session works in the first."""
    cwd = roots[0]
    folders = [f"further folder: {root}" for root in roots[1:]]
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"

    def look() -> list[str]:
        return [f"shell: {Path(shell_argv('')[0]).name}", *look_at_git(cwd), *look_at_tools(cwd)]

    looked = await asyncio.to_thread(look)
    lines = [f"folder: {cwd}", *folders, f"date: {today}", f"system: {system}", *looked]
    return "\n".join(f"- {line}" for line in lines)


def look_at_git(cwd: Path) -> Iterator[str]:
    """Yield a line about the repository of *cwd*."""
    repository = find_repository(cwd)
    if repository is None:
        yield "git: not a repository"
        return
    if names_programs(repository):
        return
    status = _run([*_GIT, "status", "--porcelain=v1", "--branch", "--ignore-submodules=all"], cwd)
    branch, *changed = status.splitlines() or [""]
    if branch:
        n_new = sum(line.startswith("??") for line in changed)
        state = f"{len(changed) - n_new} files changed, {n_new} not tracked" if changed else "clean"
        name = branch.removeprefix("## ")
        unborn = name.removeprefix("No commits yet on ")
        name = name if unborn == name else f"{unborn}, without a commit"
        yield f"git: branch {name}; {state} when the session began"


def look_at_tools(cwd: Path) -> Iterator[str]:
    """Yield the versions of the tools that build the project in *cwd*."""
    commands = [command for names, command in _TOOLS if any(os.path.isfile(cwd / name) for name in names)]
    for program, option in commands[:_MOST_TOOLS]:
        if version := _run([program, option], Path(tempfile.gettempdir())):
            line = version.splitlines()[0]
            yield f"{program}: {line}"


def _run(command: Sequence[str], cwd: Path) -> str:
    """Return the output of *command*, empty when it fails or takes too long."""
    program = shutil.which(command[0])
    if program is None or not Path(program).is_absolute():
        return ""
    try:
        ran = subprocess.run(
            [program, *command[1:]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.decode("utf-8", "replace").strip()
