"""Commands: asked for, bounded, without secrets, and streamed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities.bash import BASH, child_environment
from sidecar.capabilities.contract import PermissionQuestion
from sidecar.capabilities.edit import EDIT
from sidecar.capabilities.read import READ
from sidecar.permissions.access import CommandAccess

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk

pytestmark = [pytest.mark.processes, pytest.mark.skipif(os.name == "nt", reason="POSIX shells")]


@pytest.mark.parametrize(
    ("command", "output", "is_error"),
    [
        pytest.param("echo hi", "hi\n[exit 0]", False, id="success"),
        pytest.param("true", "[exit 0]", False, id="no output"),
        pytest.param("printf hi", "hi\n[exit 0]", False, id="no line end"),
        pytest.param("echo no >&2; exit 4", "no\n[exit 4]", True, id="failure, both streams"),
        pytest.param("kill -9 $$", "[exit -9]", True, id="killed"),
        pytest.param(r"printf '\377\n'", "\ufffd\n[exit 0]", False, id="bytes that are no text"),
        pytest.param("cat", "[exit 0]", False, id="no input"),
        pytest.param("nonexistent-program-x", None, True, id="no such program"),
    ],
)
async def test_outcome(desk: Desk, command: str, output: str | None, is_error: bool) -> None:
    reply = await desk.run(BASH, command=command)
    assert reply.is_error == is_error
    assert reply.output.endswith("\n[exit 127]") if output is None else reply.output == output


async def test_permission_is_asked_first(desk: Desk) -> None:
    await desk.output(BASH, command="echo hi")
    assert desk.asked == [
        PermissionQuestion(
            call_id="c1",
            tool="bash",
            title="Run echo hi",
            subject="command",
            detail="echo hi",
            access=CommandAccess("echo hi", desk.root),
        )
    ]
    desk.answer = False
    assert "not allowed by the user: Run touch made" in await desk.failure(BASH, command="touch made")
    assert "made" not in os.listdir(desk.root)
    assert desk.n_children == 1


async def test_the_question_tells_the_folder_and_whether_it_runs_on(desk: Desk) -> None:
    (desk.root / "evil").mkdir()
    for given in ({"cwd": "evil", "background": True}, {"cwd": f"{desk.root}/evil/.."}, {"cwd": "/"}):
        desk.answer = False
        await desk.failure(BASH, command="make install", **given)
    assert [each.title for each in desk.asked if each.subject == "command"] == [
        "Run in evil, in the background: make install",
        "Run make install",
    ]
    assert BASH.title({"command": "make", "cwd": "a b"}) == "Run in 'a b': make"


def test_the_environment_holds_no_secrets() -> None:
    variables = {
        "PATH": "p",
        "API_KEY": "s",
        "aws_secret_x": "s",
        "GH_TOKEN": "s",
        "DB_PASSWORD": "s",
        "PGPASSWORD": "s",
        "apiKey": "s",
        "SSH_KEY": "s",
        "DATABASE_URL": "postgres://me:hunter2@db/app",
        "CI_JOB": "glpat-0123456789abcdef0123",
        "LANG": "l",
        "GH_PAT": "s",
        "SSHPASS": "s",
        "AUTHORIZATION": "token s",
        "STORAGE": "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=c2VjcmV0;",
        "MYSQL_PWD": "s",
        "JWT": "s",
        "SENTRY_DSN": "https://0123@sentry.example/1",
        "BASIC_AUTH": "me:s",
        "REDIS_URL": "redis://:hunter2@cache:6379",
        "NPM_AUTH": "s",
        "SESSION_COOKIE": "s",
        "REDISCLI_AUTH": "s",
        "MyServicePassword": "s",
        "RAILS_MASTER_KEY": "s",
        "AZURE_STORAGE_SAS": "s",
        "HOOK": "https://hooks.example.com/services/T00000000/B00000000/XxXx1234abCD5678efGH9012",
        "HEROKU": "9f86d081884c7d659a2feaa0c55ad015",
        "SLACK": "a8Kd93nXq27LmZ0pRt5vWy1bC4",
    }
    assert child_environment(variables) == {"PATH": "p", "LANG": "l", "PYTHONIOENCODING": "utf-8"}


def test_a_word_that_holds_another_is_no_secret() -> None:
    kept = {
        "MONKEY": "m",
        "KEYBOARD": "us",
        "XKB_DEFAULT_KEYMAP": "de",
        "TOKENIZERS_PARALLELISM": "false",
        "DATABASE_URL": "postgres://db/app",
        "HTTPS_PROXY": "http://me:pw@proxy:3128",
        "PWD": "/home/me",
        "OLDPWD": "/home",
        "SSH_AUTH_SOCK": "/run/user/1000/keyring/ssh",
        "PATH": "/usr/bin:/bin",
        "GIT_COMMIT": "9f86d081884c7d659a2feaa0c55ad0159f86d081",
        "INVOCATION_ID": "9f86d081884c7d659a2feaa0c55ad015",
        "MACHTYPE": "x86_64-unknown-linux-gnu",
        "LS_COLORS": "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33",
        "HOSTNAME": "ip-10-0-0-1.eu-central-1.compute.internal",
        "COMPASS": "north",
        "PATTERN": "x",
        "AUTHOR": "me",
        "NIX_CC": "/nix/store/1b9p07z77phvv2hf6gm9f28syp39f1ag-gcc-12",
        "CARGO_HOME": "/home/ann/.cargo",
        "TERM_PROGRAM_VERSION": "1.92.2",
        "XDG_SESSION_ID": "3",
        "EMPTY_TOKEN": "",
        "NODE_OPTIONS": "--max-old-space-size=4096",
    }
    assert child_environment(kept) == kept | {"PYTHONIOENCODING": "utf-8"}


async def test_a_variable_that_is_missing_for_that_reason_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hunter2@db/app")
    shown = await desk.output(BASH, command='echo "url: $DATABASE_URL, $PYTHONIOENCODING"')
    note = "[not in the environment of commands, because it looks like a secret: DATABASE_URL]"
    assert shown == f"url: , utf-8\n{note}\n[exit 0]"


@pytest.mark.parametrize(
    "coded", [r"\033[1;31mred\033[0m", r"\033]0;title\007red", r"\033]8;;http://x\033\\red", r"r\033[2Ked"]
)
async def test_codes_for_colours_and_cursors_do_not_reach_the_model(desk: Desk, coded: str) -> None:
    assert await desk.output(BASH, command=f"printf '{coded}'") == "red\n[exit 0]"


async def test_the_folder_it_runs_in(desk: Desk) -> None:
    desk.put("sub/x")
    assert await desk.output(BASH, command="pwd") == f"{desk.root}\n[exit 0]"
    assert await desk.output(BASH, command="pwd", cwd="sub") == f"{desk.root}/sub\n[exit 0]"
    assert await desk.output(BASH, command="pwd", workdir="sub") == f"{desk.root}/sub\n[exit 0]"
    assert "cannot run this in sub/x: Not a directory" in await desk.failure(BASH, command="pwd", cwd="sub/x")


async def test_a_folder_outside_is_asked_for(desk: Desk) -> None:
    await desk.output(BASH, command="pwd", cwd="..")
    assert [ask.subject for ask in desk.asked] == ["path", "command"]


async def test_output_is_bounded_with_head_and_tail(desk: Desk) -> None:
    desk.max_output_chars = 1200
    output = await desk.output(BASH, command="echo first; seq 100000; echo last")
    assert output.startswith("first\n1\n2\n")
    assert output.endswith("\n100000\nlast\n[exit 0]")
    assert "bytes of output not shown here]\n" in output
    assert len(output) <= 1200


async def test_a_timeout_keeps_the_output(desk: Desk) -> None:
    output = await desk.failure(BASH, command="echo up; sleep 1000", timeout_s="0.5")
    assert output == "up\n[timed out after 0.5 s and was ended]"


async def test_output_is_streamed_and_a_cancel_keeps_the_output(desk: Desk) -> None:
    running = asyncio.ensure_future(desk.run(BASH, {"command": "echo up; sleep 1000"}))
    await desk.has_progress.wait()
    assert desk.progress == ["up\n"]
    assert list(desk.children.values()) == ["bash: echo up; sleep 1000"]
    desk.cancel.cancel()
    assert (await running).output == "up\n[cancelled]"


async def test_progress_is_whole_characters_and_bounded(desk: Desk) -> None:
    await desk.output(BASH, command=r"printf '\303'; printf '\251\n'; seq 20000")
    progress = "".join(desk.progress)
    assert "\ufffd" not in progress
    assert progress.endswith("20000\n")
    assert all(len(text) <= 3 * 8192 for text in desk.progress)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, "missing required field `command`", id="no command"),
        pytest.param({"command": "x", "timeout_s": 601}, "<= 600", id="too long"),
        pytest.param({"command": "x", "timeout_s": 0}, "> 0", id="no time at all"),
        pytest.param({"command": "a\0b"}, "embedded null byte", id="NUL"),
    ],
)
async def test_bad_arguments(desk: Desk, arguments: dict[str, object], expected: str) -> None:
    assert expected in await desk.failure(BASH, **arguments)


class TestLongOutput:
    """Output that is too long for a reply is kept in a file that the reply names."""

    async def test_the_file_has_all_of_it_and_is_read_without_a_question(self, desk: Desk) -> None:
        desk.max_output_chars = 2000
        desk.output_folder = desk.root.parent / "state" / "output"
        output = await desk.output(BASH, command=r"printf '\033[31mred\033[0m\n'; seq 5000")
        path = desk.output_folder / "c1.txt"
        note = f"[23906 bytes of output; all of it is in {path}; read a part of that file]\n[exit 0]"
        assert output.endswith(note)
        assert len(output) <= 2000
        assert path.read_text() == "red\n" + "".join(f"{n}\n" for n in range(1, 5001))
        assert path.stat().st_mode & 0o077 == 0
        desk.asked.clear()
        assert await desk.output(READ, path=str(path), offset=5001, limit=1) == "  5001\t5000"
        assert desk.asked == []

    async def test_short_output_makes_no_file(self, desk: Desk) -> None:
        desk.output_folder = desk.root / "output"
        await desk.output(BASH, command="echo hi")
        assert not desk.output_folder.exists()

    async def test_files_are_bounded_in_size_and_number(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sidecar.capabilities.output._MOST_FILE_BYTES", 5000)
        monkeypatch.setattr("sidecar.capabilities.output._MOST_FILES", 3)
        desk.max_output_chars = 1500
        desk.output_folder = desk.root.parent / "output"
        for n in range(5):
            context = replace(desk.context(), call_id=f"../c{n}")
            await BASH.run({"command": "seq 5000"}, context, desk.cancel)
        files = sorted(desk.output_folder.iterdir())
        assert [file.name for file in files] == ["..%2Fc2.txt", "..%2Fc3.txt", "..%2Fc4.txt"]
        assert {file.stat().st_size for file in files} == {5000}

    async def test_without_room_for_a_file_both_ends_are_shown(self, desk: Desk) -> None:
        desk.put("state", "a file where the folder should be")
        desk.max_output_chars = 1500
        desk.output_folder = desk.root / "state" / "output"
        output = await desk.output(BASH, command="seq 5000")
        assert output.endswith("5000\n[exit 0]")


@pytest.mark.parametrize(
    ("command", "ranges"),
    [
        pytest.param("cat a.txt", (), id="all of a file"),
        pytest.param("sed -n '2,3p' a.txt", ((2, 2),), id="some lines"),
        pytest.param("cat a.txt && false", (), id="before a failure"),
        pytest.param("printf 'one\\ntwo\\nthree\\nfour\\n' > a.txt; cat -n a.txt", (), id="numbered ones"),
        pytest.param("cat > a.txt <<'END'\nnew\nEND", (), id="a text of the model's own"),
        pytest.param("cat a.txt > b.txt", None, id="not where the text goes elsewhere"),
        pytest.param("tr a-z A-Z < a.txt", None, id="nor where it is shown otherwise"),
        pytest.param("cat ../outside.txt", None, id="nor outside of the session's folders"),
    ],
)
async def test_a_file_that_a_command_shows_counts_as_read(
    desk: Desk, command: str, ranges: tuple[tuple[int, int], ...] | None
) -> None:
    (desk.root / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    (desk.root.parent / "outside.txt").write_text("one\n")
    await desk.run(BASH, command=command)
    found = desk.reads.get(desk.root / "a.txt")
    assert (None if found is None else found.ranges) == ranges
    assert desk.reads.get(desk.root.parent / "outside.txt") is None


async def test_a_file_that_the_models_own_command_changed_stays_known(desk: Desk) -> None:
    desk.put("a.txt", "one\ntwo\nthree\n")
    await desk.output(READ, path="a.txt")
    output = await desk.output(BASH, command="sed -i s/two/2/ a.txt")
    assert output == "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n[exit 0]"
    assert "edited a.txt" in await desk.output(EDIT, path="a.txt", old_text="2", new_text="II")


@pytest.mark.parametrize(
    ("shown", "command"),
    [
        pytest.param({"limit": 1}, "sed -i s/two/2/ a.txt", id="a part was read"),
        pytest.param({}, "seq 5000 > a.txt", id="a long change"),
        pytest.param({}, "tool=a.txt; sed -i s/two/2/ $tool*", id="a name that is computed"),
    ],
)
async def test_a_change_that_the_reply_does_not_show_is_read_again(
    desk: Desk, shown: dict[str, object], command: str
) -> None:
    desk.put("a.txt", "one\ntwo\nthree\n")
    await desk.output(READ, path="a.txt", **shown)
    assert "@@" not in await desk.output(BASH, command=command)
    assert "has changed on disk since" in await desk.failure(EDIT, path="a.txt", old_text="2", new_text="II")
