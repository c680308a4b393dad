"""Tool calls: their effects, and the files that they touch.

A tool of our own declares its effects beside its work, and a tool of a server has the effects of its kind. A
tool of another agent, met in an imported conversation, has the effects of its name, from one table. Any other
tool is told by the words in its name and in the names of its arguments, in any style of writing: an argument
for a command line runs it, one for a file beside one for new text changes the file, a pattern searches, and a
verb such as "view" reads. So ``view_file {"AbsolutePath": ...}`` reads, and a call of a
server counts as one of ours does.

The touches of a call are the files that it read, changed, moved or removed, as it named them. The result
tells the lines: a numbered line was shown, and ``path:line:`` was found. A call that failed touches nothing,
but for a command line, of which a part may have run.

Pure; the cost is linear in the arguments and in the part of the result that is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.values import Value, replace
from sidecar.conversation import LineRange, merge_ranges
from sidecar.text.results import LONE_HIT, NAMED_HIT, exit_code_in, numbered_range, output_of
from sidecar.text.touches import LineUse, Touch, TouchKind, in_folder, use_of_line

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"
]
"""The kind of a tool, in the words of the Agent Client Protocol."""

EffectKind: TypeAlias = Literal[
    "none", "reads", "searches", "edits", "patches", "writes", "removes", "moves", "runs", "anything"
]
"""The effect of a call:

