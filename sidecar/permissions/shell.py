r"""Shell command lines: the simple commands in one, with the words that their programs will get.

The problem: whether a command may run unasked depends on the words that its program gets, and a shell
computes them after anybody has looked at the line. It removes quotes, joins lines, follows ``$``, and runs
the commands within. A filter that looks at the text is fooled by ``g''it`` or ``git status $(rm -r x)``.

The invariant: a literal word has exactly the text that the program gets from bash. A word that the shell
computes has no text at all, and a line with anything that is not listed here is refused as a whole. So a
caller is sure of everything that it sees, and has to ask about all the rest.

Understood are: simple commands, joined by ``;``, ``&``, ``&&``, ``||``, ``|`` and line ends, in ``( )`` and
``{ }``; assignments; quotes and backslashes; redirections, here-documents, comments; variables, ``$(...)``
and backticks, as computed words. Refused are loops but one, conditions, functions, arithmetic, process
substitution, here-strings, and quotes and groups without an end. Some computed words have a text all the
same: the customary ``"$(cat <<'END' ...)"``, which spells a text of several lines; variables that get a plain
word at the beginning of the line; and the variable of a loop ``for x in a b; do ...; done`` over plain words.
The body of a loop is read once for each word. After a further assignment the text is unknown. Other ways to
change a variable, ``read`` and ``printf -v``, are covered by nothing.

Worked example: ``cd src && g'i't log "$x" 2>&1 | head -5`` holds the commands ``cd src``, ``git log`` with
a computed third word, and ``head -5``.

The cost is linear in the length of the line; a loop has at most 20 words. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field, replace
from typing import Final

from sidecar.permissions.shell_words import (
    Redirection,
    Scope,
    ShellSyntaxError,
    SimpleCommand,
    Word,
    WordBuffer,
)

MAX_CHARS: Final = 50_000
_MAX_DEPTH: Final = 20
_RESERVED: Final = frozenset(
    "if then else elif fi for while until do done case esac select function coproc [[ }".split()  # noqa: SIM905 - a list has a line for each
)
_REDIRECTION: Final = re.compile(r"\d{0,3}(?:<<-|<<|<&|<>|<|>>|>&|>\||>)|&>>|&>")
_CONTROL: Final = re.compile(r"&&|\|\||\|&|[;&|\n()]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=", re.ASCII)
_FILE_NUMBER: Final = re.compile(r"\{[A-Za-z_]\w*\}\Z", re.ASCII)
_DIGITS: Final = re.compile(r"\$[?#$]")  # variables that hold digits alone
_VARIABLE: Final = re.compile(r"\$(?:[A-Za-z_]\w*|[@*!0-9_-]|\{[A-Za-z_]\w*\})", re.ASCII)
_NAME: Final = r"(?!\w*proxy\b|npm_|auto_resume\b|\w*path\b|argv\b|histchars\b)[a-z][a-z0-9_]*"
"""Names of variables that mean nothing to a shell, and hardly anything to a program."""

_LOOP: Final = re.compile(rf"for[ \t]+({_NAME})[ \t]+in(?=[ \t])")
_SETTING: Final = re.compile(rf"({_NAME})=")
_LOOP_BODY: Final = re.compile(r"[ \t]*[;\n]\s*do(?=[ \t\n])")
_PLAIN: Final = re.compile(r"[\w./:@%+,=-]+", re.ASCII)
_MAX_TURNS: Final = 20
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
_HIDDEN: Final = ("Cc", "Cf", "Zs", "Zl", "Zp")


def parse_command_line(line: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of *line* in their order, also those within computed words.

    >>> commands = parse_command_line("g'i't log && (cd a; ls) | head -5 2>&1")
    >>> [" ".join(str(word.text) for word in command.words) for command in commands]
    ['git log', 'cd a', 'ls', 'head -5']

    Raises:
        ShellSyntaxError: a part of the line is not understood.
    """
    if len(line) > MAX_CHARS or "\0" in line:
        raise ShellSyntaxError("it is too long or holds a zero byte")
    parser = _Parser(line)
    parser.parse_list("")
    return tuple(
        command if command.local_names <= parser.scope.used else replace(command, local_names=frozenset())
        for command in parser.commands
    )


