"""What ``--help`` teaches, and what is said of a command line that is wrong."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from types import SimpleNamespace

import pytest

from repository import PAGES
from sidecar import cli
from sidecar.cli import main
from sidecar.commands.arguments import make_parser, parse_seconds, parse_tokens

COMMANDS = (
    "demo",
    "chat",
    "run",
    "sessions",
    "permissions",
    "database",
    "import",
    "export",
    "compact",
    "doctor",
    "login",
    "schema",
    "serve",
    "acp",
)


def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *command: str) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_main_help_teaches_where_to_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch)
    assert all(f"\n    {command}" in text for command in COMMANDS)
    assert all(word in text for word in ("start here:", "INDUSAGI_HOME", "NO_COLOR", "exit codes:"))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_its_exit_codes_and_fits_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, command)
    assert "exit codes: 0 " in text
    assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_is_a_command_line_that_is_understood(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_of(capsys, monkeypatch, command)
    examples = re.findall(r"^  (?:.*\| )?sidecar ([a-z][^|>\n]*?)(?:  |[|>2]|$)", text, re.MULTILINE)
    parser = make_parser()
    for example in examples:
        words = [word.strip("'\"`") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", example)]
        assert parser.parse_args(words).command == command


def test_every_command_in_the_readme_is_understood() -> None:
    lines = re.findall(r"^(?:\.venv/bin/)?sidecar .*$", PAGES, re.MULTILINE)
    assert len(lines) > 4
    for line in lines:
        make_parser().parse_args(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(["nope"], "invalid choice: 'nope'", id="an unknown command"),
        pytest.param(["serve", "--log", "loud"], "invalid choice: 'loud'", id="an unknown level"),
        pytest.param(["serve", "--idle-exit", "soon"], "soon is not a number of seconds", id="no time"),
        pytest.param(["serve", "--listen", "x"], "needs --shared --daemon", id="a port of no daemon"),
        pytest.param(["serve", "--daemon"], "needs --shared", id="a daemon of nobody"),
        pytest.param(["compact", "--window", "9", "x"], "9 is not a number of tokens", id="no window"),
        pytest.param(["--stdio", "--nope"], "unrecognized arguments: --nope", id="an unknown flag"),
        pytest.param(["run", "--bad", "hi"], "sidecar run: unrecognized", id="a flag that run has not"),
    ],
)
def test_a_wrong_command_line_is_refused_in_two_lines(
    line: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line)
    what, where = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert message in what
    assert where == f'"{what.partition(":")[0]} --help" lists the arguments'


@pytest.mark.parametrize(("is_terminal", "module"), [(True, "chat"), (False, "serve")])
def test_without_arguments_it_is_a_conversation_in_a_terminal_and_the_daemon_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, module: str
) -> None:
    loaded: list[str] = []

    def load(name: str) -> SimpleNamespace:
        loaded.append(name)
        return SimpleNamespace(run=lambda options: 0)

    monkeypatch.setattr(cli, "import_module", load)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: is_terminal))
    assert main([]) == 0
    assert loaded == [f"sidecar.commands.{module}"]


@pytest.mark.parametrize("text", ["-1", "nan", "1e12", "soon", ""])
def test_a_time_outside_its_range_is_refused(text: str) -> None:
    assert (parse_seconds("0"), parse_seconds("2.5")) == (0, 2.5)
    with pytest.raises(ArgumentTypeError, match="number of seconds"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["999", "100000001", "-5000", "1e6"])
def test_a_number_of_tokens_outside_its_range_is_refused(text: str) -> None:
    assert (parse_tokens("1000"), parse_tokens("100000000")) == (1_000, 100_000_000)
    with pytest.raises(ArgumentTypeError, match="number of tokens"):
        parse_tokens(text)


@pytest.mark.skipif(sys.platform == "win32", reason="there the folder of a running program cannot be removed")
def test_a_folder_that_is_gone_is_named_as_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setattr(cli, "_redirect_stdout_to_nothing", lambda: None)
    gone.rmdir()
    assert main(["permissions"]) == 1
    assert capsys.readouterr().err == "sidecar: the current folder is gone; use cd first\n"
