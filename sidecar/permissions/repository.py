r"""Repositories of git: which one a folder belongs to, and whether reading in it may run a program.

Reading commands of git run programs that the configuration of a repository names: a monitor of the files, a
filter, another way to compare, a server that has the missing objects. In the repository of a submodule they
do so by the configuration of that one. A repository comes with the folder of a stranger, hidden in a
sub-folder even inside an honest one. So a caller asks in every repository but the session's own, and in that
one too when it may run a program.

The rule is that of the known commands: the settings that run nothing are listed here, and any other one, also
one that only a later version of git knows, counts as naming a program. Looks at the disk.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.files import read_bytes, read_text, real_path

_CONFIG_BYTES: Final = 200_000
_INDEX_BYTES: Final = 100_000_000
_SUBMODULE_MODE: Final = re.compile(rb"(?=\0\0\xe0\0)")
_HEADER_BYTES: Final = 12
"""The mode of a submodule in an index, and the length of the part before the entries, one for each file."""

_PLAIN_SECTIONS: Final = (
    "advice alias author branch color column committer credential fetch gc github gitflow gui http i18n init"
    " maintenance pack pull push rebase rerere status tag url user"
)
_PLAIN_SETTINGS: Final = dict.fromkeys(_PLAIN_SECTIONS.split(), "") | {
    "commit": "cleanup gpgsign status verbose",
    "core": (
        "abbrev autocrlf bare bigfilethreshold checkstat commentchar commitgraph compression eol filemode"
        " fscache hidedotfiles ignorecase logallrefupdates longpaths multipackindex precomposeunicode"
        " preloadindex protecthfs protectntfs quotepath repositoryformatversion safecrlf sharedrepository"
        " sparsecheckout sparsecheckoutcone splitindex symlinks trustctime untrackedcache whitespace"
    ),
    "diff": (
        "algorithm colormoved colormovedws context ignoresubmodules indentheuristic interhunkcontext"
        " mnemonicprefix noprefix renamelimit renames statgraphwidth wserrorhighlight"
    ),
    "extensions": "noop objectformat refstorage relativeworktrees worktreeconfig",
    "feature": "experimental manyfiles",
    "index": "skiphash sparse threads version",
    "lfs": "access locksverify repositoryformatversion",
    "log": "abbrevcommit date decorate diffmerges follow mailmap showroot",
    "merge": "conflictstyle ff log renames stat",
    "remote": "fetch gh-resolved mirror prune prunetags push pushdefault pushurl tagopt url",
    "submodule": "active fetchjobs ignore url",
}
"""The settings with which reading runs nothing, by section; all of a section where none is named."""

_SECTION: Final = re.compile(r'\[([A-Za-z0-9-]+)(?:\.[\w.-]+|[ \t]+"(?:[^"\\]|\\.)*")?\][ \t]*', re.ASCII)
_SETTING: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")


def is_bare_repository(folder: Path) -> bool:
    """Whether git would take *folder* for a repository without a work tree, and run its hooks."""
    return os.path.isfile(folder / "HEAD") and os.path.isdir(folder / "objects")


def find_repository(folder: Path) -> Path | None:
    """Return the folder of git's files for *folder*, as git finds it; None outside of a repository."""
    for each in (real_path(folder), *real_path(folder).parents):
        if os.path.lexists(each / ".git"):
            return each / ".git"
        if is_bare_repository(each):
            return each
    return None


def names_programs(repository: Path | None) -> bool:
    """Whether the configuration of a repository may name a program or another file, or cannot be read."""
    if repository is None:
        return False
    try:
        own = _follow_pointer(repository)
        shared = _find_shared(own)
        if "post-index-change" in list_hooks(shared):
            return True
        paths = {folder / name for folder in (own, shared) for name in ("config", "config.worktree")}
        configs = [
            read_bytes(path, _CONFIG_BYTES).decode("latin-1") for path in paths if os.path.lexists(path)
        ]
    except (OSError, FileAccessError):
        return True
    return not all(is_plain_config(config, own, repository.parent) for config in configs)


def list_hooks(repository: Path) -> tuple[str, ...]:
    """Return the names of the hooks of *repository*, the folder of git's files; not the samples of git."""
    try:
        return tuple(name for name in os.listdir(repository / "hooks") if not name.endswith(".sample"))
    except OSError:
        return ()


def runs_hooks(repository: Path | None) -> bool:
    """Whether a commit or another step may run a hook, one of the repository or of its configuration."""
    if repository is None:
        return False
    try:
        return names_programs(repository) or bool(list_hooks(_find_shared(_follow_pointer(repository))))
    except (OSError, FileAccessError):
        return True


def has_submodules(repository: Path | None) -> bool:
    """Whether a repository may have submodules, into which git looks with their own configuration."""
    if repository is None:
        return False
    try:
        folder = _follow_pointer(repository)
        for path in (*folder.glob("index"), *folder.glob("sharedindex.*")):
            index = read_bytes(path, _INDEX_BYTES)
            # Entries begin at multiples of eight bytes, unless a later version packs them.
            step = 8 if index[:8] in (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3") else 1
            if any((found.start() - _HEADER_BYTES) % step == 0 for found in _SUBMODULE_MODE.finditer(index)):
                return True
    except (OSError, FileAccessError):
        return True
    return False


def _follow_pointer(repository: Path) -> Path:
    """Return the folder to which *repository* leads where it is the file of a work tree or a submodule."""
    if not os.path.isfile(repository):
        return repository
    pointer = read_text(repository, _CONFIG_BYTES).text.removeprefix("gitdir:").strip()
    return real_path(repository.parent / pointer)


def _find_shared(folder: Path) -> Path:
    """Return the folder of the repository to which *folder*, that of a work tree, belongs."""
    if not os.path.lexists(folder / "commondir"):
        return folder
    return real_path(folder / read_text(folder / "commondir", _CONFIG_BYTES).text.strip())


def is_plain_config(config: str, folder: Path, work_tree: Path) -> bool:
    """Whether all settings of *config* are listed, and nothing in it could be read in another way."""
    listed: str | None = None
    section = ""
    for line in config.split("\n"):
        rest = line.strip(" \t\r")
        while head := _SECTION.match(rest):
            section = head[1].lower()
            listed, rest = _PLAIN_SETTINGS.get(section), rest[head.end() :]
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.fullmatch(rest)
        if setting is None or listed is None or rest.endswith("\\"):
            return False
        name, value = setting[1].lower(), (setting[2] or "").strip('"')
        is_own = (section, name) == ("core", "worktree") and real_path(folder / value) == real_path(work_tree)
        is_builtin = (section, name) == ("core", "fsmonitor") and value in ("true", "false")
        if listed and name not in listed.split() and not is_own and not is_builtin:
            return False
    return True
