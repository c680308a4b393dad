"""The changes of a folder that are not committed, as git shows them, for a prompt that mentions ``@diff``.

It refuses a repository with a configuration that names a program, because git would run the program.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar.permissions.repository import find_repository, names_programs

_TIMEOUT_S: Final = 10.0
_MOST_NEW: Final = 30
_GIT: Final = ("--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "color.ui=never")
_DIFF: Final = ("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")


def working_diff(cwd: Path, cap_chars: int) -> str:
    """Return the changes in *cwd* since the last commit, and the names of new files; empty for none.

    Raises InvalidInput where there is no repository, or git does not run.
    """
    repository, git = find_repository(cwd), shutil.which("git")
    if repository is None:
        raise InvalidInput("the folder is in no git repository")
    if git is None or not Path(git).is_absolute():
        raise InvalidInput("git is not installed")
    if names_programs(repository):
        raise InvalidInput("the configuration of the repository names programs", hint="run !git diff")
    head = [git, *_GIT, *_DIFF, "HEAD", "--", "."]
    text = run_bounded(head, cwd, cap_chars) or run_bounded([git, *_GIT, *_DIFF, "--", "."], cwd, cap_chars)
    new = run_bounded([git, *_GIT, "ls-files", "--others", "--exclude-standard"], cwd, cap_chars // 10)
    names = new.splitlines()
    lines = [f"new file, not tracked: {name}" for name in names[:_MOST_NEW]]
    if len(names) > _MOST_NEW:
        lines.append(f"[{len(names) - _MOST_NEW} or more further files are not tracked]")
    return "\n".join(filter(None, (text.rstrip("\n"), *lines)))


def run_bounded(command: Sequence[str], cwd: Path, cap_chars: int) -> str:
    """Return the output of *command*, cut with a note; empty when it fails or prints nothing in time."""
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError:
        return ""
    killer = Timer(_TIMEOUT_S, process.kill)
    killer.start()
    try:
        with process:
            assert process.stdout is not None
            raw = process.stdout.read(cap_chars + 1)
            is_cut = len(raw) > cap_chars
            if is_cut:
                process.kill()
    finally:
        killer.cancel()
    if process.returncode != 0 and not is_cut:
        return ""
    text = raw[:cap_chars].decode("utf-8", "replace")
    whole_lines = text.rpartition("\n")[0] or text
    return f"{whole_lines}\n[cut: there is more]\n" if is_cut else text
