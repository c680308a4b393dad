"""Protected files: something runs or obeys them without asking, so that each change of one asks.

They are the places where an edit becomes a program or a permission, and no command of the user names them
again: repositories with their hooks, recipes of build servers, settings of editors, debuggers, package
managers and agents, rules that agents follow, and files that a shell runs when it starts or enters a folder.

The rule behind the list: a program that obeys a file by its name alone gives it a hidden one, as a rule. So
each change of a hidden file asks, and an answer "always" reaches that file only. A hidden name that ends in
``rc``, ``init``, ``profile``, ``login`` or ``logout`` has commands that a program runs when it starts, and
asks each time. The list names other hidden ones that do, which the sandbox keeps from commands as well, and
visible ones, which must be known by name: a program that finds them obeys them, as ``git`` obeys a folder
with ``HEAD`` and ``objects``, and ``python`` one with ``pyvenv.cfg``. A recipe that only a command of the
user reads, such as a ``Makefile``, is not among them, since that command asks.

Names are compared as the least careful file system would: case, trailing dots and blanks, stream names and
invisible characters do not count. Looks at the disk for repositories and folders of programs.
"""

from __future__ import annotations

import os
import re
import unicodedata
from fnmatch import translate
from pathlib import Path
from typing import Final

from sidecar._internal.env import user_home_folder
from sidecar._internal.values import Value
from sidecar.permissions.programs import is_on_path, is_part_of_system
from sidecar.permissions.repository import is_bare_repository

KEYS_OF_USER: Final = "keys of the user"

PROTECTED: Final = {
    "the repository itself": (
        "applypatch-msg .bzr commit-msg *.git .git .gitconfig .githooks .gitmodules git~1 head .hg "
        ".husky .jj post-applypatch post-checkout post-commit post-index-change post-merge post-receive "
        "post-rewrite post-update pre-applypatch pre-auto-gc pre-commit pre-merge-commit pre-push "
        "pre-rebase pre-receive prepare-commit-msg proc-receive push-to-checkout reference-transaction "
        "sendemail-validate .sl .svn"
    ),
    "a command around a commit": (
        ".lefthook* lefthook*.json lefthook*.toml lefthook*.yaml lefthook*.yml lint-staged.config.* "
        ".overcommit.yml .pre-commit-config.yaml .pre-commit-hooks.yaml prek.toml .simple-git-hooks.* "
        "simple-git-hooks.*"
    ),
    "a recipe of a build server": (
        "action.y*ml .appveyor.yml appveyor.yml .azure-pipelines azure-pipelines*.y*ml .azuredevops "
        "bitbucket-pipelines.yml bitrise.yml .build.yml .buildkite .builds buildspec*.y*ml circle.yml "
        ".circleci .cirrus.star .cirrus.y*ml cloudbuild*.y*ml .codefresh codefresh.yml codemagic.yaml "
        "codeowners dependabot.y*ml .drone.yml .forgejo .gitea .github .gitlab *.gitlab-ci.yml .harness "
        "*.jenkinsfile jenkinsfile jenkinsfile.* netlify.toml render.yaml renovate.json* .semaphore "
        ".teamcity .tekton .travis.yml vercel.json wercker.yml .woodpecker .woodpecker.y*ml"
    ),
    "settings of an editor": (
        "*.code-workspace .cursor .devcontainer .devcontainer.json devcontainer.json .dir-locals-2.el "
        ".dir-locals.el .emacs .emacs.d .fleet .helix .idea .kateproject .lapce .nvim .nvim.lua "
        "pylintrc *.sublime-project .sublime-project .trae .vim .void .vs .vscode .windsurf *.xcscheme "
        ".ycm_extra_conf.py .zed"
    ),
    "settings of an agent": (
        ".agent .agents .aider* .amp .augment .claude .claude.json claude_desktop_config.json .cline "
        ".codex .continue .copilot .crush .crush.json crush.json .factory .gemini .goose .iflow .junie "
        ".kilocode .kilocodemodes .kiro mcp-config.json .mcp.json mcp.json mcp_config.json .opencode "
        "opencode.json opencode.jsonc .openhands .qwen .roo .roomodes .serena .sidecar .sidecar.toml "
        ".tabnine .warp"
    ),
    "rules for agents": (
        "*.agent.md agent.md agents.local.md agents.md agents.override.md .augment-guidelines "
        "*.chatmode.md claude.local.md claude.md .clinerules codebuddy.md copilot-instructions.md "
        "crush.md .cursorrules gemini.md .goosehints iflow.md *.instructions.md *.mdc opencode.md "
        "*.prompt.md qwen.md replit.md .rules skill.md warp.md .windsurfrules"
    ),
    "settings of a package manager": (
        ".bundle bunfig.toml .cargo gradle-wrapper.properties .mvn nuget.config pip.conf pip.ini "
        ".pnpmfile.* sitecustomize.py usercustomize.py uv.toml .yarn"
    ),
    "settings of a debugger": (".ghci .guile .iex.exs"),
    "a start-up file of a shell": (
        ".bash_aliases conf.d config.fish *_profile.ps1 profile.ps1 .tmux.conf .xsession .zshenv"
    ),
    "start-up commands of a program": (".*init .*init-* .*login .*logout .*profile .??*rc .??*rc.*"),
    "an environment that a shell loads": (
        ".autoenv .autoenv.zsh default.nix devbox.json devenv.local.nix devenv.nix devenv.yaml "
        "flake.nix .mise* mise.*.toml mise.toml .prototools shell.nix .tool-versions"
    ),
    "a start-up file of the system": ("autostart cron.d crontab launchagents launchdaemons systemd .xdg"),
    KEYS_OF_USER: (
        "authorized_keys .aws .azure .docker .git-credentials .gnupg .kube .netrc _netrc "
        ".password-store .pypirc .ssh"
    ),
}
"""Names of files and folders by the reason; whatever lies in such a folder is protected as well."""

