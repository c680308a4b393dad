"""The metadata of the package: name, extras and supported versions agree wherever they are stated."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib import metadata, util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sidecar
from sidecar._internal.loading import DISTRIBUTION, install_arguments, install_command
from sidecar.llmgateway.names import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHIPPED = ("sidecar", "clients", "editors", ".github")


def texts() -> dict[str, str]:
    """Return the text of every file that a user may read, by its path."""
    kinds = {".py", ".md", ".ts", ".json", ".lua", ".el", ".sh", ".yml"}
    paths = [ROOT / "README.md", *(path for folder in SHIPPED for path in (ROOT / folder).rglob("*"))]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in kinds and "node_modules" not in path.parts
    }


def test_the_distribution_has_one_name() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["version"] == sidecar.__version__
    assert set(PROJECT["scripts"]) == {"sidecar"}


def test_the_version_is_one_everywhere_and_in_the_list_of_changes() -> None:
    version = PROJECT["version"]
    manifests = [ROOT / name / "package.json" for name in ("editors/vscode", "clients/typescript")]
    assert {json.loads(each.read_text(encoding="utf-8"))["version"] for each in manifests} == {version}
    package = (ROOT / "editors/emacs/sidecar.el").read_text(encoding="utf-8")
    assert re.findall(r"^;; Version: (.*)$", package, re.MULTILINE) == [version]
    changes = (ROOT / ".github/CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {version}\n" in changes


@pytest.mark.parametrize("extra", sorted({extra for extra, _ in EXTRAS.values()}))
def test_every_provider_extra_brings_the_windows_and_prices_of_its_models(extra: str) -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras["prices"]) < set(extras[extra])


@pytest.mark.parametrize("extra", sorted({extra for extra, _ in EXTRAS.values()} | {"mcp", "keyring"}))
def test_every_extra_that_a_message_names_exists(extra: str) -> None:
    assert extra in PROJECT["optional-dependencies"]


class Installed:
    """The project as an installer has recorded it."""

    def __init__(self, origin: str | None) -> None:
        self.origin = origin

    def read_text(self, _name: str) -> str | None:
        return self.origin


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        pytest.param(
            '{"url": "file:///a%20b", "dir_info": {"editable": true}}', ["-e", "/a b[x]"], id="editable"
        ),
        pytest.param(
            '{"url": "file:///a.whl", "archive_info": {}}', ["editor-sidecar[x] @ file:///a.whl"], id="wheel"
        ),
        pytest.param(
            '{"url": "https://box/it", "vcs_info": {"vcs": "git", "commit_id": "1f"}}',
            ["editor-sidecar[x] @ git+https://box/it@1f"],
            id="repository",
        ),
        pytest.param(None, ["editor-sidecar[x]"], id="an index that has it"),
        pytest.param("damaged", ["-e", f"{ROOT}[x]"], id="a checkout"),
    ],
)
@pytest.mark.parametrize("has_pip", [True, False])
def test_an_extra_comes_from_where_the_project_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, requirement: list[str], has_pip: bool
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(origin))
    monkeypatch.setattr(util, "find_spec", lambda _: has_pip or None)
    program = (
        [sys.executable, "-m", "pip", "install"]
        if has_pip
        else ["uv", "pip", "install", "--python", sys.executable]
    )
    assert install_arguments("x") == [*program, *requirement]


@pytest.mark.parametrize(
    ("system", "executable", "command"),
    [
        ("posix", "/opt/a b/python", "'/opt/a b/python' -m pip install '/src/it[openai]'"),
        ("posix", "/usr/bin/python3", "/usr/bin/python3 -m pip install '/src/it[openai]'"),
        ("nt", r"C:\A B\python.exe", r'"C:\A B\python.exe" -m pip install "/src/it[openai]"'),
    ],
)
def test_a_hint_to_install_names_the_interpreter_and_can_be_pasted(
    monkeypatch: pytest.MonkeyPatch, system: str, executable: str, command: str
) -> None:
    monkeypatch.setattr(
        metadata, "distribution", lambda _: Installed('{"url": "file:///src/it", "dir_info": {}}')
    )
    monkeypatch.setattr("sidecar._internal.loading.os", SimpleNamespace(name=system))
    monkeypatch.setattr(sys, "executable", executable)
    assert install_command("openai") == command


def test_nobody_is_sent_to_the_other_project_of_that_name() -> None:
    wrong = re.compile(r"pip install ['\"]?sidecar\b|(?<!editor-)\bsidecar\[[a-z]")
    assert [path for path, text in texts().items() if wrong.search(text)] == []


def test_the_workflow_runs_every_supported_python() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    supported = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert re.findall(r"[\d.]+", matrix) == supported
    assert PROJECT["requires-python"] == f">={supported[0]}"
