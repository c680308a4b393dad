"""Decisions about actions: modes, rules, answers "always", and the files that always ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar._internal.values import replace
from sidecar.permissions.access import (
    Access,
    CommandAccess,
    EditAccess,
    FetchAccess,
    PatchAccess,
    ReadAccess,
    ServerToolAccess,
)
from sidecar.permissions.policy import PermissionMode, Policy
from sidecar.permissions.protected import SessionFolders
from sidecar.permissions.rules import parse_rules

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX shells, paths and links")


@pytest.fixture(autouse=True)
def _source(root: Path) -> None:
    (root / "src").mkdir()
    (root / "src/a.py").write_text("x\n", encoding="utf-8")


def run(line: str, root: Path) -> CommandAccess:
    return CommandAccess(line, root)


def edit(name: str, root: Path) -> EditAccess:
    return EditAccess(root / name, is_inside=True)


@pytest.mark.parametrize(
    ("line", "label"),
    [
        pytest.param("git push origin main", "`git push`", id="program and sub-command"),
        pytest.param(
            "git add a && git push",
            "`git` add, commit, stash, switch, fetch, pull, merge and rebase and `git push`",
            id="two",
        ),
        pytest.param("npm run deploy", "`npm run deploy`", id="the name of a script"),
        pytest.param(
            "npm run test:unit -- --run", "tests, checks and builds of the project", id="routine scripts"
        ),
        pytest.param("cargo clippy", "tests, checks and builds of the project", id="builds"),
        pytest.param("python3 x.py", "exactly `python3 x.py`", id="word for word"),
        pytest.param(
            "cd src && ./x", "exactly `./x` in {root} or {root}/src", id="where a relative path leads"
        ),
        pytest.param("touch src/b.py", "changes to files in the session's folders", id="an edit"),
        pytest.param("git push --force", "exactly `git push --force`", id="a flag that is not known"),
        pytest.param("python3 $x", "", id="computed words"),
        pytest.param("env | sh", "", id="a program that a pipe feeds"),
        pytest.param(
            "cp src/a.py {root}/../other/b.py",
            "changes to files in the session's folders and changes to files in `{root.parent}/other`",
            id="an edit elsewhere",
        ),
        pytest.param(
            "echo x > {root}/../other/b.py", "changes to files in `{root.parent}/other`", id="a redirection"
        ),
        pytest.param("while x; do z; done", "", id="not understood"),
    ],
)
def test_always_says_what_it_covers(root: Path, line: str, label: str) -> None:
    verdict = Policy(SessionFolders((root,))).judge(run(line.replace("{root}", str(root)), root))
    assert (verdict.outcome, verdict.label) == ("ask", label.format(root=root))
    assert bool(verdict.keys) == bool(label)


@pytest.mark.parametrize(
    ("always", "line", "covered"),
    [
        ("git push origin main", "git push -u origin topic", True),
        ("git push origin main", "git push --force", False),
        ("git push", "git pull", False),
        ("git add a", "git commit -m 'b'", True),
        ("git add a", "git pull --rebase && git switch -c topic && git merge -m x main", True),
        ("git add a", "git push", False),
        ("cargo test", "npm run lint && pytest -q && go build ./... && make clean", True),
        ("cargo test", "npm run deploy", False),
        ("cargo test", "npx tsc --noEmit", False),
        ("cargo test", "./gradlew test", False),
        ("touch ../a", "cp src/a.py ../b", True),
        ("touch ../a", "touch ../../b", False),
        ("git push", "for x in a b; do git push origin $x; done", True),
        ("git push", "for x in a --force; do git push origin $x; done", False),
        ("git push", "to=origin && git push $to main && echo $to", True),
        ("npm run lint", "npm test 2>&1 | tail -20", True),
        ("npm run lint", "npm run deploy", False),
        ("npm run deploy", "npm run deploy", True),
        ("make", "cd src && make test", True),
        ("cargo test", "timeout 60 cargo test -q name", True),
        ("timeout 60 cargo test", "timeout 60 rm -r src", False),
        ("python3 x.py", "python3 x.py", True),
        ("python3 x.py", "python3 y.py", False),
        ("./x", "cd src && ./x", False),
        ("env", "env sh", False),
        ("git push && make", "make && git push && ls", True),
        ("gh pr view 1", "gh pr list", True),
        ("gh pr view 1", "gh pr create --title t --body b", False),
        ("curl https://a.example.com/x", "curl -s https://a.example.com/y", True),
        ("curl https://a.example.com/x", "curl https://b.example.com/y", False),
        ("echo x > src/b", "sed -i 's/x/y/' src/a.py", True),
        ("cd .. && make", "make", False),
    ],
)
def test_coverage(root: Path, always: str, line: str, covered: bool) -> None:
    policy = Policy(SessionFolders((root,)))
    policy.granted.update(policy.judge(run(always, root)).keys)
    assert policy.judge(run(line, root)).outcome == ("allow" if covered else "ask")


@pytest.mark.parametrize(
    "line",
    [
        "ls -la src && cat src/a.py | head -5",
        "sed -n '1,120p' src/a.py",
        "sed -n '/def /,/return/{p;q}' src/a.py",
        "rg -n 'a|b' src -g '*.py' 2>/dev/null",
        "git status --short --branch; git diff --stat; git log --oneline -5 | cat",
        "git --no-pager -C src log -3",
        "find . -name '*.py' -not -path './x/*' | sort | uniq -c | sort -rn | head",
        "awk -F: '{print $1, NR}' src/a.py",
        "jq -r '.scripts | keys[]' package.json",
        "cd src && wc -l a.py && cat a.py",
        "grep -n x < src/a.py",
        "[ -f src/a.py ] && echo yes || echo no",
        "NO_COLOR=1 ls src/*.py",
        "command -v python3; date +%s; pwd",
    ],
)
def test_reading_inside_is_free(root: Path, line: str) -> None:
    assert Policy(SessionFolders((root,))).judge(run(line, root)).outcome == "allow"


def test_a_link_that_leads_outside_is_outside(root: Path) -> None:
    (root.parent / "secret").write_text("x", encoding="utf-8")
    (root / "link").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to(root.parent)
    for line in (
        "cat link",
        "cat li*k",
        "cat folder/secret",
        "cat ./*",
        "cd folder && cat secret",
        "ls folder/..",
    ):
        assert Policy(SessionFolders((root,))).judge(run(line, root)).outcome == "ask", line


def test_a_program_that_follows_links_in_folders_is_not_free(root: Path) -> None:
    for name in ("one", "two"):
        (root / name).mkdir()
    (root / "one/x").symlink_to(root.parent / "secret")
    for line in (
        "diff one two",
        "diff -r one two",
        "grep -R x one",
        "rg -L x one",
        "find -L one",
        "tree -l one",
    ):
        assert Policy(SessionFolders((root,))).judge(run(line, root)).outcome == "ask", line


def test_reading_outside_is_covered_by_folder(root: Path) -> None:
    other = root.parent / "other"
    (other / "deep").mkdir(parents=True)
    policy = Policy(SessionFolders((root,)))
    (key,) = policy.judge(ReadAccess(other / "a.txt")).keys
    policy.granted.add(key)
    assert policy.judge(run("cat ../other/b.txt", root)).outcome == "allow"
    assert policy.judge(run("cat ../other/deep/b.txt", root)).outcome == "ask"
    policy.granted.update(policy.judge(run("ls ../other", root)).keys)
    assert policy.judge(ReadAccess(other / "deep" / "b.txt")).outcome == "allow"
    assert policy.judge(run("touch ../other/x", root)).outcome == "ask"


def test_home_and_keys_ask_each_time(root: Path) -> None:
    home = Path("~").expanduser()
    for path in (
        home / ".netrc",
        home / "notes.txt",
        home,
        home / ".ssh" / "config",
        Path("/"),
        home / ".aws/x",
    ):
        assert Policy(SessionFolders((root,))).judge(ReadAccess(path)).keys == frozenset(), path


@pytest.mark.parametrize(
    ("mode", "outcomes"),
    [
        ("ask", "allow ask ask ask ask ask ask"),
        ("allowEdits", "allow allow allow ask ask ask ask"),
        ("plan", "allow deny deny deny ask ask deny"),
        ("allowAll", "allow allow allow allow allow allow allow"),
    ],
)
def test_modes(root: Path, mode: PermissionMode, outcomes: str) -> None:
    accesses: tuple[Access, ...] = (
        run("cat src/a.py", root),
        edit("src/a.py", root),
        run("echo x > src/b", root),
        run("make", root),
        ReadAccess(root.parent / "x"),
        ServerToolAccess("git", "log", is_read_only=True),
        ServerToolAccess("git", "push", is_read_only=False),
    )
    policy = Policy(SessionFolders((root,)), mode=mode)
    assert " ".join(policy.judge(access).outcome for access in accesses) == outcomes


def test_rules_decide_before_modes_and_answers(root: Path) -> None:
    rules = parse_rules(
        ["npm run *", "./deploy.sh *", "edit: docs/**", "git push", "git *", "mcp: git log"],
        ["git push --force", "rm", "edit: **/secret*"],
    )
    policy = Policy(SessionFolders((root,)), rules)
    decided: dict[Access, str] = {
        run("npm run anything", root): "allow",
        run("./deploy.sh --now", root): "allow",
        run("git push origin main", root): "allow",
        run("git -c alias.x=!y x", root): "ask",
        run("git clean -fdx", root): "ask",
        run("git push --force", root): "deny",
        run("git -C src push origin --force", root): "deny",
        run("ls; rm x", root): "deny",
        run("sudo /bin/rm x", root): "deny",
        run("sh -c 'rm x'", root): "deny",
        run("for x in y; do rm x; done", root): "deny",
        run("echo rm", root): "allow",
        edit("docs/a/b.md", root): "allow",
        edit("src/b.md", root): "ask",
        edit("docs/.git/config", root): "ask",
        edit("docs/secret.md", root): "deny",
        ServerToolAccess("git", "log", is_read_only=False): "allow",
        ServerToolAccess("git", "push", is_read_only=False): "ask",
    }
    assert {access: policy.judge(access).outcome for access in decided} == decided
    policy.mode = "allowAll"
    assert policy.judge(run("rm x", root)).why == "your rule 'rm' denies it"


@pytest.mark.parametrize("mode", ["ask", "allowEdits", "allowAll"])
def test_where_a_rule_that_denies_may_be_missing_every_action_asks(root: Path, mode: PermissionMode) -> None:
    policy = Policy(SessionFolders((root,)), parse_rules(["make"], ["rm"]), mode=mode)
    policy.grant(policy.judge(edit("src/a.py", root)))
    policy.rules = replace(policy.rules, problem="a rule is missing")
    for access in (run("make", root), edit("src/a.py", root), run("git push", root)):
        verdict = policy.judge(access)
        assert (verdict.outcome, verdict.why, verdict.keys) == ("ask", "a rule is missing", frozenset())
    assert policy.judge(run("cat src/a.py", root)).outcome == "allow"
    assert policy.judge(run("rm x", root)).outcome == "deny"


@pytest.mark.parametrize("text", ["", "*", "a; b", "a | b", "a > b", "x=1 a", "a $b", "edit:", "mcp:", "a '"])
def test_a_wrong_rule_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="rule"):
        parse_rules([text], [])


def test_a_line_of_another_shell_is_not_understood(root: Path) -> None:
    verdict = Policy(SessionFolders((root,))).judge(CommandAccess("dir", root, is_posix=False))
    assert (verdict.outcome, verdict.keys) == ("ask", frozenset())


class TestRepositories:
    """Git reads freely in the session's own repository, unless its configuration names a program."""

    @pytest.mark.parametrize(
        ("config", "outcome"),
        [
            ("[core]\n\tbare = false\n\tfsmonitor = true\n", "allow"),
            ("[core]\n\tfsmonitor = ./x\n", "ask"),
            ("[core] fsmonitor = ./x\n", "ask"),
            ('[filter "x"]\n\tclean = ./x\n', "ask"),
            ("[include]\n\tpath = ../x\n", "ask"),
            ('[diff "x"]\n\ttextconv = ./x\n', "ask"),
            ('[remote "origin"]\n\turl = .\n\tpromisor = true\n\tuploadpack = ./x\n', "ask"),
            ("[extensions]\n\tpartialClone = origin\n", "ask"),
            ("[pager]\n\tlog = ./x\n", "ask"),
            ("[unheard-of]\n\tx = y\n", "ask"),
            ("[core]\n\tabbrev = 7 \\\n\tfsmonitor = ./x\n", "ask"),
            ("[core]\n\tworktree = /\n", "ask"),
            ("[core]\n\tworktree = ..\n", "allow"),
            ('[user]\n\temail = "a@b" ; me\n[branch "main"]\n\tremote = origin\n# a comment\n', "allow"),
            ('[remote "origin"]\n\turl = git@x:y\n\tfetch = +a/*:b/*\n[alias]\n\tco = checkout\n', "allow"),
        ],
    )
    def test_its_configuration(self, root: Path, config: str, outcome: str) -> None:
        (root / ".git").mkdir()
        (root / ".git/config").write_text(config, encoding="utf-8")
        assert Policy(SessionFolders((root,))).judge(run("git status", root)).outcome == outcome

    def test_a_work_tree_has_the_configuration_of_its_repository(self, root: Path) -> None:
        main = root.parent / "main/.git"
        (main / "worktrees/w").mkdir(parents=True)
        (main / "worktrees/w/commondir").write_text("../..\n", encoding="utf-8")
        (root / ".git").write_text(f"gitdir: {main}/worktrees/w\n", encoding="utf-8")
        (main / "config").write_text("[core]\n", encoding="utf-8")
        assert Policy(SessionFolders((root,))).judge(run("git status", root)).outcome == "allow"
        (main / "config").write_text("[core]\n\tsshCommand = x\n", encoding="utf-8")
        assert Policy(SessionFolders((root,))).judge(run("git status", root)).outcome == "ask"

    @pytest.mark.parametrize(
        ("index", "outcome"),
        [
            (b"DIRC\0\0\0\2\0\0\0\1" + bytes(24) + b"\0\0\x81\xa4", "allow"),
            (b"DIRC\0\0\0\2\0\0\0\1" + bytes(24) + b"\0\0\xe0\0", "ask"),
            (b"DIRC\0\0\0\2\0\0\0\1" + bytes(36) + b"\0\0\xe0\0", "allow"),
            (b"DIRC\0\0\0\4\0\0\0\1" + bytes(25) + b"\0\0\xe0\0", "ask"),
        ],
    )
    def test_one_with_submodules_asks_because_git_looks_into_them(
        self, root: Path, index: bytes, outcome: str
    ) -> None:
        (root / ".git").mkdir()
        (root / ".git/index").write_bytes(index)
        assert Policy(SessionFolders((root,))).judge(run("git status", root)).outcome == outcome

    @pytest.mark.parametrize("hook", ["hooks/pre-commit", "hooks/pre-commit.sample"])
    def test_steps_that_run_hooks_are_allowed_by_themselves(self, root: Path, hook: str) -> None:
        """A hook runs what the project names, such as a script that the model may have changed."""
        (root / ".git/hooks").mkdir(parents=True)
        policy = Policy(SessionFolders((root,)))
        policy.granted.update(policy.judge(run("git add a", root)).keys)
        (root / ".git" / hook).touch()
        verdict = policy.judge(run("git commit -m x", root))
        if hook.endswith(".sample"):
            assert verdict.outcome == "allow"
            return
        assert verdict.outcome == "ask"
        assert verdict.label.endswith("and the hooks that they run")
        policy.granted.update(verdict.keys)
        assert policy.judge(run("git commit -m y", root)).outcome == "allow"

    @pytest.mark.parametrize("is_bare", [False, True])
    def test_a_repository_inside_asks_by_itself(self, root: Path, is_bare: bool) -> None:
        (root / ".git").mkdir()
        inner = root / "src" if is_bare else root / "src/.git"
        (inner / "objects").mkdir(parents=True)
        (inner / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        policy = Policy(SessionFolders((root,)))
        policy.granted.update(policy.judge(run("git add a", root)).keys)
        for line in ("cd src && git status", "git -C src status", "cd src && git commit -m 'x'"):
            assert policy.judge(run(line, root)).outcome == "ask"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("cat src/*", "ask"),
        ("cat src/[^a]*", "ask"),
        ("cat src/[[:alpha:]]ink", "ask"),
        ("cat src/a.[p]y", "allow"),
        ("cat src/a.*", "allow"),
        ("cat src/[ab].py", "ask"),
        ("cat lib/[^x].py", "allow"),
        ("cat src/../lib/*.py", "allow"),
    ],
)
def test_a_pattern_is_free_when_nothing_that_any_shell_finds_lies_outside(
    root: Path, line: str, outcome: str
) -> None:
    (root.parent / "secret").write_text("x", encoding="utf-8")
    (root / "src/link").symlink_to("../../secret")
    (root / "lib").mkdir()
    (root / "lib/b.py").touch()
    assert Policy(SessionFolders((root,))).judge(run(line, root)).outcome == outcome


