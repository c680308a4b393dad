"""The intent of a prompt, read from its form: directives, paths, code-like words, the rest of its words.

Pure text in, a value out. Nothing here knows tools or results, or tries to understand the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from sidecar._internal.values import Value

FILE_NAMES: Final = frozenset({"CHANGELOG", "Dockerfile", "Justfile", "LICENSE", "Makefile", "README"})
"""Files that are known without an extension."""

_EXTENSIONS: Final = """
bash c cc cfg clj cpp cs css csv dart el env ex exs go gradle graphql h hpp hs html ini ipynb java
jl js json  jsonl jsx kt less lock log lua md mdx mjs ml php pl proto ps1 py pyi r rb rs rst sass
scala scss sh sql  svelte swift tex toml ts tsx txt vim vue xml yaml yml zig zsh
"""
FILE_EXTENSIONS: Final = frozenset(_EXTENSIONS.split())
"""Lower-case extensions by which a word is taken for the name of a file."""

_STOP: Final = """
about above after again also always and another any are around because been before being below
between both  can cannot change check code could describe does doing done each either else ever
every example explain file  files find first from function give goes going have help here how into
its just know later leave like line  lines list look looking made make many maybe mean might more
most much must need never next none only other  over please project read really repository same
search second shall should show some something still such  summarise summarize sure take tell than
thank that their them then there these they thing things this those  through under until used uses
using very want well were what when where whether which while who whole whom  whose why will with
within without word words work works would write your yours
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""English words of four letters or more that are not worth a search, and a few shorter ones."""

_MINED_CHARS: Final = 4_000
"""Only the beginning of a long prompt is searched for words; a directive is read to its end."""

_PATH: Final = r"[`\"']?(?P<path>(?:[A-Za-z]:)?[^\s:`\"']+)[`\"']?"
_RUN: Final = re.compile(r"\brun\s+`([^`]+)`", re.I)
_RUN_ONLY: Final = re.compile(
    r"\s*(?:please\s+)?run\s+(?P<command>[\w./~][^\n`]*[^\n`?!.\s]|[\w./~]+)\s*", re.I
)
WORKS: Final[Mapping[str, str]] = {
    "install": r"install|set.?up|set .{1,12} up|getting started|quick.?start|requirements|dependenc",
    "test": r"tests?\b|testing|pytest|unittest|check\b",
    "build": r"build|compil|\bdist\b|bundle|wheel",
    "run": r"\brun\b(?:(?= (?:it|the|this)\b)|(?! ))|running|start|serve|launch|usage|quick.?start|\bdev\b",
    "lint": r"lint|format|\bfmt\b|style|type.?check",
    "release": r"releas|publish|deploy",
    "contribute": r"contribut|pull request|patch|change looks|develop",
}
"""The work of a project, and the words by which questions, headings, targets and scripts name it."""

IsProgram: TypeAlias = Callable[[str], bool]
"""Whether a program of that name can be run. Contract: never raises."""

_WRITE: Final = re.compile(
    rf"\A\s*(?:please\s+)?write\s+{_PATH}\s*:[ \t]?\n?(?P<text>.*)\Z",
    re.I | re.S,
)
_EDIT: Final = re.compile(
    rf"\bedit\s+{_PATH}\s*:\s*replace\s+`(?P<old>[^`]+)`\s+with\s+`(?P<new>[^`]*)`",
    re.I,
)
_TODO: Final = re.compile(r"\A\s*todo\s*:\s*(?P<items>.+)\Z", re.I | re.S)
_REMEMBER: Final = re.compile(r"\A\s*(?:please\s+)?remember\b[:,]?\s*(?P<what>.+)\Z", re.I | re.S)
_SMALL_TALK: Final = re.compile(
    r"\A\W*(?:hi|hello|hey|thanks?|thank you|good (?:morning|day|evening|night)|bye|ok(?:ay)?|yes|no|cool|"
    r"great|continue|go on|who are you|what are you|what can you do|how are you|help)\b.{0,40}\Z",
    re.I | re.S,
)
_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]{2,80})\"|(?<!\w)'([^'\n]{2,80})'(?!\w)")
_LINE_SUFFIX: Final = re.compile(
    r"\A(?P<path>.+?)(?::(?P<line>\d+)(?:[-:]\d+)?|#L(?P<hash>\d+)(?:-L?\d+)?)?\Z"
)
_FILE_NAME: Final = re.compile(r"[\w+-]+(?:\.\w{1,8})+")
_CODE_LIKE: Final = re.compile(
    r"\A(?:--[a-z][\w-]+"
    r"|_*[A-Za-z][A-Za-z0-9]*_\w+|_[A-Za-z]\w*"
    r"|[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*"
    r"|[a-z][a-z0-9]*[A-Z]\w*"
    r"|[A-Za-z_]\w+(?:(?:\.|::)[A-Za-z_]\w*)+)\Z"
)
_WORD: Final = re.compile(r"[\u3040-\u9fff]{2,}|[^\W\d_]{4,}")
_PART: Final = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{3,}")
_PLURAL: Final = re.compile(r"(?<=[a-z]{3}[a-hj-rtv-z])s\Z")
_MAX_WORDS: Final = 3


class PathRef(Value):
    """A path in a prompt, and its line number if it has one."""

    path: str
    line: int | None = None


class WriteDirective(Value):
    """``write PATH: TEXT``."""

    path: str
    text: str


class EditDirective(Value):
    """``edit PATH: replace `A` with `B` ``."""

    path: str
    old: str
    new: str


class Intent(Value, kw_only=True):
    """The parts of a prompt; every one may be empty.

    *terms* are searched as they stand; *words*, the rarest of the rest, only when nothing better is there.
    """

    write: WriteDirective | None = None
    edit: EditDirective | None = None
    commands: tuple[str, ...] = ()
    paths: tuple[PathRef, ...] = ()
    terms: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()
    remember: str | None = None
    is_small_talk: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the prompt neither asks for an action nor names a file, nor quotes more than names."""
        is_closed = self.write or self.edit or self.commands or self.paths or self.todo or self.remember
        return not is_closed and all(re.fullmatch(r"[\w.]+", term) for term in self.terms)

    @property
    def looser_words(self) -> tuple[str, ...]:
        """The words inside *terms*, then *words*: a second search when the first found nothing."""
        inside = [part for term in self.terms for part in _PART.findall(term)]
        return tuple(dict.fromkeys((*inside, *self.words)))


