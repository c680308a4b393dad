"""Glob patterns as regular expressions, and the lines of an ignore file as git understands them.

The problem: ignore files come with the trees of strangers, and a pattern such as ``*a*a*a*b`` makes a plain
translation backtrack for minutes. The invariant: matching takes time in proportion to the path, for any
pattern.

- ``*`` and ``?`` never match a slash; ``**`` stands for whole folders, none included.
- The text between two stars is matched where it first occurs, in an atomic group: a later place could not
  serve better, so going back is never needed. ``a*b*c`` becomes ``a(?>[^/]*?b)[^/]*c``.
- The parts between two ``**`` are matched in the same way, folder by folder: ``src/**/x/*.py`` becomes
  ``src/(?>(?:[^/]+/)*?x/)...``.
- Neighbouring lines of one sign are joined into one expression, since one is faster than many.

Pure: knows no disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby

from sidecar._internal.errors import InvalidInput
from sidecar._internal.values import Value

_TOKEN = re.compile(r"(?s)\*+|\?|\\.|\[[!^]?\]?(?:\\.|[^\]\\])*\]|.")
_CLASS_ITEM = re.compile(r"(?s)\\(.)|(-)|(.)")
_BRACES = re.compile(r"\{([^{}]*)\}")
_FOLDERS = "(?:[^/]+/)*"
_BRACES_CAP = 64
_CHOICES_CAP = 1000
_LINE_CAP = 1000


def glob_regex(pattern: str) -> str:
    r"""Return the regular expression that a whole path must match; both are relative, with forward slashes.

    It is not a valid expression when a bracket of *pattern* holds a backward range.

    >>> glob_regex("src/**/*.py")
    '(?s:src/(?:[^/]+/)*[^/]*\\.py)'
    """
    chunks: list[list[str]] = [[]]
    for name in pattern.split("/"):
        if name == "**":
            chunks.append([])
        else:
            chunks[-1].append(_segment(name))
    parts = ["/".join(chunk) for chunk in chunks]
    if len(parts) == 1:
        return f"(?s:{parts[0]})"
    first, *between, last = parts
    head = first + "/" if first else ""
    middle = "".join(f"(?>{_FOLDERS}?{chunk}/)" for chunk in between if chunk)
    return f"(?s:{head}{middle}{_FOLDERS + last if last else '.+'})"


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a test whether a relative path matches *pattern*, the way people search for files.

    A pattern without a slash matches names at any depth; ``{a,b}`` stands for either. Raises InvalidInput for
    too many choices in braces.

    >>> matches = glob_matcher("*.{ts,tsx}")
    >>> matches("src/a.tsx"), matches("src/a.js")
    (True, False)
    """
    # "./x" is meant to be here, which git spells "/x".
    anchored = pattern.removeprefix(".") if pattern.startswith("./") else pattern
    rules = [_rule(each, ignores=True, folders_only=False) for each in expand_braces(anchored)]
    joined = _join([rule for rule in rules if rule is not None])
    return lambda path: joined is not None and joined.fullmatch(path) is not None


def expand_braces(pattern: str) -> list[str]:
    """Return *pattern* once for each choice of its braces.

    Choices multiply: once there are many patterns, further braces are taken literally. Raises InvalidInput
    for more than a thousand patterns.

    >>> expand_braces("{a,b}.{c,d}")
    ['a.c', 'a.d', 'b.c', 'b.d']
    """
    patterns = [pattern]
    while len(patterns) < _BRACES_CAP and (match := _BRACES.search(patterns[0])):
        whole, choices = match.group(0), match.group(1).split(",")
        n_patterns = len(patterns) * len(choices)
        if n_patterns > _CHOICES_CAP:
            message = f"the pattern has {n_patterns} choices in its braces, the limit is {_CHOICES_CAP}"
            raise InvalidInput(message, hint="use fewer, or a star")
        patterns = [each.replace(whole, choice, 1) for each in patterns for choice in choices]
    return patterns


class GlobRules:
    """The lines of one ignore file: the last that matches decides.

    >>> rules = GlobRules(["*.log", "!keep.log"])
    >>> rules.verdict("a/b.log", is_folder=False), rules.verdict("keep.log", is_folder=False)
    (True, False)
    """

    def __init__(self, lines: Iterable[str]) -> None:
        rules = [rule for line in lines if (rule := _parse(line)) is not None]
        by_sign = [list(group) for _, group in groupby(rules, key=lambda rule: rule.ignores)]
        self._groups = tuple(map(_Group.of, reversed(by_sign)))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return True for ignored, False for brought back, None when no line matches *path*.

        *path* is relative to the folder of the ignore file, with forward slashes. The folders above it are
        not judged: the caller has judged them before.
        """
        for group in self._groups:
            pattern = group.folders if is_folder else group.files
            if pattern is not None and pattern.fullmatch(path):
                return group.ignores
        return None


class _Rule(Value):
    """One line; *by_name* matches the last part of a path, else *regex* is for the whole."""

    regex: str
    ignores: bool
    by_name: bool
    folders_only: bool


class _Group(Value):
    """Neighbouring lines of one sign, joined, because one expression is faster than many."""

    ignores: bool
    files: re.Pattern[str] | None
    folders: re.Pattern[str] | None

    @classmethod
    def of(cls, rules: list[_Rule]) -> _Group:
        for_files = [rule for rule in rules if not rule.folders_only]
        return cls(rules[0].ignores, _join(for_files), _join(rules))


def _parse(line: str) -> _Rule | None:
    """Return the rule in *line*, or None for a comment, an empty line, or one that git cannot read either."""
    written = line.removesuffix("\r")
    body = written.rstrip(" ")
    if body.endswith("\\") and body != written:
        body += " "  # the backslash keeps the space after it
    if body.startswith("#") or len(body) > _LINE_CAP:
        return None
    ignores = not body.startswith("!")
    body = body.removeprefix("!")
    folders_only = body.endswith("/")
    body = body.removesuffix("/")
    return _rule(body, ignores=ignores, folders_only=folders_only) if body else None


def _rule(body: str, *, ignores: bool, folders_only: bool) -> _Rule | None:
    regex = glob_regex(body.removeprefix("/"))
    try:
        re.compile(regex)
    except re.error:
        return None
    return _Rule(regex, ignores, "/" not in body, folders_only)


def _join(rules: list[_Rule]) -> re.Pattern[str] | None:
    names = "|".join(rule.regex for rule in rules if rule.by_name)
    choices = [rule.regex for rule in rules if not rule.by_name]
    if names:
        # Atomic: the name is what follows the last slash, there is no second way to read it.
        choices.append(f"(?>(?s:.*/)?)(?:{names})")
    return re.compile("|".join(choices)) if choices else None


def _segment(segment: str) -> str:
    """Return the expression of one part of a path; a class in brackets never matches a slash."""
    pieces = [""]
    for token in _TOKEN.findall(segment):
        if token.startswith("*"):
            pieces.append("")
        elif token == "?":
            pieces[-1] += "[^/]"
        elif token.startswith("[") and len(token) > 1:
            body = token[1:-1]
            negated = body.startswith(("!", "^"))
            items = _CLASS_ITEM.findall(body[negated:])
            inside = "".join("-" if dash else re.escape(escaped or plain) for escaped, dash, plain in items)
            pieces[-1] += f"(?!/)[{'^' * negated}{inside}]"
        else:
            pieces[-1] += re.escape(token[1:] if len(token) > 1 else token)
    if len(pieces) == 1:
        return pieces[0]
    first, *between, last = pieces
    return first + "".join(f"(?>[^/]*?{piece})" for piece in between) + "[^/]*" + last
