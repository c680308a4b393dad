"""What scripts use: ``sidecar run`` with its forms of output, limits and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from provider_fakes import FakeProvider, Refused
from provider_fakes.scenes import Called, Ended, Said, Scene, Spent
from threaded_provider import provider_env, provider_in_thread, says

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

LOOK: Scene = (
    Said(("I look first.",)),
    Called("c1", "read", (json.dumps({"path": "a.py"}),)),
    Spent(900, 20),
    Ended("tool_calls"),
)
WRITE: Scene = (
    Called("c2", "write", (json.dumps({"path": "b.py", "content": "b = 1\n"}),)),
    Spent(900, 20),
    Ended("tool_calls"),
)
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@dataclass
class Shell:
    """A folder with a.py, and commands in it that reach a provider."""

    provider: FakeProvider
    folder: Path
    env: Mapping[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "sidecar", *arguments]
        ran = subprocess.run(
            command, cwd=self.folder, env=self.env, input="", capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in ran.stderr
        return ran


MakeShell: TypeAlias = Callable[..., Shell]


@pytest.fixture
def make_shell(tmp_path: Path) -> Iterator[MakeShell]:
    with ExitStack() as stack:

        def make(*scenes: Scene) -> Shell:
            provider = stack.enter_context(provider_in_thread(scenes))
            folder = tmp_path / "project"
            folder.mkdir()
            (folder / "a.py").write_text("answer = 42\n")
            env = {**os.environ, **provider_env(provider), "INDUSAGI_HOME": str(tmp_path / "home")}
            return Shell(provider, folder, env)

        yield make


def test_the_answer_is_on_stdout_and_the_way_to_it_on_stderr(make_shell: MakeShell) -> None:
    shell = make_shell(LOOK, says("It is 42."))
    ran = shell.run("run", "what is it?")
    assert (ran.returncode, ran.stdout) == (0, "It is 42.\n")
    assert "I look first.\n· Read a.py" in ran.stderr


def test_the_result_is_one_object_and_events_are_lines_before_it(make_shell: MakeShell) -> None:
    shell = make_shell(LOOK, says("It is 42."), LOOK, says("It is 42."))
    result = json.loads(shell.run("run", "--json", "what is it?").stdout)
    assert (result["kind"], result["exitCode"], result["text"]) == ("result", 0, "It is 42.")
    assert result["stopReason"] == "end_turn"
    assert result["usage"]["sessionTotal"]["output"] == 60
    lines = shell.run("run", "--stream-json", "--resume", result["sid"], "again").stdout.splitlines()
    *events, last = map(json.loads, lines)
    kinds = [event["kind"] for event in events]
    assert (kinds[0], kinds[-1]) == ("phase", "settled")
    assert {"toolStarted", "toolFinished", "message", "usage", "textDelta"} <= set(kinds)
    assert (last["kind"], last["sid"], last["text"]) == ("result", result["sid"], "It is 42.")


def test_an_answer_that_does_not_match_its_schema_is_asked_for_once_more(make_shell: MakeShell) -> None:
    shell = make_shell(says("There are three."), says('```json\n{"n": 3}\n```'))
    ran = shell.run("run", "--output-schema", json.dumps(COUNT), "how many?")
    assert (ran.returncode, ran.stdout) == (0, '{"n": 3}\n')
    first, second = (json.dumps(each["messages"][-1]) for each in shell.provider.sent)
    assert "how many?" in first
    assert "required" in first, "the model is sent the schema"
    assert "does not match the schema" in second


def test_a_second_answer_that_does_not_match_is_an_error_of_its_own(make_shell: MakeShell) -> None:
    shell = make_shell(says('{"n": "three"}'))
    (shell.folder / "count.json").write_text(json.dumps(COUNT))
    ran = shell.run("run", "--json", "--output-schema", "count.json", "how many?")
    result = json.loads(ran.stdout)
    assert (ran.returncode, result["exitCode"], "output" in result) == (3, 3, False)
    assert result["problems"] == ["the answer.n: 'three' is not of type 'integer'"]
    assert result["problems"][0] in ran.stderr
    assert len(shell.provider.sent) == 2


def test_calls_of_the_model_are_limited(make_shell: MakeShell) -> None:
    shell = make_shell(LOOK)
    ran = shell.run("run", "--json", "--max-turns", "2", "what is it?")
    assert (ran.returncode, json.loads(ran.stdout)["error"]["kind"]) == (4, "turnBudget")
    assert len(shell.provider.sent) == 2
    ran = shell.run("run", "--json", "--budget", "5000 tokens", "what is it?")
    assert (ran.returncode, json.loads(ran.stdout)["stopReason"]) == (4, "budget")
    assert "A budget is used up: This prompt has used " in ran.stderr
    assert 2 < len(shell.provider.sent) < 9


@pytest.mark.parametrize(
    ("rules", "is_written"),
    [
        pytest.param((), False, id="nothing is allowed by itself"),
        pytest.param(("--allow", "make *", "--allow", "edit: *.py"), True, id="what a rule names"),
        pytest.param(("--allow", "edit: docs/**"), False, id="a rule for other files"),
        pytest.param(("--yes",), True, id="everything"),
    ],
)
def test_a_tool_does_what_is_allowed(make_shell: MakeShell, rules: tuple[str, ...], is_written: bool) -> None:
    shell = make_shell(WRITE, says("Done."))
    ran = shell.run("run", *rules, "write b.py")
    assert (ran.returncode, ran.stdout) == (0, "Done.\n")
    assert (shell.folder / "b.py").exists() == is_written
    assert ("not allowed: " in ran.stderr) == (not is_written)


def test_a_failure_has_its_reason_in_the_result(make_shell: MakeShell) -> None:
    shell = make_shell((Refused(401, "invalid x-api-key", "authentication_error"),))
    ran = shell.run("run", "--json", "hi")
    assert (ran.returncode, json.loads(ran.stdout)["error"]["kind"]) == (1, "authRequired")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--output-schema", "none.json"), "none.json: No such file", id="no schema"),
        pytest.param(("--output-schema", '{"type": "text"}'), "'text' is not valid", id="a wrong schema"),
        pytest.param(("--allow", "make | sh"), "must be one plain command", id="a wrong rule"),
        pytest.param(("--max-turns", "0"), "is not a number from 1 to", id="no call at all"),
        pytest.param(("--json", "--stream-json"), "not both", id="two forms"),
        pytest.param(("--budget", "5"), "'5' is not a budget; write an amount", id="a budget of what"),
    ],
)
def test_wrong_arguments_are_refused_before_a_daemon_starts(
    make_shell: MakeShell, arguments: tuple[str, ...], message: str
) -> None:
    shell = make_shell(says("never"))
    ran = shell.run("run", *arguments, "hi")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert not shell.provider.sent
