"""Texts cut to a length in characters, on one line or over several, values as short texts, and pieces.

A cut is marked: by an ellipsis within a line, by a line of its own elsewhere. Engines that count in bytes, or
with marks that their documents fix, cut on their own. Each engine has its own unit and its own way to divide
a message; the loop that fills a request until the next piece does not fit is the same, and so is the way to
share out a room among items of which the largest must shrink.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def compact_json(value: Any) -> str:
    """Return *value* as JSON without blanks and with raw non-ASCII, or as ``str`` where JSON has no form.

    >>> compact_json({"path": "é.py", "n": [1, None]})
    '{"path":"é.py","n":[1,null]}'
    >>> compact_json({1, })
    '{1}'
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError):
        return str(value)
    except RecursionError:
        return f"<{type(value).__name__} nested too deeply to print>"


def text_or_json(value: Any) -> str:
    """Return *value* itself where it is a text, else as compact JSON."""
    return value if isinstance(value, str) else compact_json(value)


def tidy(text: str) -> str:
    """Return *text* with LF line ends, no blanks before them and none at either end.

    >>> tidy("hello  \\r\\nworld \\n")
    'hello\\nworld'
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if " \n" in text or "\t\n" in text:
        text = "\n".join([line.rstrip(" \t") for line in text.split("\n")])
    return text.strip()


def clip(text: str, limit: int) -> str:
    """Return *text*, or its beginning with an ellipsis at the end, at most *limit* characters.

    >>> clip("abcdef", 6), clip("abcdefg", 6)
    ('abcdef', 'abcde…')
    """
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def one_line(text: str, limit: int) -> str:
    """Return *text* on one line of at most *limit* characters, with an ellipsis at its end if it was cut.

    >>> one_line("fix  the\\nparser", 20), one_line("fix the parser", 8)
    ('fix the parser', 'fix the…')
    """
    # Four times the limit is enough even for text that is mostly blanks, and bounds the work on huge bodies.
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cut_middle(text: str, keep: int, marker: str) -> str:
    """Return *text* with its middle replaced by *marker*.

    Args:
        text: returned as it is when it has at most *keep* characters.
        keep: characters to keep, two thirds of them from the beginning.
        marker: the line that stands for the middle; ``{}`` in it becomes the number of characters cut.

    >>> cut_middle("abcdefghij", 6, "[{} cut]")
    'abcd\\n[4 cut]\\nij'
    """
    if len(text) <= keep:
        return text
    tail = keep // 3
    head = keep - tail
    return f"{text[:head]}\n{marker.replace('{}', str(len(text) - keep))}\n{text[len(text) - tail :]}"


def cut_end(text: str, keep: int, marker: str) -> str:
    """Return the beginning of *text* and *marker*, or *text* itself when it is short enough.

    Args:
        text: any text.
        keep: characters to keep.
        marker: the last line; ``{}`` in it becomes the number of characters cut.

    >>> cut_end("abcdefghij", 6, "[{} cut]")
    'abcdef\\n[4 cut]'
    """
    if len(text) <= keep:
        return text
    return f"{text[:keep]}\n{marker.replace('{}', str(len(text) - keep))}"


def group_pieces(pieces: Iterable[T], room: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield *pieces* in groups of at most *room*, in order; one that is larger is a group of its own.

    >>> list(group_pieces(["aa", "b", "cc", "dddd"], 3, len))
    [['aa', 'b'], ['cc'], ['dddd']]
    """
    group: list[T] = []
    used = 0
    for piece in pieces:
        size = size_of(piece)
        if group and used + size > room:
            yield group
            group, used = [], 0
        group.append(piece)
        used += size
    if group:
        yield group


def split_bytes(text: str, max_bytes: int) -> Iterator[str]:
    """Yield *text* in parts of at most *max_bytes* bytes in UTF-8, or one character where that is longer.

    >>> list(split_bytes("aé日", 3))
    ['aé', '日']
    """
    data = text.encode("utf-8", "replace")
    start, step = 0, max(max_bytes, 4)
    while start < len(data):
        end = min(start + step, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end


def fair_cap(sizes: Sequence[int], total: int) -> int:
    """Return the largest cap under which *sizes*, each cut to the cap, add up to at most *total*.

    Small sizes stay whole and the largest pay. Returns the largest size when nothing need be cut, and never
    less than 0.

    >>> fair_cap([10, 90, 50], 100)
    45
    """
    rest = max(total, 0)
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        share = rest // (len(ordered) - index)
        if size > share:
            return share
        rest -= size
    return ordered[-1] if ordered else 0
