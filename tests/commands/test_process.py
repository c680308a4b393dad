"""The commands as their users start them: in a terminal, in a pipe, and with Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from sidecar.cli import main

if os.name != "nt":
    from terminals import TIMEOUT_S, Screened

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="drives a POSIX terminal"),
]

SIDECAR = (sys.executable, "-m", "sidecar")

Command: TypeAlias = Callable[..., tuple[int, str, str]]
"""Runs a command; returns its exit code, its output and its errors."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("answer = 42\n")
    for name in ("notes.md", "b.py", "c.py", "d.py"):
        body = "\n".join(f"# line {number} of {name}" for number in range(60))
        (folder / name).write_text(f"def {name[0]}_function():\n    pass\n{body}\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    private = {
        "HOME": str(tmp_path),
        "INDUSAGI_HOME": str(tmp_path / "home"),
        "TERM": "xterm",
        "COLUMNS": "100",
    }
    return {**os.environ, **private, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def run(project: Path, environment: dict[str, str], *arguments: str, **more: str) -> tuple[int, str, str]:
    """Run a command without a terminal; return its exit code, its output and its errors."""
    ran = subprocess.run(
        (*SIDECAR, *arguments),
        cwd=project,
        env={**environment, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "Traceback" not in ran.stderr
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def command(
    project: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Give a function that runs a command in this process, as :func:`run` does in one of its own."""
    monkeypatch.chdir(project)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for name in ("HOME", "INDUSAGI_HOME", "TERM", "COLUMNS"):
        monkeypatch.setenv(name, environment[name])

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return code, *capsys.readouterr()

    return call


def test_ctrl_c_stops_the_turn_then_leaves_and_the_session_goes_on(
    project: Path, environment: dict[str, str]
) -> None:
    chat = Screened(project, environment, "chat", "--plain")
    chat.wait_for_next("» ")
    chat.type("run `env sleep 60`\n")
    chat.wait_for_next("allow?")
    chat.type("y\n")
    chat.wait_for_next("\n")
    chat.type("\x03")
    chat.wait_for_next("stopping; Ctrl-C again leaves at once")
    chat.wait_for_next("tokens")
    chat.type("\x03")
    chat.wait_for_next("Ctrl-C again leaves")
    chat.type("\x03")
    assert chat.end() == 130
    assert "Traceback" not in chat.text
    sid = re.search(r"--resume (\w+)", chat.text)
    assert sid is not None

    again = Screened(project, environment, "chat", "--plain", "--resume", sid[1][:6])
    again.wait_for_next("continues: run `env sleep 60`")
    again.wait_for_next("» ")
    again.type("what is in a.py?\n")
    again.wait_for_next("answer = 42")
    again.wait_for_next("» ")
    again.type("/files\n")
    again.wait_for_next("a.py\tfresh")
    again.type("\x04")
    assert again.end() == 0


def test_a_session_without_a_prompt_is_not_kept(project: Path, environment: dict[str, str]) -> None:
    chat = Screened(project, environment, "chat", "--plain")
    chat.wait_for_next("» ")
    os.kill(chat.pid, signal.SIGTERM)
    assert chat.end() == 130
    assert run(project, environment, "sessions") == (0, "", "")


def test_run_answers_on_stdout_and_writes_notes_to_stderr(project: Path, environment: dict[str, str]) -> None:
    code, out, err = run(project, environment, "run", "what", "is", "in", "a.py?", LC_ALL="C", PYTHONUTF8="0")
    assert code == 0
    assert "`a.py:1` answer = 42" in out
    assert err.splitlines() in (["Reading a.py.", f"{mark} Read a.py"] for mark in "-·"), (
        "as it can be encoded"
    )
    code, out, _ = run(project, environment, "sessions", "--json")
    assert '"title":"what is in a.py?"' in out.replace('": "', '":"')
    assert '"updatedAt":' in out, "the names of the protocol"


def test_after_a_fork_the_chat_goes_on_in_the_fork(project: Path, environment: dict[str, str]) -> None:
    chat = Screened(project, environment, "chat", "--plain")
    chat.wait_for_next("» ")
    chat.type("/fork\n")
    chat.wait_for_next("There is nothing to fork yet")
    chat.type("what is in a.py?\n")
    chat.wait_for_next("answer = 42")
    chat.wait_for_next("tokens")
    chat.type("/fork\n")
    chat.wait_for_next("A copy of this conversation begins")
    chat.type("where is answer?\n")
    chat.wait_for_next("tokens")
    chat.type("\x04")
    assert chat.end() == 0
    _, out, _ = run(project, environment, "sessions")
    turns = sorted(int(line.split("\t")[2]) for line in out.splitlines())
    assert len(turns) == 2
    assert turns[0] < turns[1], "only the fork has the second prompt"


def test_run_continues_a_stored_session(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("what is in a.py?"))
    code, out, _ = command("run")
    assert (code, "answer = 42" in out) == (0, True), "a prompt that is piped in needs no argument"
    assert command("run", "--resume", "last", "what is in a.py again?")[0] == 0
    _, out, _ = command("sessions", "--json")
    (session,) = map(json.loads, out.splitlines())
    assert session["messages"] > 4
    code, _, err = command("run", "--resume", "nope", "x")
    assert (code, "no stored session begins with 'nope'" in err) == (2, True)


@pytest.mark.parametrize(
    ("prompt", "code", "answer"),
    [
        pytest.param("/unknown", 2, "There is no command /unknown", id="no command"),
        pytest.param("/help", 0, "/compact", id="a command"),
        pytest.param("!echo hi", 0, "hi", id="a line for the shell"),
    ],
)
def test_run_fails_for_a_command_that_does_not_exist(
    command: Command, prompt: str, code: int, answer: str
) -> None:
    found, out, _ = command("run", "--ephemeral", "--json", prompt)
    result = json.loads(out)
    assert (found, result["exitCode"], answer in result["text"]) == (code, code, True)


def test_a_stored_session_is_renamed_exported_and_deleted(command: Command) -> None:
    command("run", "what is in a.py?")
    _, out, _ = command("sessions", "--json")
    sid = json.loads(out)["sid"][:6]
    code, _, err = command("sessions", "--rename", sid, "the answer")
    assert (code, "is now: the answer" in err) == (0, True)
    code, out, _ = command("export", sid)
    assert (code, out.startswith("# the answer")) == (0, True)
    assert "answer = 42" in out
    code, out, _ = command("export", "last", "--format", "json")
    assert json.loads(out)["title"] == "the answer"
    code, out, _ = command("sessions", "--export", sid)
    assert (code, out.startswith("# the answer")) == (0, True)
    code, out, _ = command("sessions", "--search", "ANSWER = 42")
    assert (code, out.split("\t")[1]) == (0, "the answer")
    assert "answer = 42" in out.split("\t")[3]
    assert command("sessions", "--search", "nobody said this")[:2] == (1, "")
    code, _, err = command("sessions", "--delete", sid)
    assert (code, "'the answer' stays" in err) == (1, True)
    code, _, err = command("sessions", "--delete", sid, "--yes")
    assert (code, "deleted: the answer" in err) == (0, True)
    assert command("sessions") == (0, "", "")


def test_run_ends_silently_when_its_output_is_closed(project: Path, environment: dict[str, str]) -> None:
    ran = subprocess.Popen(
        (*SIDECAR, "run", "--stream-json", "what is in a.py?"),
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert ran.stdout is not None
    assert ran.stderr is not None
    assert b'"kind": "phase"' in ran.stdout.readline()
    ran.stdout.close()
    with ran.stderr:
        assert b"Error" not in ran.stderr.read()
    assert ran.wait() == 141


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(("run", ""), 2, "the prompt is empty", id="an empty prompt"),
        pytest.param(("run", "-"), 2, "the prompt is empty", id="nothing piped in"),
        pytest.param(("run",), 2, "the prompt is empty", id="no prompt, and nothing piped in"),
        pytest.param(("run", "--cwd", "gone", "hi"), 2, "gone: this folder does not exist", id="no folder"),
        pytest.param(("run", "--cwd", "a.py", "hi"), 2, "a.py: this is not a folder", id="a file"),
        pytest.param(("demo", "gone"), 2, "is not a folder", id="no folder to show"),
        pytest.param(("demo", "empty"), 2, "fewer than three text files", id="nothing to show"),
        pytest.param(
            ("run", "--cwd", "~nobody-has-this-name", "hi"),
            2,
            "name: this folder does not exist",
            id="no home",
        ),
        pytest.param(("compact", "gone"), 2, "cannot read gone: No such file", id="no file"),
        pytest.param(("compact", "a.py"), 2, "a.py is not a conversation", id="no conversation"),
        pytest.param(("schema", "--out", "a.py"), 1, "a.py", id="no folder to write into"),
        pytest.param(("run", "--model", "nope", "hi"), 2, "no model 'nope'", id="no model"),
        pytest.param(
            ("chat", "--resume", "nope"), 2, "begins with 'nope'; \"sidecar sessions\"", id="no session"
        ),
    ],
)
def test_an_impossible_command_is_refused_with_a_message(
    arguments: tuple[str, ...],
    code: int,
    message: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "empty").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("INDUSAGI_HOME", str(project.parent / "home"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) <= 3


def test_the_demonstration_holds_and_leaves_the_folder_as_it_was(
    project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.iterdir()}
    code, out, _ = run(project, environment, "demo")
    assert code == 0, out
    assert re.search(r"All \d+ checks held", out)
    assert all(f"\n{step}  " in out for step in range(1, 7))
    assert "✗" not in out
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.iterdir()} == before
    assert not (tmp_path / "home" / "sessions").exists(), "it keeps its state elsewhere"


def test_a_demonstration_that_is_stopped_puts_the_folder_back(
    project: Path, environment: dict[str, str]
) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.iterdir()}
    demo = Screened(project, environment, "demo")
    demo.wait_for("stale, with the new hash")
    os.kill(demo.pid, signal.SIGTERM)
    assert demo.end() == 130
    assert "Traceback" not in demo.text
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in project.iterdir()} == before
