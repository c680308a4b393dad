"""The parts of source code that an editor colours: keywords, strings, comments, numbers, names.

It never makes markup or chooses a colour. A text has at most ``MOST_CHARS``; of one that takes longer than
``MOST_S`` the rest stays plain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, Literal, TypeAlias

TokenKind: TypeAlias = Literal["keyword", "string", "comment", "number", "name"]

MOST_CHARS: Final = 100_000
"""To colour more would take seconds."""

MOST_S: Final = 1.0

_KINDS: Final[tuple[tuple[str, TokenKind], ...]] = (
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Comment", "comment"),
    *((f"Token.Name.{each}", "name") for each in ("Function", "Class", "Builtin", "Decorator", "Tag")),
)


def language_of(path: str) -> str:
    """Return the language of a file by its name, as Pygments calls it; empty when it is not known.

    >>> language_of("src/a.py"), language_of("notes")
    ('python', '')
    """
    # Not above: it loads the languages.
    from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]  # has none

    found = find_lexer_class_for_filename(path.replace("\\", "/"))
    return found.aliases[0] if found is not None and found.aliases else ""


def highlight(text: str, language: str, clock: Callable[[], float]) -> Iterator[tuple[int, int, TokenKind]]:
    """Yield start, length and kind of each part that has one, in UTF-16 units; none of an unknown language.

    >>> list(highlight("x = 1  # one", "python", lambda: 0.0))
    [(4, 1, 'number'), (7, 5, 'comment')]
    """
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # has none

    if len(text) > MOST_CHARS:
        return
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return
    units = [0, *accumulate(1 + (each > "\uffff") for each in text)]
    end_s = clock() + MOST_S
    # Many a comment is known by the end of its line.
    for start, token, value in lexer.get_tokens_unprocessed(text + "\n"):
        if clock() > end_s:
            return
        kind = next((kind for name, kind in _KINDS if f"{token}.".startswith(f"{name}.")), None)
        end = min(start + len(value), len(text))
        if kind is not None and start < end:
            yield units[start], units[end] - units[start], kind
