r"""Shell command lines: the simple commands in one, with the words that their programs will get.

The problem: whether a command may run unasked, and which files it touches, depends on the words that its
program gets, and a shell computes them after anybody has looked at the line. It removes quotes, joins lines,
follows ``$``, and runs the commands within. A filter that looks at the text is fooled by ``g''it`` or
``git status $(rm -r x)``.

The invariant: a literal word has exactly the text that the program gets from bash. A word that the shell
computes has no text at all. :func:`parse_command_line` refuses a line with anything that is not listed here
as a whole. So a caller is sure of everything that it sees, and has to ask about all the rest.

Understood are: simple commands, joined by ``;``, ``&``, ``&&``, ``||``, ``|`` and line ends, in ``( )`` and
``{ }``; assignments; quotes and backslashes; redirections, here-documents, comments; variables, ``$(...)``
and backticks, as computed words. Refused are loops but one, conditions, functions, arithmetic, process
substitution, here-strings, and quotes and groups without an end. Some computed words have a text all the
same: the customary ``"$(cat <<'END' ...)"``, which spells a text of several lines; variables that get a plain
word at the beginning of the line; and the variable of a loop ``for x in a b; do ...; done`` over plain words.
The body of a loop is read once for each word. After a further assignment the text is unknown. Other ways to
change a variable, ``read`` and ``printf -v``, are covered by nothing.

:func:`read_command_line` is for callers that only want to know the files and programs of a line. It goes on
where the other one refuses: a part that is not understood is skipped or has no text, and the result says that
it is no whole reading. The commands of conditions, functions and loops are read once, as if they ran. Up to
the first such place both readings are the same, by the same code.

Worked example: ``cd src && g'i't log "$x" 2>&1 | head -5`` holds the commands ``cd src``, ``git log`` with
a computed third word, and ``head -5``.

The cost is linear in the length of the line; a loop has at most 20 words. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct, field

from sidecar._internal.values import Value, replace
from sidecar.text.visible import is_hidden

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
_RUN: Final = re.compile(r"[\w./:@%+,=^-]+", re.ASCII)
"""Characters that the shell gives no meaning, but for those between braces."""

_QUOTED_RUN: Final = re.compile(r'[^"$`\\]+')
_MAX_TURNS: Final = 20
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}

_HEAD: Final = re.compile(
    r"(?:for|select)[ \t]+\w+[^;\n]*|case[ \t]+[^\n;]*?[ \t]+in\b|function[ \t]+[^\s({]+"
)
"""The head of a loop, a choice or a function, which names no command."""

_RESERVED_WORD: Final = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(_RESERVED)))})(?=[\t\n;&|) ]|\Z)")
_CHOICE: Final = re.compile(r"\s*(?!esac\b)\(?[^()\n]{0,200}\)")
"""The pattern before the commands of a choice."""


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
        if kind in ("<<", "<<-", "<<<"):
            return False
        is_number = kind in (">&", "<&") and re.fullmatch(r"\d{1,3}|-", text or "") is not None
        return not (self.target.is_literal and (is_number or text == "/dev/null"))


class SimpleCommand(Value):
    """One simple command: its words, its redirections, and the assignments before its words.

    *is_fed* says whether a pipe leads into it, and *feeds* whether one leads out; *is_conditional* whether it
    runs only after the success or failure of another one. *local_names* are the
    variables that it sets, when it does nothing else and the rest of the line reads each of them. *shells*
    numbers the subshells around it, the outermost first. It stands in the line from *start* to *end*.
    """

    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Word, ...] = ()
    is_fed: bool = False
    feeds: bool = False
    is_conditional: bool = False
    local_names: frozenset[str] = frozenset()
    shells: tuple[int, ...] = ()
    start: int = 0
    end: int = 0

    @property
    def text_of_cat(self) -> str | None:
        """The text of the one here-document of ``cat`` without files; None for all other commands."""
        documents = [each.target.text for each in self.redirections if each.operator in ("<<", "<<-")]
        is_cat = [word.text for word in self.words] == ["cat"]
        return documents[0] if is_cat and len(documents) == 1 else None


class CommandLine(Value):
    """A line as far as it could be read: its *commands*, and *doubts*, the parts that are not understood."""

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...] = ()


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
    return parser.found()


def read_command_line(line: str) -> CommandLine:
    """Return *line* as far as it can be read. Nothing may run on the ground of this reading.

    >>> read_command_line("if [ -f a ]; then cat a; fi").commands[1].words[1].text
    'a'
    """
    parser = _Parser(line[:MAX_CHARS].replace("\0", " "), scope=_Scope(is_strict=False))
    if len(line) > MAX_CHARS:
        parser.doubt("it is too long")
    try:
        parser.parse_list("")
    except ShellSyntaxError as error:
        parser.scope.doubts.append(str(error))
    return CommandLine(parser.found(), tuple(dict.fromkeys(parser.scope.doubts)))


class _WordBuffer(Struct):
    """A word while it is read: its parts, and the marks of the shell among them."""

    parts: list[str] = field(default_factory=list)
    last: str = ""
    is_known: bool = True
    is_pattern: bool = False
    has_tilde: bool = False
    has_brace: bool = False
    has_bracket: bool = False
    is_begun: bool = False
    is_own: bool = True

    def add(self, text: str | None, *, is_own: bool = False) -> None:
        self.is_begun = True
        if text is None:
            self.is_known = False
            self.is_own = self.is_own and is_own
        elif text:
            self.parts.append(text)
            self.last = text[-1]

    def add_unquoted(self, char: str) -> None:
        """Add a character that the shell may give a meaning."""
        last = self.last if self.is_known else ""
        if char == "~" and not self.is_begun:
            self.has_tilde = True
        elif char == "~" and last in ("=", ":"):
            self.add(None)
            return
        self.has_bracket = self.has_bracket or char == "["
        self.is_pattern = self.is_pattern or char in "*?" or (char == "]" and self.has_bracket)
        is_list = char == "," or (char == "." and last == ".")
        self.has_brace = self.has_brace or char == "{"
        self.add(None if self.has_brace and is_list else char)

    def word(self) -> Word:
        text = "".join(self.parts) if self.is_known else None
        return Word(text, self.is_pattern, self.has_tilde, is_own=text is None and self.is_own)


class _Scope(Struct):
    """The state that all parsers of a line share.

    *texts* has the known values of variables, *names* each that was set so far, *used* each that is read.
    """

    is_strict: bool = True
    texts: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    has_loop: bool = False
    doubts: list[str] = field(default_factory=list)
    n_shells: int = 0


class _Parser(Struct):
    """The state of reading; *depth* is the number of groups and computed words around *at*.

    The text begins at *offset* in the line, and *shells* are the subshells around it.
    """

    line: str
    at: int = 0
    depth: int = 0
    is_fed: bool = False
    is_conditional: bool = False
    scope: _Scope = field(default_factory=_Scope)
    offset: int = 0
    shells: tuple[int, ...] = ()
    commands: list[SimpleCommand] = field(default_factory=list)
    _open_documents: list[tuple[Redirection, str, bool]] = field(default_factory=list)

    def found(self) -> tuple[SimpleCommand, ...]:
        """Return the commands; a variable is one of the line alone only where the line reads it."""
        return tuple(
            command if command.local_names <= self.scope.used else replace(command, local_names=frozenset())
            for command in self.commands
        )

    def doubt(self, reason: str) -> None:
        """Refuse the line, or note the place and let the caller go on behind it."""
        if self.scope.is_strict:
            raise ShellSyntaxError(reason)
        self.scope.doubts.append(reason)

    def parse_list(self, closer: str) -> None:
        """Read commands up to *closer*, ``)``, ``}`` or ``done``, and past it; without one up to the end."""
        if self.depth > _MAX_DEPTH:
            raise ShellSyntaxError("it nests too deep")
        needs_command, n_before = False, len(self.commands)
        was_fed, was_conditional = self.is_fed, self.is_conditional
        is_beginning = not closer and not self.depth
        while True:
            self.skip_blanks()
            if not self.rest(1):
                if closer or needs_command or self._open_documents:
                    self.doubt("it ends too early")
                return
            if self.rest(1) == "\n":
                self.at += 1
                self.read_documents()
            elif closer and self.is_at_word(closer) and not needs_command:
                if self._open_documents or len(self.commands) == n_before:
                    self.doubt("a group ends too early")
                self.at += len(closer)
                self.is_fed, self.is_conditional = was_fed, was_conditional
                return
            elif not self.scope.is_strict and self.skip_reserved():
                needs_command = False
            else:
                n_read, start = len(self.commands), self.at
                is_group = self.parse_command()
                operator = self.read_separator(closer)
                self.at += self.at == start  # a place that is not understood, as strict readings end there
                needs_command = operator in ("&&", "||", "|", "|&")
                # A group may run in a shell of its own, as the commands within a word do.
                is_plain = not is_group and len(self.commands) == n_read + 1
                is_beginning = is_beginning and is_plain and operator in ("", ";", "&&") and self.keep_texts()
                self.is_fed = was_fed or operator in ("|", "|&")
                goes_on = operator in ("|", "|&") and self.is_conditional
                self.is_conditional = was_conditional or goes_on or operator in ("&&", "||")
                if operator in ("|", "|&") and len(self.commands) > n_read:
                    self.commands[-1] = replace(self.commands[-1], feeds=True)

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
            self.doubt("arithmetic is not understood")
            self.skip_behind("))")
        loop = _LOOP.match(self.line, self.at)
        is_group = loop is not None or self.rest(1) == "(" or self.is_at_word("{")
        self.depth += is_group
        if loop is not None:
            self.parse_loop(loop)
        elif is_group:
            self.parse_group()
        self.depth -= is_group
        if not self.parse_words(is_behind_group=is_group) and not is_group:
            self.doubt("a command is missing")
        return is_group

    def parse_words(self, *, is_behind_group: bool) -> bool:
        """Read the assignments, words and redirections of a simple command; return whether there were any.

        Behind a group only redirections may stand.
        """
        start = self.at
        words: list[Word] = []
        redirections: list[Redirection] = []
        assignments: list[Word] = []
        names: list[str] = []
        own_names: list[str] = []
        while self.skip_blanks():
            if not self.is_at_process() and (found := _REDIRECTION.match(self.line, self.at)):
                self.at = found.end()
                redirections.append(self.read_redirection(found[0]))
                continue
            if _CONTROL.match(self.line, self.at):
                break
            before = self.at
            word = self.read_word()
            source = self.line[before : self.at]
            if is_behind_group or (not words and source in _RESERVED):
                self.doubt(f"{source!r:.30} is not understood here")
            if _FILE_NUMBER.match(source) and self.rest(1) in ("<", ">"):
                self.doubt("a redirection by name is not understood")
                continue
            is_assignment = not words and _ASSIGNMENT.match(source) is not None
            (assignments if is_assignment else words).append(word)
            if is_assignment:
                names.append(re.split(r"\W", source, maxsplit=1)[0])
                is_own = _SETTING.match(source) is not None and (word.is_literal or word.is_own)
                own_names += names[-1:] if is_own else []
        if not (words or redirections or assignments):
            return False
        is_local = names == own_names and not words and not redirections
        self.commands.append(
            SimpleCommand(
                tuple(words),
                tuple(redirections),
                tuple(assignments),
                is_fed=self.is_fed,
                is_conditional=self.is_conditional,
                local_names=frozenset(names if is_local else ()),
                shells=self.shells,
                start=self.offset + start,
                end=self.offset + min(self.at, len(self.line)),
            )
        )
        self.scope.names.update(own_names)
        self.scope.names.difference_update(set(names) - set(own_names))
        for name in names:
            self.scope.texts.pop(name, None)
        return True

    def parse_group(self) -> None:
        """Read a group from its bracket on."""
        if is_shell := self.rest(1) == "(":
            self.enter_shell()
        self.at += 1
        self.parse_list(")" if is_shell else "}")
        self.shells = self.shells[: len(self.shells) - is_shell]

    def enter_shell(self) -> None:
        """Let the commands that follow run in a subshell."""
        self.scope.n_shells += 1
        self.shells = (*self.shells, self.scope.n_shells)

    def parse_loop(self, head: re.Match[str]) -> None:
        """Read the rest of a loop after its *head*, and its body for each of the words behind ``in``."""
        self.at = head.end()
        values: list[str] = []
        while self.skip_blanks() and not _CONTROL.match(self.line, self.at):
            before = self.at
            word = self.read_word()
            values.append(str(word.text) if word.is_literal else "")
            self.at += self.at == before
        body = _LOOP_BODY.match(self.line, self.at)
        is_plain = 0 < len(values) <= _MAX_TURNS and all(map(_PLAIN.fullmatch, values))
        if body is None or not is_plain or self.scope.has_loop:
            self.doubt("a loop that is not one over a few plain words is not understood")
            self.scope.texts.pop(head[1], None)
            return
        self.scope.has_loop = True
        for value in values:
            self.at, self.scope.texts[head[1]] = body.end(), value
            self.parse_list("done")
        self.scope.texts.pop(head[1], None)
        self.scope.has_loop = False

    def skip_reserved(self) -> bool:
        """Skip a word or head of a condition, a loop, a choice or a function; return whether one was here."""
        if self.rest(2) in (";;", ";&"):
            self.at += 2
            choice = _CHOICE.match(self.line, self.at)
            self.at = choice.end() if choice else self.at
        elif self.rest(1) in (";", "&", "|", ")") and self.rest(2) != "&>":
            self.at += 1
        elif self.rest(2) == "()":
            self.at += 2
        elif self.is_at_word("[["):
            self.skip_behind("]]")
        elif (head := _HEAD.match(self.line, self.at)) and not _LOOP.match(self.line, self.at):
            self.at = head.end()
            choice = _CHOICE.match(self.line, self.at) if head[0].startswith("case") else None
            self.at = choice.end() if choice else self.at
        elif (word := _RESERVED_WORD.match(self.line, self.at)) and word[0] != "for":
            self.at = word.end()
        else:
            return False
        self.doubt("its conditions, loops and functions are read without their order")
        return True

    def skip_behind(self, end: str) -> None:
        """Go behind the next *end*, or to the end of the line."""
        at = self.line.find(end, self.at)
        self.at = len(self.line) if at < 0 else at + len(end)

    def read_separator(self, closer: str) -> str:
        """Read the operator after a command and return it, or nothing for the end of the line or group."""
        found = _CONTROL.match(self.line, self.at)
        if found is None or found[0] == "\n" or found[0] == closer:
            return ""
        if found[0] in "()" or self.rest(2) in (";;", ";&"):
            self.doubt(f"{found[0]} is not understood here")
            return ""
        self.at = found.end()
        return found[0]

    def rest(self, n_chars: int) -> str:
        return self.line[self.at : self.at + n_chars]

    def skip_blanks(self) -> bool:
        """Go to the next word or operator; return whether there is one."""
        while char := self.rest(1):
            if char == " " or char == "\t":
                self.at += 1
            elif char == "\\" and self.rest(2) == "\\\n":
                self.at += 2
            elif char == "#":
                end = self.line.find("\n", self.at)
                self.at = len(self.line) if end < 0 else end
            else:
                break
        return self.at < len(self.line)

    def is_at_word(self, word: str) -> bool:
        """Whether *word* stands here, as a word of its own unless it is an operator."""
        end = self.at + len(word)
        return self.line.startswith(word, self.at) and (
            word == ")" or self.line[end : end + 1] in "\t\n;&|) "
        )

    def is_at_process(self) -> bool:
        """Whether commands stand here that are used as a file; a strict reading refuses them."""
        return not self.scope.is_strict and self.rest(2) in ("<(", ">(")

    def read_redirection(self, operator: str) -> Redirection:
        if operator.endswith("<<") and self.rest(1) == "<":
            self.doubt("a here-string is not understood")
            self.at, operator = self.at + 1, "<<<"
        self.skip_blanks()
        start = self.at
        word = self.read_word()
        source = self.line[start : self.at]
        redirection = Redirection(operator, word)
        if operator.lstrip("0123456789") in ("<<", "<<-"):
            if not word.text or re.search(r"[\\$]", source):
                self.doubt("the end of a here-document is computed")
            self._open_documents.append((redirection, word.text or source, source != word.text))
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
                    self.doubt("a here-document has no end")
                    break
                line, self.at = self.line[self.at : stop], stop
                line = line.lstrip("\t") if redirection.operator.endswith("-") else line
            text = "".join(lines)
            if not is_quoted and re.search(r"[$`\\]", text):
                self.doubt("a here-document is computed")
                continue
            redirection.target = Word(text)
        self._open_documents.clear()

    def read_word(self) -> Word:
        """Read one word, which must not be empty."""
        word = _WordBuffer()
        while (char := self.rest(1)) and char not in " \t\n;&|<>()":
            if not word.has_brace and (run := _RUN.match(self.line, self.at)):
                word.add(run[0])
                self.at = run.end()
                continue
            self.at += 1
            match char:
                case "\\" if self.rest(1) == "\n":
                    # The shell joins lines before it looks for words, so that any token could go on here.
                    self.at += 1
                    if self.rest(1).strip(" \t\n"):
                        self.doubt("a word goes on in the next line")
                        continue
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
                case _ if not char.isascii() and is_hidden(char):
                    self.doubt("it holds a character that cannot be seen")
                    word.add(char)
                case _ if char < " " or char == "\x7f":
                    self.doubt("it holds a control character")
                    word.add(char)
                case "~" if not word.is_begun and self.rest(1).strip("/ \t\n;&|<>()"):
                    word.add(None)  # the home of another user, or an earlier folder
                case _:
                    word.add_unquoted(char)
        if self.is_at_process():
            self.doubt("a process as a file is not understood")
            self.at += 1
            self.read_commands_within(is_quoted=False)
            word.add(None)
        if not word.is_begun or self.at > len(self.line):
            self.doubt("a word is missing")
        return word.word()

    def read_until_quote(self) -> str:
        end = self.line.find("'", self.at)
        if end < 0:
            self.doubt("a quote is not closed")
            end = len(self.line)
        text, self.at = self.line[self.at : end], end + 1
        return text

    def read_ansi_quotes(self) -> str:
        r"""Read the rest of ``$'...'``; numbers, and ``\'``, at which other shells end it, are refused."""
        parts: list[str] = []
        while (char := self.rest(1)) != "'":
            self.at += 1
            if char == "\\":
                char = _ESCAPES.get(self.rest(1), "")
                self.at += 1
            if not char:
                self.doubt("a quote is not closed, or has an escape that is not understood")
                if self.at > len(self.line):
                    break
            parts.append(char)
        self.at += 1
        return "".join(parts)

    def read_double_quotes(self, word: _WordBuffer) -> None:
        word.add("")
        while (char := self.rest(1)) != '"':
            if not char:
                self.doubt("a quote is not closed")
                break
            if char in "$`":
                text, is_own = self.read_expansion(is_quoted=True)
                word.add(text, is_own=is_own)
                continue
            if run := _QUOTED_RUN.match(self.line, self.at):
                word.add(run[0])
                self.at = run.end()
                continue
            self.at += 1
            if self.rest(1) and self.rest(1) in '$`"\\\n':
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
            return self.read_backticks()
        if self.rest(3) == "$((":
            self.doubt("arithmetic is not understood")
            self.skip_behind("))")
            return None, True
        if self.rest(2) == "$(":
            self.at += 1
            return self.read_commands_within(is_quoted=is_quoted)
        if found := _DIGITS.match(self.line, self.at):
            self.at = found.end()
            return "0", True
        if found := _VARIABLE.match(self.line, self.at):
            self.at = found.end()
            name = found[0].strip("${}")
            self.scope.used.add(name)
            return self.scope.texts.get(name), name in self.scope.names
        if self.rest(2) in ("${", "$[") or (self.rest(2) == '$"' and not is_quoted):
            self.doubt(f"{self.rest(2)} is not understood")
            if self.rest(2) == '$"':
                self.at += 1
                return "", True
            self.skip_behind("}" if self.rest(2) == "${" else "]")
            return None, False
        if self.rest(3) == "$\\\n":
            self.doubt("a variable goes on in the next line")
        self.at += 1
        return "$", True

    def read_backticks(self) -> tuple[str | None, bool]:
        end = self.line.find("`", self.at + 1)
        inner = self.line[self.at + 1 : end]
        if end < 0 or "\\" in inner:
            self.doubt("backticks are not closed, or hold a backslash")
            end = len(self.line) if end < 0 else end
        parser = _Parser(inner, 0, self.depth + 1, scope=self.scope, offset=self.offset + self.at + 1)
        parser.shells = self.shells
        self.parse_inner(parser, "")
        self.at = end + 1
        return None, True

    def read_commands_within(self, *, is_quoted: bool) -> tuple[str | None, bool]:
        """Read the commands between the brackets that begin here, and return their output, if it is known."""
        parser = _Parser(self.line, self.at + 1, self.depth + 1, scope=self.scope, offset=self.offset)
        parser.shells = self.shells
        text = self.parse_inner(parser, ")")
        self.at = parser.at
        return text if is_quoted else None, True

    def parse_inner(self, parser: _Parser, closer: str) -> str | None:
        """Read the commands within a word; return the text that they yield if it stands in the line."""
        parser.enter_shell()
        parser.parse_list(closer)
        if len(parser.commands) == 1:
            (command,) = parser.commands
            is_bare = command.words == (Word("cat"),) and not command.assignments
            if is_bare and len(command.redirections) == 1 and (text := command.text_of_cat) is not None:
                return text.rstrip("\n")
        self.commands.extend(parser.commands)
        return None
