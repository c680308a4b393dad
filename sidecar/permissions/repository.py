"""Repositories of git: which one a folder belongs to, and whether its configuration runs a program.

Reading commands of git run programs that the configuration of a repository names: a monitor of the files, a
filter, another way to compare. A repository comes with the folder of a stranger, hidden in a sub-folder even
inside an honest one. So a caller asks in every repository but the session's own, and in that one too when its
configuration names a program. Looks at the disk.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import read_text, real_path

_CONFIG_BYTES: Final = 200_000

_PROGRAM_IN_CONFIG: Final = re.compile(
    r"(?:^|\])\s*(?:fsmonitor\s*=(?!\s*(?:true|false)\s*$)"
    r"|(?:external|textconv|command|pager|program|clean|smudge|process|path|sshcommand|hookspath)\s*="
    r"|\[include)",
    re.IGNORECASE | re.MULTILINE,
)
"""Settings of a repository that name a program which a reading git command may run, or another file."""


def find_repository(folder: Path) -> Path | None:
    """Return the folder of git's files for *folder*, as git finds it; None outside of a repository."""
    for each in (real_path(folder), *real_path(folder).parents):
        if os.path.lexists(each / ".git"):
            return each / ".git"
        if (each / "HEAD").is_file() and (each / "objects").is_dir():
            return each
    return None


def names_programs(repository: Path | None) -> bool:
    """Whether the configuration of a repository names a program or another file, or cannot be read."""
    if repository is None:
        return False
    try:
        if repository.is_file():
            pointer = read_text(repository, _CONFIG_BYTES).text.removeprefix("gitdir:").strip()
            repository = real_path(repository.parent / pointer)
            shared = repository / "commondir"
            if shared.exists():
                repository = real_path(repository / read_text(shared, _CONFIG_BYTES).text.strip())
        if (repository / "hooks" / "post-index-change").exists():
            return True
        paths = [path for path in repository.glob("config*") if path.name in ("config", "config.worktree")]
        return any(_PROGRAM_IN_CONFIG.search(read_text(path, _CONFIG_BYTES).text) for path in paths)
    except (OSError, FileAccessError):
        return True
