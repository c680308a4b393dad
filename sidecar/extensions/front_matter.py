"""The head of a Markdown file: lines between two lines of dashes, each ``name: value``.

It is the part of YAML that commands and skills of agents use: plain and quoted values, values folded over
indented lines (``>``, ``|``, or nothing behind the colon), and comments. Anything else, such as a list, is
left as it is written. No parser of YAML is needed, and none of its surprises come along.

>>> parse_front_matter('---\\nname: review\\ndescription: >\\n  Look at\\n  a change.\\n---\\nDo it.\\n')
({'name': 'review', 'description': 'Look at a change.'}, 'Do it.')
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

_HEAD: Final = re.compile(r"\A\ufeff?---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"([A-Za-z][\w-]{0,60})[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*")
_FOLDED: Final = ("", ">", ">-", ">+", "|", "|-", "|+")


def parse_front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """Return the fields of the head of *text*, by their names in small letters, and the rest of the text."""
    text = text.replace("\r\n", "\n")
    head = _HEAD.match(text)
    if head is None:
        return {}, text.strip()
    parts: dict[str, list[str]] = {}
    name = ""
    for line in head[1].split("\n"):
        found = _FIELD.fullmatch(line)
        if found is not None:
            name = found[1].lower()
            parts[name] = [(found[2] or "").strip()]
        elif name and (line[:1].isspace() or not line):
            parts[name].append(line.strip())
    return {name: read_value(lines) for name, lines in parts.items()}, text[head.end() :].strip()


def read_value(lines: list[str]) -> str:
    """Return the value that stands on *lines*, the first of them behind the colon."""
    first, *more = lines
    if first in _FOLDED:
        separator = "\n" if first.startswith("|") else " "
        return separator.join(filter(None, more))
    value = " ".join(filter(None, lines))
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value[1:-1]
    return _COMMENT.sub("", value).strip()
