"""After the protocol has taken standard input and output, nothing else reaches them."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_taking_stdio_imports_next_to_nothing() -> None:
    heavy = "{'asyncio', 'msgspec', 'logging'}"
    code = f"import sidecar.transport.stdio, sys; print(*[m for m in sys.modules if m in {heavy}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b""


@pytest.mark.parametrize(
    "module",
    [
        "sidecar.protocol.framing",
        "sidecar.protocol.jsonrpc",
        "sidecar.transport.peer",
        "sidecar.transport.streams",
        "sidecar.transport.lifetime",
    ],
)
def test_the_wire_below_the_faces_imports_no_face_and_no_engine(module: str) -> None:
    heavy = "{'pygls', 'lsprotocol', 'cattrs', 'attrs', 'watchfiles', 'rich'}"
    code = (
        f"import {module}, sys;"
        f"print(*[m for m in sys.modules if m.split('.')[0] in {heavy} or m.startswith('sidecar.conductor')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b""
