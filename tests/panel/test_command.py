"""``sidecar panel`` as a process: the browser is given an address that says nothing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.skipif(os.name == "nt", reason="a browser that is a script")]

BROWSER = """#!{python}
import json, os, signal, sys
from urllib.parse import unquote, urlparse
page = unquote(urlparse(sys.argv[1]).path)
told = {{"argv": sys.argv[1:], "mode": os.stat(page).st_mode, "page": open(page).read()}}
with open({told!r}, "w") as file:
    json.dump(told, file)
os.kill(os.getppid(), signal.SIGTERM)  # heeded in the background, too
"""


def test_the_command_line_of_the_browser_has_no_secret(tmp_path: Path) -> None:
    """Every user of the machine can read it; the token is in a file that only this user can read.

    The panel runs as in the background of a shell, where Ctrl-C is ignored, and ends all the same.
    """
    told_file, script, home = tmp_path / "told", tmp_path / "browser", tmp_path / "home"
    script.write_text(BROWSER.format(python=sys.executable, told=str(told_file)))
    script.chmod(0o700)
    own = {**os.environ, "HOME": str(tmp_path), "INDUSAGI_HOME": str(home), "BROWSER": f"{script} %s"}
    command = (sys.executable, "-P", "-m", "sidecar", "panel", "--cwd", str(tmp_path))
    in_background = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *command)
    subprocess.run(in_background, env=own, stderr=subprocess.DEVNULL, timeout=30, check=False)
    told = json.loads(told_file.read_text())
    page = Path(unquote(urlparse(told["argv"][0]).path))
    url = told["page"].partition('location.replace("')[2].partition('"')[0]
    token = url.partition("#token=")[2]
    assert page.is_relative_to(home)
    assert stat.S_IMODE(told["mode"]) == 0o600
    assert len(token) > 30
    assert token not in "".join(told["argv"])
    assert not page.exists()