def test_fetching_asks_by_host_also_while_planning() -> None:
    place = SessionFolders((Path("/p"),))
    rules = parse_rules(["fetch: *.python.org"], ["fetch: evil.example"])
    policy = Policy(place, rules, mode="plan")
    outcomes = [
        policy.judge(FetchAccess(host)).outcome for host in ("docs.python.org", "a.example", "evil.example")
    ]
    assert outcomes == ["allow", "ask", "deny"]
    verdict = policy.judge(FetchAccess("a.example"))
    assert (verdict.label, verdict.keys) == ("`a.example`", frozenset({"fetch:a.example"}))
    policy.granted |= verdict.keys
    assert policy.judge(FetchAccess("a.example")).outcome == "allow"
    assert policy.judge(FetchAccess("a.example:8080")).outcome == "ask"


def test_several_changes_at_once_need_what_each_needs() -> None:
    place = SessionFolders((Path("/p"),))
    plain, hook = EditAccess(Path("/p/a"), True), EditAccess(Path("/p/.git/hooks/pre-commit"), True)
    policy = Policy(place, mode="allowEdits")
    assert policy.judge(PatchAccess((plain, plain))).outcome == "allow"
    verdict = policy.judge(PatchAccess((plain, hook)))
    assert (verdict.outcome, verdict.keys) == ("ask", frozenset())
