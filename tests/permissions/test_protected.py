"""Files that other programs obey: each change asks, in every mode but ``allowAll``, also after "always"."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.permissions.access import CommandAccess, EditAccess
from sidecar.permissions.policy import PermissionMode, Policy, Verdict
from sidecar.permissions.protected import PROTECTED, SessionFolders
from sidecar.permissions.rules import parse_rules

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells, paths and links")

_OBEYED = (
    ".devcontainer.json devcontainer.json .devcontainer/Dockerfile x.sublime-project a.code-workspace "
    ".vscode/tasks.json .idea/workspace.xml .lvimrc .helix/config.toml "
    "App.xcodeproj/xcshareddata/xcschemes/App.xcscheme opencode.json opencode.jsonc .opencode/plugin/a.js "
    "crush.json .roo/mcp.json .roomodes .kiro/settings/mcp.json mcp.json .qwen/settings.json "
    ".aider.conf.yml .amp/settings.json .claude/settings.json .gemini/settings.json .codex/config.toml "
    "AGENTS.md docs/QWEN.md WARP.md .goosehints .cursor/rules/a.mdc rules/style.mdc .clinerules "
    "a.instructions.md SKILL.md .npmrc .yarnrc.yml .yarn/releases/yarn.cjs .pnpmfile.cjs bunfig.toml "
    ".cargo/config.toml pip.conf sitecustomize.py .pre-commit-config.yaml lefthook.yml "
    "lefthook-local.yaml .lefthook/pre-commit/a.sh .overcommit.yml .husky/pre-push lint-staged.config.mjs "
    ".lintstagedrc.json simple-git-hooks.cjs scripts/hooks/pre-commit hooks/post-checkout "
    ".github/workflows/ci.yml .gitlab-ci.yml ci/deploy.gitlab-ci.yml .circleci/config.yml .travis.yml "
    "Jenkinsfile Jenkinsfile.release azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml "
    "cloudbuild.yaml buildspec.yml .drone.yml .woodpecker.yaml .buildkite/pipeline.yml tools/action.yml "
    "netlify.toml vercel.json renovate.json CODEOWNERS .gdbinit .pdbrc .lldbinit .irbrc .psqlrc .envrc "
    ".mise.toml mise.toml mise.local.toml .tool-versions devbox.json flake.nix shell.nix .bashrc .zshenv "
    "conf.d/a.fish .tmux.conf .git/config .gitmodules mirror.git/config .ssh/config .kube/config "
    "gradle/wrapper/gradle-wrapper.properties default.nix pylintrc render.yaml "
    ".newtoolrc .newtoolrc.mjs src/.prettierrc.cjs .newshell_profile .newdebuggerinit "
    ".git/hooks/pre-commit .GIT/config .git./config .git::$DATA/x src/.git/config .g\u200cit/config "
    ".sidecar.toml src/.sidecar.toml src/claude.md .idea/x.xml src/.zshrc .mcp.json state/config.toml "
)
OBEYED = [*_OBEYED.split(), ".git /x"]
"""Files that a program obeys which nobody named, and for which an answer "always" is not offered."""

HIDDEN = (
    ".env",
    ".gitignore",
    "src/.prettierignore",
    ".storybook/main.js",
    ".newtool/run",
    ".g\u200citx",
    "GITIGN~1",
)
"""Hidden files; an answer "always" is about one of them."""

_ORDINARY = (
    "src/a.py Makefile package.json docs/agents-guide.md hooks/useThing.ts src/header.c ci/run.sh "
    "Dockerfile tsconfig.json git/config.py lib/x.y bin/tool library/x.rs my.mise.toml.md "
    "pre-commit.py docs/action.md src/git.py agents.py docs/vscode.md git/hooks.py src/head.py useHooks/a "
)
ORDINARY = _ORDINARY.split()


def judge_edit(
    name: str, root: Path, *, mode: PermissionMode = "allowEdits", roots: tuple[Path, ...] = ()
) -> Verdict:
    place = SessionFolders(roots or (root,), home=root / "state")
    policy = Policy(place, parse_rules(["edit: **"], []), mode=mode)
    policy.granted |= policy.judge(EditAccess(root / "src/other.py", is_inside=True)).keys
    return policy.judge(EditAccess(root / name, is_inside=True))


def test_there_are_enough_of_them() -> None:
    assert len({*OBEYED}) >= 60


@pytest.mark.parametrize("name", OBEYED)
def test_a_file_that_other_programs_obey_asks_each_time(root: Path, name: str) -> None:
    verdict = judge_edit(name, root)
    assert (verdict.outcome, verdict.keys) == ("ask", frozenset())
    assert "protected" in verdict.why


@pytest.mark.parametrize("name", [*OBEYED, *HIDDEN])
def test_so_does_a_command_that_changes_it(root: Path, name: str) -> None:
    policy = Policy(SessionFolders((root,), home=root / "state"), mode="allowEdits")
    for line in (f"echo x > '{name}'", f"touch '{name}'", f"cp src/a '{name}'", f"sed -i s/a/b/ '{name}'"):
        assert policy.judge(CommandAccess(line, root)).outcome == "ask", line


ROOT = Path("/nowhere/project")
FOLDERS = st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), max_size=3)
LISTED = st.sampled_from([name for names in PROTECTED.values() for name in names.split()])
DISGUISES = st.sampled_from(["{}", "{}.", "{} ", "{}:stream", "{}\u200b", "\u2060{}", "{}. ."])


@given(FOLDERS, st.from_regex(r"\.[a-z][a-zA-Z0-9_-]{0,9}(\.[a-z]{1,4})?", fullmatch=True), FOLDERS)
def test_every_hidden_path_asks(above: list[str], hidden: str, below: list[str]) -> None:
    name = "/".join([*above, hidden, *below])
    assert judge_edit(name, ROOT).outcome == "ask"
    policy = Policy(SessionFolders((ROOT,)), mode="allowEdits")
    assert policy.judge(CommandAccess(f"echo x > {name}", ROOT)).outcome == "ask"


@given(FOLDERS, LISTED, st.from_regex(r"[a-z]{0,4}", fullmatch=True), DISGUISES, st.booleans(), FOLDERS)
def test_a_listed_name_asks_each_time_in_any_disguise(
    above: list[str], listed: str, star: str, disguise: str, is_upper: bool, below: list[str]
) -> None:
    name = disguise.format(listed.replace("*", star))
    path = "/".join([*above, name.upper() if is_upper else name, *below])
    verdict = judge_edit(path, ROOT)
    assert (verdict.outcome, verdict.keys) == ("ask", frozenset())


@pytest.mark.parametrize("name", HIDDEN)
def test_always_about_a_hidden_file_reaches_that_file_only(root: Path, name: str) -> None:
    policy = Policy(SessionFolders((root,)), mode="allowEdits")
    verdict = policy.judge(EditAccess(root / name, is_inside=True))
    assert (verdict.outcome, verdict.label) == ("ask", f"changes to `{root / name}`")
    policy.grant(verdict)
    assert policy.judge(EditAccess(root / name, is_inside=True)).outcome == "allow"
    assert policy.judge(EditAccess(root / f"{name}2", is_inside=True)).outcome == "ask"
    assert policy.judge(EditAccess(root / ".other", is_inside=True)).outcome == "ask"


def test_a_rule_reaches_a_hidden_file_only_when_it_names_a_hidden_one(root: Path) -> None:
    access = EditAccess(root / ".storybook/main.js", is_inside=True)
    outcomes = {
        rule: Policy(SessionFolders((root,)), parse_rules([rule], [])).judge(access).outcome
        for rule in ("edit: **", "edit: **/*.js", "edit: .storybook/**", "edit: .storybook/main.js")
    }
    assert [*outcomes.values()] == ["ask", "ask", "allow", "allow"]


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_file_does_not(root: Path, name: str) -> None:
    assert judge_edit(name, root).outcome == "allow"


@pytest.mark.parametrize("name", ["config", "hooks/update", "info/attributes", "objects/info/alternates"])
def test_a_repository_without_a_work_tree_is_protected(root: Path, name: str) -> None:
    assert judge_edit(f"store/{name}", root).outcome == "allow"
    (root / "store/objects").mkdir(parents=True)
    (root / "store/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    assert judge_edit(f"store/{name}", root).keys == frozenset()
    assert "the repository itself" in judge_edit(f"store/{name}", root).why


@pytest.mark.parametrize(
    "name", ["bin/activate", "bin/pip", "lib/python3.11/site-packages/a.pth", "pyvenv.cfg"]
)
def test_a_virtual_environment_is_protected(root: Path, name: str) -> None:
    assert judge_edit(f"venv/{name}", root).outcome == "allow"
    (root / "venv").mkdir()
    (root / "venv/pyvenv.cfg").touch()
    assert "a virtual environment" in judge_edit(f"venv/{name}", root).why
    assert judge_edit("src/a.py", root).outcome == "allow"


def test_the_head_of_such_a_repository_cannot_be_made_unasked(root: Path) -> None:
    assert judge_edit("store/HEAD", root).outcome == "ask"


@pytest.mark.parametrize(
    "name",
    [
        ".config/autostart/a.desktop", ".config/systemd/user/a.service", ".local/bin/ls", ".cargo/env",
        "bin/ls", "Library/LaunchAgents/a.plist", "Library/x", "AppData/Roaming/x", ".gitconfig",
        ".profile", ".ssh/rc", ".config/git/config", ".local/share/applications/a.desktop",
        ".pam_environment", ".xsession", ".vimrc", ".config/fish/config.fish", ".mozilla/firefox/p/user.js",
        "p/.git/hooks/pre-commit", "p/.envrc",
    ],
)  # fmt: skip
def test_with_the_home_folder_as_root_what_the_login_obeys_asks(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(root))
    assert judge_edit(name, root).outcome == "ask"
    assert judge_edit(f"{root}/{name}", root, roots=(root.parent,)).outcome == "ask"
    assert judge_edit("notes/a.md", root).outcome == "allow"


@pytest.mark.parametrize("name", ["/etc/profile.d/x", "/usr/bin/ls", "/lib/x.so", "/etc/ld.so.preload"])
def test_with_the_whole_machine_as_root_the_system_asks(name: str) -> None:
    assert judge_edit(name, Path("/")).outcome == "ask"
    assert judge_edit("/srv/project/a.py", Path("/")).outcome == "allow"


def test_a_root_inside_a_hidden_folder_is_like_any_other(root: Path) -> None:
    inner = root / ".worktrees/a"
    assert judge_edit("src/b.py", inner).outcome == "allow"
    assert judge_edit("src/b.py", inner, roots=(root, inner)).outcome == "allow"
    assert judge_edit(".b", inner, roots=(root, inner)).outcome == "ask"
