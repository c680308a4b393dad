"""Bytes of text: measuring, cutting and sharing room, never inside a character (failure B-A6).

Pure functions of strings and integers; they know no messages.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["byte_length", "clip_middle", "fair_cap", "first_bytes", "shorten"]


def byte_length(text: str) -> int:
    """Return the length of *text* in UTF-8 bytes; a lone surrogate counts three.

    >>> byte_length("日本")
    6
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def first_bytes(text: str, limit: int) -> str:
    """Return the longest beginning of *text* that has at most *limit* bytes and whole characters.

    >>> first_bytes("日本", 5)
    '日'
    """
    if limit <= 0:
        return ""
    if len(text) <= limit and byte_length(text) <= limit:
        return text
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def shorten(text: str, limit: int) -> str:
    """Return *text*, or its first ``limit - 3`` bytes and ``...`` when it is longer (fact A10).

    >>> shorten("abcdefgh", 6)
    'abc...'
    """
    if len(text) <= limit and byte_length(text) <= limit:
        return text
    return first_bytes(text, limit - 3) + "..."


def clip_middle(text: str, limit: int) -> str:
    """Return *text* within *limit* bytes: three quarters from its beginning, the rest from its end.

    A visible marker between them says how many characters are missing. Where not even the marker fits, only
    the beginning is left.

    >>> clip_middle("a" * 100, 60)
    'aaaaaaaaaaaaaaaaaaa\\n[... 75 characters left out ...]\\naaaaaa'
    """
    if len(text) <= limit and byte_length(text) <= limit:
        return text
    room = limit - byte_length(_marker(len(text)))
    if room <= 0:
        return first_bytes(text, limit)
    head = first_bytes(text, room - room // 4)
    tail = _last_bytes(text, room // 4)
    return head + _marker(len(text) - len(head) - len(tail)) + tail


def fair_cap(sizes: Sequence[int], total: int) -> int:
    """Return the largest cap under which *sizes*, each cut to the cap, add up to at most *total*.

    Small sizes stay whole and the largest pay. Returns the largest size when nothing need be cut, and 0 or
    more.

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


def _last_bytes(text: str, limit: int) -> str:
    if limit <= 0:
        return ""
    return text[-limit:].encode("utf-8", "replace")[-limit:].decode("utf-8", "ignore")


def _marker(n_characters: int) -> str:
    return f"\n[... {n_characters} characters left out ...]\n"
