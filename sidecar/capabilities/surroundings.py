"""The folder that an agent works on and its machine: a few lines for a model, and the changes not committed.

The lines are looked at once for a session, so that the head of its requests stays the same. A stranger's
folder is not trusted: git only runs where the repository's configuration names no program, and tools are
asked for their versions outside of the folder.
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
from threading import Timer
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.bash import shell_argv
from sidecar.permissions.repository import find_repository, names_programs

_TIMEOUT_S: Final = 2.0
_DIFF_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 10_000_000
_MOST_TOOLS: Final = 4
_MOST_NEW: Final = 30
_GIT: Final = (
    *("git", "--no-optional-locks", "--no-pager"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "color.ui=never"),
)
_DIFF: Final = ("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
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
    status, _ = _run([*_GIT, "status", "--porcelain=v1", "--branch", "--ignore-submodules=all"], cwd)
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
        version, _ = _run([program, option], Path(tempfile.gettempdir()))
        if version.strip():
            yield f"{program}: {version.strip().splitlines()[0]}"


def working_diff(cwd: Path, cap_chars: int) -> str:
    """Return the changes in *cwd* since the last commit, and the names of new files; empty for none.

    Raises InvalidInput where there is no repository, git does not run, or it would run other programs.
    """
    repository = find_repository(cwd)
    if repository is None:
        raise InvalidInput("the folder is in no git repository")
    if find_program("git") is None:
        raise InvalidInput("git is not installed")
    if names_programs(repository):
        raise InvalidInput("the configuration of the repository names programs", hint="run !git diff")

    def git(*arguments: str, most_bytes: int) -> str:
        text, is_cut = _run([*_GIT, *arguments], cwd, _DIFF_TIMEOUT_S, most_bytes)
        return f"{text.rpartition(chr(10))[0] or text}\n[cut: there is more]\n" if is_cut else text

    text = git(*_DIFF, "HEAD", "--", ".", most_bytes=cap_chars)
    text = text or git(*_DIFF, "--", ".", most_bytes=cap_chars)
    new = git("ls-files", "--others", "--exclude-standard", most_bytes=cap_chars // 10)
    names = new.splitlines()
    lines = [f"new file, not tracked: {name}" for name in names[:_MOST_NEW]]
    if len(names) > _MOST_NEW:
        lines.append(f"[{len(names) - _MOST_NEW} or more further files are not tracked]")
    return "\n".join(filter(None, (text.rstrip("\n"), *lines)))


def find_program(name: str) -> str | None:
    """Return the path of a program; None where there is none, or one that depends on the present folder."""
    program = shutil.which(name)
    return program if program is not None and Path(program).is_absolute() else None


def _run(
    command: Sequence[str], cwd: Path, timeout_s: float = _TIMEOUT_S, most_bytes: int = _MOST_BYTES
) -> tuple[str, bool]:
    """Return the first *most_bytes* of the output of *command*, and whether there was more.

    The output is empty when the command fails or takes too long.
    """
    program = find_program(command[0])
    if program is None:
        return "", False
    try:
        process = subprocess.Popen(
            [program, *command[1:]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError:
        return "", False
    killer = Timer(timeout_s, process.kill)
    killer.start()
    try:
        with process:
            assert process.stdout is not None
            raw = process.stdout.read(most_bytes + 1)
            is_cut = len(raw) > most_bytes
            if is_cut:
                process.kill()
    finally:
        killer.cancel()
    has_failed = process.returncode != 0 and not is_cut
    return "" if has_failed else raw[:most_bytes].decode("utf-8", "replace"), is_cut
