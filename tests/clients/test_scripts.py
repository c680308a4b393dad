"""The scripts to copy, as their README tells to use them, with a model that plays a part."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from provider_fakes import FakeProvider
from provider_fakes.scenes import Called, Ended, Scene, Spent
from threaded_provider import provider_env, provider_in_thread, says

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SCRIPTS = Path(__file__).parents[2] / "clients/scripts"
SIDECAR = shlex.join((sys.executable, "-P", "-m", "sidecar"))
FINDING = {"file": "a.py", "line": 1, "severity": "error", "text": "It divides\nby zero."}
WRITE: Scene = (
    Called("c1", "write", (json.dumps({"path": "b.py", "content": "b = 1\n"}),)),
    Spent(900, 20),
    Ended("tool_calls"),
)


@dataclass
class Project:
    """A repository with one commit on main, and commands in it that reach a provider."""

    folder: Path
    provider: FakeProvider
    env: Mapping[str, str] = field(default_factory=dict)

    def run(self, *command: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
        )

    def python(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, str(SCRIPTS / script), *arguments)

    def commit(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        self.run("git", "add", name, check=True)
        self.run("git", "commit", "-qm", f"change {name}", check=True)


MakeProject: TypeAlias = Callable[..., Project]


@pytest.fixture
def make_project(tmp_path: Path) -> Iterator[MakeProject]:
    with ExitStack() as stack:

        def make(*scenes: Scene) -> Project:
            provider = stack.enter_context(provider_in_thread(scenes))
            folder = tmp_path / "project"
            folder.mkdir()
            private = {"HOME": str(tmp_path), "INDUSAGI_HOME": str(tmp_path / "home"), "SIDECAR": SIDECAR}
            named = {
                f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
            }
            path = os.pathsep.join(filter(None, sys.path))
            env = {**os.environ, **provider_env(provider), **private, **named, "PYTHONPATH": path}
            return Project(folder, provider, env)

        yield make


@pytest.fixture
def make_repository(make_project: MakeProject) -> MakeProject:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def make(*scenes: Scene) -> Project:
        project = make_project(*scenes)
        project.run("git", "init", "-q", "-b", "main", check=True)
        project.commit("a.py", "a = 1\n")
        return project

    return make


def test_the_review_prints_findings_and_fails_for_an_error(make_repository: MakeProject) -> None:
    project = make_repository(WRITE, says("Not JSON"), says(f"```json\n{json.dumps([FINDING])}\n```"))
    project.run("git", "checkout", "-qb", "work", check=True)
    project.commit("a.py", "a = 1 / 0\n")
    ran = project.python("review.py", "main")
    assert (ran.returncode, ran.stdout) == (1, "a.py:1: error: It divides by zero.\n"), ran.stderr
    assert not (project.folder / "b.py").exists(), "a review only reads"
    assert "a = 1 / 0" in json.dumps(project.provider.sent[0])
    ran = project.python("review.py", "gone")
    assert (ran.returncode, ran.stdout, "gone" in ran.stderr) == (2, "", True)


@pytest.mark.skipif(os.name == "nt", reason="the hook is a POSIX shell script")
def test_the_hook_drafts_a_message_and_never_prevents_a_commit(make_repository: MakeProject) -> None:
    project = make_repository(says("Add b\n\nIt was missing."))
    shutil.copy(SCRIPTS / "prepare-commit-msg", project.folder / ".git/hooks")
    editor = {"GIT_EDITOR": "true"}  # it leaves the draft as it is
    project.env = {**project.env, **editor}
    (project.folder / "b.py").write_text("b = 1\n")
    project.run("git", "add", "b.py", check=True)
    project.run("git", "commit", "-q", check=True)
    assert project.run("git", "log", "-1", "--format=%B").stdout.strip() == "Add b\n\nIt was missing."
    assert "b = 1" in json.dumps(project.provider.sent[0])
    project.env = {**project.env, "SIDECAR": "false"}
    project.commit("c.py", "c = 1\n")
    assert project.run("git", "log", "-1", "--format=%B").stdout.strip() == "change c.py"
    project.env = {**project.env, "SIDECAR": SIDECAR, "INDUSAGI_MODEL": "offline-1"}
    (project.folder / "d.py").write_text("d = 1\n")
    project.run("git", "add", "d.py", check=True)
    assert project.run("git", "commit", "-q").returncode == 1, "no message is no commit"
    ran = project.python("review.py", "HEAD~1")
    assert (ran.returncode, "no model is set up" in ran.stderr) == (2, True)
    ran = project.python("batch.py", "look at {file}", "a.py")
    assert (ran.returncode, ran.stdout, "no model is set up" in ran.stderr) == (2, "", True)
    sessions = Path(project.env["INDUSAGI_HOME"]) / "sessions"
    assert not list(sessions.glob("*.jsonl")), "the conversations of a hook are not stored"


def test_a_batch_over_fifty_files_stops_at_its_budget_and_goes_on_later(make_project: MakeProject) -> None:
    project = make_project(says("Done."))
    files = [f"f{at}.py" for at in range(50)]
    ran = project.python("batch.py", "--tokens", "20000", "look at {file}", *files)
    assert ran.returncode == 3, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["file"] for line in lines] == files[: len(lines)]
    assert lines[-1]["error"] == "budget", "its call would have broken the budget"
    assert 15_000 < sum(line["tokens"] for line in lines) <= 20_000
    assert lines[0]["dollars"] > 0
    (project.folder / "done.jsonl").write_text(ran.stdout)
    ran = project.python("batch.py", "--skip", "done.jsonl", "look at {file}", *files)
    assert ran.returncode == 0, ran.stderr
    rest = [json.loads(line)["file"] for line in ran.stdout.splitlines()]
    assert rest == files[len(lines) - 1 :], "the file whose turn was ended is done again"
    prompts = [json.dumps(each["messages"][-1]) for each in project.provider.sent]
    assert all(any(f"look at {file}" in prompt for prompt in prompts) for file in files)


def test_a_batch_says_that_dollars_cannot_bound_a_model_without_a_known_price(
    make_project: MakeProject,
) -> None:
    project = make_project(says("Done."))
    project.env = {**project.env, "INDUSAGI_MODEL": "anthropic:unpriced-1"}
    ran = project.python("batch.py", "--dollars", "2", "look at {file}", "a.py", "b.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("the price of this model is not known: only --tokens bounds the run") == 1
    assert "b.py, $0.00 and unknown prices, " in ran.stderr


@pytest.mark.parametrize("allow", [["edit: *.py"], []], ids=["by a rule", "by nobody"])
def test_the_one_file_client_asks_follows_and_decides(make_project: MakeProject, allow: list[str]) -> None:
    project = make_project(WRITE, says("Written."))
    script = project.folder / "use.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(SCRIPTS)!r})\n"
        "from sidecar_script import Sidecar, SidecarError\n"
        "asked, kinds = [], []\n"
        "def decide(request):\n"
        "    asked.append(request['title'])\n"
        "    return False\n"
        f"with Sidecar(allow={allow!r}, permission=decide, on_event=kinds.append) as s:\n"
        "    answer = s.ask('write b.py')\n"
        "    kinds = [event['kind'] for event in kinds]\n"
        "    print(answer.text, len(asked), answer.stop_reason)\n"
        "    print('toolFinished' in kinds, answer.tokens > 900)\n"
        "    try:\n"
        "        s.ask('x', sid='none')\n"
        "    except SidecarError as error:\n"
        "        print(error.kind)\n"
        "    s._daemon.kill()\n"
        "    try:\n"
        "        s.ask('x')\n"
        "    except SidecarError as error:\n"
        "        print(error.kind)\n"
    )
    ran = project.run(sys.executable, str(script))
    n_asked = 0 if allow else 1
    wanted = f"Written. {n_asked} end_turn\nTrue True\nsessionNotFound\nconnectionLost\n"
    assert (ran.returncode, ran.stdout) == (0, wanted), ran.stderr
    assert (project.folder / "b.py").exists() == bool(allow)


def test_the_one_file_client_imports_the_standard_library_alone() -> None:
    tree = ast.parse((SCRIPTS / "sidecar_script.py").read_text("utf-8"), feature_version=(3, 9))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_the_examples_of_the_readme_name_what_is_there() -> None:
    text = (SCRIPTS / "README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    compile(example, "README.md", "exec")
    assert all((SCRIPTS / name).exists() for name in re.findall(r"^\| `([\w.-]+)`", text, re.MULTILINE))
