"""Text as it can be sent: values spelled as JSON, nothing that UTF-8 cannot hold. Pure."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_text", "sendable", "sendable_json"]


def sendable(text: str) -> str:
    """Return *text* without lone surrogates, which no provider can be sent; itself when it has none.

    >>> sendable("a\\ud800")
    'a?'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def json_text(value: Any) -> str:
    """Return *value* as a model is to read it: text as it is, anything else as compact JSON.

    >>> json_text("a"), json_text({"b": [1]})
    ('a', '{"b":[1]}')
    """
    if isinstance(value, str):
        return sendable(value)
    return sendable(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def sendable_json(value: Any) -> Any:
    """Return *value* without lone surrogates anywhere in it; itself when it has none."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    clean = sendable(text)
    return value if clean is text else json.loads(clean)
