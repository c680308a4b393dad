"""Effects of tools: a call reads, writes or runs something, and some of its arguments name files.

Each tool of our own declares its effects beside its work. A tool of an MCP server has the effects of its
kind, and a tool of another agent, met in an imported conversation, has the effects of its name. No other room
needs to know a name: it is handed the effects of the tools on offer as a mapping by name. Pure and light to
import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"
]
"""The kind of a tool, in the words of the Agent Client Protocol."""

PATH_ARGUMENTS: Final = ("path", "file_path", "filePath", "file")
COMMAND_ARGUMENTS: Final = ("command", "cmd")


_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)

EffectKind: TypeAlias = Literal["none", "reads", "searches", "edits", "patches", "writes", "runs", "anything"]
"""The effect of a call:

``none`` touches no file; ``reads`` shows the text of one file; ``searches`` looks at many files; ``edits``
changes a part of a file; ``patches`` changes the files that a patch names; ``writes`` replaces a whole file
with text that the call carries; ``runs`` runs a command line; ``anything`` is a tool of which nothing is
known.
"""


@dataclass(frozen=True, slots=True)
class ToolEffects:
    """The effects of the calls of one tool.

    Attributes:
        kind: the effect of a call.
        arguments: the names of the arguments that hold the path (with ``runs`` the command line, with
            ``patches`` the patch); the first that a call gives counts.
    """

    kind: EffectKind = "none"
    arguments: tuple[str, ...] = ()

    @property
    def may_change(self) -> bool:
        """Whether a call may change something, so that later calls must wait for its end."""
        return self.kind in ("edits", "patches", "writes", "runs", "anything")

    @property
    def names_file(self) -> bool:
        """Whether a call is about certain files, those at its paths."""
        return self.kind in ("reads", "edits", "patches", "writes")

    def path_in(self, arguments: object) -> str | None:
        """Return the path among the *arguments* of a call, or None when they name none.

        >>> READS_FILE.path_in({"file_path": "a.py"}), READS_FILE.path_in("a.py")
        ('a.py', None)
        """
        return next(iter(self.paths_in(arguments)), None)

    def paths_in(self, arguments: object) -> tuple[str, ...]:
        """Return all paths among the *arguments* of a call: a patch may name several."""
        if self.kind == "runs" or not isinstance(arguments, Mapping):
            return ()
        found: list[Any] = [arguments.get(name) for name in self.arguments]
        text = next((value for value in found if isinstance(value, str) and value.strip()), None)
        if text is None:
            return ()
        return paths_of_patch(text) if self.kind == "patches" else (text,)


NO_EFFECTS: Final = ToolEffects()
READS_FILE: Final = ToolEffects("reads", PATH_ARGUMENTS)
SEARCHES: Final = ToolEffects("searches", PATH_ARGUMENTS)
EDITS_FILE: Final = ToolEffects("edits", PATH_ARGUMENTS)
WRITES_FILE: Final = ToolEffects("writes", PATH_ARGUMENTS)
PATCHES_FILES: Final = ToolEffects("patches", ("input", "patch"))
FETCHES_PAGE: Final = ToolEffects("searches", ("url",))
DELEGATES: Final = ToolEffects("anything")
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

_READERS: Final = ("read", "view", "read_file", "readfile", "open_file", "fs_read")
_SEARCHERS: Final = ("grep", "find", "ls", "glob", "rg", "grep_search", "list_dir", "find_file")
_WRITERS: Final = ("write", "write_file", "create", "create_file", "writefile")
_EDITORS: Final = (
    *("edit", "multiedit", "edit_file", "apply_edit", "replace", "str_replace", "insert", "notebookedit"),
)
_SHELLS: Final = (
    *("bash", "shell", "exec", "exec_command", "shell_command", "run_shell_command", "execute_bash"),
    *("run_in_terminal", "terminal", "local_shell_call"),
)
_THINKERS: Final = ("todo", "todowrite", "todoread", "think", "wait", "update_plan", "websearch")
_WATCHERS: Final = ("bash_output", "bash_kill", "write_stdin")

_BY_NAME: Final[Mapping[str, ToolEffects]] = MappingProxyType(
    dict.fromkeys(_READERS, READS_FILE)
    | dict.fromkeys(_SEARCHERS, SEARCHES)
    | dict.fromkeys(_WRITERS, WRITES_FILE)
    | dict.fromkeys(_EDITORS, EDITS_FILE)
    | dict.fromkeys(("patch", "apply_patch"), PATCHES_FILES)
    | dict.fromkeys(("fetch", "webfetch", "web_fetch"), FETCHES_PAGE)
    | {"task": DELEGATES}
    | dict.fromkeys(_SHELLS, RUNS_COMMAND)
    | dict.fromkeys((*_THINKERS, *_WATCHERS), NO_EFFECTS)
)


def paths_of_patch(patch: str) -> tuple[str, ...]:
    """Return the paths that a *patch* names in its headings, in order.

    >>> paths_of_patch("*** Begin Patch\\n*** Update File: a.py\\n*** Move to: b.py\\n*** End Patch")
    ('a.py', 'b.py')
    """
    return tuple(dict.fromkeys(_PATCHED.findall(patch)))


def effects_of_kind(kind: ToolKind) -> ToolEffects:
    """Return the effects of a tool of which only the *kind* is known; ``other`` may do anything."""
    return _BY_KIND[kind]


@lru_cache(maxsize=512)
def effects_of_name(name: str) -> ToolEffects | None:
    """Return the effects of a tool by the *name* that coding agents commonly give it, None for another name.

    A prefix that ends in ``.``, ``:`` or ``__`` and the case of letters do not count.

    >>> effects_of_name("functions.Read") == READS_FILE, effects_of_name("frobnicate")
    (True, None)
    """
    return _BY_NAME.get(re.split(r"__|[.:]", name.casefold())[-1])
