"""One short session with the real daemon over a pipe, recorded message by message.

Ids, times and other values that differ between runs are replaced, and long lists are cut, so that two
recordings are equal. ``REFERENCE.md`` shows the recording in ``tests/reference/lifecycle.json``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias

Message: TypeAlias = dict[str, Any]

MODEL = {"scripted": [[{"text": "The parser "}, {"text": "is in parser.py."}]], "contextWindow": 200_000}
PROMPT = [{"type": "text", "text": "Where is the parser?"}]
DECLARED = {
    "protocol": [1],
    "events": {"optOut": ["usage", "commandsChanged", "infoChanged", "sidecar/sessions/changed"]},
    "permission": {},
}
_TIME = 1_760_000_000_000
_STEADY: dict[str, Any] = {
    **dict.fromkeys(("at", "createdAt", "updatedAt", "since"), _TIME),
    "durationMs": 12,
    "used": 1525,
    "limit": 148_464,
    "pct": 0.8,
    "version": "0.2.0",
    "build": "python-3.11.9",
    "schemaHash": "sha256:...",
}
_MOST_ITEMS = 4


def record(folder: Path) -> list[tuple[str, Message]]:
    """Return the messages of one session in *folder*: ``-->`` from the client, ``<--`` from the daemon."""
    command = [sys.executable, "-P", "-m", "sidecar"]
    environment = {**os.environ, "INDUSAGI_HOME": str(folder / "home")}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=folder
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        messages = list(_play(daemon.stdin, daemon.stdout, str(folder)))
    assert daemon.returncode == 0
    return steady(messages, str(folder))


def _play(stdin: IO[bytes], stdout: IO[bytes], folder: str) -> Iterator[tuple[str, Message]]:
    def send(**message: Any) -> tuple[str, Message]:
        whole = {"jsonrpc": "2.0", **message}
        body = json.dumps(whole).encode()
        stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        stdin.flush()
        return "-->", whole

    def receive() -> tuple[str, Message]:
        length = int(stdout.readline().split(b":")[1])
        stdout.readline()
        return "<--", json.loads(stdout.read(length))

    def until_settled() -> Iterator[tuple[str, Message]]:
        while True:
            received = receive()
            yield received
            if received[1].get("params", {}).get("kind") == "settled":
                return

    options = {"sidecar": {"models": {"script": MODEL}}}
    capabilities = {"experimental": {"sidecar": DECLARED}}
    params = {
        "processId": None,
        "rootUri": None,
        "capabilities": capabilities,
        "initializationOptions": options,
    }
    yield send(id=1, method="initialize", params=params)
    yield receive()
    yield send(method="initialized", params={})
    yield send(id=2, method="sidecar/session/new", params={"cwd": folder, "model": "script"})
    created = receive()
    yield created
    sid = created[1]["result"]["sid"]
    yield send(id=3, method="sidecar/turn/start", params={"sid": sid, "input": PROMPT})
    yield from until_settled()
    yield send(id=4, method="sidecar/session/close", params={"sid": sid})
    yield receive()
    yield send(id=5, method="shutdown")
    yield receive()
    yield send(method="exit")


def steady(messages: list[tuple[str, Message]], folder: str) -> list[tuple[str, Message]]:
    """Return *messages* with short ids, one time for all, and ``/project`` for *folder*."""
    names: dict[str, str] = {}

    def name_of(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"{len(names) + 1:08x}")

    def replace(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: replace(item, name) for name, item in value.items()}
        if isinstance(value, list):
            shown = [replace(item) for item in value[:_MOST_ITEMS]]
            return shown if len(value) <= _MOST_ITEMS else [*shown[:-1], "..."]
        if key in _STEADY:
            return _STEADY[key]
        if isinstance(value, str):
            return re.sub(r"[0-9a-f]{8}-?[0-9a-f-]{20,}", name_of, value.replace(folder, "/project"))
        return value

    return [(side, replace(message)) for side, message in messages]
