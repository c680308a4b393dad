"""Protected files: something runs or obeys them without asking, so that each change of one asks.

They are the places where an edit becomes a program or a permission: repositories with their hooks, settings
of editors and of this daemon, rules that agents follow, and files that a shell runs when it starts. Names
are compared as the least careful file system would: case, trailing dots and blanks, stream names and
invisible characters do not count. Pure but for the spelling of paths.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Final

from sidecar._internal.values import Value
from sidecar.permissions.programs import is_on_path, is_part_of_system

KEYS_OF_USER: Final = "keys of the user"

PROTECTED: Final = {
    "the repository itself": ".git .hg .svn .jj .bzr git~1 .gitmodules .gitconfig .husky .githooks",
    "settings of an editor": (
        ".vscode .idea .zed .fleet .vs .cursor .windsurf .nvim .vim .exrc .nvimrc .vimrc .nvim.lua "
        ".dir-locals.el .dir-locals-2.el .emacs .emacs.d .devcontainer .sublime-project"
    ),
    "settings of an agent": ".sidecar .sidecar.toml .mcp.json .agents .claude .codex .gemini .aider.conf.yml",
    "rules for agents": (
        "agents.md agents.override.md claude.md claude.local.md gemini.md copilot-instructions.md "
        ".cursorrules .windsurfrules .clinerules"
    ),
    "a start-up file of a shell": (
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile "
        ".zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .envrc .direnvrc .xprofile "
        ".xinitrc config.fish conf.d profile.ps1 microsoft.powershell_profile.ps1"
    ),
    KEYS_OF_USER: ".ssh .gnupg .netrc .pypirc .aws .kube",
}
"""Names of files and folders by the reason; whatever lies in such a folder is protected as well."""

_REASONS: Final = {name: why for why, names in PROTECTED.items() for name in names.split()}


class SessionFolders(Value):
    """The folders of a session: its *roots*, resolved, the working folder first, and the state directory."""

    roots: tuple[Path, ...]
    home: Path | None = None


def why_protected(path: Path, place: SessionFolders) -> str | None:
    """Return the reason why a change of the resolved *path* always asks, None when it need not.

    >>> why_protected(Path("/p/.GIT/hooks/pre-commit"), SessionFolders((Path("/p"),)))
    'the repository itself'
    >>> why_protected(Path("/p/src/git.py"), SessionFolders((Path("/p"),))) is None
    True
    """
    if place.home is not None and path.is_relative_to(place.home):
        return "settings of an agent"
    inside = next((path.relative_to(root) for root in place.roots if path.is_relative_to(root)), path)
    names = map(_fold_name, inside.parts)
    found = next((_REASONS[name] for name in names if name in _REASONS), None)
    if found is None and is_part_of_system(path, place.roots):
        return "a part of the system"
    if found is None and place.roots and is_on_path(path, place.roots):
        return "a part of a folder of programs"
    return found or ("settings of an editor" if _fold_name(path.name).endswith(".code-workspace") else None)


def _fold_name(name: str) -> str:
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", visible).partition(":")[0].rstrip(". ").casefold()
