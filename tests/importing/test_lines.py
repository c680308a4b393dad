"""Damaged lines and documents: what is whole is read, the rest is counted."""

from __future__ import annotations

import json

import pytest

from sidecar.importing.lines import parse_document, parse_lines


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
