"""What is thrown at a daemon, messages of every kind and the same broken, and the process it is thrown at.

A deterministic stream of frames, recorded ones among them where they are. What each of them has to be
answered with is said here too, by the rules of JSON-RPC and not by the code under test.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from sidecar.protocol.framing import HeaderDecoder, LineDecoder
from sidecar.protocol.jsonrpc import HEAD_BYTES, TAIL_BYTES, read_envelope

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "dev"
PATIENCE_S = 60.0
Protocol = Literal["lsp", "acp"]
Message = dict[str, Any]

MESSAGES: dict[str, Any] = json.loads(Path(__file__).with_name("messages.json").read_text())
"""The messages for each protocol, and the requests for *both*; ``$SID`` stands for an existing session."""

RAW = (
    b"",
    b"null",
    b"[]",
    b'[{"jsonrpc":"2.0","id":1,"method":"x"}]',
    b"{",
    b'"x"',
    b"NaN",
    b"\xff",
    b"[" * 2_000,
)
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**53 + 1,
        2**70,
        "",
        "\u2028",
        "\x00",
        "\U0001f600",
        "../..",
        "x" * 5_000,
    ),
    *([], {}, [[]], {"jsonrpc": "2.0", "id": 1, "method": "exit"}, {"": None}, ["a"] * 100),
)
ODD_BYTES = (
    *(b"null", b"{}", b"[]", b'"', b"}", b"\\", b'"id":7,'),
    *(b"1e999", b"\\ud800", b"\xe2\x80\xa8", b"\xff"),
)


def scratched(rng: random.Random, body: bytes, odd: Sequence[bytes]) -> bytes:
    """Return *body* with some bytes changed, moved or lost, or some of *odd* put in."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if data:
                del data[at : at + rng.randint(1, 8)]
            case 1:
                data[at:at] = bytes([rng.randrange(256)])
            case 2 if at < len(data):
                data[at] = rng.randrange(256)
            case 3:
                data[at:at] = data[: rng.randint(0, 20)]
            case _:
                data[at:at] = rng.choice(odd)
    return bytes(data)


@dataclass(frozen=True)
class Corpus:
    """Whole *messages*, bodies that are none, and odd values to put into messages."""

    messages: Sequence[Message]
    raw: Sequence[bytes]
    odd: Sequence[Any] = field(default=ODD)


def recorded() -> Iterator[Message]:
    """Yield messages of real clients of both protocols; none without the recordings."""
    for path in sorted((DATA / "acp-golden").glob("*.json")):
        yield from _golden(path.stem, json.loads(path.read_text(encoding="utf-8")))
    for line in _lines(DATA / "json-rpc" / "spec-examples.txt"):
        if line.startswith("--> {") and line.endswith("}"):
            yield json.loads(line[4:])
    for path in sorted((DATA / "jsonrpc-agent").glob("*.jsonl")):
        yield from map(json.loads, _lines(path))
    for line in _lines(DATA / "lsp" / "haskell-renamePass-session.record.log"):
        event = json.loads(line)
        if event["tag"] == "FromClient" and isinstance(event["contents"][1].get("contents"), dict):
            yield event["contents"][1]["contents"]
    log = DATA / "lsp" / "css.log.json"
    for entry in json.loads(log.read_text(encoding="utf-8")) if log.exists() else ():
        if entry["msgKind"].startswith("send-") and entry["msgType"] not in ("exit", "shutdown"):
            number = {"id": 0} if entry["msgKind"] == "send-request" else {}
            yield {**number, "method": entry["msgType"], "params": entry.get("arg")}


def _golden(name: str, value: Any) -> Iterator[Message]:
    """Yield a golden message in its place, or as a part of a prompt."""
    methods = {
        "initialize_request": "initialize",
        "new_session_request": "session/new",
        "prompt_request": "session/prompt",
        "cancel_notification": "session/cancel",
    }
    if name in methods:
        unspawned: dict[str, Any] = {"mcpServers": []} if "mcpServers" in value else {}
        yield {"id": 0, "method": methods[name], "params": {**value, **unspawned}}
    elif "response" in name or "outcome" in name:
        yield {"id": "s1", "result": value}
    else:
        yield {"id": 0, "method": "session/prompt", "params": {"sessionId": "x", "prompt": [value]}}


