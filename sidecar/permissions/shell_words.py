"""The values of a command line: words, redirections, simple commands and variables. Pure."""

from __future__ import annotations

import re

from msgspec import Struct, field

from sidecar._internal.values import Value


class ShellSyntaxError(Exception):
    """A command line is not understood; the message says why."""


class Word(Value):
    """One word of a command.

    Attributes:
        text: the word as the program gets it; None when the shell computes it.
        is_pattern: whether the shell replaces it by the names of the files that match.
        has_tilde: whether it begins with a ``~`` that the shell replaces by a folder.
        is_own: whether only commands and variables of the same line compute it; meaningless with a text.
    """

    text: str | None
    is_pattern: bool = False
    has_tilde: bool = False
    is_own: bool = False

    @property
    def is_literal(self) -> bool:
        """Whether the program gets exactly *text*."""
        return self.text is not None and not self.is_pattern and not self.has_tilde


class Redirection(Struct):
    """A redirection; the target of a here-document is its text, set once the line has been read that far."""

    operator: str
    target: Word

    @property
    def touches_file(self) -> bool:
        """Whether it reads or writes a file other than ``/dev/null``."""
        kind, text = self.operator.lstrip("0123456789"), self.target.text
        if kind in ("<<", "<<-"):
            return False
        is_number = kind in (">&", "<&") and re.fullmatch(r"\d{1,3}|-", text or "") is not None
        return not (self.target.is_literal and (is_number or text == "/dev/null"))


class SimpleCommand(Value):
    """One simple command: its words, its redirections, and the assignments before its words.

    *is_fed* says whether a pipe leads into it. *local_names* are the variables that it sets, when it does
    nothing else and the rest of the line reads each of them.
    """

    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Word, ...] = ()
    is_fed: bool = False
    local_names: frozenset[str] = frozenset()


class WordBuffer(Struct):
    """A word while it is read."""

    text: str | None = ""
    is_pattern: bool = False
    has_tilde: bool = False
    has_brace: bool = False
    has_bracket: bool = False
    is_begun: bool = False
    is_own: bool = True

    def add(self, text: str | None, *, is_own: bool = False) -> None:
        self.is_begun = True
        self.is_own = self.is_own and (is_own or text is not None)
        self.text = None if text is None or self.text is None else self.text + text

    def add_unquoted(self, char: str) -> None:
        """Add a character that the shell may give a meaning."""
        if char == "~" and not self.is_begun:
            self.has_tilde = True
        elif char == "~" and (self.text or "")[-1:] in ("=", ":"):
            self.add(None)
            return
        self.has_bracket = self.has_bracket or char == "["
        self.is_pattern = self.is_pattern or char in "*?" or (char == "]" and self.has_bracket)
        is_list = char == "," or (char == "." and (self.text or "").endswith("."))
        self.has_brace = self.has_brace or char == "{"
        self.add(None if self.has_brace and is_list else char)


class Scope(Struct):
    """The variables of a line.

    *texts* has the known values, *names* each variable that was set so far, *used* each that is read.
    """

    texts: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    has_loop: bool = False
