"""Damaged lines and documents: what is whole is read, the rest is counted."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.importing.builder import ImportBuilder
from sidecar.importing.contract import ImportFailedError
from sidecar.importing.graph import build_session
from sidecar.importing.reading import parse_document, parse_lines, read_session
from sidecar.importing.registry import FORMATS
from tests.importing.test_formats import AIDER, AT, PI, SESSIONS, claude, result, tool_use


@pytest.mark.parametrize(
    ("data", "values", "notes"),
    [
        pytest.param(b'{"a":1}\n\n{"a":2}', [{"a": 1}, {"a": 2}], [], id="empty lines, no last newline"),
        pytest.param(b'{"a":1}{"a":2}\n', [{"a": 1}, {"a": 2}], ["joinedLines"], id="two on a line"),
        pytest.param(
            b'{"a":1}{"a":\n', [{"a": 1}], ["joinedLines", "corruptLine"], id="one and a half on a line"
        ),
        pytest.param(b'oops\n{"a":1}\n', [{"a": 1}], ["corruptLine"], id="no JSON"),
        pytest.param(b'{"a":1}\n{"a":', [{"a": 1}], ["cutFile"], id="a cut file"),
        pytest.param(b'{"a":"\xff"}\n', [{"a": "\ufffd"}], [], id="bytes that are no text"),
        pytest.param(b'{"a":"\\ud83d"}\n', [{"a": "\ud83d"}], [], id="half a character"),
        pytest.param(b'{"a":NaN}\n', None, [], id="a number that is none"),
        pytest.param(b"[" * 200_000 + b"\n", [], ["corruptLine"], id="nested without end"),
    ],
)
def test_lines(data: bytes, values: list[object] | None, notes: list[str]) -> None:
    noted: list[str] = []
    found = list(parse_lines(data.splitlines(keepends=True), noted.append))
    assert noted == notes
    if values is not None:
        assert found == values


def test_a_cut_document_keeps_the_messages_before_the_cut() -> None:
    whole = json.dumps({"info": {"id": "s"}, "messages": [{"n": 1}, {"n": 2}]}, indent=1)
    noted: list[str] = []
    assert parse_document(whole[:-12], noted.append) == {"info": {"id": "s"}, "messages": [{"n": 1}]}
    assert noted == ["cutFile"]


def test_a_text_without_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        parse_document('{"a": ', lambda reason: None)


pytestmark = pytest.mark.slow

N_DAMAGED = 250
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 1e308, float("nan"), "", "x" * 100, "\ud800", "/w/\ud800"),
    *([], {}, [[]], [None], ["x", 1], {"a": {}}, {"type": []}, {"type": "text"}),
)
"""Values of every kind, put in any place."""


def list_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place within a JSON value as its container and the key."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from list_places(value[key])


def damage_value(value: Any, random: Random) -> None:
    """Put odd values into some places of a JSON value, take some away, and swap some."""
    for _ in range(random.randint(1, 4)):
        places = list(list_places(value))
        if not places:
            return
        container, key = random.choice(places)
        match random.randrange(4):
            case 0 | 1:
                container[key] = copy.deepcopy(random.choice(ODD))
            case 2:
                del container[key]
            case _:
                other, place = random.choice(places)
                container[key] = copy.deepcopy(other[place])


def damage_bytes(data: bytes, random: Random) -> bytes:
    """Return *data* with bytes changed, cut and repeated."""
    found = bytearray(data)
    for _ in range(random.randint(1, 20)):
        at = random.randrange(len(found) + 1)
        match random.randrange(4):
            case 0:
                found[at : at + 1] = random.randbytes(1)
            case 1:
                del found[at : at + random.randint(1, 200)]
            case 2:
                found[at:at] = found[max(0, at - 50) : at]
            case _:
                del found[at + random.randint(1, 5000) :]
    return bytes(found)


@pytest.mark.parametrize("records", [pytest.param(each.values[0], id=each.id) for each in SESSIONS])
def test_a_damaged_session_is_read_or_refused(tmp_path: Path, records: list[Any]) -> None:
    path = tmp_path / "session.jsonl"
    for seed in range(N_DAMAGED):
        random, damaged = Random(seed), copy.deepcopy(records)
        damage_value(damaged, random)
        data = "".join(f"{json.dumps(each)}\n" for each in damaged).encode()
        path.write_bytes(damage_bytes(data, random) if seed % 4 == 0 else data)
        try:
            session = read_session(path)
        except ImportFailedError:
            continue
        assert len({entry.node_id for entry in session.entries}) == len(session.entries), seed


def test_a_damaged_history_of_aider_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    for seed in range(N_DAMAGED):
        path.write_bytes(damage_bytes(AIDER.encode(), Random(seed)))
        try:
            read_session(path)
        except ImportFailedError:
            continue


def claude_session(n_turns: int) -> Iterator[Any]:
    """Yield a session in which the user went back now and then, with compactions."""
    parent: str | None = None
    for turn in range(n_turns):
        if turn % 1000 == 999:
            yield claude("user", "So far", f"s{turn}", parent, isCompactSummary=True)
        call = tool_use(f"t{turn}", "Read", file_path="/w/a.py")
        lines = (
            ("user", f"prompt {turn}"),
            ("assistant", [call]),
            ("user", result(f"t{turn}", "x")),
            ("assistant", [{"type": "text", "text": "Done."}]),
        )
        for number, (kind, content) in enumerate(lines):
            yield claude(kind, content, f"{turn}-{number}", parent)
            parent = f"{turn}-{number}"
        parent = f"{turn - 3}-3" if turn % 10 == 5 else parent


def codex_session(n_turns: int) -> Iterator[Any]:
    """Yield a session in which turns were taken back."""
    for turn in range(n_turns):
        payloads: list[dict[str, Any]] = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"p {turn}"}]},
            {"type": "function_call", "call_id": f"{turn}", "name": "shell", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"{turn}", "output": "x"},
        ]
        yield from ({"type": "response_item", "timestamp": AT, "payload": each} for each in payloads)
        if turn % 5 == 4:
            payload = {"type": "thread_rolled_back", "num_turns": 2}
            yield {"type": "event_msg", "timestamp": AT, "payload": payload}


def pi_session(n_turns: int) -> Iterator[Any]:
    """Yield a session in which the user went back."""
    parent: str | None = None
    for turn in range(2 * n_turns):
        message = {
            "role": "assistant" if turn % 2 else "user",
            "content": [{"type": "text", "text": f"{turn}"}],
        }
        yield {"type": "message", "id": f"{turn}", "parentId": parent, "timestamp": AT, "message": message}
        parent = f"{turn - 6}" if turn % 20 == 19 else f"{turn}"


def gemini_session(n_turns: int) -> Iterator[Any]:
    """Yield a session in which every other prompt was taken back."""
    yield {"sessionId": "s"}
    for turn in range(2 * n_turns):
        yield {"id": f"{turn}", "type": "user", "content": f"prompt {turn}", "timestamp": AT}
        yield {"id": f"{turn}a", "type": "user", "content": "not this", "timestamp": AT}
        yield {"$rewindTo": f"{turn}a"}


SCALES = {
    "claude-code": claude_session,
    "codex": codex_session,
    "gemini-cli": gemini_session,
    "pi": pi_session,
}


@pytest.mark.parametrize("name", SCALES)
def test_the_time_of_an_import_follows_its_size(name: str) -> None:
    """Eight times the records take about eight times as long; sixty-four times would be the square."""

    def seconds(n_turns: int) -> float:
        records, builder = list(SCALES[name](n_turns)), ImportBuilder()
        began = time.process_time()
        FORMATS[name].read(records, builder)
        session = build_session(builder, name)
        assert len(session.entries) > n_turns
        return time.process_time() - began

    assert seconds(8_000) < 24 * seconds(1_000)


def test_parents_that_run_in_a_circle_end() -> None:
    rings = [{"type": "custom", "id": "a", "parentId": "b"}, {"type": "custom", "id": "b", "parentId": "a"}]
    lost = {"type": "message", "id": "c", "parentId": "a", "message": {"role": "user", "content": "hi"}}
    builder = ImportBuilder()
    FORMATS["pi"].read([PI[0], *rings, lost], builder)
    assert len(builder.path) == 1
