"""What is in ``editors/``: what it says is so, it compiles, and it works in the real editors there are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.server.handshake import COMMANDS

EDITORS = Path(__file__).parents[2] / "editors"
VSCODE = EDITORS / "vscode"
DAEMON = (sys.executable, "-m", "sidecar", "serve")
_TOO_OLD = 77


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def node_modules() -> Path:
    folder = VSCODE / "node_modules"
    if not (folder / "typescript").is_dir():
        pytest.skip("editors/vscode has no node_modules; npm install makes them")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    lines = (f"value_{number} = {number}\n" for number in range(300))  # worth a compaction
    (folder / "a.py").write_text("".join(("answer = 42\n", *lines)))
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    private = {name: str(tmp_path / "home") for name in ("HOME", "INDUSAGI_HOME", "XDG_STATE_HOME")}
    return {**os.environ, **private, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def drive(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run an editor in *folder* and return what it printed."""
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if ran.returncode == _TOO_OLD:
        pytest.skip(f"{Path(command[0]).name} is too old: {(ran.stdout + ran.stderr).splitlines()[-1]}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


# What they say.


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VSCODE / "package.json").read_text(encoding="utf-8"))
    return found


def test_every_command_of_the_vscode_extension_is_offered_and_carried_out() -> None:
    offered = {entry["command"] for entry in manifest()["contributes"]["commands"]}
    source = (VSCODE / "src" / "extension.ts").read_text(encoding="utf-8")
    carried_out = {f"sidecar.ui.{name}" for name in re.findall(r'register\("(\w+)"', source)}
    assert offered == carried_out
    assert offered.isdisjoint(COMMANDS), "the client library registers the daemon's own"
    readme = (VSCODE / "README.md").read_text(encoding="utf-8")
    assert all(f"Sidecar: {entry['title']}" in readme for entry in manifest()["contributes"]["commands"])


def test_every_command_of_the_emacs_package_is_described() -> None:
    source = (EDITORS / "emacs" / "sidecar.el").read_text(encoding="utf-8")
    readme = (EDITORS / "emacs" / "README.md").read_text(encoding="utf-8")
    offered = re.findall(r"\(defun (sidecar-[a-z]+) .*\n.*\n  \(interactive", source)
    assert len(offered) > 5
    assert all(f"`{name}`" in readme for name in offered)


@pytest.mark.e2e
@pytest.mark.parametrize("path", ["zed/settings.json", "jetbrains/acp.json"])
def test_the_settings_of_an_agent_panel_start_an_agent(
    path: str, project: Path, environment: dict[str, str]
) -> None:
    server = json.loads((EDITORS / path).read_text(encoding="utf-8"))["agent_servers"]["Sidecar"]
    assert server["command"] == "sidecar"
    asked = {"protocolVersion": 1, "clientCapabilities": {}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": asked}
    ran = subprocess.run(
        [sys.executable, "-m", "sidecar", *server["args"]],
        cwd=project,
        env=environment,
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(ran.stdout.splitlines()[0])["result"]["protocolVersion"] == 1


# What they do.


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The VS Code extension as it is packed."""
    node, modules, out = program("node"), node_modules(), tmp_path_factory.mktemp("packed") / "out"
    for project in ("tsconfig.json", "tsconfig.panel.json"):
        compiler = str(modules / "typescript" / "bin" / "tsc")
        drive([node, compiler, "-p", str(VSCODE / project), "--noEmit"], VSCODE, dict(os.environ))
    drive([node, "scripts/build.mjs"], VSCODE, {**os.environ, "OUT": str(out)})
    return out


@pytest.mark.e2e
@pytest.mark.usefixtures("compiled")
def test_the_code_of_the_panel_passes_its_own_tests() -> None:
    drive([program("node"), str(node_modules() / "vitest" / "vitest.mjs"), "run"], VSCODE, dict(os.environ))


def stand_in(compiled: Path, project: Path, environment: dict[str, str], *daemon: str) -> dict[str, Any]:
    """Return what a user of the extension would have seen."""
    command = [program("node"), str(VSCODE / "test" / "stand_in.js"), str(compiled), str(project), *daemon]
    found: dict[str, Any] = json.loads(
        drive(command, project, {**environment, "NODE_PATH": str(node_modules())})
    )
    return found


@pytest.mark.e2e
def test_the_vscode_extension_works_on_the_daemon(
    compiled: Path, project: Path, environment: dict[str, str]
) -> None:
    seen = stand_in(compiled, project, environment, *DAEMON)
    assert seen["messages"] == []
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', seen["html"])
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    events = [params for method, params in seen["said"] if method == "sidecar/event"]
    texts = [each["data"]["content"][0]["text"] for each in events if each["kind"] == "message"]
    assert sum("`a.py:1` answer = 42" in text for text in texts) == 2
    assert any(re.fullmatch(r"\$\(dashboard\) \d+%", text) for text in seen["gauge"])
    (question, options), *_ = seen["picks"]
    assert options[0] == "Look at it in the panel", "nothing is allowed by a mere Enter"
    assert seen["bar"] == [f"$(question) {question}", ""], "it stays until it is answered"
    assert not (project / "made-by-the-model").exists()
    (_, before, after, _), (facts, transcript) = seen["executed"][0], seen["opened"][:2]
    documents = seen["documents"]
    assert documents[before] != documents[after]
    assert documents[facts].startswith("# The facts behind a compaction\n\nFacts of the folded part: ")
    assert documents[transcript] == documents[before], "it was undone"
    lost = [params["reason"] for method, params in seen["said"] if method == "panel/disconnected"]
    assert lost == ["it was ended by SIGKILL", "it was asked to start again"]
    assert seen["back"]["session"] == events[0]["sid"]
    assert seen["loaded"] > 4
    blocks = [block for node in seen["told"] for block in node["blocks"] if block["kind"] == "tool_result"]
    assert [block["output"] for block in blocks] == [
        "a.py:1: answer = 42",
        "**answer**\nan int",
        "code: the language server says: reply at line 1 is taken; use grep and read instead",
    ]


@pytest.mark.e2e
def test_the_vscode_extension_names_the_setting_when_there_is_no_daemon(
    compiled: Path, project: Path, environment: dict[str, str]
) -> None:
    only_starts = {**environment, "STAND_IN_ONLY_STARTS": "1"}
    *_, told = stand_in(compiled, project, only_starts, "no-such-program")["messages"]
    assert told.startswith('error: The daemon "no-such-program" did not start:'), "after the library's own"


@pytest.mark.processes
@pytest.mark.parametrize("path", sorted(EDITORS.glob("neovim/**/*.lua")), ids=lambda path: path.name)
def test_the_lua_compiles(path: Path) -> None:
    compiler = next((found for name in ("luajit", "luac", "luac5.1") if (found := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("no luajit or luac on this machine")
    check = ["-b", str(path), os.devnull] if Path(compiler).name == "luajit" else ["-p", str(path)]
    subprocess.run([compiler, *check], check=True, timeout=30)
