"""What the daemon writes to standard error."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

PROGRAM = """
import logging
from sidecar.commands.logs import log_to_stderr

log_to_stderr("info")
logging.getLogger("sdk").info("GET /v1?api_key=%s", "abcdef0123456789")
logging.getLogger("sdk").debug("not shown")
try:
    raise ValueError("sk-proj-0123456789abcdefghij is wrong")
except ValueError:
    logging.getLogger("tool").exception("it failed")
"""


def test_a_log_on_stderr_has_no_secrets() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stderr
    assert "sdk INFO GET /v1?api_key=[secret]\n" in said
    assert "tool ERROR it failed\n" in said
    assert "ValueError: [secret] is wrong\n" in said
    assert "not shown" not in said
    assert "0123456789" not in said
