"""What can be known of a message that was not kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.oversized import HEAD_BYTES, TAIL_BYTES, Envelope, read_envelope, scan_members

FILLER = "a" * 2 * HEAD_BYTES


def check(message: dict[str, Any], expected: Envelope) -> None:
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
    check(message, expected)


def test_value_cut_by_the_end_of_the_head_is_not_trusted() -> None:
    assert read_envelope(b'{"id":12', b"345}") == Envelope(None, False)


json = st.recursive(
    st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
)


@given(st.integers() | st.text(), json, st.booleans())
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
