"""Masking of secrets in a chronicle; the entries keep them whole.

A compaction copies the output of a tool into every later request. So keys, tokens and passwords in URLs are
masked there: the known shapes, as in a log, and besides each string that only chance can have made. A name or
a path is written by people: it has few digits, and few changes between small letters, capitals and digits. Of
the signs of a random key in base 64, two in three differ in kind from the one before. The hexadecimal digits
of a commit or a checksum are no secret: they have no capitals beside small letters.
"""

from __future__ import annotations

import re
from itertools import pairwise
from re import Match
from typing import Final

from sidecar._internal.secrets import MASK, mask_secrets

MIN_CHARS: Final = 20
_RUN: Final = re.compile(r"[A-Za-z0-9+_=-]{20,}")


def mask_text(text: str) -> str:
    """Return *text* with its secrets masked.

    >>> mask_text("KEY_FOR_IT=q7Zt0Lm4XbV9sK2dPw8R, from getParserFactoryForVersion2 at 3f786850e387550fdab8")
    'KEY_FOR_IT=[secret], from getParserFactoryForVersion2 at 3f786850e387550fdab8'
    """
    return _RUN.sub(mask_random, mask_secrets(text))


def mask_random(found: Match[str]) -> str:
    """Return the part of *found* that stands before its random value, and the mask; all of it without one."""
    name, equals, value = found[0].rpartition("=") if "=" in found[0].rstrip("=") else ("", "", found[0])
    return f"{name}{equals}{MASK}" if is_random(value) else found[0]


def is_random(value: str) -> bool:
    """Whether only chance can have made *value*: its kinds of signs change as often as in a random string.

    >>> is_random("q7Zt0Lm4XbV9sK2dPw8R"), is_random("getParserFactoryForVersion2")
    (True, False)
    """
    if value.isalpha() or value.islower() or value.isupper():
        return False
    kinds = ["0" if sign.isdigit() else "A" if sign.isupper() else "a" for sign in value]
    n_changes = sum(one != other for one, other in pairwise(kinds))
    n_numbers = sum(other == "0" and one != "0" for one, other in pairwise(["a", *kinds]))
    return (
        len(value) >= MIN_CHARS
        and n_changes >= 0.4 * len(value)
        and n_numbers >= 3
        and 5 * kinds.count("A") >= len(value)
        and 5 * kinds.count("a") >= len(value)
    )