def _lines(path: Path) -> Sequence[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else ()


def gathered(face: Protocol, sid: str) -> Corpus:
    """Return everything there is to throw at *face*; *sid* is a session that the daemon has."""
    prefix = "_" if face == "acp" else ""
    both = [{"id": 0, "method": prefix + method, "params": params} for method, params in MESSAGES["both"]]
    own = json.loads(json.dumps([*MESSAGES[face], *both]).replace("$SID", sid))
    # Ours come more often: the recorded ones are many, and mostly about features of others.
    others = [message for message in recorded() if message.get("method") not in ("exit", "shutdown")]
    files = sorted((DATA / "json-test-suite").rglob("*.json"))
    strings = DATA / "naughty-strings" / "blns.json"
    naughty = json.loads(strings.read_text(encoding="utf-8")) if strings.exists() else []
    raw = [data for path in files if len(data := path.read_bytes()) < 20_000]
    return Corpus([*own * (1 + len(others) // len(own)), *others], [*RAW, *raw], [*ODD, *naughty])


def bodies(corpus: Corpus, rng: random.Random, count: int) -> Iterator[bytes]:
    """Yield *count* bodies, a fifth of them whole."""
    for n in range(count):
        message = {"jsonrpc": "2.0", **rng.choice(corpus.messages)}
        if "id" in message and "method" in message:
            message["id"] = rng.choice((n, f"i{n}"))
        match rng.randrange(10):
            case 0 | 1:
                yield msgspec.json.encode(message)
            case 2 | 3 | 4:
                yield msgspec.json.encode(replaced(corpus, rng, message))
            case 5 | 6 | 7:
                yield scratched(rng, msgspec.json.encode(message), ODD_BYTES)
            case 8:
                yield rng.choice(corpus.raw)
            case _:
                head = msgspec.json.encode({"jsonrpc": "2.0", "id": n, "method": "sidecar/status"})[:-1]
                yield head + b',"params":' + rng.choice(corpus.raw) + b"}"


def replaced(corpus: Corpus, rng: random.Random, value: Any) -> Any:
    """Return *value* with one place in it replaced by something else, or gone."""
    if isinstance(value, Mapping) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {kept: item for kept, item in value.items() if kept != name}
        return {**value, name: replaced(corpus, rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        return [*value[:at], replaced(corpus, rng, value[at]), *value[at + 1 :]]
    return rng.choice(corpus.odd)


def answers_to(face: Protocol, body: bytes) -> list[int | str | None]:
    """Return the ids that *body* is answered under: one, None where none can be read in it, or nothing."""
    if face == "acp" and not body.strip():
        return []
    try:
        value = read_json(body)
    except RecursionError:
        envelope = read_envelope(body[:HEAD_BYTES], body[-TAIL_BYTES:])
        return [] if envelope.is_response else [envelope.id]
    except ValueError:
        return [None]
    if not isinstance(value, dict):
        return [None]
    found = value.get("id")
    number = found if type(found) in (int, str) else None
    is_request = isinstance(value.get("method"), str)
    if value.get("jsonrpc") == "2.0" and is_request and "id" not in value:
        return []
    is_answer = "method" not in value and ("result" in value or "error" in value)
    return [] if value.get("jsonrpc") == "2.0" and is_answer else [number]


def read_json(body: bytes) -> Any:
    """Return the value in *body*; only the standard library reads all that is legal in JSON.

    That is half a surrogate pair, and numbers of many digits.
    """
    try:
        return msgspec.json.decode(body)
    except ValueError:
        return json.loads(body.decode(), parse_constant=int)


@dataclass(frozen=True)
class Fuzz:
    """The parts, for the tests of the folder."""

    gathered: Callable[[Protocol, str], Corpus] = gathered
    bodies: Callable[[Corpus, random.Random, int], Iterator[bytes]] = bodies
    answers_to: Callable[[Protocol, bytes], list[int | str | None]] = answers_to


@pytest.fixture
def fuzz() -> Fuzz:
    return Fuzz()


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
    """A daemon of its own process. A thread counts its answers; all its requests are refused."""

    def __init__(self, face: Protocol, folder: Path) -> None:
        self.folder = folder
        self._face = face
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sidecar", "acp" if face == "acp" else "serve", "--log", "error"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, "INDUSAGI_HOME": str(folder / "home"), "PYTHONWARNINGS": "default"},
            bufsize=0,
        )
        self.answered: Counter[int | str | None] = Counter()
        self.defects: list[Any] = []
        self.complaints = b""
        self._answers: dict[str, Any] = {}
        self._numbers = count(1)
        self._questions: deque[Any] = deque()
        self._arrived = threading.Condition()
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
        self.send_messages({"id": request_id, "method": method, "params": params})
        answer = self.answer(request_id)
        assert "result" in answer, answer
        return answer["result"]

    def answer(self, request_id: str) -> Any:
        """Return the answer to a request whose id begins with ``whole-``."""
        self.wait_until(lambda: request_id in self._answers)
        return self._answers.pop(request_id)

    def session(self, **options: Any) -> str:
        """Shake hands, with *options* for the daemon, and return a session, of model ``m`` if there are."""
        hello = {"initializationOptions": {"sidecar": options}, "_meta": {"sidecar": options}}
        self.ask("initialize", {**INITIALIZE[self._face], **(hello if options else {})})
        return self.another_session(**({"model": "m"} if options else {}))

    def another_session(self, **wanted: Any) -> str:
        """Return a new session."""
        return str(self.ask("sidecar/session/new", {"cwd": str(self.folder), **wanted})["sid"])

    def send_messages(self, *messages: Message) -> None:
        """Send whole messages and wait for nothing."""
        self.send(b"".join(map(self._encoded, messages)))

    def status(self) -> Any:
        """Return the status of the daemon."""
        return self.ask("sidecar/status", {})

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once *condition* holds; fail when it does not in time, or the daemon is gone."""
        with self._arrived:
            in_time = self._arrived.wait_for(
                lambda: condition() or self.process.poll() is not None, PATIENCE_S
            )
            assert in_time, "the daemon hangs"
            assert condition(), f"the daemon is gone with {self.process.returncode}: {self.complaints!r}"

    def end(self) -> int:
        """Let it end in order and return its exit code."""
        assert self.process.stdin is not None
        if self._face == "lsp":
            self.ask("shutdown")
            self.send_messages({"method": "exit"})
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
            with self._arrived:
                while (frame := decoder.next()) is not None:
                    assert isinstance(frame, bytes)
                    self._hear(read_json(frame))
                self._arrived.notify()
        with self._arrived:
            self._arrived.notify()

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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Protocol], Target]]:
    """Return a function that starts daemons, which end with the test."""
    started: list[Target] = []

    def begin(face: Protocol) -> Target:
        started.append(Target(face, tmp_path))
        return started[-1]

    yield begin
    for target in started:
        target.stop()
