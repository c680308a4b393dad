"""The use of files by shell commands: which ones a line reads, searches, changes, moves or removes.

Agents without a tool for reading use the shell for it. The command line says which file and, often, which
lines: ``sed -n '10,80p' a.py`` reads as exactly as a tool does. Only words that are literal count, so that a
path is never guessed, and behind a ``cd`` to a computed folder only absolute ones. Of a line that cannot be
read whole the parts that are understood count.

A program *reads* a file when it shows lines of it as they are, such as ``cat`` and ``sed -n``. One that looks
for something in it, or shows something made of it, *searches* it, as ``grep``, ``awk`` and ``cp`` do.

A line is *sure* when every file that it touches is among its touches. Each of its programs then stands in the
table here, with the kind of its touch, the operands before its files and the options that take a value; its
words are literal, and nothing in it was doubtful. Any other program, such as ``make``, may touch anything.
Nothing is allowed on these grounds: permissions have a table of their own, of flags too.

Worked example: ``cd src && nl -ba main.rs | sed -n '5,9p'`` reads the lines 5 to 9 of ``src/main.rs``, and is
sure. The cost is linear in the command line. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from posixpath import basename, join, normpath
from typing import Final, Literal, TypeAlias, cast

from sidecar._internal.values import Value, replace
from sidecar.conversation import LineRange
from sidecar.text.shell import CommandLine, SimpleCommand, read_command_line

MAX_COMMAND_CHARS: Final = 20_000
MAX_FILES: Final = 50
"""More files of one command line are no sign of use."""

_MAX_DEPTH: Final = 3
"""How many shells of one line may stand within each other."""

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

    @property
    def changed_paths(self) -> tuple[str, ...]:
        """The paths at which the touch leaves something else than it found."""
        if self.kind in ("read", "search"):
            return ()
        return (self.path, self.target) if self.target else (self.path,)


class LineUse(Value, kw_only=True):
    """The effects of a command line on files.

    Attributes:
        touches: the files that it touches, in order.
        searches: each of its searches as the pattern and the places, as far as it names any.
        is_sure: whether *touches* holds every file that it touches.
        only_looks: whether its programs print something and do nothing else; it may be redirected.
        touches_after_failure: the touches that count where the line failed. The part that failed is taken to
            be the first program not in the table, or else the last one; a redirection comes before it.
    """

    touches: tuple[Touch, ...] = ()
    touches_after_failure: tuple[Touch, ...] = ()
    searches: tuple[tuple[str, ...], ...] = ()
    is_sure: bool = False
    only_looks: bool = False


_Kind: TypeAlias = Literal[
    "look", "quiet", "read", "use", "search", "edit", "write", "remove", "move", "copy"
]


class _Program(Value):
    """A program, as a line of the table has it.

    Attributes:
        kind: its effect on its operands; ``look`` and ``quiet`` programs touch no text, and the quiet
            ones do something else than to print. ``use`` searches without a pattern.
        n_first: the number of operands before the files, such as the script of ``sed``.
        with_value: the letters of the options that take the next word.
        written: the letter of the option that names a file to write.
    """

    kind: _Kind
    n_first: int
    with_value: str
    written: str


_TABLE: Final = """
cat bat batcat less more | read
nl | read | 0 | bdfhilnsvw
head tail | read | 0 | nc
sed gsed | read | 1 | efl
tac rev column fold fmt xxd hexdump od strings | use
cut | use | 0 | dfcb
uniq paste | use | 0 | fswd
sort | use | 0 | kSTt | o
awk gawk mawk | use | 1 | Ffv
jq yq | use | 1
grep egrep fgrep zgrep | search | 1 | efmABCd
rg | search | 1 | efgtTmABCjMrE
git-grep | search | 1 | efmABC
ag ack | search | 1 | mABCG
tee | write
touch | edit | 0 | dtr
truncate | edit | 0 | sr
git-restore | edit | 0 | s
rm unlink git-rm | remove
mv git-mv | move | 0 | S
cp install | copy | 0 | Smgo
curl | look | 0 | XHdFubAeTmKrwxYyzC | o
wget | look | 0 | UtTwQP | O
ls find fd tree pwd wc which whereis type file stat du df date env printenv uname whoami id | look
echo printf true false : test [ exit return sleep read wait seq basename dirname realpath readlink | look
md5sum sha1sum sha256sum cksum diff cmp comm tr ps uptime cd pushd popd | look
git-status git-log git-diff git-show git-blame git-rev-parse git-ls-files git-describe git-shortlog | look
mkdir rmdir chmod set export unset local git-add git-fetch git-branch git-tag git-remote | quiet
"""

_SHELLS: Final = frozenset(("bash", "sh", "zsh", "dash", "ksh"))
_WRAPPERS: Final[Mapping[str, str]] = dict.fromkeys(("command", "nohup", "setsid", "builtin", "rtk"), "") | {
    "env": "uC",
    "time": "fo",
    "nice": "n",
    "sudo": "ugp",
    "exec": "a",
    "stdbuf": "ioe",
    "timeout": "ks",
}
"""Programs that only run another one, with the letters of their options that take the next word."""

_ABSOLUTE: Final = re.compile(r"[\\/]|[A-Za-z]:[\\/]")
_SED_LINES: Final = re.compile(r"(\d{1,9})(?:,(\d{1,9}|\$))?p")
_SED_SCRIPT: Final = re.compile(r"s(\W).*\1|[/\d$][dp]$", re.DOTALL)
_SED_IN_PLACE: Final = re.compile(r"-[nErsz]*i|--in-place")
_HAS_SCRIPT: Final = re.compile(r"-[A-Za-z]*[ef]\Z|--(?:expression|regexp|file)\b")
"""An option of programs with ``-e``, for the script or pattern that otherwise is the first operand."""

_COUNT: Final = re.compile(r"-(?:n|-lines=)?(\+?\d{1,9})")
_ACTS: Final = re.compile(r"-(?:exec|execdir|ok|okdir|delete|fprint\w?|fls)\Z")
"""The actions of ``find`` that do more than to print."""


@lru_cache(maxsize=256)
def use_of_line(command: str, folder: str = "") -> LineUse:
    """Return the effects of the command line *command*, run in *folder*.

    Reading a line takes .3 to 1.2 ms, and several readers look at each line: kept, as they follow each other.

    >>> use = use_of_line("cd src && nl -ba a.rs | sed -n '5,9p'")
    >>> [(each.path, each.ranges) for each in use.touches], use.is_sure
    ([('src/a.rs', ((5, 5),))], True)
    """
    if len(command) > MAX_COMMAND_CHARS:
        return LineUse()
    reader = _LineReader(folder)
    reader.read(read_command_line(command))
    return reader.result()


class _LineReader:
    """The state of reading a line: the folder of each subshell, and the touches so far."""

    def __init__(self, folder: str | None, depth: int = 0) -> None:
        self._folders: dict[tuple[int, ...], str | None] = {(): folder}
        self._depth = depth
        self._touches: list[Touch] = []
        self._lasting: list[bool] = []
        self._searches: list[tuple[str, ...]] = []
        self._is_sure = True
        self._only_looks = True
        self._n_before_pipe = 0
        self._may_have_stopped = False
        self._newest = range(0)

    def result(self) -> LineUse:
        """Return the effects of all that was read."""
        stopped_at = () if self._may_have_stopped else self._newest
        lasting = [
            touch for at, touch in enumerate(self._touches) if self._lasting[at] and at not in stopped_at
        ]
        return LineUse(
            touches=tuple(self._touches[:MAX_FILES]),
            touches_after_failure=tuple(lasting[:MAX_FILES]),
            searches=tuple(self._searches),
            is_sure=self._is_sure and len(self._touches) <= MAX_FILES,
            only_looks=self._only_looks,
        )

    def read(self, line: CommandLine) -> None:
        """Read the commands of *line*, one after the other."""
        if line.doubts or not line.commands:
            self._is_sure = self._only_looks = False
        for command in line.commands:
            self.read_command(command)

    def read_command(self, command: SimpleCommand) -> None:
        folder = self.folder_of(command.shells)
        words = unwrap([(word.text or "") if word.is_literal else "" for word in command.words])
        if words and words[0] == "git":
            words, folder = split_git(words, folder)
        program, arguments = (basename(words[0]), words[1:]) if words else (":", [])
        if not command.is_fed:
            self._n_before_pipe = len(self._touches)
        if not command.is_conditional and not command.is_fed:
            self._may_have_stopped = False
        lasts, n_before = not self._may_have_stopped, len(self._touches)
        if program in _SHELLS and len(arguments) > 1 and re.fullmatch(r"-[a-z]*c", arguments[0]):
            self.read_inner(arguments[1], folder, lasts=lasts)
        else:
            found = self.read_program(program, arguments)
            if command.is_fed and not found and (ranges := lines_shown_by(program, arguments)):
                fed = self._touches[self._n_before_pipe :]
                self._touches[self._n_before_pipe :] = [
                    replace(touch, ranges=narrow_ranges(touch.ranges, ranges))
                    if touch.kind == "read"
                    else touch
                    for touch in fed
                ]
            self.add(found, folder, lasts=lasts)
        self._newest = range(n_before, len(self._touches))
        self.add(touches_of_redirections(command), folder, lasts=lasts)
        if any(each.touches_file and not each.target.is_literal for each in command.redirections):
            self._is_sure = False
        if program in ("cd", "pushd", "popd") and not command.is_fed and not command.feeds:
            self._folders[command.shells] = folder_after(folder, arguments)

    def add(self, touches: Iterable[Touch], folder: str | None, *, lasts: bool) -> None:
        """Add *touches* in *folder*; *lasts*: whether they count where a later part of the line failed."""
        for touch in touches:
            paths = [path for path in (touch.path, touch.target) if path]
            is_known = folder is not None or all(map(_ABSOLUTE.match, paths))
            if is_known and all(basename(path) not in ("", ".", "..") and "\n" not in path for path in paths):
                path, target = in_folder(folder or "", touch.path), in_folder(folder or "", touch.target)
                self._touches.append(replace(touch, path=path, target=target))
                self._lasting.append(lasts)
            else:
                self._is_sure = False

    def read_program(self, program: str, arguments: Sequence[str]) -> list[Touch]:
        """Return the touches of a program with *arguments*, and note whether they are sure."""
        known = programs().get(program)
        acts = any(map(_ACTS.match, arguments)) if program == "find" else False
        if program == "git-checkout" and "--" in arguments:
            known, arguments = programs()["git-restore"], arguments[arguments.index("--") + 1 :]
        if known is None or acts:
            self._is_sure = self._only_looks = False
            self._may_have_stopped = True
            return []
        found = list(touches_of_program(known, program, arguments))
        self._is_sure = self._is_sure and all(arguments)
        self._only_looks = (
            self._only_looks
            and known.kind in ("look", "read", "use", "search", "write")
            and not any(touch.kind in ("edit", "remove", "move") for touch in found)
        )
        if known.kind == "search" and (wanted := search_of(known, arguments)):
            self._searches.append(wanted)
        return found

    def read_inner(self, line: str, folder: str | None, *, lasts: bool) -> None:
        """Read the line that a shell of its own runs."""
        inner = _LineReader(folder, self._depth + 1)
        if self._depth < _MAX_DEPTH:
            inner.read(read_command_line(line))
        self._touches += inner._touches
        self._lasting += (lasts and each for each in inner._lasting)
        self._searches += inner._searches
        self._is_sure = self._is_sure and inner._is_sure and bool(line) and self._depth < _MAX_DEPTH
        self._only_looks = self._only_looks and inner._only_looks
        self._may_have_stopped = self._may_have_stopped or inner._may_have_stopped

    def folder_of(self, shells: tuple[int, ...]) -> str | None:
        """Return the folder of a subshell, which begins in the one around it; None for one not known."""
        while shells not in self._folders:
            shells = shells[:-1]
        return self._folders[shells]


def in_folder(folder: str, path: str) -> str:
    """Return *path* as it is named from outside of *folder*; an absolute one as it is."""
    return path if not folder or not path or _ABSOLUTE.match(path) else normpath(join(folder, path))


def narrow_ranges(shown: tuple[LineRange, ...], of_them: tuple[LineRange, ...]) -> tuple[LineRange, ...]:
    """Return the lines of a file of which *of_them* are left, counted among the ones *shown*.

    >>> narrow_ranges(((20, 10),), ((3, 4),)), narrow_ranges((), ((3, None),))
    (((22, 4),), ((3, None),))
    """
    if len(shown) != 1 or len(of_them) != 1:
        return shown or of_them
    (first, count), (begin, wanted) = shown[0], of_them[0]
    left = None if count is None else max(0, count - begin + 1)
    counts = [each for each in (left, wanted) if each is not None]
    return ((first + begin - 1, min(counts, default=None)),)


def folder_after(folder: str | None, arguments: Sequence[str]) -> str | None:
    """Return the folder after a ``cd``, None where it is computed, the home folder or an earlier one."""
    operands = [each for each in arguments if each == "-" or not each.startswith("-")]
    if len(operands) != 1 or operands[0] in ("", "-"):
        return None
    return operands[0] if _ABSOLUTE.match(operands[0]) or folder is None else in_folder(folder, operands[0])


def unwrap(words: Sequence[str]) -> Sequence[str]:
    """Return *words* behind programs that only run another one."""
    while len(words) > 1 and (with_value := _WRAPPERS.get(words[0])) is not None:
        at = 1
        while at < len(words) and (words[at].startswith("-") or "=" in words[at]):
            at += 1 + (words[at][:2] == words[at] and words[at][1:] in with_value and len(words[at]) > 1)
        words = words[at + (words[0] == "timeout") :]
    return words


def split_git(words: Sequence[str], folder: str | None) -> tuple[Sequence[str], str | None]:
    """Return a command of git as one program, ``git-mv`` and the like, with the folder that it runs in."""
    rest = [*words[1:]]
    while rest and rest[0].startswith("-"):
        if rest[0] == "-C" and len(rest) > 1:
            folder = folder_after(folder, rest[1:2])
        del rest[: 2 if rest[0] in ("-C", "-c") else 1]
    return ([f"git-{rest[0]}", *rest[1:]] if rest else [":"]), folder


@cache
def programs() -> Mapping[str, _Program]:
    """Return the table by the names of programs; read when a line is read for the first time."""
    found: dict[str, _Program] = {}
    for line in _TABLE.strip().splitlines():
        names, kind, n_first, with_value, written = (*map(str.strip, line.split("|")), "", "", "")[:5]
        program = _Program(cast(_Kind, kind), int(n_first or 0), with_value, written)
        found |= dict.fromkeys(names.split(), program)
    return found


def touches_of_program(known: _Program, program: str, arguments: Sequence[str]) -> Iterator[Touch]:
    """Yield the files among the *arguments* of *program*, as the table knows it."""
    kind, files = known.kind, operands_of(known, arguments)
    n_first = 0 if "e" in known.with_value and any(map(_HAS_SCRIPT.match, arguments)) else known.n_first
    if program in ("sed", "gsed") and any(map(_SED_IN_PLACE.match, arguments)):
        kind = "edit"
        # The sed of macOS wants the ending of a copy before the script, mostly an empty one.
        if files[:1] == [""] and (not n_first or (len(files) > 2 and _SED_SCRIPT.search(files[1]))):
            files = files[1:]
    elif program.endswith("awk") and "inplace" in arguments:
        kind = "edit"
    elif program == "git-restore" and "--staged" in arguments and "--worktree" not in arguments:
        return
    elif program == "tee" and "-a" in arguments:
        kind = "edit"
    files = files[n_first:]
    if known.written:
        values = (
            value
            for option, value in pairwise(arguments)
            if re.fullmatch(f"-[A-Za-z]*{known.written}", option)
        )
        yield from (Touch(path=path, kind="write") for path in values if path)
    if kind in ("copy", "move"):
        yield from touches_of_transfer(kind, files)
    elif kind == "read":
        ranges = lines_shown_by(program, arguments)
        yield from (Touch(path=path, kind="read", ranges=ranges) for path in files if path not in ("", "-"))
    elif kind == "use":
        yield from (Touch(path=path, kind="search") for path in files if path not in ("", "-"))
    elif kind == "search":
        yield from (Touch(path=path, kind="search") for path in files if re.search(r"\.\w+$", path))
    elif kind == "edit" or kind == "write" or kind == "remove":
        yield from (Touch(path=path, kind=kind) for path in files if path not in ("", "-"))


def touches_of_transfer(kind: Literal["copy", "move"], files: Sequence[str]) -> Iterator[Touch]:
    """Yield the touches of a program that takes files to the last one, which may be a folder."""
    if len(files) < 2 or not files[-1]:
        return
    *sources, target = files
    is_folder = len(sources) > 1 or basename(target) in ("", ".", "..")
    for source in filter(None, sources):
        into = normpath(join(target, basename(source.rstrip("/")))) if is_folder else target
        if kind == "move":
            yield Touch(path=source, kind="move", target=into)
        else:
            yield from (Touch(path=source, kind="search"), Touch(path=into, kind="write"))


def touches_of_redirections(command: SimpleCommand) -> list[Touch]:
    """Return the files that *command* is redirected from and to; a here-document is the text of the file."""
    kinds: dict[str, TouchKind] = {">": "write", ">|": "write", "&>": "write", ">&": "write"}
    kinds |= {">>": "edit", "&>>": "edit"}
    known = programs().get(command.words[0].text or "") if command.words else None
    kinds["<"] = "read" if known is not None and known.kind == "read" else "search"
    text = command.text_of_cat or ""
    found: list[Touch] = []
    for each in command.redirections:
        kind, path = kinds.get(each.operator.lstrip("0123456789")), each.target.text
        if kind and each.touches_file and each.target.is_literal and path and not path.startswith("/dev/"):
            found.append(Touch(path=path, kind=kind, text=text if kind == "write" else ""))
    return found


def operands_of(known: _Program, arguments: Sequence[str]) -> list[str]:
    """Return the *arguments* that are neither options nor values of options; a computed one is empty."""
    found: list[str] = []
    n_values, only_operands = 0, False
    for each in arguments:
        if n_values:
            n_values -= 1
        elif only_operands or not each.startswith("-") or each == "-":
            found.append(each)
        elif each == "--":
            only_operands = True
        else:
            takes_next = not each.startswith("--") and each[-1] in known.with_value + known.written
            n_values = 2 if each in ("--arg", "--argjson") else int(takes_next)  # two of jq
    return found


def search_of(known: _Program, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the pattern of a search and its places, as far as the *arguments* name them."""
    patterns = [value for option, value in pairwise(arguments) if option in ("-e", "--regexp")]
    return tuple(filter(None, (*patterns[:1], *operands_of(known, arguments))))


def lines_shown_by(program: str, arguments: Sequence[str]) -> tuple[LineRange, ...]:
    """Return the lines of its input that *program* shows, none for all of them or where it is not said."""
    if program in ("sed", "gsed"):
        text = " ".join(arguments)
        if not re.search(r"(?:^| )-[Er]*n|--quiet|--silent", text):
            return ()
        return tuple(
            (int(first), None if last == "$" else max(1, int(last or first) - int(first) + 1))
            for first, last in _SED_LINES.findall(text)
        )
    if program not in ("head", "tail"):
        return ()
    counted = _COUNT.search(" ".join(arguments).replace("-n ", "-n"))
    if program == "head":
        return ((1, int(counted[1]) if counted else 10),)
    return ((int(counted[1]), None),) if counted and counted[1].startswith("+") else ()
