"""Plain-text helpers of this engine: compact JSON, tidying, cutting to a length, and one key per path.

This module knows no messages and asks no file system.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DRIVE = re.compile(r"^/?([A-Za-z]):(?=/|$)")


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


def byte_length(text: str) -> int:
    """Return the length of *text* in UTF-8, with one byte for a lone surrogate.

    >>> byte_length("日本"), byte_length("ab")
    (6, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


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


def path_key(path: str) -> str:
    """Return one spelling for all lexical spellings of *path*.

    Links and letter case are left alone: a caller that can resolve those hands in a function of its own.

    >>> {path_key(p) for p in ("./src/a.py", "src//a.py", "src/x/../a.py", "file://src/a.py")}
    {'src/a.py'}
    >>> path_key("C:\\\\src\\\\a.py"), path_key("c:/src/./a.py")
    ('c:/src/a.py', 'c:/src/a.py')
    """
    text = path.strip().removeprefix("file://").replace("\\", "/")
    text = _DRIVE.sub(lambda found: f"{found.group(1).lower()}:", text)
    normal = posixpath.normpath(text)
    return "/" + normal.lstrip("/") if normal.startswith("/") else normal
