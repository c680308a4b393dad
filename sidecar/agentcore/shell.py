"""Which files a shell command plainly writes: redirections, tee, sed -i, touch, rm, mv, cp.

Pure text, and modest: variables, globs, here-document bodies and what a called script does are not followed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

__all__ = ["changed_paths"]

_WORTH_READING = re.compile(r">|\b(?:tee|sed|touch|rm|mv|cp)\b")
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_NOT_PLAIN = frozenset("$*?`<>|()\n")
_MAX_LINE = 2000


def changed_paths(command: str) -> tuple[str, ...]:
    """Return the paths *command* writes, moves or removes, in order of appearance.

    >>> changed_paths("cd src && sed -i s/a/b/ x.py; make 2>&1 | tee build.log > /dev/null")
    ('x.py', 'build.log')
    """
    paths: dict[str, None] = {}
    for line in _command_lines(command):
        for words in _simple_commands(line):
            paths.update(dict.fromkeys(filter(_is_file, _written(words))))
    return tuple(paths)


def _command_lines(command: str) -> Iterator[str]:
    """Yield the lines that may write a file, without the bodies of here-documents."""
    closing = ""
    for line in command.split("\n"):
        if closing:
            closing = "" if line.strip() == closing else closing
            continue
        here = _HERE_DOCUMENT.search(line)
        closing = here[2] if here else ""
        if len(line) <= _MAX_LINE and _WORTH_READING.search(line):
            yield line


def _simple_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a pipe or a list; redirections stay among the words."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= set(";|&()"):
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        return  # An open quote: the command goes on in a way this reader does not follow.
    yield words


def _written(words: list[str]) -> Iterator[str]:
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in (">", ">>", ">|"):
            yield next(rest, "")
        elif word in ("<", "<<", "<<<", ">&", "<&"):
            next(rest, None)
        else:
            plain.append(word)
    name, operands = (plain[0], [w for w in plain[1:] if not w.startswith("-")]) if plain else ("", [])
    if name in ("tee", "touch", "rm", "mv"):
        yield from operands
    elif name == "cp":
        yield from operands[-1:]
    elif name == "sed" and any(w.startswith(("-i", "--in-place")) for w in plain):
        yield from operands[1:]


def _is_file(word: str) -> bool:
    if not word or word.isdigit() or word.startswith(("-", "&", "/dev/")):
        return False
    return _NOT_PLAIN.isdisjoint(word)
