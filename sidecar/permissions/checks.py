"""Checks of known commands with operands in a language of their own: ``sed``, ``find``, ``curl`` and others.

A check returns the words of the scope that an answer "always" covers, and None for arguments that leave it.
Arguments that it does not recognise leave it. Pure but for the paths, which the caller looks up.

Before its check the arguments of a command are read: operands and flags, as long as its entry in the table
has them. A flag is read as the program would read it: exactly as it is spelled, with its value behind ``=``,
attached, or in the next word, and letters together where the program allows it. Abbreviations count as
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from sidecar._internal.values import Value
from sidecar.permissions.table import KnownCommand, find_entry
from sidecar.text.shell import Word

Name: TypeAlias = tuple[str, ...]
"""The words that name a command."""

IsInside: TypeAlias = Callable[[Iterable[Word]], bool]
"""Whether these paths may be read."""

_SED_ADDRESS: Final = r"(?:\d++(?:~\d++)?|\$|\+\d++|/(?:\\[^\n]|[^/\\\n\[]|\[\^?[^\]/\\\n]++\])*/I?)"
_SED_REPLACE: Final = (
    r"s(?P<d>[/|,#:@!%])(?:\\[^\n]|(?!(?P=d))[^\\\n\[]|\[\^?(?:(?!(?P=d))[^\]\\\n])+\])*(?P=d)"
    r"(?:\\.|(?!(?P=d))[^\\\n])*(?P=d)[gpiI0-9]*+"
)
_SED_PLACE: Final = rf"(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?[ ]*+!?+[ ]*+)?"
_SED_LETTER: Final = r"[=dpPgGhHnNxDq](?=[\s;}]|\Z)"
_SED_SCRIPT: Final = re.compile(
    rf"(?:[\s;{{}}]*+{_SED_PLACE}(?:{_SED_REPLACE}|{_SED_LETTER}|(?=[{{])))*[\s;}}]*+"
)
"""A script of ``sed`` that prints, deletes and replaces; it cannot run, read or write a file.

No two of its parts can begin with the same character, so that it never matches in a second way.
"""

_AWK_ACTS: Final = re.compile(r"[|>@`]|system|getline|close|ARG[VC]|ENVIRON|SYMTAB")
_JQ_LOOKS_AROUND: Final = re.compile(r"import|include|\$ENV|(?<![.\w])env\b")
_PLAIN_TESTS: Final = (
    "-print -print0 -prune -ls -quit -xdev -mount -depth -empty -not ! -o -or -a -and ( ) -true"
)
_VALUE_TESTS: Final = (
    "-name -iname -path -ipath -wholename -type -maxdepth -mindepth -size -mtime -mmin -perm -user -regex"
    " -iregex -regextype"
)
_FIND_TESTS: Final = dict.fromkeys(_PLAIN_TESTS.split(), 0) | dict.fromkeys(_VALUE_TESTS.split(), 1)
"""The parts of an expression of ``find`` that only look, and the number of values behind each."""

_TEST_WORDS: Final = "-e -f -d -s -r -w -x -n -z -L -h -S -p -eq -ne -lt -le -gt -ge -nt -ot -a -o ( ) !"
_TEST_OPERATORS: Final = frozenset(_TEST_WORDS.split())
_COLUMNS_OF_PS: Final = (
    "pid ppid pgid user uid comm command args cmd stat state tty nice rss vsz pcpu pmem %cpu %mem time etime"
    " etimes start lstart"
)
_PS_COLUMNS: Final = frozenset(("", *_COLUMNS_OF_PS.split()))
_DISCUSSION_COMMENT: Final = re.compile(
    r"mutation\s*\([\w\s$:!,]*\)\s*\{\s*addDiscussionComment\s*\(\s*input:\s*\{[\w\s$:,]*\}\s*\)"
    r"\s*\{\s*comment\s*\{[\w\s,]*\}\s*\}\s*\}",
    re.ASCII,
)
_ADDRESS: Final = re.compile(r"https?://([A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?)(?:[/?][^\s{}\[\]@]*)?")


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


def check_sed(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow scripts that print, delete and replace lines."""
    scripts, operands = given.values("-e", "--expression"), given.operands
    if not scripts:
        n_blank = 1 if name[-1] == "-i" and given.texts[:1] == ("",) else 0  # a suffix, outside of GNU
        scripts, operands = list(given.texts[n_blank : n_blank + 1]), operands[n_blank + 1 :]
    is_fine = bool(scripts) and all(map(_SED_SCRIPT.fullmatch, scripts))
    return name if is_fine and is_inside(operands) else None


