"""What a prompt asks for, read off its form."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.offline.intent import EditDirective, Intent, PathRef, WriteDirective, read_intent


def check(prompt: str, intent: Intent) -> None:
    assert read_intent(prompt) == intent


@pytest.mark.parametrize(
    ("prompt", "intent"),
    [
        pytest.param(
            "Why does sidecar/cli.py:12 call parse_args?",
            Intent(paths=(PathRef("sidecar/cli.py", 12),), terms=("parse_args",), words=("call",)),
            id="a path with a line, and a snake_case word",
        ),
        pytest.param(
            "see app/main.go#L7-L9, ./run and README.",
            Intent(paths=(PathRef("app/main.go", 7), PathRef("./run"), PathRef("README"))),
            id="paths in other spellings",
        ),
        pytest.param(
            'read "my file.txt" and `fooBar`',
            Intent(paths=(PathRef("my file.txt"),), terms=("fooBar",)),
            id="quotes hold a path with a space, backticks a term",
        ),
        pytest.param(
            "find foo(), Bar.baz, CancelToken and --dry-run",
            Intent(terms=("foo", "Bar.baz", "CancelToken", "--dry-run")),
            id="code-like words in the clear",
        ),
        pytest.param(
            "Is it and/or, e.g. 3.11? https://x.y/z.py",
            Intent(is_small_talk=True),
            id="slashes, abbreviations, versions and links are no paths",
        ),
        pytest.param(
            "Where is the timeout for requests configured?",
            Intent(words=("timeout", "request", "configured")),
            id="otherwise the longest words, singular",
        ),
        pytest.param(
            "what is in ExtUtils/MM_AIX.pm?",
            Intent(paths=(PathRef("ExtUtils/MM_AIX.pm"),)),
            id="a folder and a name of any ending",
        ),
        pytest.param("設定ファイルはどこ", Intent(words=("設定ファイルはどこ",)), id="no spaces"),
        pytest.param(
            "please run `make test`, then run `git diff`",
            Intent(commands=("make test", "git diff"), words=()),
            id="run calls for commands",
        ),
        pytest.param(
            "write notes/a.md: hello: `run` me\nsecond line\n",
            Intent(write=WriteDirective("notes/a.md", "hello: `run` me\nsecond line\n")),
            id="write takes the rest of the prompt as it stands",
        ),
        pytest.param(
            "write `a.txt`:\nbody",
            Intent(write=WriteDirective("a.txt", "body")),
            id="write with its text below",
        ),
        pytest.param(
            "edit src/a.py: replace `foo()` with ``",
            Intent(edit=EditDirective("src/a.py", "foo()", "")),
            id="edit may replace with nothing",
        ),
        pytest.param("todo: a; b\n- c", Intent(todo=("a", "b", "c")), id="todo"),
        pytest.param("Remember: tabs only", Intent(remember="tabs only"), id="remember"),
        pytest.param("hello!", Intent(words=("hello",), is_small_talk=True), id="small talk"),
        pytest.param("", Intent(is_small_talk=True), id="nothing"),
    ],
)
def test_intent(prompt: str, intent: Intent) -> None:
    check(prompt, intent)


@pytest.mark.parametrize(
    "prompt", ["Aa" + "B" * 4000 + "-x", "run `" * 20_000, "(" * 50_000, "_" * 4000 + "-"]
)
def test_a_hostile_prompt_is_read_in_linear_time(prompt: str) -> None:
    assert isinstance(read_intent(prompt), Intent)


@pytest.mark.parametrize(
    ("prompt", "commands"),
    [
        pytest.param("run make", ("make",), id="a program"),
        pytest.param("please run make all", ("make all",), id="a program and its arguments"),
        pytest.param("run CC=gcc make", ("CC=gcc make",), id="a variable before it"),
        pytest.param("run ./bin/x --all", ("./bin/x --all",), id="a path"),
        pytest.param("run the tests", (), id="words"),
        pytest.param("run test", (), id="a work of the project that is a program, too"),
        pytest.param("run frobnicate --now", (), id="no such program"),
    ],
)
def test_a_command_behind_run_is_a_program_that_can_be_run(prompt: str, commands: tuple[str, ...]) -> None:
    assert read_intent(prompt, {"make", "test"}.__contains__).commands == commands