@dataclass(slots=True)
class _Parser:
    """The state of reading; *depth* is the number of groups and computed words around *at*."""

    line: str
    at: int = 0
    depth: int = 0
    is_fed: bool = False
    scope: Scope = field(default_factory=Scope)
    commands: list[SimpleCommand] = field(default_factory=list)
    _open_documents: list[tuple[Redirection, str, bool]] = field(default_factory=list)

    def parse_list(self, closer: str) -> None:
        """Read commands up to *closer*, ``)``, ``}`` or ``done``, and past it; without one up to the end."""
        if self.depth > _MAX_DEPTH:
            raise ShellSyntaxError("it nests too deep")
        needs_command, n_before, was_fed = False, len(self.commands), self.is_fed
        is_beginning = not closer and not self.depth
        while True:
            self.skip_blanks()
            if not self.rest(1):
                if closer or needs_command or self._open_documents:
                    raise ShellSyntaxError("it ends too early")
                return
            if self.rest(1) == "\n":
                self.at += 1
                self.read_documents()
            elif closer and self.is_at_word(closer) and not needs_command:
                if self._open_documents or len(self.commands) == n_before:
                    raise ShellSyntaxError("a group ends too early")
                self.at += len(closer)
                self.is_fed = was_fed
                return
            else:
                n_read = len(self.commands)
                is_group = self.parse_command()
                operator = self.read_separator(closer)
                needs_command = operator in ("&&", "||", "|", "|&")
                # A group may run in a shell of its own, as the commands within a word do.
                is_plain = not is_group and len(self.commands) == n_read + 1
                is_beginning = is_beginning and is_plain and operator in ("", ";", "&&") and self.keep_texts()
                self.is_fed = was_fed or operator in ("|", "|&")

    def keep_texts(self) -> bool:
        """Keep the plain texts that the newest command sets; return whether it does nothing else."""
        command = self.commands[-1]
        for word in command.assignments if command.local_names else ():
            name, _, text = (word.text or "").partition("=")
            if _PLAIN.fullmatch(text):
                self.scope.texts[name] = text
        return bool(command.local_names)

    def parse_command(self) -> bool:
        """Read a simple command, a group or a loop; return whether it was not a simple command."""
        while self.is_at_word("!"):
            self.at += 1
            self.skip_blanks()
        if self.rest(2) == "((":
            raise ShellSyntaxError("arithmetic is not understood")
        loop = _LOOP.match(self.line, self.at)
        is_group = loop is not None or self.rest(1) == "(" or self.is_at_word("{")
        self.depth += is_group
        if loop is not None:
            self.parse_loop(loop)
        elif is_group:
            closer = ")" if self.rest(1) == "(" else "}"
            self.at += 1
            self.parse_list(closer)
        self.depth -= is_group
        words: list[Word] = []
        redirections: list[Redirection] = []
        assignments: list[Word] = []
        names: list[str] = []
        own_names: list[str] = []
        while self.skip_blanks():
            if found := _REDIRECTION.match(self.line, self.at):
                self.at = found.end()
                redirections.append(self.read_redirection(found[0]))
                continue
            if _CONTROL.match(self.line, self.at):
                break
            start = self.at
            word = self.read_word()
            source = self.line[start : self.at]
            if is_group or (not words and source in _RESERVED):
                raise ShellSyntaxError(f"{source!r:.30} is not understood here")
            if _FILE_NUMBER.match(source) and self.rest(1) in ("<", ">"):
                raise ShellSyntaxError("a redirection by name is not understood")
            is_assignment = not words and _ASSIGNMENT.match(source) is not None
            (assignments if is_assignment else words).append(word)
            if is_assignment:
                names.append(re.split(r"\W", source, maxsplit=1)[0])
                is_own = _SETTING.match(source) is not None and (word.is_literal or word.is_own)
                own_names += names[-1:] if is_own else []
        if words or redirections or assignments:
            is_local = names == own_names and not words and not redirections
            self.commands.append(
                SimpleCommand(
                    tuple(words),
                    tuple(redirections),
                    tuple(assignments),
                    self.is_fed,
                    frozenset(names if is_local else ()),
                )
            )
            self.scope.names.update(own_names)
            self.scope.names.difference_update(set(names) - set(own_names))
            for name in names:
                self.scope.texts.pop(name, None)
        elif not is_group:
            raise ShellSyntaxError("a command is missing")
        return is_group

    def parse_loop(self, head: re.Match[str]) -> None:
        """Read the rest of a loop after its *head*, and its body for each of the words behind ``in``."""
        self.at = head.end()
        values: list[str] = []
        while self.skip_blanks() and not _CONTROL.match(self.line, self.at):
            word = self.read_word()
            values.append(str(word.text) if word.is_literal else "")
        body = _LOOP_BODY.match(self.line, self.at)
        is_plain = 0 < len(values) <= _MAX_TURNS and all(map(_PLAIN.fullmatch, values))
        if body is None or not is_plain or self.scope.has_loop:
            raise ShellSyntaxError("a loop that is not one over a few plain words is not understood")
        self.scope.has_loop = True
        for value in values:
            self.at, self.scope.texts[head[1]] = body.end(), value
            self.parse_list("done")
        self.scope.texts.pop(head[1], None)
        self.scope.has_loop = False

    def read_separator(self, closer: str) -> str:
        """Read the operator after a command and return it, or nothing for the end of the line or group."""
        found = _CONTROL.match(self.line, self.at)
        if found is None or found[0] == "\n" or found[0] == closer:
            return ""
        if found[0] in "()" or self.rest(2) in (";;", ";&"):
            raise ShellSyntaxError(f"{found[0]} is not understood here")
        self.at = found.end()
        return found[0]

    def rest(self, n_chars: int) -> str:
        return self.line[self.at : self.at + n_chars]

    def skip_blanks(self) -> bool:
        """Go to the next word or operator; return whether there is one."""
        while char := self.rest(1):
            if self.rest(2) == "\\\n":
                self.at += 2
            elif char in " \t":
                self.at += 1
            elif char == "#":
                end = self.line.find("\n", self.at)
                self.at = len(self.line) if end < 0 else end
            else:
                break
        return self.at < len(self.line)

    def is_at_word(self, word: str) -> bool:
        """Whether *word* stands here, as a word of its own unless it is an operator."""
        end = self.at + len(word)
        return self.rest(len(word)) == word and (word == ")" or self.line[end : end + 1] in "\t\n;&|) ")

    def read_redirection(self, operator: str) -> Redirection:
        self.skip_blanks()
        start = self.at
        word = self.read_word()
        source = self.line[start : self.at]
        redirection = Redirection(operator, word)
        if operator.lstrip("0123456789") in ("<<", "<<-"):
            if not word.text or re.search(r"[\\$]", source):
                raise ShellSyntaxError("the end of a here-document is computed")
            self._open_documents.append((redirection, word.text, source != word.text))
            redirection.target = Word(None)
        return redirection

    def read_documents(self) -> None:
        """Read the texts of the here-documents that the line before this place has begun."""
        for redirection, end, is_quoted in self._open_documents:
            lines: list[str] = []
            line = ""
            while line.removesuffix("\n") != end:
                lines.append(line)
                stop = self.line.find("\n", self.at) + 1 or len(self.line)
                if self.at == stop:
                    raise ShellSyntaxError("a here-document has no end")
                line, self.at = self.line[self.at : stop], stop
                line = line.lstrip("\t") if redirection.operator.endswith("-") else line
            text = "".join(lines)
            if not is_quoted and re.search(r"[$`\\]", text):
                raise ShellSyntaxError("a here-document is computed")
            redirection.target = Word(text)
        self._open_documents.clear()

    def read_word(self) -> Word:
        """Read one word, which must not be empty."""
        word = WordBuffer()
        while (char := self.rest(1)) and char not in " \t\n;&|<>()":
            self.at += 1
            match char:
                case "\\" if self.rest(1) == "\n":
                    # The shell joins lines before it looks for words, so that any token could go on here.
                    self.at += 1
                    if self.rest(1).strip(" \t\n"):
                        raise ShellSyntaxError("a word goes on in the next line")
                    break
                case "\\":
                    word.add(self.rest(1))
                    self.at += 1
                case "'":
                    word.add(self.read_until_quote())
                case '"':
                    self.read_double_quotes(word)
                case "$" if self.rest(1) == "'":
                    self.at += 1
                    word.add(self.read_ansi_quotes())
                case "$" | "`":
                    self.at -= 1
                    text, is_own = self.read_expansion(is_quoted=False)
                    word.add(text, is_own=is_own)
                case _ if not char.isascii() and unicodedata.category(char) in _HIDDEN:
                    raise ShellSyntaxError("it holds a character that cannot be seen")
                case _ if char < " " or char == "\x7f":
                    raise ShellSyntaxError("it holds a control character")
                case "~" if not word.is_begun and self.rest(1).strip("/ \t\n;&|<>()"):
                    word.add(None)  # the home of another user, or an earlier folder
                case _:
                    word.add_unquoted(char)
        if not word.is_begun or self.at > len(self.line):
            raise ShellSyntaxError("a word is missing")
        return Word(word.text, word.is_pattern, word.has_tilde, is_own=word.text is None and word.is_own)

    def read_until_quote(self) -> str:
        end = self.line.find("'", self.at)
        if end < 0:
            raise ShellSyntaxError("a quote is not closed")
        text, self.at = self.line[self.at : end], end + 1
        return text

    def read_ansi_quotes(self) -> str:
        r"""Read the rest of ``$'...'``; numbers, and ``\'``, at which other shells end it, are refused."""
        text = ""
        while (char := self.rest(1)) != "'":
            self.at += 1
            if char == "\\":
                char = _ESCAPES.get(self.rest(1), "")
                self.at += 1
            if not char:
                raise ShellSyntaxError("a quote is not closed, or has an escape that is not understood")
            text += char
        self.at += 1
        return text

    def read_double_quotes(self, word: WordBuffer) -> None:
        word.add("")
        while (char := self.rest(1)) != '"':
            if not char:
                raise ShellSyntaxError("a quote is not closed")
            if char in "$`":
                text, is_own = self.read_expansion(is_quoted=True)
                word.add(text, is_own=is_own)
                continue
            self.at += 1
            if char == "\\" and self.rest(1) and self.rest(1) in '$`"\\\n':
                char = self.rest(1).strip("\n")
                self.at += 1
            word.add(char)
        self.at += 1

    def read_expansion(self, *, is_quoted: bool) -> tuple[str | None, bool]:
        """Read a variable or a command within.

        Returns:
            Its text, None when it is not known, and whether only this line computes it.
        """
        if self.rest(1) == "`":
            end = self.line.find("`", self.at + 1)
            inner = self.line[self.at + 1 : end]
            if end < 0 or "\\" in inner:
                raise ShellSyntaxError("backticks are not closed, or hold a backslash")
            self.parse_inner(_Parser(inner, 0, self.depth + 1, scope=self.scope), "")
            self.at = end + 1
            return None, True
        if self.rest(3) == "$((":
            raise ShellSyntaxError("arithmetic is not understood")
        if self.rest(2) == "$(":
            inner_parser = _Parser(self.line, self.at + 2, self.depth + 1, scope=self.scope)
            text = self.parse_inner(inner_parser, ")")
            self.at = inner_parser.at
            return text if is_quoted else None, True
        if found := _DIGITS.match(self.line, self.at):
            self.at = found.end()
            return "0", True
        if found := _VARIABLE.match(self.line, self.at):
            self.at = found.end()
            name = found[0].strip("${}")
            self.scope.used.add(name)
            return self.scope.texts.get(name), name in self.scope.names
        if self.rest(2) in ("${", "$[") or (self.rest(2) == '$"' and not is_quoted):
            raise ShellSyntaxError(f"{self.rest(2)} is not understood")
        if self.rest(3) == "$\\\n":
            raise ShellSyntaxError("a variable goes on in the next line")
        self.at += 1
        return "$", True

    def parse_inner(self, parser: _Parser, closer: str) -> str | None:
        """Read the commands within a word; return the text that they yield if it stands in the line."""
        parser.parse_list(closer)
        if len(parser.commands) == 1:
            (command,) = parser.commands
            documents = [each.target.text for each in command.redirections if each.operator in ("<<", "<<-")]
            is_bare = command.words == (Word("cat"),) and not command.assignments
            if is_bare and len(command.redirections) == 1 and documents and documents[0] is not None:
                return documents[0].rstrip("\n")
        self.commands.extend(parser.commands)
        return None
