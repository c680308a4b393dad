"""The packed extension in a real VS Code, served by code-server to a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.editors.conftest import INSTALLED, ROOT, write_foreign_session
from tests.editors.day import AS_JSON, STEPS
from tests.editors.scenes import MODELS, STYLES, STYLING
from tests.editors.test_panel import chromium, drive, screens

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="kills daemons by a POSIX signal"),
]

VSCODE = ROOT / "editors" / "vscode"
SETTINGS = {
    "workbench.startupEditor": "none",
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "files.autoSave": "off",
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.wordBasedSuggestions": "off",
}


@pytest.fixture(scope="module")
def code_server() -> str:
    """The program of VS Code's server."""
    named = os.environ.get("SIDECAR_CODE_SERVER")
    entry = INSTALLED / "code-server/node_modules/code-server/out/node/entry.js"
    if named is None and not (INSTALLED / "code-server" / "installed").exists():
        pytest.skip("no code-server here; make editors builds one, SIDECAR_CODE_SERVER names its entry.js")
    return named or str(entry)


@pytest.fixture(scope="module")
def vsix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension as users install it."""
    if not (VSCODE / "node_modules" / "@vscode" / "vsce").is_dir():
        pytest.skip("needs npm install in editors/vscode; make editors does it")
    path = tmp_path_factory.mktemp("vsix") / "sidecar.vsix"
    packing = ["npx", "vsce", "package", "--no-dependencies", "--allow-missing-repository", "--skip-license"]
    environment = {**os.environ, "PYTHON": sys.executable}
    command = [*packing, "--out", str(path)]
    ran = subprocess.run(command, cwd=VSCODE, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return path


def test_it_is_small(vsix: Path) -> None:
    assert vsix.stat().st_size < 3_000_000


def test_a_day_in_vs_code(
    code_server: str, vsix: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "own-sidecar"
    pid_file = tmp_path / "daemon.pid"
    program.write_text(f'#!/bin/sh\necho $$ >"{pid_file}"\nexec "{sys.executable}" -P -m sidecar "$@"\n')
    program.chmod(0o755)
    script = [*(call for call, _ in STYLING), [{"text": "I have seen the styles."}]]
    settings = {
        **SETTINGS,
        "sidecar.command": str(program),
        "sidecar.models": {**MODELS, "styling": {"scripted": script}},
        "sidecar.model": "fake-1",
    }
    write_foreign_session(Path(environment["HOME"]), project)
    (project / "a.css").write_text(STYLES)
    (folder := tmp_path / "code").mkdir()
    found = drive(
        "vscode.mjs",
        str(folder),
        str(project),
        json.dumps(settings),
        CODE_SERVER=code_server,
        VSIX=str(vsix),
        PID_FILE=str(pid_file),
        SIDECAR_CHROMIUM=chromium(),
        SCREENS=screens("vscode", tmp_path),
        **environment,
    )
    sys.stdout.write(f"{found}\n")
    assert found["asked"] == [result for _, result in STYLING[:-1]], "the last one is shown as a diff"


def test_the_day_by_the_keyboard_in_a_narrow_view(
    code_server: str, vsix: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "own-sidecar"
    pid_file = tmp_path / "daemon.pid"
    program.write_text(f'#!/bin/sh\necho $$ >"{pid_file}"\nexec "{sys.executable}" -P -m sidecar "$@"\n')
    program.chmod(0o755)
    own = {"sidecar.command": str(program), "sidecar.models": MODELS, "sidecar.model": "fake-1"}
    dark = {"workbench.colorTheme": "Default Dark Modern"}
    write_foreign_session(Path(environment["HOME"]), project)
    (folder := tmp_path / "code").mkdir()
    found = drive(
        "keyboard_day.mjs",
        "vscode",
        str(folder),
        str(project),
        json.dumps({**SETTINGS, **own, **dark}),
        CODE_SERVER=code_server,
        VSIX=str(vsix),
        PID_FILE=str(pid_file),
        SIDECAR_CHROMIUM=chromium(),
        SCREENS=screens("vscode-narrow", tmp_path),
        DAY=AS_JSON,
        **environment,
    )
    assert set(found["lived"]) == set(STEPS)


def test_the_selection_in_vs_code(
    code_server: str, vsix: Path, project: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "own-sidecar"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m sidecar "$@"\n')
    program.chmod(0o755)
    own = {"sidecar.command": str(program), "sidecar.models": MODELS, "sidecar.model": "shouts-1"}
    (folder := tmp_path / "code").mkdir()
    drive(
        "selection.mjs",
        str(folder),
        str(project),
        json.dumps({**SETTINGS, **own}),
        CODE_SERVER=code_server,
        VSIX=str(vsix),
        SIDECAR_CHROMIUM=chromium(),
        SCREENS=screens("vscode-selection", tmp_path),
        **environment,
    )
