"""Install a browser and VS Code's server for the tests, where they are missing and that can be.

The browser is Debian's Chromium (root only; 110 MB to load). The server is code-server from npm, built for
Node 20 with a compiler, into ``.editors`` (90 MB to load, 600 MB on the disk, two minutes). Elsewhere it says
what is missing, and the tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.editors.install import install_packages, is_debian_root, say

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".editors" / "code-server"
VERSION: Final = "4.96.4"
"""The last one for Node 20."""

NATIVE: Final = ("node-pty", "@vscode/spdlog", "@parcel/watcher", "native-watchdog", "kerberos")


def npm(*arguments: str, folder: Path) -> None:
    """Run npm in *folder*; its output is an error's explanation. Raises CalledProcessError."""
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", *arguments, *quiet], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def install_code_server() -> None:
    """Build code-server from its package, without the downloads of its scripts."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "package.json").write_text("{}")
    npm("install", "--no-package-lock", "--ignore-scripts", f"code-server@{VERSION}", folder=FOLDER)
    npm("rebuild", "argon2", folder=FOLDER)
    server = FOLDER / "node_modules" / "code-server" / "lib" / "vscode"
    # One dependency is pinned to an address of git, which may be out of reach; npm has the same version.
    pinned = server / "npm-shrinkwrap.json"
    versions = json.loads(pinned.read_text(encoding="utf-8"))
    for package in versions["packages"].values():
        if str(package.get("resolved", "")).startswith("git+"):
            package.pop("resolved")
            package.pop("integrity", None)
    pinned.write_text(json.dumps(versions))
    npm("install", "--ignore-scripts", "--omit=dev", folder=server)
    for name in NATIVE:
        if (server / "node_modules" / name).is_dir():
            npm("rebuild", name, folder=server)
    # The search for files, which the package would load from another address.
    (programs := server / "node_modules" / "@vscode" / "ripgrep" / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("rg") or "rg", programs / "rg")
    (server / "node_modules.asar").symlink_to("node_modules")
    (FOLDER / "installed").write_text(VERSION)


def main() -> None:
    """Install what is missing, or say how."""
    node = shutil.which("node")
    if node is None:
        say("install Node 20; the tests of the panel and of VS Code are skipped")
        return
    try:
        npm("install", "--no-package-lock", folder=ROOT / "editors" / "vscode")
        if not (os.environ.get("SIDECAR_CHROMIUM") or shutil.which("chromium")):
            if not is_debian_root():
                say("install chromium, or name it in SIDECAR_CHROMIUM; the tests of the panel are skipped")
                return
            say("installing Chromium: 110 MB to load")
            install_packages("chromium")
        if not (FOLDER / "installed").exists():
            found = subprocess.check_output([node, "--version"], text=True)
            if not found.startswith("v20."):
                say(f"code-server {VERSION} needs Node 20, found {found.strip()}; its test is skipped")
                return
            if is_debian_root():
                install_packages("ripgrep", "libkrb5-dev", "build-essential")
            say(f"building code-server {VERSION} in {FOLDER}: 90 MB to load, two minutes")
            install_code_server()
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"not everything could be installed, the tests without it are skipped: {error}")


if __name__ == "__main__":
    main()
