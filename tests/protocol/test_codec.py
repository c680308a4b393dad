"""Messages to JSON and back: camelCase outside, strict inside, every wrong place named."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import ContextUsage
from sidecar.conductor.events import Event, Faulted, FileStale, TextDelta, ToolStarted
from sidecar.protocol.codec import (
    MAX_WRONG_ITEMS,
    event_to_wire,
    from_wire,
    read_strictly,
    result_from_wire,
    to_wire,
)
from sidecar.protocol.messages import (
    CompactStartParams,
    Empty,
    SessionLoadParams,
    SessionNewParams,
    TurnParams,
)
from sidecar.protocol.methods import METHODS

USAGE = ContextUsage(10, 100, 75, 10.0, "estimate", None, {})


def refusal(kind: type[Any], value: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        from_wire(kind, value)
    return caught.value.message


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(
            SessionNewParams, {"cwd": "/x"}, SessionNewParams("/x"), id="defaults fill what is left out"
        ),
        pytest.param(
            SessionNewParams,
            {"cwd": "/x", "roots": ["/y"], "policy": {"triggerRatio": 1}},
            SessionNewParams("/x", roots=("/y",), policy={"triggerRatio": 1}),
            id="arrays become tuples, an integer is a number",
        ),
        pytest.param(
            SessionLoadParams,
            {"sid": "s", "replay": {"fromSeq": 3}},
            SessionLoadParams("s", replay={"fromSeq": 3}),
            id="a choice may be an object",
        ),
        pytest.param(
            TurnParams,
            {"sid": "s", "input": [{"type": "text", "text": "hi"}], "workDoneToken": 0, "future": True},
            TurnParams("s", ({"type": "text", "text": "hi"},), work_done_token=0),
            id="unknown fields are ignored",
        ),
        pytest.param(
            CompactStartParams, {"sid": "s", "planId": None}, CompactStartParams("s"), id="null is absent"
        ),
        pytest.param(Empty, {}, Empty(), id="nothing"),
    ],
)
def test_from_wire(kind: type[Any], value: Any, expected: Any) -> None:
    assert from_wire(kind, value) == expected


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        pytest.param(SessionNewParams, {}, 'required field "cwd" is missing @ params', id="missing"),
        pytest.param(SessionNewParams, [], "params must be an object, found an array", id="not an object"),
        pytest.param(
            SessionNewParams,
            {"cwd": 1, "roots": "ab", "ephemeral": "no"},
            "expected a string, found a number @ params.cwd; "
            "expected an array, found a string @ params.roots; "
            "expected true or false, found a string @ params.ephemeral",
            id="every wrong place is named",
        ),
        pytest.param(
            TurnParams,
            {"sid": "s", "input": [], "whenBusy": "maybe"},
            'expected "queue" or "steer" or "reject", found "maybe" @ params.whenBusy',
            id="a choice says what it may be",
        ),
        pytest.param(
            TurnParams,
            {"sid": "s", "input": [], "workDoneToken": 1.5},
            "expected a string or an integer or null, found a number @ params.workDoneToken",
            id="a bool or a fraction is no integer",
        ),
        pytest.param(
            SessionNewParams,
            {"cwd": "/x", "mcpServers": [1]},
            "expected an object, found a number @ params.mcpServers[0]",
            id="a number where an object belongs",
        ),
    ],
)
def test_from_wire_refuses(kind: type[Any], value: Any, message: str) -> None:
    assert refusal(kind, value).startswith(message)


def test_every_method_refuses_params_of_the_wrong_type() -> None:
    assert [name for name, row in METHODS.items() if "must be an object" not in refusal(row.params, 7)] == []


@pytest.mark.parametrize(
    ("event", "wire"),
    [
        pytest.param(
            Event("s", 1, 2, TextDelta("t.0", "hi"), "t"),
            {"sid": "s", "seq": 1, "at": 2, "kind": "textDelta", "turnId": "t"}
            | {"data": {"messageId": "t.0", "delta": "hi"}},
            id="a delta",
        ),
        pytest.param(
            Event("s", 1, 2, FileStale("file:///a", "sha256:1", None, "disk")),
            {"sid": "s", "seq": 1, "at": 2, "kind": "fileStale"}
            | {"data": {"uri": "file:///a", "readHash": "sha256:1", "nowHash": None, "source": "disk"}},
            id="a deleted file's hash is null",
        ),
        pytest.param(
            Event("s", 1, 2, ToolStarted("c", "read", "Read a", "read", {"path": "a"})),
            {"sid": "s", "seq": 1, "at": 2, "kind": "toolStarted"}
            | {
                "data": {
                    "toolCallId": "c",
                    "name": "read",
                    "title": "Read a",
                    "kind": "read",
                    "input": {"path": "a"},
                    "locations": [],
                }
            },
            id="a tool's own kind stands in data",
        ),
    ],
)
def test_event_to_wire(event: Event, wire: dict[str, Any]) -> None:
    assert event_to_wire(event) == wire


def test_a_refusal_tells_which_names_are_not_known() -> None:
    with pytest.raises(InvalidInput) as caught:
        from_wire(TurnParams, {"sid": "s", "prompt": "hi"})
    assert caught.value.message == 'required field "input" is missing @ params.input'
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("there is no 'prompt' in params; it may have sid, input, ")


def test_a_fault_carries_its_kind_and_the_usage() -> None:
    wire = event_to_wire(Event("s", 1, 2, Faulted("t", "modelFailed", "no", "h", USAGE, 5)))
    assert wire["kind"] == "faulted"
    assert wire["data"]["kind"] == "modelFailed"
    assert wire["data"]["usage"] == to_wire(USAGE)


def test_words_of_a_newer_daemon_are_kept_in_answers() -> None:
    usage = result_from_wire(ContextUsage, to_wire(USAGE) | {"source": "oracle", "mood": "fine"})
    assert str(usage.source) == "oracle"
    with pytest.raises(InvalidInput):
        result_from_wire(ContextUsage, to_wire(USAGE) | {"used": "many"})


def test_a_scalar_is_never_converted() -> None:
    assert read_strictly(5, float) == 5
    for value, kind in ((True, int), ("5", int), (5, str), (True, float), (1, bool)):
        with pytest.raises(TypeError, match="expected"):
            read_strictly(value, kind)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(TurnParams, {"sid": "s", "input": [0] * 100_000}, id="an array"),
        pytest.param(
            CompactStartParams,
            {"sid": "s", "policy": {f"p{n}": "x" for n in range(100_000)}},
            id="an object",
        ),
    ],
)
def test_a_message_with_countless_wrong_items_is_refused_early(kind: type[Any], value: Any) -> None:
    """Each mistake costs kilobytes, so a message of megabytes would cost gigabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput) as caught:
            from_wire(kind, value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.message.count(";") == MAX_WRONG_ITEMS - 1
    assert peak < 2_000_000
