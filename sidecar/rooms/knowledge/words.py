"""Which words a text is found by: its words as they are, and the words inside names of code.

Pure text. The index itself takes a text's plain words (runs of letters and digits, case and accents folded);
this module adds what that misses, and makes a query of what somebody asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["MAX_QUERY_WORDS", "clean", "hidden_words", "query_words"]

MAX_QUERY_WORDS = 48

_WORD = re.compile(r"\w+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts that are written without spaces: a run of them is one plain word, so it is found by its pairs.
_UNSPACED = re.compile("[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]+")
# A list of words is easier to read as words.
_STOPWORDS = frozenset(
    """
    a about all also am an and any are as at be because been but by can could did do does for from get had
    has have he her his how i if in into is it its just like me more my no not now of on one or our out
    please she should so some than that the their them then there these they this those to too up us was
    we were what when where which who why will with would you your
    """.split()  # noqa: SIM905
)


def clean(text: str) -> str:
    """Return *text* as a database can store it: without NUL, and without halves of surrogate pairs."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")


def hidden_words(text: str) -> list[str]:
    """Return the words inside the names in *text*, each name once: the parts of camelCase, joined snake_case.

    >>> hidden_words("userName = get_user_name(HTTPServer)")
    ['user', 'name', 'getusername', 'http', 'server']
    """
    names = dict.fromkeys(_WORD.findall(text))
    return [word for name in names if not _is_plain(name) for word in _hidden_in(name)]


def query_words(text: str) -> list[str]:
    """Return the words to search for, each once and in lower case; words that say nothing are left out.

    The same name is found however it is written:

    >>> query_words("Where is the userName?"), query_words("user_name")
    (['username', 'user', 'name'], ['user', 'name', 'username'])
    """
    found: dict[str, None] = {}
    for match in _WORD.finditer(clean(text)):
        for word in (*_plain_in(match[0]), *_hidden_in(match[0])):
            if word not in _STOPWORDS and (len(word) > 1 or not word.isascii()):
                found[word] = None
        if len(found) >= MAX_QUERY_WORDS:
            break
    return list(found)[:MAX_QUERY_WORDS]


def _is_plain(name: str) -> bool:
    return name.islower() and name.isascii() and "_" not in name


def _plain_in(name: str) -> list[str]:
    return [piece.lower() for piece in name.split("_") if piece]


def _hidden_in(name: str) -> Iterator[str]:
    pieces = [piece for piece in name.split("_") if piece]
    if len(pieces) > 1:
        yield "".join(pieces).lower()
    for piece in pieces:
        parts = _CAMEL.split(piece) if not piece.islower() else ()
        if len(parts) > 1:
            yield from (part.lower() for part in parts if len(part) > 1 and not part.isdigit())
    if not name.isascii():
        for run in _UNSPACED.findall(name):
            yield from (run[start : start + 2] for start in range(max(1, len(run) - 1)))
