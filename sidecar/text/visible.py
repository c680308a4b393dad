"""Hidden characters and long blanks, made visible in texts by which somebody decides.

A question whether a command may run is answered by reading it. Three things can make the reading wrong:
characters without a picture, characters that turn the order of others around, and blanks enough to push the
rest out of sight. No list of known tricks is kept. A character is hidden if Unicode files it under control,
format, private use, unassigned, or separators other than the plain space. It is hidden, too, if it has the
property ``Default_Ignorable_Code_Point`` of DerivedCoreProperties.txt, because programs leave such characters
out where a font has no picture for them; the pattern below has the ranges that the categories do not cover.
U+2800 has an empty picture.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_PLAIN: Final = re.compile(r"[\x20-\x7e\n\t]*")
_BLANKS: Final = re.compile(r"[ \t]{81,}|\n(?:[ \t]*\n){4,}")
"""More blanks than two lines of a narrow box, or more than three empty lines."""


def is_hidden(char: str) -> bool:
    """Whether *char* cannot be seen or moves others; a plain space, a tab and a line break can be seen.

    >>> [is_hidden(char) for char in ("a", " ", "\\n", "é", "\\u200b", "\\u00a0", "\\u3164", "\\x1b")]
    [False, False, False, False, True, True, True, True]
    """
    return char not in " \t\n" and (
        unicodedata.category(char) in _CATEGORIES or _IGNORABLE.match(char) is not None
    )


def make_visible(text: str) -> str:
    r"""Return *text* with hidden characters as numbers, and with long runs of blanks counted.

    >>> make_visible("rm a\u200bb"), make_visible("make" + " " * 3000 + "evil" + "\n" * 200 + "more")
    ('rm a‹U+200B›b', 'make‹3,000 blanks›evil\n‹199 empty lines›\nmore')
    """
    if not _PLAIN.fullmatch(text):
        text = "".join(f"‹U+{ord(char):04X}›" if is_hidden(char) else char for char in text)
    return _BLANKS.sub(count_blanks, text)


def count_blanks(found: re.Match[str]) -> str:
    """Return the mark that stands for a run of blanks or empty lines."""
    blanks = found[0]
    if blanks[0] == "\n":
        return f"\n‹{blanks.count(chr(10)) - 1:,} empty lines›\n"
    return f"‹{len(blanks):,} blanks›"
