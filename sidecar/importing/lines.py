"""Reads JSON lines and JSON documents that may be damaged; nothing is ever added to them.

A line may hold several objects, where two writers met or a newline was lost. The last line may be cut. A
document that is cut keeps the messages before the cut. Pure: bytes and text in, JSON values out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from sidecar.importing.content import Json, Note

_DECODER: Final = json.JSONDecoder()
_MESSAGES: Final = re.compile(r'"(?:messages|history)"\s*:\s*\[')
_GAP: Final = re.compile(r"[\s,]*")


def parse_json(data: bytes | str) -> Json:
    """Return a JSON value. Raises ValueError for anything else, and for nesting that is too deep."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        pass  # it refuses NaN and lone surrogates, which some agents write
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_lines(lines: Iterable[bytes], note: Note) -> Iterator[Json]:
    """Yield the values of *lines*, and note every damage.

    >>> notes = []
    >>> list(parse_lines([b'{"a": 1}{"a": 2}\\n', b'{x}\\n', b'{"a": 3'], notes.append)), notes
    ([{'a': 1}, {'a': 2}], ['joinedLines', 'corruptLine', 'cutFile'])
    """
    for line in lines:
        if not line.strip():
            continue
        try:
            found, is_whole = [parse_json(line)], True
        except ValueError:
            text = line.decode("utf-8", "replace")
            found, end = parse_values(text, 0)
            is_whole = end == len(text)
            if len(found) > 1 or (found and not is_whole):
                note("joinedLines")
        yield from found
        if not is_whole:
            note("corruptLine" if line.endswith(b"\n") else "cutFile")


def parse_values(text: str, start: int) -> tuple[list[Json], int]:
    """Return the JSON objects that follow each other from *start* on, and the end of the last one."""
    found: list[Json] = []
    while True:
        gap = _GAP.match(text, start)
        start = gap.end() if gap else start
        if not text.startswith("{", start):
            return found, start
        try:
            value, start = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            return found, start
        found.append(value)


def parse_document(text: str, note: Note) -> Json:
    """Return the document *text*, or the messages before its cut. Raises ValueError where there are none."""
    try:
        return parse_json(text)
    except ValueError:
        start = _MESSAGES.search(text)
        place = start.end() if start else text.find("[") + 1
        messages, _ = parse_values(text, place)
        if not messages:
            raise
    note("cutFile")
    head: dict[str, Json] = {}
    if start:
        try:
            head = json.loads(f"{text[: start.start()].rstrip().rstrip(',')}}}")
        except (ValueError, RecursionError):
            note("corruptLine")
    return {**head, "messages": messages}