``none`` touches no file; ``reads`` shows the text of one file; ``searches`` looks at many files; ``edits``
changes a part of a file; ``patches`` changes the files that a patch names; ``writes`` replaces a whole file
with text that the call carries; ``removes`` and ``moves`` do this to files; ``runs`` runs a command line;
``anything`` is a tool of which nothing is known.
"""

PATH_ARGUMENTS: Final = ("path", "file_path", "filePath", "file")
COMMAND_ARGUMENTS: Final = ("command", "cmd")
FOLDER_ARGUMENTS: Final = ("cwd", "workdir", "working_directory", "workingDirectory", "Cwd")


class ToolEffects(Value):
    """The effects of the calls of one tool.

    Attributes:
        kind: the effect of a call.
        arguments: the names of the arguments that hold the path (with ``runs`` the command line, with
            ``patches`` the patch); the first that a call gives counts.
        changes_with: the names of arguments by which a call changes files; a call with none of them only
            searches. Empty where each call has the effect.
        apart_with: the arguments of which one that is true keeps a call from changing anything here.
    """

    kind: EffectKind = "none"
    arguments: tuple[str, ...] = ()
    changes_with: tuple[str, ...] = ()
    apart_with: tuple[str, ...] = ()

    @property
    def may_change(self) -> bool:
        """Whether a call may change something, so that later calls must wait for its end."""
        return self.kind not in ("none", "reads", "searches")

    @property
    def may_read(self) -> bool:
        """Whether there are calls that change nothing here."""
        return not self.may_change or bool(self.changes_with)

    @property
    def names_file(self) -> bool:
        """Whether a call is about certain files, those at its paths."""
        return self.kind in ("reads", "edits", "patches", "writes")

    def of(self, arguments: object) -> ToolEffects:
        """Return the effects of a call with *arguments*.

        >>> CHANGES_CODE.of({"kind": "hover", "path": "a.py"}) == SEARCHES
        True
        >>> [DELEGATES.of(given).may_change for given in ({}, {"read_only": True}, {"read_only": "true"})]
        [True, False, False]
        """
        given = arguments if isinstance(arguments, Mapping) else {}
        if any(str(given.get(name)).lower() == "true" for name in self.apart_with):
            return NO_EFFECTS
        if not self.changes_with or first_text(given, self.changes_with):
            return self
        return ToolEffects("searches", self.arguments)

    def paths_in(self, arguments: object) -> tuple[str, ...]:
        """Return the paths among the *arguments* of a call: none, one, or all of a patch.

        >>> READS_FILE.paths_in({"file_path": "a.py"}), READS_FILE.paths_in("a.py")
        (('a.py',), ())
        """
        if self.kind == "runs" or not isinstance(arguments, Mapping):
            return ()
        text = first_text(arguments, self.arguments)
        return () if not text else paths_of_patch(text) if self.kind == "patches" else (text,)


NO_EFFECTS: Final = ToolEffects()
READS_FILE: Final = ToolEffects("reads", PATH_ARGUMENTS)
SEARCHES: Final = ToolEffects("searches", PATH_ARGUMENTS)
EDITS_FILE: Final = ToolEffects("edits", PATH_ARGUMENTS)
CHANGES_CODE: Final = ToolEffects("edits", PATH_ARGUMENTS, changes_with=("new_name", "apply"))
WRITES_FILE: Final = ToolEffects("writes", PATH_ARGUMENTS)
PATCHES_FILES: Final = ToolEffects("patches", ("input", "patch"))
FETCHES_PAGE: Final = ToolEffects("searches", ("url",))
DELEGATES: Final = ToolEffects("anything", apart_with=("read_only", "worktree"))
RUNS_COMMAND: Final = ToolEffects("runs", COMMAND_ARGUMENTS)
ANYTHING: Final = ToolEffects("anything", PATH_ARGUMENTS)

_BY_KIND: Final[Mapping[ToolKind, ToolEffects]] = MappingProxyType(
    {
        "read": READS_FILE,
        "search": SEARCHES,
        "edit": EDITS_FILE,
        "delete": EDITS_FILE,
        "move": EDITS_FILE,
        "execute": RUNS_COMMAND,
        "think": NO_EFFECTS,
        "fetch": NO_EFFECTS,
        "other": ANYTHING,
    }
)

_NAMES: Final = (
    (READS_FILE, "read view read_file readfile open_file fs_read"),
    (SEARCHES, "grep find ls glob rg grep_search list_dir find_file websearch"),
    (FETCHES_PAGE, "fetch webfetch web_fetch"),
    (WRITES_FILE, "write write_file create create_file writefile"),
    (EDITS_FILE, "edit multiedit edit_file apply_edit replace str_replace insert notebookedit"),
    (PATCHES_FILES, "patch apply_patch"),
    (RUNS_COMMAND, "bash shell exec exec_command shell_command run_shell_command execute_bash"),
    (RUNS_COMMAND, "run_in_terminal terminal local_shell_call"),
    (NO_EFFECTS, "todo todowrite todoread think wait update_plan bash_output bash_kill write_stdin"),
    (DELEGATES, "task"),
)
_BY_NAME: Final[Mapping[str, ToolEffects]] = MappingProxyType(
    {name: effects for effects, names in _NAMES for name in names.split()}
)
"""The effects of the tools that coding agents commonly have."""


def effects_of_kind(kind: ToolKind) -> ToolEffects:
    """Return the effects of a tool of which only the *kind* is known; ``other`` may do anything."""
    return _BY_KIND[kind]


def effects_of_name(name: str) -> ToolEffects | None:
    """Return the effects of a tool by the *name* that coding agents commonly give it, None for another name.

    A prefix that ends in ``.``, ``:`` or ``__`` and the case of letters do not count.

    >>> effects_of_name("functions.Read") == READS_FILE, effects_of_name("frobnicate")
    (True, None)
    """
    return _BY_NAME.get(plain_name(name))


def plain_name(name: str) -> str:
    """Return the *name* of a tool in small letters, without prefix, blanks and marks of a template.

    >>> plain_name(" functions.Read "), plain_name("mcp__fs__ls"), plain_name("read<|channel|>commentary")
    ('read', 'ls', 'read')
    """
    return re.split(r"__|[.:]", name.partition("<|")[0].strip().casefold())[-1]


_MEANT: Final = frozenset(("reads", "edits", "writes", "runs"))
"""Kinds of effects by which alone a tool is meant."""

_SAME_NAMES: Final = {
    "rg": "grep",
    "search": "grep",
    "list_dir": "ls",
    "list_files": "ls",
    "todowrite": "todo",
}


def own_name(name: str, own: Mapping[str, ToolEffects], arguments: object = None) -> str | None:
    """Return the tool among *own* that a model means by a *name* which it knows from another agent.

    That is the one of that name but for prefix and case, else the only one with its effects, or with a word
    in common, else the only one of that use, by the words of the call; None where there is no such tool.

    >>> own = {"read": READS_FILE, "grep": SEARCHES, "ls": SEARCHES, "bash": RUNS_COMMAND}
    >>> [own_name(name, own) for name in ("functions.Read", "shell", "grep_search", "list_dir", "frob")]
    ['read', 'bash', 'grep', 'ls', None]
    >>> own_name("run_terminal_cmd", own, {"command": "make"}), own_name("view_file", own, {"file": "a"})
    ('bash', 'read')
    """
    plain = plain_name(name)
    plain = _SAME_NAMES.get(plain, plain)
    if plain in own:
        return plain
    alike = [each for each, effects in own.items() if effects == effects_of_name(plain) != NO_EFFECTS]
    if len(alike) > 1:
        alike = [each for each in alike if each in words_of(plain)]
    if not alike and (does := effects_of_call(name, arguments)).arguments:
        words = {_SAME_NAMES.get(word, word) for word in words_of(name)}
        alike = [
            each
            for each, effects in own.items()
            if effects.kind == does.kind and (does.kind in _MEANT or each in words)
        ]
    return alike[0] if len(alike) == 1 else None


_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FILE: Final = frozenset(("path", "file", "filepath", "filename", "abspath", "uri"))
_COMMAND: Final = frozenset(("command", "cmd", "commandline", "script", "commands"))
_PATTERN: Final = frozenset(("pattern", "query", "regex", "regexp", "q"))
_WHOLE_TEXT: Final = frozenset(("content", "contents", "text", "body"))
_PART_TEXT: Final = frozenset(
    ("new", "str", "string", "replacement", "diff", "edit", "edits", "changes", "patch")
)
_LOOK_FOR: Final = frozenset(("search", "grep", "find", "finder", "glob", "list", "ls", "query"))
_LOOK_AT: Final = frozenset(("read", "view", "open", "get", "show", "cat", "load"))
_CHANGE: Final = frozenset(
    ("edit", "replace", "insert", "modify", "update", "append", "apply", "patch", "undo")
)
_MAKE: Final = frozenset(("write", "create", "save", "put"))
_REMOVE: Final = frozenset(("delete", "remove", "unlink"))
_MOVE: Final = frozenset(("move", "rename"))
_RUN: Final = frozenset(("run", "execute", "exec", "shell", "bash", "terminal", "process", "command"))
"""Words in the names of tools and arguments."""

_FOLDERS: Final = (*FOLDER_ARGUMENTS, "dir_path")
_NEW_TEXTS: Final = (
    *("new_string", "newText", "newString", "new_str", "new_text", "new", "replacement", "new_source"),
)
_WHOLE_TEXTS: Final = ("content", "file_text", "contents", "text")
_FIRST_LINES: Final = ("offset", "start_line", "startLine", "line_start", "StartLine")
_LAST_LINES: Final = ("end_line", "endLine", "line_end", "EndLine")
_LONG_PATH: Final = 2_000

_PATCH_LINE: Final = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.{1,300})$|^\*\*\* Move to: (.{1,300})$")
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_CALLED: Final = re.compile(r"\b(cmd|command|workdir)[\"']?\s*:\s*(\"(?:[^\"\\\n]|\\.){1,4000}\")")
"""A command line in a script that calls tools."""

_SHELL: Final = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh\Z")
_SHELL_FLAG: Final = re.compile(r"-[a-z]{0,3}c\Z")
_WRAPPED: Final = re.compile(
    r"""\s*(?:\S{1,40}/)?(?:ba|z|da|k)?sh -[a-z]{0,3}c (['"])(.*)\1\s*\Z""", re.DOTALL
)
MAX_HITS: Final = 40
MAX_FILES_FOUND: Final = 10
HIT_CHARS: Final = 8_000
"""How much of a result is looked at for hits of a search."""


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name in any style, in lower case.

    >>> sorted(words_of("mcp__fs__ReadTextFile"))
    ['file', 'fs', 'mcp', 'read', 'text']
    """
    return frozenset(word.lower() for word in _WORD.findall(name))


def first_text(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first text among the arguments of these *names* that is not blank, empty for none."""
    for name in names:
        if isinstance(value := arguments.get(name), str) and value.strip():
            return value
    return ""


def effects_of_call(name: str, arguments: object, declared: ToolEffects | None = None) -> ToolEffects:
    """Return the effects of a call of the tool *name*: as declared, by the name, or by the arguments.

    >>> effects_of_call("view_file", {"AbsolutePath": "a.py"}).kind
    'reads'
    """
    known = declared if declared is not None and declared.kind != "anything" else effects_of_name(name)
    if known is not None and known.kind != "anything":
        return known.of(arguments)
    if not isinstance(arguments, Mapping) or known == DELEGATES:
        return DELEGATES
    texts, short = names_of_texts(arguments)
    guessed = guess_effects(name, texts, short)
    if guessed.kind == "runs" and (files := file_arguments(short)):
        # An editor of several uses: the command is the verb.
        verb = words_of(first_text(arguments, guessed.arguments)) if guessed.arguments else frozenset()
        for words, kind in _VERBS:
            if not verb.isdisjoint(words):
                return ToolEffects(kind, files)
    return guessed


_VERBS: Final[tuple[tuple[frozenset[str], EffectKind], ...]] = (
    (_CHANGE | {"str"}, "edits"),
    (_MAKE, "writes"),
    (_LOOK_AT, "reads"),
)


def names_of_texts(arguments: Mapping[Any, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the arguments with a text or a list, and of these with one short text."""
    texts = tuple(
        str(key) for key, value in arguments.items() if value and isinstance(value, str | list | tuple)
    )
    short = tuple(
        key for key in texts if isinstance(value := arguments.get(key), str) and len(value) < _LONG_PATH
    )
    return texts, short


def file_arguments(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments among *names* that hold the path of a file, by their words.

    >>> file_arguments(("TargetFile", "file_text", "dir_path"))
    ('TargetFile',)
    """
    no_file = _LOOK_FOR | _WHOLE_TEXT | {"dir", "directory", "folder", "type"}
    return tuple(name for name in names if (words := words_of(name)) & _FILE and not words & no_file)


@lru_cache(maxsize=256)
def guess_effects(name: str, texts: tuple[str, ...], short: tuple[str, ...]) -> ToolEffects:
    """Return the effects of the tool *name* with the arguments *texts*, of which *short* may name a file.

    The words of one call take 17 microseconds, and several readers look at each call of a conversation: kept,
    a conversation has few tools.
    """
    does = words_of(name.rpartition("__")[2] or name)
    says = {key: words_of(key) for key in texts}
    files = file_arguments(short)
    lists = tuple(key for key in texts if key not in short and says[key] & {"paths", "files"})
    commands = tuple(key for key in texts if says[key] & _COMMAND)
    others = [words for key, words in says.items() if key not in files and not words & _LOOK_FOR]
    if commands or (does & _RUN and short and not files):
        return ToolEffects("runs", commands or short)
    if does & _MOVE and len(short) > 1:
        return ToolEffects("moves", short)
    if files and does & _REMOVE:
        return ToolEffects("removes", files)
    has_part, has_whole = (any(words & wanted for words in others) for wanted in (_PART_TEXT, _WHOLE_TEXT))
    if files and (has_part or has_whole or does & (_CHANGE | _MAKE)):
        is_whole = not has_part and (bool(does & _MAKE) or not does & _CHANGE)
        return ToolEffects("writes" if is_whole else "edits", files)
    if does & _LOOK_FOR or any(says[key] & _PATTERN for key in texts if key not in files):
        return ToolEffects("searches", files)
    return ToolEffects("reads" if (files or lists) and does & _LOOK_AT else "anything", files)


def has_failed(effects: ToolEffects, result: str, *, is_error: bool) -> bool:
    """Whether a call failed, by its mark or by the exit code that the result of a command names."""
    return is_error or (effects.kind == "runs" and bool(exit_code_in(result)))


def touches_of_call(
    name: str,
    arguments: object,
    result: str = "",
    declared: ToolEffects | None = None,
    *,
    is_error: bool = False,
) -> tuple[Touch, ...]:
    """Return the files that a call touched.

    Args:
        name: the name of its tool.
        arguments: its arguments, as the model wrote them.
        result: the text of its result.
        declared: the declared effects of the tool, None where none are known.
        is_error: whether the result is marked as an error.
    """
    effects = effects_of_call(name, arguments, declared)
    failed = has_failed(effects, result, is_error=is_error)
    touches = touches_named(effects, arguments, failed=failed)
    given = arguments if isinstance(arguments, Mapping) else {}
    if effects.kind in ("runs", "searches"):
        return tuple(find_lines(touches, result, first_text(given, _FOLDERS)))
    if len(touches) == 1 and touches[0].kind == "read" and (numbered := numbered_range(result)):
        return (replace(touches[0], ranges=(numbered,)),)
    return tuple(touches)


def touches_named(effects: ToolEffects, arguments: object, *, failed: bool = False) -> Sequence[Touch]:
    """Return the files that a call with *effects* touches, as its *arguments* name them."""
    if failed and effects.kind != "runs":
        return ()
    given = arguments if isinstance(arguments, dict | Mapping) else {"input": arguments}
    folder = first_text(given, _FOLDERS)
    if effects.kind in ("patches", "runs", "anything"):
        touches: list[Touch] = []
        patches = [text for text in texts_among(given) if "*** Begin Patch" in text]
        if effects.kind == "patches" and not patches:
            patches = [first_text(given, effects.arguments)]
        for patch in () if failed else patches:
            touches += touches_of_patch(patch, folder)
        for use in uses_of_lines(effects, given):
            touches += use.touches_after_failure if failed else use.touches
        if effects.kind == "anything" and not touches:
            touches += (
                Touch(path=in_folder(folder, path), kind="search") for path, _ in paths_among(effects, given)
            )
        return touches
    if effects.kind == "moves":
        source, target = (in_folder(folder, str(given[name])) for name in effects.arguments[:2])
        return (Touch(path=source, kind="move", target=target),)
    kind = _TOUCH_KINDS.get(effects.kind)
    if kind is None:
        return ()
    paths = list(paths_among(effects, given))
    if kind == "search":
        return [Touch(path=path, kind=kind) for path, _ in paths if re.search(r"\.\w{1,8}$", path)]
    text = (
        longest_new_text(given)
        if kind == "edit"
        else first_text(given, _WHOLE_TEXTS)
        if kind == "write"
        else ""
    )
    return [
        Touch(
            path=in_folder(folder, path),
            kind=kind,
            ranges=lines_asked(own) if kind == "read" else (),
            text=text,
        )
        for path, own in paths
    ]


_TOUCH_KINDS: Final[Mapping[EffectKind, TouchKind]] = {
    "reads": "read",
    "edits": "edit",
    "writes": "write",
    "removes": "remove",
    "searches": "search",
}


def texts_among(values: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the texts among the arguments, also those in lists."""
    for value in values.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))


def paths_among(effects: ToolEffects, given: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each path among the arguments of a call, with the arguments that tell its lines."""
    if effects.arguments == FETCHES_PAGE.arguments:
        return
    if path := first_text(given, effects.arguments) or _first_file(given):
        yield path, given
    for name, values in given.items():
        if isinstance(values, list) and words_of(str(name)) & {"paths", "files"}:
            for each in values:
                if isinstance(each, str) and each.strip():
                    yield each, {}
                elif isinstance(each, Mapping) and (path := _first_file(each)):
                    yield path, each


def _first_file(given: Mapping[str, Any]) -> str:
    return first_text(given, file_arguments(names_of_texts(given)[1]))


def path_of_call(effects: ToolEffects, arguments: object) -> str | None:
    """Return the path that a call with *effects* names among its *arguments*, None for none.

    >>> path_of_call(READS_FILE, {"target_file": "a.py"})
    'a.py'
    """
    if effects.kind in ("runs", "patches", "none") or not isinstance(arguments, Mapping):
        return None
    return next((path for path, _ in paths_among(effects, arguments)), None)


def command_lines_in(effects: ToolEffects, arguments: object) -> list[tuple[str, str]]:
    """Return the command lines of a call that runs some, each with the folder that it runs in.

    A list is one command with its words, or several lines. A script that calls tools has each command line
    in an argument of its own.

    >>> command_lines_in(RUNS_COMMAND, {"cmd": ["bash", "-lc", "make test"], "cwd": "src"})
    [('make test', 'src')]
    """
    given = arguments if isinstance(arguments, Mapping) else {}
    folder = first_text(given, _FOLDERS)
    names = (*effects.arguments, *(name for name in given if words_of(str(name)) & _COMMAND))
    name = next((name for name in names if name in given), "")
    if isinstance(value := given.get(name), list) and "commands" in words_of(str(name)):
        return [(unwrap_command(each), folder) for each in value]
    if line := unwrap_command(value):
        return [(line, folder)]
    called = [match.groups() for text in texts_among(given) for match in _CALLED.finditer(text)]
    folder = next((_unquote(text) for name, text in called if name == "workdir"), folder)
    if lines := [(_unquote(text), folder) for name, text in called if name != "workdir"]:
        return lines
    line = first_text(given, [name for name in names_of_texts(given)[1] if name not in _FOLDERS])
    return [(line, folder)] if line else []


def uses_of_lines(effects: ToolEffects, arguments: object) -> Iterator[LineUse]:
    """Yield the use of files by each command line of a call; none for a call that runs none."""
    if effects.kind == "runs":
        for line, folder in command_lines_in(effects, arguments):
            yield use_of_line(line, folder)


def unwrap_command(value: object) -> str:
    """Return the command line that *value*, text or a list of words, runs; that of a shell without the shell.

    >>> unwrap_command(["bash", "-lc", "make test"]), unwrap_command("sh -c 'make test'")
    ('make test', 'make test')
    """
    if isinstance(value, list | tuple):
        words = [*map(str, value)]
        is_shell = len(words) > 2 and _SHELL.match(words[0]) and _SHELL_FLAG.match(words[1])
        return words[2] if is_shell else words[0] if len(words) == 1 else " ".join(words)
    if not isinstance(value, str):
        return ""
    wrapped = _WRAPPED.match(value) if "sh -" in value[:60] else None
    return wrapped[2] if wrapped else value


def _unquote(literal: str) -> str:
    try:
        return str(json.loads(literal))
    except ValueError:
        return ""


def paths_of_patch(patch: str) -> tuple[str, ...]:
    """Return the paths that a *patch* names in its headings, in order.

    >>> paths_of_patch("*** Begin Patch\\n*** Update File: a.py\\n*** Move to: b.py\\n*** End Patch")
    ('a.py', 'b.py')
    """
    return tuple(dict.fromkeys(_PATCHED.findall(patch)))


def touches_of_patch(patch: str, folder: str) -> Iterator[Touch]:
    """Yield the files of *patch* (``*** Update File: PATH``), one for each hunk of theirs.

    The line ends of a patch in a script are written as ``\\n``.
    """
    kinds: dict[str, TouchKind] = {"Update": "edit", "Add": "write", "Delete": "remove"}
    path, kind, lines, is_bare = "", kinds["Update"], list[str](), False
    text = patch if "\n" in patch else patch.replace("\\n", "\n")
    for line in (*text.splitlines(), "*** End"):
        found = _PATCH_LINE.match(line)
        if line.startswith(("***", "@@")) and lines:
            yield Touch(path=path, kind=kind, text="\n".join(lines) + "\n" * (kind == "write"))
            lines, is_bare = [], False
        if is_bare and ((found and found[2]) or line.startswith("*** End")):
            yield Touch(path=path, kind=kind)  # a file without hunks
            is_bare = False
        if found and found[3]:
            target = in_folder(folder, found[3].strip())
            yield Touch(path=path, kind="move", target=target)
            path, is_bare = target, False
        elif found:
            path, kind, is_bare = in_folder(folder, found[2].strip()), kinds[found[1]], True
        elif path and line[:1] in ("+", " "):
            lines.append(line[1:])


def longest_new_text(given: Mapping[str, Any]) -> str:
    """Return the longest new text of an edit, empty for none."""
    edits = given.get("edits")
    each = [edit for edit in edits if isinstance(edit, Mapping)] if isinstance(edits, list) else []
    return max((first_text(one, _NEW_TEXTS) for one in (given, *each)), key=len)


def lines_asked(given: Mapping[str, Any]) -> tuple[LineRange, ...]:
    """Return the lines that the arguments of a read ask for, none for the whole file.

    >>> lines_asked({"offset": 3, "limit": 4}), lines_asked({"view_range": [3, 6]})
    (((3, 4),), ((3, 4),))
    """
    lines = given.get("view_range")
    first, last = (_number(given, names) for names in (_FIRST_LINES, _LAST_LINES))
    count = _number(given, ("limit",))
    if isinstance(lines, list) and len(lines) == 2 and all(isinstance(each, int) for each in lines):
        first, last = lines
    if last is not None and last > 0:
        count = max(1, last - (first or 1) + 1)
    return () if first is None and count is None else ((max(1, first or 1), count),)


def _number(given: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        if name in given and isinstance(value := given[name], int) and not isinstance(value, bool):
            return value
    return None


def find_lines(touches: Sequence[Touch], result: str, folder: str) -> Iterator[Touch]:
    """Yield *touches* with the lines that *result* shows of them, and the files that a search found."""
    body = result[:HIT_CHARS]
    reads = [touch for touch in touches if touch.kind == "read"]
    searches = [touch for touch in touches if touch.kind == "search"]
    for touch in touches:
        if touch.kind == "read" and len(reads) == 1 and not touch.ranges:
            numbered = numbered_range(output_of(result))
            yield replace(touch, ranges=(numbered,) if numbered else ())
        elif touch.kind == "search" and len(searches) == 1:
            hits: list[LineRange] = [(int(number), 1) for number in LONE_HIT.findall(body)[:MAX_HITS]]
            yield replace(touch, ranges=merge_ranges(hits) if hits else ())
        else:
            yield touch
    found: dict[str, list[LineRange]] = {}
    for match in islice(NAMED_HIT.finditer(body), MAX_HITS):
        found.setdefault(in_folder(folder, match["path"]), []).append((int(match["line"]), 1))
    for path, hits in islice(found.items(), MAX_FILES_FOUND):
        yield Touch(path=path, kind="search", ranges=merge_ranges(hits))
