"""Arguments of a known command: its operands and flags, as long as its entry in the table has them.

A flag is read as the program would read it: exactly as it is spelled, with its value behind ``=``, attached,
or in the next word, and letters together where the program allows it. Abbreviations count as unknown. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sidecar._internal.values import Value
from sidecar.permissions.table import KnownCommand
from sidecar.text.shell import Word


class Arguments(Value):
    """The arguments of a known command: its operands, and its flags with their values."""

    operands: tuple[Word, ...]
    flags: tuple[tuple[str, str], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(str(word.text) for word in self.operands)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.flags if name in names]


def read_arguments(entry: KnownCommand, words: Sequence[Word]) -> Arguments | None:
    """Return the arguments of a command, None when one of its flags is not in *entry*."""
    if entry.operands in ("any", "@find", "@test", "@tar"):
        return Arguments(tuple(words))
    operands: list[Word] = []
    flags: list[tuple[str, str]] = []
    rest = list(words)
    is_behind = False
    while rest:
        word = rest.pop(0)
        text = str(word.text)
        if text == "--" and not is_behind:
            is_behind = True
        elif not text.startswith("-") or text == "-":
            operands.append(word)
        elif (
            (is_behind and "--" not in entry.flags)
            or (found := match_flag(entry, text)) is None
            or not word.is_literal
        ):
            return None
        else:
            for flag, n_values, value in found:
                values = rest[:n_values]
                if len(values) < n_values or not all(each.is_literal for each in values):
                    return None
                del rest[:n_values]
                value = value if not values else " ".join(str(each.text) for each in values)
                only = entry.values.get(flag, (0, ""))[1]
                if (only and value != only) or (values and value != only and value.startswith("-")):
                    return None
                flags.append((flag, value))
    return Arguments(tuple(operands), tuple(flags))


def match_flag(entry: KnownCommand, text: str) -> list[tuple[str, int, str]] | None:
    """Return the flags in the word *text*: name, number of values that follow, and the value in the word."""
    name, has_value, value = text.partition("=")
    if text in entry.flags or ("-#" in entry.flags and re.fullmatch(r"-\d+", text)):
        return [(text, 0, "")]
    if text in entry.values:
        return [(text, entry.values[text][0], "")]
    if has_value and name in entry.values and (name.startswith("--") or not entry.is_clustered):
        return [(name, 0, value)]
    if text.startswith("--") or not entry.is_clustered:
        return None
    found: list[tuple[str, int, str]] = []
    for at, letter in enumerate(text[1:], 2):
        flag, rest = f"-{letter}", text[at:]
        if flag in entry.values and (rest or flag not in entry.flags):
            return [*found, (flag, 0 if rest else entry.values[flag][0], rest)]
        if flag not in entry.flags:
            return None
        found.append((flag, 0, ""))
    return found
