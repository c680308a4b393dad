"""The sandbox: the commands that it builds, everywhere; and the sandbox itself where ``bwrap`` works."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities import sandbox
from sidecar.capabilities.background import BASH_OUTPUT
from sidecar.capabilities.bash import BASH
from sidecar.capabilities.contract import TerminalCommand, TerminalEnd
from sidecar.capabilities.sandbox import Sandbox, find_problem, list_protected, with_bwrap, with_sandbox_exec

if TYPE_CHECKING:
    from started_processes import StartProcess
    from tests.capabilities.conftest import Desk, Life

pytestmark = pytest.mark.processes

_PROBLEM = find_problem() if sys.platform == "linux" else "bwrap is for Linux"
PYTHON = str(Path(sys.executable).resolve())
"""The program itself: a virtual environment may lie in a folder that the sandbox hides."""

needs_bwrap = pytest.mark.skipif(_PROBLEM is not None, reason=f"no sandbox: {_PROBLEM}")


def test_the_command_of_linux(tmp_path: Path) -> None:
    state = tmp_path / "p" / "state"
    state.mkdir(parents=True)
    root = tmp_path / "p"
    command = with_bwrap(["sh", "-c", "x"], root / "sub", [root], protected=[root / ".git"], hidden=[state])
    text = " ".join(command)
    assert text.startswith("bwrap --unshare-all --die-with-parent --cap-drop ALL --ro-bind / / --dev /dev")
    order = (
        "--tmpfs /tmp",
        f"--bind {root} {root}",
        f"--ro-bind-try {root}/.git",
        f"--tmpfs {state}",
        "--chdir",
    )
    places = [text.index(part) for part in order]
    assert places[:2] == sorted(places[:2])
    assert max(places[2:4]) < places[4]
    assert min(places[2:4]) > places[1], "what lies in a folder is mounted over it"
    assert text.endswith(f"--setenv TMPDIR /tmp --chdir {root}/sub -- sh -c x")


def test_a_hidden_folder_that_is_not_there_or_a_link_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    command = with_bwrap(["x"], tmp_path, [tmp_path], hidden=[tmp_path / "gone", tmp_path / "link"])
    assert not {str(tmp_path / "gone"), str(tmp_path / "link")} & set(command)


COVERS = (
    "covered=$(tr '\\0' ' ' <&8)\nrm -f s\n"
    '[ -z "$covered" ] || { echo "cannot cover: $covered" >&2; exit 1; }\n'
    'while [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
)
"""A program in place of ``bwrap`` that fails as it does where a socket is gone."""


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell")
@pytest.mark.parametrize(
    ("program", "is_gone_before", "outcome"),
    [
        pytest.param(COVERS, True, (7, b"ran\ntyped", b""), id="gone before it starts"),
        pytest.param(
            COVERS,
            False,
            (7, b"ran\ntyped", b"cannot cover: --ro-bind /dev/null %b \n"),
            id="while it starts",
        ),
        pytest.param(
            "echo no namespaces >&2\nexit 1\n",
            False,
            (1, b"", b"no namespaces\n"),
            id="it cannot start at all",
        ),
    ],
)
def test_a_socket_that_is_gone_before_it_is_covered_stops_no_command(
    tmp_path: Path, program: str, is_gone_before: bool, outcome: tuple[int, bytes, bytes]
) -> None:
    """The command runs once, or not at all."""
    path, bwrap = tmp_path / "s", tmp_path / "bwrap"
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tmp_path):
        listening.bind("s")
    bwrap.write_text(f"#!/bin/sh\n{program}")
    bwrap.chmod(0o755)
    command = with_bwrap(["sh", "-c", "echo ran; cat; exit 7"], tmp_path, [tmp_path], hidden=[path])
    if is_gone_before:
        path.unlink()
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = subprocess.run(command, env=env, cwd=tmp_path, input=b"typed", capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr.replace(bytes(path), b"%b")) == outcome


def test_the_command_of_macos() -> None:
    root, state = Path("/Users/me/p"), Path("/Users/me/.pindusagi")
    command = with_sandbox_exec(["sh", "-c", "x"], root, [root], protected=[root / ".git"], hidden=[state])
    assert command[:2] == ["/bin/sh", "-c"]
    assert 'sandbox-exec -D "TMP=$tmp" "$@"' in command[2]
    profile = command[command.index("-p") + 1]
    assert profile.startswith("(version 1)\n(allow default)\n(deny network*)\n")
    assert profile.splitlines()[-5].startswith('(allow file-write* (literal "/dev/null") ')
    assert profile.splitlines()[-4:] == [
        '(allow file-write* (subpath (param "TMP")))',
        '(allow file-write* (subpath (param "P1")))',
        '(deny file-write* (subpath (param "P2")))',
        '(deny file-read* file-write* (subpath (param "P3")))',
    ]
    assert command[-9:] == ["-D", f"P1={root}", "-D", f"P2={root}/.git", "-D", f"P3={state}", "sh", "-c", "x"]


def test_protected_parts_are_found_in_any_case_and_links_among_them(tmp_path: Path) -> None:
    for name in (".git", ".VSCode", "src"):
        (tmp_path / name).mkdir()
    (tmp_path / "Agents.md").write_text("rules")
    (tmp_path / "CLAUDE.md").symlink_to("src")
    nested = ("lib/inner/.git", "lib/inner/docs/CLAUDE.md", "lib/inner/.git/modules/x/.git")
    for name in nested:
        (tmp_path / name).mkdir(parents=True)
    found = list_protected([tmp_path, tmp_path / "gone"])
    real = Path(os.path.realpath(tmp_path))
    expected = (".git", ".VSCode", "Agents.md", "CLAUDE.md", *nested[:2])
    assert sorted(found) == sorted(real / name for name in expected)


@pytest.mark.parametrize(
    ("platform", "program", "problem"),
    [
        pytest.param("win32", None, "there is none for win32", id="Windows"),
        pytest.param("linux", None, "bwrap is not installed", id="not installed"),
        pytest.param(
            "linux", "echo no namespaces >&2; exit 1", "does not work here (no namespaces)", id="forbidden"
        ),
        pytest.param("darwin", "exit 0", None, id="it works"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="the programs are shell scripts")
def test_why_there_is_no_sandbox(
    platform: str, program: str | None, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("PATH", str(tmp_path))
    if program is not None:
        for name in ("bwrap", "sandbox-exec"):
            (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
            (tmp_path / name).chmod(0o700)
    found = find_problem()
    assert found is None if problem is None else found is not None and problem in found


async def test_a_command_is_refused_unasked_where_the_sandbox_is_not_available(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_problem", lambda: "bwrap is not installed")
    desk.confine = Sandbox().confine
    failure = await desk.failure(BASH, command="touch ran")
    assert "because the settings ask for a sandbox and bwrap is not installed" in failure
    assert "set sandbox = false" in failure
    assert (desk.asked, desk.n_children, list(desk.root.iterdir())) == ([], 0, [])


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
async def test_a_folder_of_the_session_that_became_a_link_is_not_made_writable(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_problem", lambda: None)
    desk.root.rename(desk.root.with_name("away"))
    desk.root.symlink_to("/")
    with pytest.raises(Exception, match="has become a link"):
        await Sandbox().confine(["true"], desk.root, [desk.root])


async def test_the_question_says_so_and_a_terminal_of_the_client_runs_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_problem", lambda: None)
    ran: list[TerminalCommand] = []

    async def run(command: TerminalCommand, _cancel: object) -> TerminalEnd:
        ran.append(command)
        return TerminalEnd("", 0, "exited")

    context = replace(desk.context(), confine=Sandbox().confine, terminal=run)
    await BASH.run({"command": "make"}, context, desk.cancel)
    assert [each.title for each in desk.asked] == ["Run make (in the sandbox)"]
    assert ran[0].argv[-1] == "make"
    assert any("bwrap" in part or "sandbox-exec" in part for part in ran[0].argv)


@pytest.fixture
def confined(desk: Desk) -> Desk:
    desk.confine = Sandbox([desk.root.parent / "state"]).confine
    return desk


@needs_bwrap
@pytest.mark.parametrize(
    ("command", "works"),
    [
        pytest.param("echo x > new && mkdir -p a/b && echo y > a/b/c", True, id="writes in the folder"),
        pytest.param("echo x > /var/outside", False, id="writes elsewhere"),
        pytest.param("echo x > ~/.sandbox-test", False, id="writes at home"),
        pytest.param("echo x > .git/hooks/pre-commit", False, id="writes a hook"),
        pytest.param("mv .git away", False, id="moves the repository"),
        pytest.param("echo x > lib/inner/.git/config", False, id="changes a repository further down"),
        pytest.param("rm -r .git || mkdir .git", False, id="replaces the repository"),
        pytest.param("cat .git/config AGENTS.md", True, id="reads what it may not write"),
        pytest.param("echo x >> AGENTS.md", False, id="changes the rules"),
        pytest.param("echo x > $TMPDIR/f && cat /tmp/f", True, id="has temporary files"),
        pytest.param("cat ../state/auth.json", False, id="reads the keys of the daemon"),
        pytest.param("mount -o remount,rw / || mount --bind / /mnt", False, id="mounts"),
        pytest.param("[ -S /run/docker.sock ] || ls -A /run | grep .", False, id="sees sockets"),
        pytest.param("echo > /dev/null && [ -e /proc/self ]", True, id="has devices and processes"),
    ],
)
async def test_a_command_in_the_sandbox(confined: Desk, command: str, works: bool) -> None:
    confined.put(".git/hooks/sample", "")
    for repository in (".git", "lib/inner/.git"):
        confined.put(f"{repository}/config", "c\n")
    confined.put("AGENTS.md", "rules\n")
    confined.put("../state/auth.json", "key\n")
    before = set(confined.root.parent.iterdir())
    reply = await confined.run(BASH, command=command)
    assert reply.is_error != works, reply.output
    assert set(confined.root.parent.iterdir()) == before
    assert (confined.text(".git/config"), confined.text("AGENTS.md")) == ("c\n", "rules\n")
    assert not (confined.root / ".git" / "hooks" / "pre-commit").exists()


@needs_bwrap
async def test_a_command_in_the_sandbox_has_no_network(confined: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 5<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        outside = await asyncio.create_subprocess_exec("bash", "-c", connect)
        assert await outside.wait() == 0
        assert (await confined.run(BASH, command=connect)).is_error


@needs_bwrap
async def test_what_a_command_in_the_sandbox_leaves_behind_ends_with_it(confined: Desk, life: Life) -> None:
    os.link(life.path, confined.root / "life")
    await confined.output(BASH, command="exec 9>life; (setsid sleep 1000 &); (sleep 1000 &)")
    await life.ends()


@needs_bwrap
@pytest.mark.parametrize(
    ("command", "moved"),
    [
        pytest.param("mkdir -p .git/hooks && echo x > .git/hooks/pre-commit", [".git"], id="a repository"),
        pytest.param(
            "mkdir .vscode .vscode.from-sandbox", [".vscode"], id="settings, whose new name is taken"
        ),
        pytest.param("mv sub sub2; mkdir -p sub/.git/hooks", ["sub/.git"], id="in the place of a moved one"),
        pytest.param(
            "mkdir a; echo x > a/AGENTS.md; mv a b; ln -s x lefthook.yml",
            ["b/AGENTS.md", "lefthook.yml"],
            id="two",
        ),
        pytest.param("mkdir -p build/x; echo x > build/x/y", [], id="nothing"),
        pytest.param("mv sub sub2", [], id="a repository that only moved"),
    ],
)
@pytest.mark.parametrize("in_background", [False, True])
async def test_a_protected_file_that_a_command_makes_is_moved_aside(
    confined: Desk, command: str, moved: list[str], in_background: bool
) -> None:
    confined.put("sub/.git/config", "c\n")
    output = await confined.output(BASH, command=command, background=in_background)
    if in_background:
        output = await confined.output(BASH_OUTPUT, id="bg1", wait_s=10)
    found = [each.relative_to(confined.root).as_posix() for each in list_protected([confined.root])]
    assert [name for name in found if "from-sandbox" not in name] in (["sub/.git"], ["sub2/.git"])
    for name in moved:
        assert (
            f"[made in the sandbox, where programs would obey it, and moved to {name}.from-sandbox" in output
        )
    assert ("from-sandbox" in output) == bool(moved)


@needs_bwrap
async def test_a_command_in_the_sandbox_reaches_no_socket_of_a_service(
    confined: Desk, start_process: StartProcess
) -> None:
    """Such as that of an agent for keys in the home folder, or of a virtual machine.

    A service in another process may name its socket from its own folder, as one with a long path must.
    """
    listen = (
        "import socket, sys; listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]);"
        "listener.listen(); print(flush=True); input()"
    )
    connect = (
        "import os, socket, sys; os.chdir(sys.argv[1]); socket.socket(socket.AF_UNIX).connect(sys.argv[2])"
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
        confined.put(".colima/docker/x")
        services = (
            (Path(elsewhere), f"{elsewhere}/s", False),
            (Path(elsewhere), "relative s", False),
            (confined.root, "own.sock", True),
            (confined.root / ".colima", "docker/d.sock", False),
        )
        for folder, name, _ in services:
            service = start_process([PYTHON, "-c", listen, name], cwd=folder)
            assert service.stdout is not None
            service.stdout.readline()
        for folder, name, is_reached in services:
            line = shlex.join([PYTHON, "-c", connect, str(folder), name])
            reply = await confined.run(BASH, command=line)
            assert reply.is_error != is_reached, (name, reply.output)


@needs_bwrap
async def test_a_folder_in_tmp_is_writable_and_what_lies_beside_it_is_not_there() -> None:
    """The rest of ``/tmp`` is private."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder) / "project"
        root.mkdir()
        command = await Sandbox().confine(["sh", "-c", "echo x > ../beside && echo x > in"], root, [root])
        await asyncio.to_thread(subprocess.run, command.argv, check=True, timeout=60)
        assert [(root / "in").exists(), (root.parent / "beside").exists()] == [True, False]
