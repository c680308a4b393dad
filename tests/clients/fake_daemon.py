"""A program that stands in for the daemon: it speaks the framing and misbehaves as its first argument says.

Standard library alone, so that it starts at once. It ends with its standard input, but for ``deaf``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

READY = {"capabilities": {"experimental": {"sidecar": {"protocol": 1}}}}


def read() -> Any:
    """Return the next message; ends the program with its input."""
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        length = int(line.split(b":")[1])
    if not length:
        sys.exit(1)
    return json.loads(sys.stdin.buffer.read(length))


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def crash(message: Any) -> None:
    """Die in the middle of an answer."""
    sys.stderr.write("early words\n" + "x" * 10_000 + "\nlast words\n")
    sys.stderr.flush()
    write(frame({"id": message["id"], "result": "half"})[:-4])
    os._exit(3)


def garbage(_message: Any) -> None:
    write(b"Traceback (most recent call last):\n\nno protocol at all\n\n")


def trickle(message: Any) -> None:
    """Answer with 200 KB, in bits and pieces."""
    data = frame({"id": message["id"], "result": "é" * 100_000})
    for at in range(0, len(data), 60_001):
        write(data[at : at + 60_001])


def leave_child(_message: Any) -> None:
    """Die, and leave a child that holds the pipes until the client lets go of them."""
    subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"])
    os._exit(4)


INTRODUCTION: dict[str, Any] = {}
"""The params of ``initialize``."""


def initialize(message: Any) -> None:
    """Answer the handshake, and keep its params."""
    INTRODUCTION.update(message["params"])
    write(frame({"id": message["id"], "result": READY}))


ON_REQUEST: dict[str, Callable[[Any], Any]] = {
    "crash": crash,
    "garbage": garbage,
    "trickle": trickle,
    "echo": lambda m: write(frame({"id": m["id"], "result": m["params"]})),
    "killMe": lambda _: os.kill(os.getpid(), signal.SIGTERM),
    "leaveChild": leave_child,
    "pid": lambda m: write(frame({"id": m["id"], "result": os.getpid()})),
    "where": lambda m: write(frame({"id": m["id"], "result": [os.getcwd(), os.environ.get("EXTRA")]})),
    "initialize": initialize,
    "introduction": lambda m: write(frame({"id": m["id"], "result": INTRODUCTION})),
    "shutdown": lambda m: write(frame({"id": m["id"], "result": None})),
}


def main(how: str) -> None:
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        read()
        write(frame({"id": 1, "result": READY}))
        while True:
            time.sleep(1)
    while True:
        message = read()
        if message["method"] == "exit":
            sys.exit(0)
        if "id" in message and how != "silent":
            ON_REQUEST[message["method"]](message)


main(sys.argv[1])
