"""What the client may know of the daemon's package, and what it costs to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sidecar_client

pytestmark = pytest.mark.processes

FILES = sorted(Path(sidecar_client.__file__).parent.glob("*.py"))


def imports_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_the_client_sees_the_protocol_alone(file: Path) -> None:
    ours = {name for name in imports_of(file) if name.split(".")[0] == "sidecar"}
    assert all(name.startswith("sidecar.protocol") for name in ours)


def test_importing_the_client_loads_nothing_heavy() -> None:
    heavy = {"lsprotocol", "pygls", "rich", "watchfiles", "sidecar.server", "sidecar.runtime.conductor"}
    program = "import sys, sidecar_client.sync; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert heavy & set(done.stdout.split()) == set()
