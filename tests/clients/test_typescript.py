"""The TypeScript client: its types are the daemon's, and its own tests pass against the real daemon.

They need Node and what npm installs, which nothing here fetches: ``make test-typescript`` does.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.protocol.schema import schema_text
from sidecar_client import DAEMON

ROOT = Path(__file__).parents[2] / "clients" / "typescript"
TESTS = sorted(path.stem for path in (ROOT / "test").glob("*.test.ts"))


def test_the_types_are_those_of_the_daemon() -> None:
    written = (ROOT / "src" / "protocol.ts").read_text(encoding="utf-8")
    is_current = written == schema_text("ts")
    assert is_current, "run: sidecar schema --format ts > clients/typescript/src/protocol.ts"


@functools.cache
def what_is_missing() -> str:
    """Return why the client cannot be built here, nothing when it can."""
    program = shutil.which("node")
    version = subprocess.check_output([program, "--version"], text=True).strip() if program else "none"
    number = re.match(r"v(\d+)", version)
    if number is None or int(number[1]) < 20:
        return f"needs node 20 or later, found {version}"
    if not (ROOT / "node_modules").is_dir():
        return "needs `npm install` in clients/typescript; `make test-typescript` does it"
    return ""


def node(*arguments: str, **env: str) -> str:
    """Run node in the client's folder and return what it wrote; fails when it does."""
    done = subprocess.run(
        ["node", *arguments],
        cwd=ROOT,
        env={**os.environ, "SIDECAR_COMMAND": json.dumps(DAEMON), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder with the client as JavaScript."""
    if reason := what_is_missing():
        pytest.skip(reason)
    node("node_modules/typescript/bin/tsc")
    return ROOT / "dist"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file about a parrot."""
    (tmp_path / "README.md").write_text("The parrot is blue.\n", encoding="utf-8")
    return tmp_path


@pytest.mark.e2e
@pytest.mark.parametrize("name", TESTS)
def test_its_own_tests_pass(built: Path, name: str) -> None:
    assert "\n# fail 0\n" in node("--test", "--test-reporter=tap", str(built / "test" / f"{name}.js"))


@pytest.mark.e2e
def test_the_example_answers(built: Path, folder: Path) -> None:
    example = str(built / "examples" / "ask.js")
    output = node(example, "What is in README.md?", str(folder), INDUSAGI_HOME=str(folder / "home"))
    assert "The parrot is blue." in output


@pytest.mark.e2e
@pytest.mark.usefixtures("built")
def test_the_first_example_of_the_readme_answers(folder: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"```js\n(.*?)```", readme, re.DOTALL)[0]
    where = f"command: {json.dumps(DAEMON)}, cwd: {json.dumps(str(folder))}"
    script, n_replaced = re.subn(r"command: \[.*?\]", lambda _: where, found)
    output = node("--input-type=module", "--eval", script, INDUSAGI_HOME=str(folder / "home"))
    assert n_replaced == 1
    assert "The parrot is blue." in output
