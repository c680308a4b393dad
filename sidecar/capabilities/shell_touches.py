"""Touches of shell commands: the files that a command line reads, searches, changes, moves or removes.

Agents without a tool for reading use the shell for it. The command line says which file and, often, which
lines: ``sed -n '10,80p' a.py`` reads as exactly as a tool does. Only words that are literal count, so that
a path is never guessed, and a command line that the lexer refuses touches nothing.

Worked example: ``cd src && nl -ba main.rs | sed -n '5,9p'`` reads the lines 5 to 9 of ``src/main.rs``. Pure;
the cost is linear in the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from posixpath import join, normpath
from typing import Final, Literal, TypeAlias

from sidecar._internal.values import Value
from sidecar.conversation import LineRange
from sidecar.permissions.shell import parse_command_line
from sidecar.permissions.shell_words import ShellSyntaxError, SimpleCommand

MAX_COMMAND_CHARS: Final = 20_000
MAX_FILES: Final = 50
"""More files of one command line are no sign of use."""

TouchKind: TypeAlias = Literal["read", "search", "edit", "write", "remove", "move"]


class Touch(Value, kw_only=True):
    """A file that a call touched.

    Attributes:
        path: the file as the call named it, behind the folder that the call itself went to.
        kind: the kind of the touch; ``move`` took the file to *target*.
        ranges: the lines it was about, none where they are not known.
        text: a piece of the file's new text, by which the place of an edit is found.
        target: the new path of a file that was moved.
    """

    path: str
    kind: TouchKind
    ranges: tuple[LineRange, ...] = ()
    text: str = ""
    target: str = ""


_SHELLS: Final = frozenset(("bash", "sh", "zsh", "dash"))
_WRAPPERS: Final = frozenset(("command", "env", "time", "nice", "sudo", "exec", "rtk"))
_READERS: Final = frozenset(("cat", "nl", "less", "more", "bat", "head", "tail", "sed"))
_SEARCHERS: Final = frozenset(("grep", "egrep", "fgrep", "rg", "ag", "ack"))
_WITH_VALUE: Final[Mapping[str, str]] = {
    "nl": "bdfhilnsvw",
    "head": "nc",
    "tail": "nc",
    "sed": "ef",
    "grep": "efmABCd",
    "rg": "efgtTmABCjMrE",
    "bat": "rlH",
}
"""The one-letter options of a program that take the next word as their value."""

_ABSOLUTE: Final = re.compile(r"[\\/]|[A-Za-z]:[\\/]")
_SED_LINES: Final = re.compile(r"(\d{1,9})(?:,(\d{1,9}|\$))?p")
_SED_SCRIPT: Final = re.compile(r"s(\W).*\1|[/\d$][dp]$", re.DOTALL)
_COUNT: Final = re.compile(r"-(?:n|-lines=)?(\+?\d{1,9})")


@lru_cache(maxsize=256)
def touches_of_shell(command: str, folder: str = "") -> tuple[Touch, ...]:
    """Return the files that the command line *command* touches, run in *folder*, in their order.

    >>> [(each.path, each.ranges) for each in touches_of_shell("cd src && nl -ba a.rs | sed -n '5,9p'")]
    [('src/a.rs', ((5, 5),))]
    """
    if len(command) > MAX_COMMAND_CHARS:
        return ()
    try:
        commands = parse_command_line(command)
    except ShellSyntaxError:
        return ()
    found: list[Touch] = []
    n_piped = 0
    for each in commands:
        words = words_of_command(each)
        program = words[0].rpartition("/")[2] if words else ""
        if program == "cd":
            folder = in_folder(folder, words[1]) if len(words) == 2 else folder
            continue
        touches = [
            replace(touch, path=in_folder(folder, touch.path), target=in_folder(folder, touch.target))
            for touch in (*touches_of_program(program, words[1:]), *touches_of_redirections(each))
        ]
        if program in _SHELLS and len(words) > 2 and words[1] in ("-c", "-lc", "-ic"):
            touches += touches_of_shell(words[2], folder)
        ranges = _ranges_of(program, words[1:])
        if each.is_fed and ranges and not touches:
            found[n_piped:] = [
                replace(touch, ranges=ranges) if touch.kind == "read" else touch for touch in found[n_piped:]
            ]
        if not each.is_fed:
            n_piped = len(found)
        found += touches
    return tuple(found[:MAX_FILES])


def in_folder(folder: str, path: str) -> str:
    """Return *path* as it is named from outside of *folder*; an absolute one as it is."""
    return path if not folder or not path or _ABSOLUTE.match(path) else normpath(join(folder, path))


def words_of_command(command: SimpleCommand) -> list[str]:
    """Return the words of *command* behind programs that only run another; computed words are empty."""
    words = [word.text if word.is_literal and word.text is not None else "" for word in command.words]
    while len(words) > 1 and words[0] in _WRAPPERS:
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    if len(words) > 1 and words[0] == "git" and words[1] in ("mv", "rm", "grep"):
        words = words[1:]
    return words


def touches_of_program(program: str, arguments: Sequence[str]) -> Iterator[Touch]:
    """Yield the files among the *arguments* of *program*."""
    files = operands_of(program, arguments)
    if program == "sed" and any(re.match(r"-[nEr]*i|--in-place", each) for each in arguments):
        if not _has_script_option(arguments):
            # The sed of macOS wants the ending of a copy before the script, mostly an empty one.
            has_ending = len(files) > 2 and not files[0] and _SED_SCRIPT.search(files[1])
            files = files[2:] if has_ending else files[1:]
        yield from (Touch(path=path, kind="edit") for path in files if path)
    elif program in _READERS:
        files = files if program != "sed" or _has_script_option(arguments) else files[1:]
        ranges = _ranges_of(program, arguments)
        yield from (Touch(path=path, kind="read", ranges=ranges) for path in files if path)
    elif program in _SEARCHERS:
        files = files if "-e" in arguments else files[1:]
        yield from (Touch(path=path, kind="search") for path in files if re.search(r"\.\w+$", path))
    elif program == "tee":
        kind: TouchKind = "edit" if "-a" in arguments else "write"
        yield from (Touch(path=path, kind=kind) for path in files if path)
    elif program == "rm":
        yield from (Touch(path=path, kind="remove") for path in files if path)
    elif program == "mv" and len(files) == 2 and all(files):
        yield Touch(path=files[0], kind="move", target=files[1])
    elif program == "cp" and len(files) == 2 and all(files):
        yield from (Touch(path=files[0], kind="read"), Touch(path=files[1], kind="write"))


def touches_of_redirections(command: SimpleCommand) -> Iterator[Touch]:
    """Yield the files that *command* is redirected from and to."""
    kinds: dict[str, TouchKind] = {">": "write", ">|": "write", "&>": "write", ">>": "edit", "<": "read"}
    for each in command.redirections:
        kind = kinds.get(each.operator.lstrip("01"))
        if kind and each.touches_file and each.target.is_literal and each.target.text:
            yield Touch(path=each.target.text, kind=kind)


def operands_of(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the *arguments* that are neither options nor values of options; a computed one is empty."""
    values = _WITH_VALUE.get(program, "")
    found: list[str] = []
    takes_next = only_operands = False
    for each in arguments:
        if takes_next:
            takes_next = False
        elif only_operands or not each.startswith("-") or each == "-":
            found.append(each)
        elif each == "--":
            only_operands = True
        else:
            takes_next = not each.startswith("--") and each[-1] in values
    return found


def _has_script_option(arguments: Sequence[str]) -> bool:
    return any(re.match(r"-[nEr]*e|--expression", each) for each in arguments)


def _ranges_of(program: str, arguments: Sequence[str]) -> tuple[LineRange, ...]:
    """Return the lines of its input that *program* shows, none for all of them or where it is not said."""
    text = " ".join(arguments)
    if program == "sed" and re.search(r"(?:^| )-[Er]*n", text):
        found = _SED_LINES.findall(text)
        return tuple(
            (int(first), None if last == "$" else max(1, int(last or first) - int(first) + 1))
            for first, last in found
        )
    counted = _COUNT.search(text.replace("-n ", "-n"))
    if program == "head":
        return ((1, int(counted[1]) if counted else 10),)
    if program == "tail" and counted and counted[1].startswith("+"):
        return ((int(counted[1]), None),)
    return ()
