"""Broken frames by the thousand, at the real process: it lives, answers each id once, and stays small.

``make fuzz`` throws a hundred thousand at either face; the suite throws a few thousand, the same each time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sidecar.protocol.framing import HeaderDecoder, LineDecoder

if TYPE_CHECKING:
    from tests.fuzz.conftest import Face, Fuzz

pytestmark = pytest.mark.e2e

N_FRAMES = int(os.environ.get("FUZZ_FRAMES", "2500"))
SEED = int(os.environ.get("FUZZ_SEED", "20260820"))
BATCH = 250
PATIENCE_S = 60.0
MOST_GROWN_BYTES = 16_000_000
"""Files that editors have opened and the newest of the log may be kept; frames may not."""

HEADERS = (
    b"Content-Length: %d\r\n\r\n",
    b"Content-Length: %d\r\n\r\n",
    b"content-length:%d\n\n",
    b"\r\n\r\nCONTENT-LENGTH : %d \r\nX-Odd: \xff\r\n\r\n",
    b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
)
"""All the ways in which a header may be written and still say where the next message begins."""

EXPERIMENTAL: dict[str, Any] = {"sidecar": {}}
INITIALIZE: dict[str, Any] = {
    "lsp": {
        "processId": None,
        "rootUri": None,
        "capabilities": {"textDocument": {"codeLens": {}}, "experimental": EXPERIMENTAL},
    },
    "acp": {"protocolVersion": 1, "clientCapabilities": {"_meta": EXPERIMENTAL}},
}


class Target:
    """A daemon of its own process. A thread counts what it answers; whatever it asks is refused."""

    def __init__(self, face: Face, home: Path) -> None:
        self._face = face
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sidecar", "acp" if face == "acp" else "serve", "--log", "error"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, "INDUSAGI_HOME": str(home)},
            bufsize=0,
        )
        self.answered: Counter[int | str | None] = Counter()
        self.defects: list[Any] = []
        self.complaints = b""
        self._answers: dict[str, Any] = {}
        self._numbers = count(1)
        self._questions: deque[Any] = deque()
        self._heard = threading.Condition()
        self._threads = [threading.Thread(target=work) for work in (self._listen, self._read_log)]
        for thread in self._threads:
            thread.start()

    def frame(self, body: bytes, rng: random.Random) -> bytes:
        """Return *body* in one of the forms that a frame may have."""
        if self._face == "acp":
            return body + rng.choice((b"\n", b"\n", b"\r\n", b"\n\n"))
        return rng.choice(HEADERS) % len(body) + body

    def send(self, data: bytes) -> None:
        """Send bytes as they are, and a refusal to everything that was asked meanwhile."""
        assert self.process.stdin is not None
        while self._questions:
            refusal = {"id": self._questions.popleft(), "error": {"code": -32601, "message": "not now"}}
            data += self._encoded(refusal)
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def ask(self, method: str, params: Any = None) -> Any:
        """Return the result of one whole request."""
        request_id = f"whole-{next(self._numbers)}"
        ours = self._face == "acp" and method.startswith("sidecar/")
        method = f"_{method}" if ours else method
        self.send(self._encoded({"id": request_id, "method": method, "params": params}))
        self.wait_until(lambda: request_id in self._answers)
        answer = self._answers.pop(request_id)
        assert "result" in answer, answer
        return answer["result"]

    def status(self) -> Any:
        """Return how the daemon says it is."""
        return self.ask("sidecar/status", {})

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once *condition* holds; fail when it does not in time, or the daemon is gone."""
        with self._heard:
            in_time = self._heard.wait_for(lambda: condition() or self.process.poll() is not None, PATIENCE_S)
            assert in_time, "the daemon hangs"
            assert condition(), f"the daemon is gone with {self.process.returncode}: {self.complaints!r}"

    def end(self) -> int:
        """Let it end in order and return its exit code."""
        assert self.process.stdin is not None
        if self._face == "lsp":
            self.ask("shutdown")
            self.send(self._encoded({"method": "exit"}))
        self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join()
        return code

    def stop(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _encoded(self, message: dict[str, Any]) -> bytes:
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        return body + b"\n" if self._face == "acp" else HEADERS[0] % len(body) + body

    def _listen(self) -> None:
        assert self.process.stdout is not None
        decoder = LineDecoder() if self._face == "acp" else HeaderDecoder()
        while data := os.read(self.process.stdout.fileno(), 1 << 20):
            decoder.feed(data)
            with self._heard:
                while (frame := decoder.next()) is not None:
                    assert isinstance(frame, bytes)
                    self._hear(msgspec.json.decode(frame))
                self._heard.notify()
        with self._heard:
            self._heard.notify()

    def _hear(self, message: Any) -> None:
        if "method" in message:
            if "id" in message:
                self._questions.append(message["id"])
        elif str(message["id"]).startswith("whole-"):
            self._answers[message["id"]] = message
        else:
            self.answered[message["id"]] += 1
            if message.get("error", {}).get("data", {}).get("kind") == "internal":
                self.defects.append(message)

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        while data := os.read(self.process.stderr.fileno(), 1 << 16):
            self.complaints += data


@pytest.mark.parametrize("face", ["lsp", "acp"])
def test_whatever_comes_each_id_is_answered_once_and_memory_stays_flat(
    face: Face, fuzz: Fuzz, tmp_path: Path
) -> None:
    target = Target(face, tmp_path / "home")
    try:
        sid = begin(target, face, tmp_path)
        rng = random.Random(f"{SEED} {face}")
        expected: Counter[int | str | None] = Counter()
        sizes = []
        bodies = fuzz.bodies(fuzz.gathered(face, sid), rng, N_FRAMES)
        while some := tuple(islice(bodies, BATCH)):
            lines = [body.replace(b"\n", b" ") if face == "acp" else body for body in some]
            expected.update(answer for body in lines for answer in fuzz.answers_to(face, body))
            target.send(b"".join(target.frame(body, rng) for body in lines))
            target.wait_until(lambda: target.answered.total() >= expected.total())
            sizes.append(target.status()["rssBytes"])
        assert target.answered == expected
        assert target.status()["queues"]["in"] == 1
        assert sizes[-1] - sizes[len(sizes) // 5] <= MOST_GROWN_BYTES
        assert target.end() == 0
        assert (target.defects, target.complaints) == ([], b"")
    finally:
        target.stop()


def begin(target: Target, face: Face, folder: Path) -> str:
    """Shake hands, and return a session that the daemon has."""
    target.ask("initialize", INITIALIZE[face])
    return str(target.ask("sidecar/session/new", {"cwd": str(folder)})["sid"])
