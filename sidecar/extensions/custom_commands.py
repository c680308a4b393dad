r"""Slash commands from Markdown files: the file's name, its head, and a prompt with places for arguments.

``$ARGUMENTS`` stands for everything behind the name, ``$1`` to ``$9`` for single words of it, quoted as in a
shell. A text that has ``$5`` and no ``$4`` means five dollars, as ``$1.50`` and ``\$1`` do. Where the text
has no place, arguments follow below it. Nothing in a text runs: it only becomes a prompt.
"""

from __future__ import annotations

import re
import shlex
from itertools import count
from typing import Final

_PLACE: Final = re.compile(r"\\?\$(ARGUMENTS\b|[1-9](?![\d]|[.,]\d))")
_TAG: Final = "command"


def fill_in(text: str, arguments: str) -> str:
    """Return the prompt *text* with *arguments* in their places.

    The arguments are put in once: a place among them stays as it is written.

    >>> fill_in("Fix $1 in $2.", "'the bug' a.py")
    'Fix the bug in a.py.'
    >>> fill_in("Review it.", "quickly, $1")
    'Review it.\\n\\nArguments: quickly, $1'
    >>> fill_in("Keep $1 below $5.", "it")
    'Keep it below $5.'
    """
    try:
        words = shlex.split(arguments)
    except ValueError:  # an apostrophe, as in "don't"
        words = arguments.split()
    named = {place[1] for place in _PLACE.finditer(text) if place[0].startswith("$")}
    n_words = next(number for number in count(0) if str(number + 1) not in named)
    places = {"ARGUMENTS", *map(str, range(1, n_words + 1))}
    if arguments and named.isdisjoint(places):
        return f"{text}\n\nArguments: {arguments}"

    def value(place: re.Match[str]) -> str:
        if place[1] not in places or place[0].startswith("\\"):
            return place[0].removeprefix("\\") if place[1] in places else place[0]
        if place[1] == "ARGUMENTS":
            return arguments
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    return _PLACE.sub(value, text)


def write_command_prompt(name: str, text: str, arguments: str) -> str:
    """Return the prompt for the model: the typed line, and the text of the command in a tag of its own.

    The text is nothing that the user has typed, so no rule of the user is found in it; a closing tag in it
    would end that and is spelled otherwise.

    >>> print(write_command_prompt("fix", "Fix $1.", "a.py"))
    /fix a.py
    <BLANKLINE>
    <command name="fix">
    Fix a.py.
    </command>
    """
    body = fill_in(text, arguments).replace(f"</{_TAG}", f"<\\/{_TAG}")
    return f"/{name} {arguments}".strip() + f'\n\n<{_TAG} name="{name}">\n{body}\n</{_TAG}>'
