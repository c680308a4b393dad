"""What is thrown at a daemon: messages of every kind, recorded ones where they are, and the same broken.

A deterministic stream of frames. What each of them has to be answered with is said here too, by the rules of
JSON-RPC and not by the code under test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "dev"
Face = Literal["lsp", "acp"]
Message = dict[str, Any]

AT = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
NOTE = {"uri": "file:///p/note.txt", "version": 2}
OPENED = {**NOTE, "languageId": "x", "text": "a\nb"}
TEXT = {"type": "text", "text": "hé"}
TRANSCRIPT = "sidecar-session:/unknown/transcript.md"
NOWHERE = "/no/such/folder"
OURS: tuple[tuple[str, Any], ...] = (
    ("sidecar/status", {}),
    ("sidecar/status", None),
    ("sidecar/log/tail", {"fromLine": 1, "level": "warning"}),
    ("sidecar/schema", {"format": "nothing"}),
    ("sidecar/attach", {"sid": "unknown", "fromSeq": 3}),
    ("sidecar/session/list", {"query": "é", "limit": 3, "cursor": "0"}),
    ("sidecar/session/load", {"sid": "../../etc/passwd", "replay": {"lastTurns": 2}}),
    ("sidecar/session/read", {"sid": "$SID", "view": "active", "limit": 5}),
    ("sidecar/session/tree", {"sid": "$SID"}),
    ("sidecar/session/rewind", {"sid": "$SID", "toNode": "none", "expectHead": "none"}),
    ("sidecar/session/setConfigOption", {"sid": "$SID", "configId": "engine", "value": "none"}),
    ("sidecar/turn/run", {"sid": "unknown", "input": [TEXT], "whenBusy": "steer"}),
    ("sidecar/turn/interrupt", {"sid": "$SID", "turnId": "t", "queue": "return"}),
    ("sidecar/turn/steer", {"sid": "$SID", "expectTurnId": "t", "input": [TEXT]}),
    ("sidecar/queue/list", {"sid": "$SID"}),
    ("sidecar/context/usage", {"sid": "$SID", "detail": True}),
    ("sidecar/context/files", {"sid": "$SID"}),
    ("sidecar/compact/preview", {"sid": "$SID", "engine": "agentcore", "mode": "force"}),
    ("sidecar/compact/read", {"sid": "$SID", "compactionId": "c", "part": "summary"}),
    ("sidecar/fs/unwatch", {"sid": "$SID", "watchId": "w"}),
)
LSP: tuple[Message, ...] = (
    {"id": 0, "method": "initialize", "params": {"capabilities": {"workspace": {}}, "processId": None}},
    {"method": "initialized", "params": {}},
    {
        "method": "textDocument/didOpen",
        "params": {"textDocument": {**NOTE, "languageId": "x", "text": "a\nb"}},
    },
    {
        "method": "textDocument/didChange",
        "params": {
            "textDocument": NOTE,
            "contentChanges": [{"range": AT, "text": "\U0001f600"}, {"text": "b"}],
        },
    },
    {"method": "textDocument/didSave", "params": {"textDocument": {"uri": NOTE["uri"]}}},
    {"method": "textDocument/didClose", "params": {"textDocument": {"uri": NOTE["uri"]}}},
    {"method": "workspace/didChangeWatchedFiles", "params": {"changes": [{"uri": NOTE["uri"], "type": 2}]}},
    {"method": "workspace/didRenameFiles", "params": {"files": [{"oldUri": "file:///a", "newUri": "b"}]}},
    {"method": "$/setTrace", "params": {"value": "messages"}},
    {"method": "$/setTrace", "params": {"value": "off"}},
    {"method": "$/cancelRequest", "params": {"id": 3}},
    {"method": "window/workDoneProgress/cancel", "params": {"token": "w"}},
    {"id": 0, "method": "textDocument/codeLens", "params": {"textDocument": {"uri": NOTE["uri"]}}},
    {
        "id": 0,
        "method": "workspace/textDocumentContent",
        "params": {"uri": "sidecar-session:/x/transcript.md"},
    },
    {
        "id": 0,
        "method": "workspace/executeCommand",
        "params": {"command": "sidecar.context", "arguments": [{"sid": "$SID"}], "workDoneToken": "w"},
    },
    {"id": "s1", "result": {"applied": True}},
    {"id": "s1", "error": {"code": -32601, "message": "no"}},
    *({"id": 0, "method": method, "params": params} for method, params in OURS),
)
ACP: tuple[Message, ...] = (
    {"id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {"fs": {}}}},
    {"id": 0, "method": "authenticate", "params": {"methodId": "x"}},
    {"id": 0, "method": "session/new", "params": {"cwd": NOWHERE, "mcpServers": []}},
    {"id": 0, "method": "session/load", "params": {"sessionId": "x", "cwd": NOWHERE, "mcpServers": []}},
    {"id": 0, "method": "session/resume", "params": {"sessionId": "x", "cwd": NOWHERE}},
    {"id": 0, "method": "session/fork", "params": {"sessionId": "x", "cwd": NOWHERE}},
    {"id": 0, "method": "session/close", "params": {"sessionId": "x"}},
    {"id": 0, "method": "session/delete", "params": {"sessionId": "x"}},
    {"id": 0, "method": "session/list", "params": {"cursor": None, "cwd": NOWHERE}},
    {
        "id": 0,
        "method": "session/prompt",
        "params": {"sessionId": "x", "prompt": [TEXT]},
    },
    {"id": 0, "method": "session/set_mode", "params": {"sessionId": "$SID", "modeId": "ask"}},
    {
        "id": 0,
        "method": "session/set_config_option",
        "params": {"sessionId": "$SID", "configId": "engine", "value": "none"},
    },
    {"id": 0, "method": "_session/steering", "params": {"sessionId": "$SID", "prompt": []}},
    {"method": "session/cancel", "params": {"sessionId": "$SID"}},
    {"method": "$/cancel_request", "params": {"requestId": 3}},
    {"id": "s1", "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}},
    {"id": "s1", "error": {"code": -32601, "message": "no"}},
    *({"id": 0, "method": f"_{method}", "params": params} for method, params in OURS),
)
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


@dataclass(frozen=True)
class Corpus:
    """Whole *messages*, bodies that are none, and odd values to put into messages."""

    messages: Sequence[Message]
    raw: Sequence[bytes]
    odd: Sequence[Any] = field(default=ODD)


def recorded() -> Iterator[Message]:
    """Yield what real clients said, of both faces; nothing where the recordings are not."""
    for path in sorted((DATA / "acp-golden").glob("*.json")):
        yield from _golden(path.stem, json.loads(path.read_text(encoding="utf-8")))
    for line in _lines(DATA / "json-rpc" / "spec-examples.txt"):
        if line.startswith("--> {") and line.endswith("}"):
            yield json.loads(line[4:])
    for path in sorted((DATA / "jsonrpc-agent").glob("*.jsonl")):
        yield from map(json.loads, _lines(path))
    for line in _lines(DATA / "lsp" / "haskell-renamePass-session.log"):
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


def gathered(face: Face, sid: str) -> Corpus:
    """Return everything there is to throw at *face*; *sid* is a session that the daemon has."""
    own = json.loads(json.dumps(LSP if face == "lsp" else ACP).replace("$SID", sid))
    # Ours come more often: the recorded ones are many, and mostly about what a sidecar does not do.
    told = [message for message in recorded() if message.get("method") not in ("exit", "shutdown")]
    files = sorted((DATA / "json-test-suite").rglob("*.json"))
    strings = DATA / "naughty-strings" / "blns.json"
    naughty = json.loads(strings.read_text(encoding="utf-8")) if strings.exists() else []
    raw = [data for path in files if len(data := path.read_bytes()) < 20_000]
    return Corpus([*own * (1 + len(told) // len(own)), *told], [*RAW, *raw], [*ODD, *naughty])


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
                yield scratched(rng, msgspec.json.encode(message))
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


def scratched(rng: random.Random, body: bytes) -> bytes:
    """Return *body* with some bytes changed, moved or lost."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                del data[at : at + rng.randint(1, 8)]
            case 1:
                data[at:at] = bytes([rng.randrange(256)])
            case 2 if at < len(data):
                data[at] = rng.randrange(256)
            case 3:
                data[at:at] = data[: rng.randint(0, 20)]
            case _:
                data[at:at] = rng.choice(ODD_BYTES)
    return bytes(data)


def answers_to(face: Face, body: bytes) -> list[int | str | None]:
    """Return the ids that *body* is answered under: one, None where none can be read in it, or nothing."""
    if face == "acp" and not body.strip():
        return []
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
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


@dataclass(frozen=True)
class Fuzz:
    """The parts, for the tests of the folder."""

    gathered: Callable[[Face, str], Corpus] = gathered
    bodies: Callable[[Corpus, random.Random, int], Iterator[bytes]] = bodies
    answers_to: Callable[[Face, bytes], list[int | str | None]] = answers_to


@pytest.fixture
def fuzz() -> Fuzz:
    return Fuzz()
