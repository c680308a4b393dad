"""Plain-text helpers of this engine: compact JSON that cannot fail, tidying, cutting to a length.

Nothing here knows what a message is.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["byte_length", "compact_json", "cut_end", "cut_middle", "one_line", "tidy"]

# The lookbehind keeps a long run of blanks from being tried at each of its characters.
_TRAILING_BLANKS = re.compile(r"(?<![ \t])[ \t]+(?=\n)")


def compact_json(value: Any) -> str:
    """Return *value* as JSON without blanks and with raw non-ASCII; what JSON cannot say becomes ``str``.

    >>> compact_json({"path": "é.py", "n": [1, None]})
    '{"path":"é.py","n":[1,null]}'
    >>> compact_json({1, })
    '{1}'
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        return str(value)
    except RecursionError:
        return f"<{type(value).__name__} nested too deeply to print>"


def tidy(text: str) -> str:
    """Return *text* with LF line ends, no blanks before them and none at either end (W10).

    >>> tidy("hello  \\r\\nworld \\n")
    'hello\\nworld'
    """
    return _TRAILING_BLANKS.sub("", text.replace("\r\n", "\n")).strip()


def one_line(text: str, limit: int) -> str:
    """Return *text* on one line of at most *limit* characters, an ellipsis last where it was cut.

    >>> one_line("fix  the\\nparser", 20), one_line("fix the parser", 8)
    ('fix the parser', 'fix the…')
    """
    # Four times the limit is enough even for text that is mostly blanks, and bounds the work on huge bodies.
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cut_middle(text: str, keep: int, marker: str) -> str:
    """Return *text* with its middle replaced by *marker*, keeping *keep* characters, two thirds of it first.

    ``{}`` in *marker* becomes the number of characters cut. A text of at most *keep* characters is
    returned as it is.

    >>> cut_middle("abcdefghij", 6, "[{} cut]")
    'abcd\\n[4 cut]\\nij'
    """
    if len(text) <= keep:
        return text
    tail = keep // 3
    head = keep - tail
    return f"{text[:head]}\n{marker.replace('{}', str(len(text) - keep))}\n{text[len(text) - tail :]}"


def cut_end(text: str, keep: int, marker: str) -> str:
    """Return the first *keep* characters of *text* and *marker*, or *text* itself when it is no longer.

    >>> cut_end("abcdefghij", 6, "[{} cut]")
    'abcdef\\n[4 cut]'
    """
    if len(text) <= keep:
        return text
    return f"{text[:keep]}\n{marker.replace('{}', str(len(text) - keep))}"


def byte_length(text: str) -> int:
    """Return the length of *text* in UTF-8, a lone surrogate counting one byte.

    >>> byte_length("日本"), byte_length("ab")
    (6, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
