r"""JSON objects with the small mistakes that models make when they write them.

A text is mended where it has one meaning: commas behind the last member, line breaks and tabs within a text,
an object within a text, a fence of Markdown or a list of its own, names without quotes, brackets too many at
the end, quotes and constants of Python, and backslashes before letters that JSON does not know, such as
``\d`` of a pattern. A text that was cut off has no one meaning, and
neither has one in which ``\d`` stands beside ``\n``: the model has either forgotten to double all of its
backslashes, or just this one.

For example ``{'path': 'a.py', 'limit': 3,}`` is ``{"path": "a.py", "limit": 3}``. Pure; the cost is linear.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any, Final

_MOST_CHARS: Final = 1_000_000
_MOST_PYTHON_CHARS: Final = 100_000
_FENCE: Final = re.compile(r"\s*```\w*\n(.*)\n```\s*", re.DOTALL)
_PART: Final = re.compile(
    r'(?P<text>"(?:[^"\\]++|\\.)*(?:"|\\?\Z))|(?P<name>\b[A-Za-z_]\w*+)(?=\s*+:)|,(?=\s*+[}\]])', re.DOTALL
)
"""A text, also one that is cut off, a bare name, or a comma behind the last member.

Were a text that is cut off left out, each quote in it would begin another search of the rest.
"""
_CLOSING: Final = re.compile(r"[\s}\]]*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def mend_object(text: str) -> dict[str, Any] | None:
    """Return the object that *text* stands for, None where that is not clear.

    >>> mend_object('{"path": "a.py", "edits": [],}')
    {'path': 'a.py', 'edits': []}
    >>> mend_object('{"path": "a.py", "edits": [') is None
    True
    """
    if len(text) > _MOST_CHARS:
        return None
    fenced = _FENCE.fullmatch(text)
    value = read_value(fenced[1] if fenced else text)
    if isinstance(value, str):
        value = read_value(value)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else None


def mend_value(text: str) -> Any:
    """Return the list or object that *text* stands for, or *text* itself where it stands for none.

    >>> mend_value("[1, 2,]"), mend_value("[not a list]")
    ([1, 2], '[not a list]')
    """
    value = read_value(text) if text.lstrip()[:1] in ("[", "{") and len(text) <= _MOST_CHARS else None
    return value if isinstance(value, dict | list) else text


def place_of_mistake(text: str) -> str:
    """Return the mistake in *text*, which is not valid JSON, and its place.

    >>> place_of_mistake('{"a": 1 "b": 2}')
    "line 1, column 9: Expecting ',' delimiter"
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return type(error).__name__
    return "it is not an object"


def read_value(text: str) -> Any:
    """Return the JSON value of *text*, mended where that is clear; None where it is not."""
    for each in (text, _PART.sub(mend_part, text)):
        try:
            value, end = _DECODER.raw_decode(each.lstrip())
            if _CLOSING.fullmatch(each.lstrip(), end):
                return value
        except (ValueError, RecursionError):
            continue
    is_known = set(_ESCAPE.findall(text)) <= set("\\'\"bfnrt")
    if len(text) > _MOST_PYTHON_CHARS or "'" not in text or not is_known:
        return None
    try:
        value = ast.literal_eval(text.strip())
        # Text that Python knows and JSON does not, such as a set, has no one meaning.
        return value if json.loads(json.dumps(value)) == value else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=int)


def mend_part(part: re.Match[str]) -> str:
    r"""Return a text with its lone backslashes doubled, a name in quotes, and nothing for a last comma."""
    text = part["text"]
    if part["name"]:
        return f'"{part["name"]}"'
    if text is None:
        return ""
    escaped = set(_ESCAPE.findall(text))
    is_clear = not escaped & set("bfnrtu")
    return _ESCAPE.sub(double_lone, text) if is_clear and escaped - set('"\\/') else text


def double_lone(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] in '"\\/' else f"\\{escape[0]}"