def read_intent(prompt: str, is_program: IsProgram = lambda name: False) -> Intent:
    """Return the intent of *prompt*; *is_program* tells a command behind "run" from words about one.

    >>> read_intent("Why does sidecar/cli.py call parse_args?").paths
    (PathRef(path='sidecar/cli.py', line=None),)
    >>> read_intent("run `make test` please").commands, read_intent("run ls x", {"ls"}.__contains__).commands
    (('make test',), ('ls x',))
    """
    if (write := _WRITE.match(prompt)) is not None:
        return Intent(write=WriteDirective(write["path"], write["text"]))
    if (edit := _EDIT.search(prompt)) is not None:
        return Intent(edit=EditDirective(edit["path"], edit["old"], edit["new"]))
    if (todo := _TODO.match(prompt)) is not None:
        items = (item.strip().removeprefix("- ") for item in re.split(r"[;\n]", todo["items"]))
        return Intent(todo=tuple(filter(None, items)))
    if (remember := _REMEMBER.match(prompt)) is not None:
        return Intent(remember=remember["what"].strip())
    if (line := _RUN_ONLY.fullmatch(prompt)) is not None and is_command(line["command"], is_program):
        return Intent(commands=(line["command"],))
    commands = tuple(dict.fromkeys(command.strip() for command in _RUN.findall(prompt)))
    text = _RUN.sub(" ", prompt)[:_MINED_CHARS]
    quoted = [next(filter(None, groups)).strip() for groups in _QUOTED.findall(text)]
    tokens = [strip_punctuation(token) for token in _QUOTED.sub(" ", text).split()]
    spans = [*quoted, *(token for token in tokens if is_path(token) or is_code(token))]
    paths = dict.fromkeys(PathRef(*_split_line(span)) for span in spans if is_path(span))
    terms = dict.fromkeys(span.removesuffix("()") for span in spans if span and not is_path(span))
    words = rare_words(" ".join(token for token in tokens if token not in spans and "://" not in token))
    has_aim = bool(commands or paths or terms)
    return Intent(
        commands=commands,
        paths=tuple(paths),
        terms=tuple(terms),
        words=words,
        is_small_talk=not has_aim and (not words or _SMALL_TALK.match(text) is not None),
    )


def is_command(line: str, is_program: IsProgram) -> bool:
    """Whether *line*, which stands behind "run", begins with a program or its path; "run test" names a work.

    >>> programs = {"make", "test"}
    >>> [is_command(line, programs.__contains__) for line in ("CC=gcc make", "./a b", "the test", "test")]
    [True, True, False, False]
    """
    program = next((word for word in line.split() if "=" not in word), "")
    return "/" in program or (line.lower() not in WORKS and is_program(program))


def strip_punctuation(token: str) -> str:
    """Return *token* without the punctuation around it, the sign of a mention too; ``call()`` stays.

    >>> strip_punctuation("(see"), strip_punctuation("below)."), strip_punctuation("call(),")
    ('see', 'below', 'call()')
    >>> strip_punctuation("@src/a.py:3,")
    'src/a.py:3'
    """
    stripped = token.lstrip("@,;:!?[]{}<>\"'`*(").rstrip(".,;:!?[]{}<>\"'`*")
    while stripped.endswith(")") and not stripped.endswith("()"):
        stripped = stripped[:-1].rstrip(".,;:!?")
    return stripped


def is_path(token: str) -> bool:
    """Whether *token* names a file or folder.

    >>> is_path("src/"), is_path("a/b.c"), is_path("and/or")
    (True, True, False)
    """
    path = _split_line(token)[0]
    if "://" in path or not path.strip("/."):
        return False
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if name in FILE_NAMES or ("." in name.strip(".") and name.rpartition(".")[2].lower() in FILE_EXTENSIONS):
        return True
    if "/" in path and _FILE_NAME.fullmatch(name):
        return True
    return path.startswith(("./", "../", "/", "~/")) or path.endswith("/") or path.count("/") > 1


def is_code(token: str) -> bool:
    """Whether *token* looks like a name in code.

    >>> is_code("parse_args"), is_code("main()"), is_code("Word")
    (True, True, False)
    """
    return _CODE_LIKE.match(token.removesuffix("()")) is not None or (token.endswith("()") and token != "()")


def rare_words(text: str) -> tuple[str, ...]:
    """Return the longest words that carry meaning, singular, in their order; length stands for rarity.

    >>> rare_words("where are the settings of providers")
    ('setting', 'provider')
    """
    words = dict.fromkeys(
        _PLURAL.sub("", word) for word in _WORD.findall(text) if word.lower() not in STOP_WORDS
    )
    longest = sorted(words, key=len, reverse=True)[:_MAX_WORDS]
    return tuple(word for word in words if word in longest)


def _split_line(token: str) -> tuple[str, int | None]:
    match = _LINE_SUFFIX.match(token)
    if match is None:
        return token, None
    line = match["line"] or match["hash"]
    return match["path"], int(line) if line and len(line) < 9 else None
