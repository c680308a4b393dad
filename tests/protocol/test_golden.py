"""The messages as they are promised: one file a message, written by hand, compared whole.

A change of a message changes its file, or a test here says which promise was broken. The files say every
member there is, so that none comes or goes unseen.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from reference_page import golden
from sidecar._internal.errors import InvalidInput
from sidecar.conductor.events import Event
from sidecar.protocol.codec import event_to_wire, from_wire, result_from_wire, to_wire, wire_name
from sidecar.protocol.messages import EventNotification
from sidecar.protocol.methods import CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, EVENTS, METHODS, NOTIFICATIONS
from sidecar.protocol.schema import protocol_shapes, schema_document

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMA = schema_document()
REQUESTS = [("methods", row) for row in METHODS.values()] + [
    ("requests", row) for row in CLIENT_REQUESTS.values()
]

SENT_BY_CLIENTS = {row.params for row in (METHODS | CLIENT_NOTIFICATIONS).values()} | {
    row.result for row in CLIENT_REQUESTS.values()
}


def messages() -> Iterator[Any]:
    """Yield every message with its type: those a client sends, and those it gets."""
    for folder, row in REQUESTS:
        found = golden(folder, row.name)
        yield pytest.param(row.params, found["params"], id=f"{row.name} params")
        yield pytest.param(row.result, found["result"], id=f"{row.name} result")
    for notice in (NOTIFICATIONS | CLIENT_NOTIFICATIONS).values():
        yield pytest.param(notice.params, golden("notifications", notice.name)["params"], id=notice.name)
    for kind, payload in EVENTS.items():
        yield pytest.param(payload, golden("events", kind)["data"], id=f"event {kind}")


EVERY_MESSAGE = list(messages())


@pytest.mark.parametrize(("kind", "value"), EVERY_MESSAGE)
def test_a_message_is_read_and_written_as_it_is_promised(kind: type[Any], value: Any) -> None:
    """Schema and codec miss the same members.

    What a client must say, it must say to both; of what it gets, the codec can bear to miss more.
    """
    assert to_wire(from_wire(kind, value)) == value
    assert to_wire(result_from_wire(kind, value)) == value
    validate(kind, value)
    required = SCHEMA["$defs"][kind.__name__].get("required", ())
    for name in value:
        without = {key: item for key, item in value.items() if key != name}
        if name not in required:
            validate(kind, without)
            from_wire(kind, without)
            continue
        with pytest.raises(jsonschema.ValidationError):
            validate(kind, without)
        if kind in SENT_BY_CLIENTS:
            with pytest.raises(InvalidInput):
                from_wire(kind, without)


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_is_told_as_it_is_promised(kind: str) -> None:
    told = golden("events", kind)
    data = from_wire(EVENTS[kind], told["data"])
    event = Event(told["sid"], told["seq"], told["at"], data, told["turnId"])
    assert event_to_wire(event) == told
    assert to_wire(from_wire(EventNotification, told)) == told


def test_there_is_a_file_for_each_message_and_none_besides() -> None:
    wanted = {f"{folder}/{_file(row.name)}" for folder, row in REQUESTS}
    wanted |= {f"notifications/{_file(name)}" for name in NOTIFICATIONS | CLIENT_NOTIFICATIONS}
    wanted |= {f"events/{_file(kind)}" for kind in EVENTS}
    assert {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.json")} == wanted


def test_the_files_say_every_member() -> None:
    said: set[tuple[str, str]] = set()
    for each in EVERY_MESSAGE:
        kind, value = each.values
        said |= set(_members_in(kind, value))
    shapes = protocol_shapes().items()
    assert {(name, each) for name, shape in shapes for each in shape.get("properties", {})} - said == set()


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param(
            lambda value: value.pop("sid"), 'required field "sid" is missing', id="without a member"
        ),
        pytest.param(
            lambda value: value.update(sid=5), "expected a string, found a number", id="another type"
        ),
        pytest.param(lambda value: value.update(whenBusy="wait"), 'expected "queue" or "steer"', id="a word"),
        pytest.param(
            lambda value: value.update(input={}), "expected an array, found an object", id="no list"
        ),
    ],
)
def test_codec_and_schema_refuse_alike(change: Any, place: str) -> None:
    value = copy.deepcopy(golden("methods", "sidecar/turn/start")["params"])
    change(value)
    kind = METHODS["sidecar/turn/start"].params
    with pytest.raises(InvalidInput, match=place):
        from_wire(kind, value)
    with pytest.raises(jsonschema.ValidationError):
        validate(kind, value)


def validate(kind: type[Any], value: Any) -> None:
    schema = {"$ref": f"#/$defs/{kind.__name__}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def _file(name: str) -> str:
    return f"{name.removeprefix('sidecar/').replace('/', '.')}.json"


def _members_in(kind: Any, value: Any) -> Iterator[tuple[str, str]]:
    """Yield shape and member of everything *value* says as a *kind*."""
    if isinstance(value, list):
        for item in value:
            yield from _members_in(kind, item)
    elif isinstance(value, Mapping):
        for shape in _shapes_in(kind):
            hints = get_type_hints(shape)
            for field in fields(shape):
                if wire_name(field) in value:
                    yield shape.__name__, wire_name(field)
                    yield from _members_in(hints[field.name], value[wire_name(field)])
        if not is_dataclass(kind):
            for item in value.values():
                yield from _members_in(kind, item)


def _shapes_in(kind: Any) -> Iterator[Any]:
    if is_dataclass(kind):
        yield kind
    else:
        for arm in get_args(kind):
            yield from _shapes_in(arm)