_OF_HOME: Final = frozenset(("appdata", "application data", "bin", "library", "ntuser.dat"))
"""Visible names in the home folder with programs and settings of the user."""

_NAMED: Final = {name: why for why, names in PROTECTED.items() for name in names.split() if "*" not in name}
_PATTERNS: Final = tuple(
    (re.compile("|".join(translate(name) for name in names.split() if "*" in name)), why)
    for why, names in PROTECTED.items()
    if "*" in names
)
_SHORT_NAME: Final = re.compile(r".{1,7}~\d{1,2}(?:\..{0,3})?")
"""The second name that Windows gives a file; the first one may be hidden."""


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
    outermost = next((root for root in sorted(place.roots) if path.is_relative_to(root)), None)
    parts = path.parts if outermost is None else path.relative_to(outermost).parts
    named = next((why for part in parts if (why := why_named(part)) is not None), None)
    if named is not None or outermost is None:
        return named
    home = user_home_folder()
    has_home = home is not None and home.is_relative_to(outermost) and home in path.parents
    if home and has_home and _fold_name(path.relative_to(home).parts[0]) in _OF_HOME:
        return "a part of the home folder that programs obey"
    if is_part_of_system(path, place.roots):
        return "a part of the system"
    if is_on_path(path, place.roots):
        return "a part of a folder of programs"
    between = (path, *path.parents[: len(parts)])
    if any(os.path.isfile(folder / "pyvenv.cfg") for folder in between):
        return "a part of a virtual environment"
    return "the repository itself" if any(map(is_bare_repository, between)) else None


def why_named(name: str) -> str | None:
    """Return the reason why a file or folder called *name* is protected wherever it lies, None for none."""
    folded = _fold_name(name)
    return _NAMED.get(folded) or next((why for each, why in _PATTERNS if each.match(folded)), None)


def is_hidden(path: Path, place: SessionFolders) -> bool:
    """Whether a part of *path* inside the innermost of the roots is hidden.

    >>> place = SessionFolders((Path("/p/.worktrees/a"),))
    >>> [is_hidden(place.roots[0] / name, place) for name in ("src/.eslintrc", "src/a.py")]
    [True, False]
    """
    above = [root for root in place.roots if path.is_relative_to(root)]
    parts = path.relative_to(max(above, key=lambda root: len(root.parts))).parts if above else ()
    names = map(_fold_name, parts)
    return any(name.startswith(".") or _SHORT_NAME.fullmatch(name) for name in names)


def _fold_name(name: str) -> str:
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", visible).partition(":")[0].rstrip(". ").casefold()