def check_awk(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow programs without any means to run, write or open something."""
    is_fine = bool(given.texts) and _AWK_ACTS.search(given.texts[0]) is None
    return name if is_fine and is_inside(given.operands[1:]) else None


def check_jq(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow filters that load no module and do not read the environment."""
    is_fine = bool(given.texts) and not looks_around(given.texts[0])
    return name if is_fine and is_inside(given.operands[1:]) else None


def looks_around(jq_filter: str) -> bool:
    """Whether a filter in the language of ``jq`` may load a module or read the environment.

    >>> looks_around(".env[0]"), looks_around("env")
    (False, True)
    """
    return _JQ_LOOKS_AROUND.search(jq_filter) is not None


def check_find(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow tests, prints, and one reader of the files found; the first word that is no path begins them."""
    begins = (at for at, text in enumerate(given.texts) if text[:1] in ("-", "!", "(", ")", ","))
    n_paths = next(begins, len(given.texts))
    tests, reader = given.operands[n_paths:], given.operands[:0]
    if "-exec" in given.texts:
        n_tests = given.texts.index("-exec", n_paths) - n_paths
        tests, reader = tests[:n_tests], tests[n_tests + 1 :]
    texts = [str(word.text) for word in tests]
    at = 0
    while at < len(texts):
        n_values = _FIND_TESTS.get(texts[at])
        if n_values is None or not all(word.is_literal for word in tests[at : at + 1 + n_values]):
            return None
        at += 1 + n_values
    finds_files = ("-type", "f") in pairwise(texts) and not {"-o", "-or", "!", "-not", "("} & {*texts}
    reads = not reader or (finds_files and only_reads(reader))
    return name if at == len(texts) and reads and is_inside(given.operands[:n_paths]) else None


def only_reads(reader: Sequence[Word]) -> bool:
    """Whether *reader*, the words behind ``-exec`` of ``find``, only reads the file that stands for ``{}``.

    The file must be the last word, behind an operand that is the script or the pattern.
    """
    texts = [str(word.text) for word in reader]
    entry = find_entry(tuple(texts))
    is_one_file = texts[-2:] in (["{}", ";"], ["{}", "+"]) and " ".join(texts).count("{}") == 1
    if (
        not is_one_file
        or entry is None
        or entry.kind != "free"
        or not all(each.is_literal for each in reader)
    ):
        return False
    given = read_arguments(entry, reader[len(entry.words) : -1])
    if given is None or entry.operands not in ("paths", "pattern", "@sed"):
        return False
    n_first = 0 if entry.operands == "paths" else 1
    is_script = entry.operands != "@sed" or check_sed(given, entry.words, lambda words: True) is not None
    return len(given.operands) == n_first + 1 and is_script


def check_cd(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow one folder inside."""
    is_fine = len(given.operands) == 1 and not given.operands[0].is_pattern and given.texts[0] != "-"
    return name if is_fine and is_inside(given.operands) else None


def check_test(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow the operators that evaluate no variable."""
    is_fine = all(text in _TEST_OPERATORS or text[:1] not in ("-", "(") for text in given.texts)
    return name if is_fine else None


def check_date(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow formats, and no new time."""
    return name if all(text.startswith("+") for text in given.texts) else None


def check_ps(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow columns that show no environment of a process."""
    columns = ",".join(given.values("-o")).split(",")
    is_fine = _PS_COLUMNS.issuperset(columns) and all(map(re.compile("[auxw]+").fullmatch, given.texts))
    return name if is_fine else None


def check_tar(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow the list of a local archive, with flags in one word such as ``-tzf``."""
    first, *others = given.texts or ("",)
    is_list = re.fullmatch(r"-[vzjJ]*t[vzjJ]*f?", first) is not None
    is_fine = is_list and not any(":" in text or text.startswith("-") for text in others)
    return (*name, "-t") if is_fine and is_inside(given.operands[1:]) else None


def check_curl(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow one address without a body; its host is a part of the name."""
    found = _ADDRESS.fullmatch(given.texts[0]) if len(given.texts) == 1 else None
    return None if found is None or not given.operands[0].is_literal else (*name, found[1])


def check_gh_api(given: Arguments, name: Name, is_inside: IsInside) -> Name | None:
    """Allow requests without fields, queries, and comments: in one repository, or on discussions."""
    fields = given.values("-f", "-F", "--field", "--raw-field")
    address = given.texts[0] if len(given.texts) == 1 else ""
    if address == "graphql":
        queries = [field.removeprefix("query=").strip() for field in fields if field.startswith("query=")]
        if len(queries) == 1 and _DISCUSSION_COMMENT.fullmatch(queries[0]):
            is_plain = not any(field.partition("=")[2].startswith("@") for field in fields)
            return ("gh", "discussion", "comment") if is_plain else None
        is_query = len(queries) == 1 and re.match(r"query\b|\{", queries[0]) is not None
        return name if is_query and not re.search(r"mutation|subscription|=@", " ".join(fields)) else None
    if not fields:
        return name if re.fullmatch(r"[\w./{}?=&%,-]+", address, re.ASCII) else None
    thread = re.fullmatch(
        r"(repos/[\w.-]+/[\w.-]+)/(?:pulls|issues)(?:/\d+)?/comments(?:/\d+/replies)?", address
    )
    is_comment = thread is not None and len(fields) == 1 and fields[0].startswith("body=")
    return (
        (*name, thread[1], "comments")
        if thread and is_comment and not fields[0].startswith("body=@")
        else None
    )


def find_named_repository(given: Arguments) -> str:
    """Return the repository that a command of ``gh`` names, by flag or address; nothing for its own.

    >>> find_named_repository(Arguments((Word("https://github.com/o/r/pull/1"),)))
    'https://github.com/o/r'
    """
    addresses = (re.match(r"\w+://[^/]+/[^/]+/[^/]+", text) for text in given.texts)
    named = [*given.values("--repo", "-R"), *(found[0] for found in addresses if found)]
    return " ".join(named)


CHECKS: Final[dict[str, Callable[[Arguments, Name, IsInside], Name | None]]] = {
    "@sed": check_sed,
    "@awk": check_awk,
    "@jq": check_jq,
    "@find": check_find,
    "@cd": check_cd,
    "@test": check_test,
    "@date": check_date,
    "@tar": check_tar,
    "@curl": check_curl,
    "@gh_api": check_gh_api,
    "@ps": check_ps,
}
