"""The envelope: what is a message, what is not and how that is answered, and which requests are open."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.protocol.errors import RequestRefused
from sidecar.protocol.jsonrpc import (
    HEAD_BYTES,
    TAIL_BYTES,
    Envelope,
    InFlight,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    encode_value,
    read_envelope,
    scan_members,
)

SUITE = Path(__file__).parents[2].parent / "shared" / "data" / "dev" / "json-test-suite" / "test_parsing"

NESTED = b"[" * 100_000 + b"]" * 100_000


def check(body: bytes, expected: Message) -> None:
    assert decode(body) == expected


def check_refused(body: bytes, kind: str, message_id: int | str | None = None) -> None:
    message = decode(body)
    assert isinstance(message, Malformed)
    assert (message.problem.kind, message.id) == (kind, message_id)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}',
            Request(1, "m", {"a": 1}),
            id="a request",
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":0,"method":"m"}', Request(0, "m", None), id="id 0, no params"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":"","method":"m","params":null}', Request("", "m", None), id="id empty"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","method":"m","params":[1]}', Notification("m", [1]), id="a notification"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"jsonrpc":"2.0","id":9}}',
            Request(1, "m", {"jsonrpc": "2.0", "id": 9}),
            id="nested jsonrpc key",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":"\\ud800","method":"m","params":["\\uD83D \\ude00","\\ud83d\\ude00"]}',
            Request("\ud800", "m", ["\ud83d \ude00", "😀"]),
            id="half a surrogate pair",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":7,"method":"m","params":[1e400,-1E+309,1' + b"0" * 5_000 + b"]}",
            Request(7, "m", [sys.float_info.max, -sys.float_info.max, sys.float_info.max]),
            id="numbers beyond a double",
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":"s1","result":null}', Response("s1", None, None), id="a result"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":2,"error":{"code":1}}', Response(2, None, {"code": 1}), id="an error"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}',
            Response(None, None, {"code": -32700}),
            id="error, id null",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":2,"error":"no"}', Response(2, None, {}), id="an error of no shape"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":2}', Response(2, None, None, is_bare=True), id="the result undefined"
        ),
        pytest.param(b' \r\n{"jsonrpc":"2.0","method":"m"} ', Notification("m", None), id="space around"),
    ],
)
def test_decode(body: bytes, expected: Message) -> None:
    check(body, expected)


@pytest.mark.parametrize(
    ("body", "kind", "message_id"),
    [
        pytest.param(b"", "parse", None, id="nothing"),
        pytest.param(b"{", "parse", None, id="half"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"m","params":NaN}', "parse", None, id="NaN"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', "parse", None, id="invalid UTF-8"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"\\ud800","params":NaN}', "parse", None, id="NaN beside a half"
        ),
        pytest.param(b"[" * 100_000, "parse", None, id="a hundred thousand open arrays"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, "parse", None, id="a hundred thousand nested arrays"),
        pytest.param(b'{"a":' * 100_000, "parse", None, id="a hundred thousand open objects"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + NESTED + b"}", "parse", 1, id="nested params"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","method":"m","params":' + NESTED + b',"id":"q"}', "parse", "q", id="id behind"
        ),
        pytest.param(b"[]", "invalidRequest", None, id="an empty batch"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"m"}]', "invalidRequest", None, id="a batch"),
        pytest.param(b"1", "invalidRequest", None, id="a number"),
        pytest.param(b'"x"', "invalidRequest", None, id="a string"),
        pytest.param(b"null", "invalidRequest", None, id="null"),
        pytest.param(b"{}", "invalidRequest", None, id="an empty object"),
        pytest.param(b'{"id":1,"method":"m"}', "invalidRequest", 1, id="no version"),
        pytest.param(b'{"jsonrpc":"1.0","id":1,"method":"m"}', "invalidRequest", 1, id="another version"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":1}', "invalidRequest", 1, id="a method of no kind"),
        pytest.param(
            b'{"jsonrpc":"2.0","method":1,"params":"bar"}', "invalidRequest", None, id="a bad notification"
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"m"}', "invalidRequest", None, id="id null"),
        pytest.param(b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', "invalidRequest", None, id="id a fraction"),
        pytest.param(b'{"jsonrpc":"2.0","id":true,"method":"m"}', "invalidRequest", None, id="id true"),
        pytest.param(b'{"jsonrpc":"2.0","id":[1],"method":"m"}', "invalidRequest", None, id="id an array"),
        pytest.param(b'{"jsonrpc":"2.0"}', "invalidRequest", None, id="neither method nor id"),
    ],
)
def test_malformed(body: bytes, kind: str, message_id: int | str | None) -> None:
    check_refused(body, kind, message_id)


@pytest.mark.skipif(not SUITE.is_dir(), reason="the JSON test suite is not beside the checkout")
def test_json_test_suite_as_bodies() -> None:
    """``y_`` files parse, ``n_`` files do not, ``i_`` files may do either; none crashes."""
    for path in sorted(SUITE.glob("*.json")):
        message = decode(path.read_bytes())
        is_parsed = not (isinstance(message, Malformed) and message.problem.kind == "parse")
        if path.name.startswith(("y_", "n_")):
            assert is_parsed == path.name.startswith("y_"), path.name


@given(st.binary(max_size=300))
def test_garbage_is_malformed_and_never_raises(body: bytes) -> None:
    assert isinstance(decode(body), Malformed)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.integers() | st.text(), st.text(), json_values)
def test_what_is_encoded_decodes_to_itself(message_id: int | str, method: str, value: Any) -> None:
    check(encode_request(message_id, method, value), Request(message_id, method, value))
    check(encode_notification(method, value), Notification(method, value))
    check(encode_result(message_id, value), Response(message_id, value, None))


def test_error_answer_without_an_id_carries_null() -> None:
    body = encode_error(None, -32700, "no JSON", {"kind": "parse"})
    expected = {"code": -32700, "message": "no JSON", "data": {"kind": "parse"}}
    assert json.loads(body) == {"jsonrpc": "2.0", "id": None, "error": expected}


NAME = b"caf\xe9".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("ä😀", '"ä😀"', id="UTF-8, never escaped"),
        pytest.param({NAME: [(NAME,)]}, '{"caf\ufffd":[["caf\ufffd"]]}', id="half a surrogate pair"),
        pytest.param(float("nan"), "null", id="no number"),
    ],
)
def test_a_result_goes_out_as_json_that_all_can_read(value: Any, text: str) -> None:
    assert encode_result(1, value).decode() == f'{{"jsonrpc":"2.0","id":1,"result":{text}}}'


def test_an_id_with_half_a_surrogate_pair_is_repeated_exactly() -> None:
    sent = json.loads(encode_result("\ud83d", "\ud83d"))
    assert sent == {"jsonrpc": "2.0", "id": "\ud83d", "result": "\ufffd"}


def test_a_value_that_is_not_json_ready_raises_type_error() -> None:
    with pytest.raises(TypeError):
        encode_result(1, object())


@pytest.mark.parametrize("text", ['é😀\\"\n', "half \ud83d"])
def test_long_members_are_encoded_in_pieces(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, largest = msgspec.json.encode, [0]

    def encode_counted(value: Any) -> bytes:
        largest.append(len(value) if isinstance(value, list | str) else 0)
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", encode_counted)
    value = {"nodes": [{"id": n, "text": text} for n in range(1000)], "text": text * 400_000, "none": None}
    sent = text.replace("\ud83d", "\ufffd")
    expected = {"nodes": [{"id": n, "text": sent} for n in range(1000)], "text": sent * 400_000, "none": None}
    assert json.loads(bytes(encode_value(value))) == expected
    assert "\ud83d" in text or max(largest) <= 1 << 20


def test_an_open_id_is_refused_until_it_is_settled_which_it_is_once() -> None:
    table = InFlight(10)
    table.admit(1)
    with pytest.raises(RequestRefused) as refused:
        table.admit(1)
    assert (refused.value.kind, refused.value.retryable, len(table)) == ("invalidRequest", False, 1)
    table.admit("1")  # a string is another id
    assert (table.settle(1), table.settle(1), len(table)) == (True, False, 1)
    table.admit(1)


def test_too_many_open_requests_are_overload() -> None:
    table = InFlight(2)
    table.admit(0)
    table.admit(2)
    with pytest.raises(RequestRefused) as refused:
        table.admit(3)
    assert (refused.value.kind, refused.value.retryable) == ("overloaded", True)
    assert table.settle(0)
    table.admit(3)


def test_decoded_integers_keep_their_size() -> None:
    big = 10**30
    assert decode(msgspec.json.encode({"jsonrpc": "2.0", "id": big, "method": "m"})) == Request(
        big, "m", None
    )


def test_an_answer_that_is_nested_too_deeply_ends_its_request() -> None:
    assert decode(b'{"jsonrpc":"2.0","id":"s1","result":' + NESTED + b"}") == Response("s1", None, {})


FILLER = "a" * 2 * HEAD_BYTES


def check_envelope(message: dict[str, Any], expected: Envelope) -> None:
    body = msgspec.json.encode(message)
    assert read_envelope(body[:HEAD_BYTES], body[-TAIL_BYTES:]) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"id": 3, "method": "x", "params": FILLER}, Envelope(3, False), id="id first"),
        pytest.param({"method": "x", "params": FILLER, "id": 3}, Envelope(3, False), id="id last"),
        pytest.param(
            {"params": FILLER, "id": "", "jsonrpc": "2.0"}, Envelope("", False), id="id near the end"
        ),
        pytest.param({"id": 0, "method": "x", "params": FILLER}, Envelope(0, False), id="id 0"),
        pytest.param({"id": 3, "result": FILLER}, Envelope(3, True), id="an answer"),
        pytest.param({"result": FILLER, "id": 3}, Envelope(3, True), id="an answer, id last"),
        pytest.param(
            {"method": "x", "params": {"id": 9, "t": FILLER}}, Envelope(None, False), id="a nested id"
        ),
        pytest.param(
            {"method": "x", "params": {"t": FILLER, "id": 9}}, Envelope(None, False), id="nested, last"
        ),
        pytest.param(
            {"method": "x", "params": FILLER + ',"id":9}'}, Envelope(None, False), id="id in a string"
        ),
        pytest.param({"id": 1.5, "method": "x", "params": FILLER}, Envelope(None, False), id="id of no kind"),
        pytest.param({"id": None, "method": "x", "params": FILLER}, Envelope(None, False), id="id null"),
        pytest.param(
            {"method": "x", "params": {"result": FILLER}}, Envelope(None, False), id="nested result"
        ),
        pytest.param(
            {"params": [{"id": 1}, [2, {"id": 3}]], "id": 4, "t": FILLER},
            Envelope(4, False),
            id="after nesting",
        ),
    ],
)
def test_read_envelope(message: dict[str, Any], expected: Envelope) -> None:
    check_envelope(message, expected)


def test_value_cut_by_the_end_of_the_head_is_not_trusted() -> None:
    assert read_envelope(b'{"id":12', b"345}") == Envelope(None, False)


@cases(40)  # each message is larger than the parts that are read
@given(st.integers() | st.text(), json_values, st.booleans())
def test_read_enveloped_id_is_the_real_one_or_none(message_id: int | str, params: Any, first: bool) -> None:
    rest = {"method": "x", "params": [params, FILLER]}
    message = {"id": message_id, **rest} if first else {**rest, "id": message_id}
    body = msgspec.json.encode(message)
    found = read_envelope(body[:HEAD_BYTES], body[-TAIL_BYTES:])
    assert found == Envelope(message_id, False)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_garbage_never_raises(head: bytes, tail: bytes) -> None:
    read_envelope(head, tail)


def test_a_scan_yields_a_key_before_its_value_and_leaves_out_a_token_at_the_end() -> None:
    found = list(scan_members(b'{"id": 7, "result": ["aaa", {"method": 1}], "err'))
    assert found == [(b'"id"', b""), (b'"id"', b"7"), (b'"result"', b""), (b'"result"', b"[")]
