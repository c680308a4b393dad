"""After the protocol has taken standard input and output, nothing else reaches them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys

import pytest

from sidecar.transport.stdio import LossyStderr

pytestmark = pytest.mark.processes

PROGRAM = """
import os, subprocess, sys
from sidecar.transport.stdio import take_stdio
print("before")
fds = take_stdio()
print("stray print")
sys.__stdout__.write("stray write\\n")
sys.__stdout__.flush()
os.write(1, b"stray descriptor\\n")
subprocess.run([sys.executable, "-c", "print('stray child')"], check=True)
read_stdin = "import sys; print(repr(sys.stdin.read()))"
subprocess.run([sys.executable, "-c", read_stdin], check=True)
print(repr(sys.stdin.read()), repr(os.read(0, 10)))
data = b""
while more := os.read(fds.read_fd, 100):
    data += more
os.write(fds.write_fd, b"<" + data + b">")
"""


def test_only_the_protocol_reaches_the_client() -> None:
    sent = b"line\n\r\n\x1a\x00\xff"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=sent, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"before\n<" + sent + b">"
    said = done.stderr.decode().splitlines()
    assert sorted(said) == sorted(
        ["stray print", "stray write", "stray descriptor", "stray child", "''", "'' b''"]
    )


WITHOUT_ERRORS = """
import os
from sidecar.transport.stdio import take_stdio
fds = take_stdio()
print("stray print")
os.write(1, b"stray")
os.write(2, b"stray")
os.write(fds.write_fd, b"<" + os.read(fds.read_fd, 100) + b">")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="closes a POSIX descriptor")
def test_without_a_standard_error_it_still_works() -> None:
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, WITHOUT_ERRORS]
    done = subprocess.run(command, input=b"x", stdout=subprocess.PIPE, check=True, timeout=60)
    assert done.stdout == b"<x>"


WIRE = (
    "sidecar.protocol.framing",
    "sidecar.protocol.jsonrpc",
    "sidecar.transport.peer",
    "sidecar.transport.streams",
    "sidecar.transport.lifetime",
)


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        pytest.param(("sidecar.transport.stdio",), {"asyncio", "msgspec", "logging"}, id="taking them"),
        pytest.param(
            WIRE,
            {"pygls", "lsprotocol", "cattrs", "attrs", "psutil", "watchfiles", "rich", "sidecar.conductor"},
            id="the wire below the front ends",
        ),
    ],
)
def test_what_comes_first_imports_next_to_nothing(modules: tuple[str, ...], heavy: set[str]) -> None:
    code = f"import sys, {', '.join(modules)}; print(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b""


def full_pipe() -> tuple[int, int]:
    """Return the ends of a pipe that takes not one more byte."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b"." * 4096):
            pass
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b"."):
            pass
    os.set_blocking(writing, True)
    return reading, writing


@pytest.mark.skipif(sys.platform == "win32", reason="fills a POSIX pipe")
@pytest.mark.parametrize("is_blocking", [True, False])
def test_errors_that_nothing_reads_are_held_then_dropped_and_counted(is_blocking: bool) -> None:
    reading, writing = full_pipe()
    os.set_blocking(writing, is_blocking)
    errors = LossyStderr(writing)
    errors.write("first\n")
    errors.drain(0.05)
    for _ in range(30):
        errors.write("x" * 99_999 + "\n")
    errors.write("caf\u00e9 \ud800\n")
    seen = b""
    while not seen.endswith(b"read them]\n"):
        assert select.select([reading], [], [], 30)[0], seen[-200:]
        seen += os.read(reading, 1 << 20)
    errors.drain(30)
    errors.write("last\n")
    errors.drain(30)
    assert os.read(reading, 100) == b"last\n"
    lines = seen.lstrip(b".").splitlines()
    assert lines[0] == b"first"
    assert lines[-2] == b"caf\xc3\xa9 \\ud800"
    n_held = len(lines) - 3
    assert lines[-1] == b"[%d bytes of the log were dropped: nothing read them]" % (100_000 * (30 - n_held))
    os.close(reading)
    errors.write("into the void")
    errors.drain(30)
    os.close(writing)


@pytest.mark.skipif(sys.platform == "win32", reason="fills a POSIX pipe")
def test_a_daemon_whose_errors_nothing_reads_answers_and_ends() -> None:
    """With the level debug, the first line is due before the first answer."""
    reading, writing = full_pipe()
    command = [sys.executable, "-P", "-m", "sidecar", "serve", "--log", "debug"]
    params: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    sent = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    done = subprocess.run(
        command, input=sent, stdout=subprocess.PIPE, stderr=writing, timeout=60, check=False
    )
    assert b'"result"' in done.stdout
    assert done.returncode == 1
    os.close(reading)
    os.close(writing)
