"""Indentation carried over from one text to another: tabs for spaces, levels of another size, a whole shift.

A table of the indentations that both texts have on the same lines comes first. An indentation that is not in
it follows one rule that holds for the whole table: one level for another, else a text put before each or
taken away. Where no rule holds nothing is guessed. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import gcd


def map_indents(
    pairs: Sequence[tuple[str, str]], indents: Sequence[str], file_indents: Sequence[str]
) -> list[str] | None:
    r"""Return *indents* as they are in a file, or None where that is not clear.

    Args:
        pairs: the indentation of each line that both texts have, in the other text and in the file.
        indents: the indentations to map.
        file_indents: the indentations of all lines of the file.

    >>> map_indents([("", "\t"), ("  ", "\t\t")], ["", "    "], ["\t", "\t\t"])
    ['\t', '\t\t\t']
    """
    if all(theirs == own for theirs, own in pairs):
        return list(indents)
    table = dict(pairs)
    is_cut = pairs[0][0] == "" != pairs[0][1]
    if is_cut and len(pairs) == 1 < len(indents):
        return None  # it may be dedented, or begin behind the indentation of its line
    rules: list[Callable[[str], str | None]] = [table.get]
    rules += [rule for rule in (unit_rule(table, indents, file_indents), shift_rule(table)) if rule]
    if all(table[theirs] == own for theirs, own in pairs):
        for rule in rules:
            mapped = [new for each in indents if (new := rule(each)) is not None]
            if len(mapped) == len(indents):
                return mapped
    if is_cut and len(pairs) > 1 and indents[0] == "":
        rest = map_indents(pairs[1:], indents[1:], file_indents) if len(indents) > 1 else []
        return None if rest is None else [pairs[0][1], *rest]
    return None


def shift_rule(table: Mapping[str, str]) -> Callable[[str], str | None] | None:
    """Return the rule that puts one text before each indentation, or takes it away; None if it is not so."""
    theirs, own = next(iter(table.items()))
    more, less = own.removesuffix(theirs), theirs.removesuffix(own)
    if own.endswith(theirs) and all(value == more + key for key, value in table.items()):
        return lambda indent: more + indent
    if theirs.endswith(own) and all(key == less + value for key, value in table.items()):
        return lambda indent: indent.removeprefix(less) if indent.startswith(less) else None
    return None


def unit_rule(
    table: Mapping[str, str], indents: Sequence[str], file_indents: Sequence[str]
) -> Callable[[str], str | None] | None:
    """Return the rule that puts one level of indentation for another, None where the levels are the same."""
    theirs_step = find_step([*table, *indents])
    own_step = find_step(list(table.values())) or usual_step(file_indents)
    if not theirs_step or not own_step or theirs_step == own_step:
        return None
    base = min(table, key=len)

    def rule(indent: str) -> str | None:
        n_levels, rest = divmod(len(indent) - len(base), len(theirs_step))
        if rest or set(indent) - set(theirs_step):
            return None
        own = table[base]
        return own + own_step * n_levels if n_levels >= 0 else own[: n_levels * len(own_step)]

    return rule if all(rule(theirs) == own for theirs, own in table.items()) else None


def find_step(indents: Sequence[str]) -> str | None:
    """Return one level of *indents*, which are all of tabs or all of spaces; None if it cannot be told."""
    if "\t" in (signs := set("".join(indents))):
        return "\t" if signs == {"\t"} else None
    widths = sorted({len(indent) for indent in indents})
    return " " * gcd(*(after - before for before, after in pairwise(widths))) or None


def usual_step(indents: Sequence[str]) -> str | None:
    """Return the text by which the next line of a file is most often indented further."""
    steps = Counter(
        after.removeprefix(before)
        for before, after in pairwise(indents)
        if after != before and after.startswith(before)
    )
    return max(steps, key=lambda step: steps[step], default=None)
