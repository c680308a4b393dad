"""Text with half a surrogate pair, which Python and JSON can hold and UTF-8 cannot.

JavaScript programs cut strings between the two halves of a character and send the halves as ``"\\ud83d"``. A
half is kept as it is for as long as it stays in the daemon. Where text leaves it for a client, U+FFFD stands
for the half, and ``?`` in text for a model or a database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def join_halves(text: str) -> str:
    """Return *text* with the halves that belong together joined; a lone half stays.

    >>> join_halves("\\ud83d\\ude00 \\ud83d")
    '😀 \\ud83d'
    """
    if has_halves(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def replace_halves(text: str) -> str:
    """Return *text* as UTF-8 can hold it: halves that belong together joined, U+FFFD for a lone half.

    >>> replace_halves("\\ud83d\\ude00 \\ud83d")
    '😀 \\ufffd'
    """
    if has_halves(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_halves_in(value: Any) -> Any:
    """Return the JSON *value* with :func:`replace_halves` applied to every text in it, keys included."""
    if isinstance(value, str):
        return replace_halves(value)
    if isinstance(value, Mapping):
        return {replace_halves_in(key): replace_halves_in(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_halves_in(item) for item in value]
    return value


def encodable(text: str) -> str:
    """Return *text* with ``?`` for a lone half; *text* itself when it has none.

    >>> encodable("a\\ud800")
    'a?'
    """
    return text.encode("utf-8", "replace").decode() if has_halves(text) else text


def to_storable(text: str) -> str:
    """Return *text* as a database can store it: without NUL, and with ``?`` for a half.

    >>> to_storable("a\\0\\ud83d")
    'a ?'
    """
    return encodable(text.replace("\0", " "))


def has_halves(text: str) -> bool:
    """Return whether *text* has a half of a pair.

    >>> has_halves("a"), has_halves("\\ud83d")
    (False, True)
    """
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
