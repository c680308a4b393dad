"""Needs of an action, and the rules by which the user allows and denies them in advance.

A need is one file, command, tool or host for which an action asks permission. Rules stand in ``config.toml``
of the state directory. A rule for commands is the beginning of one, such as ``git push`` or ``npm run *``;
``edit: docs/**`` is a rule for files, ``mcp: git log`` one for a tool of a server and ``fetch: *.python.org``
one for hosts. An allowed command must be one that an answer "always" could cover, so that ``git *`` does not
allow ``git -c alias.x='!sh' x``; only a rule that spells the whole command allows more. A denied command is
recognised wherever its words stand in their order behind the program, also in the arguments of a wrapper and
in a line that is not understood. That is a guard rail and no fence: a program can always be spelled in one
more way.

Nothing on the disk is looked at but the user's home folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from sidecar._internal.env import expand_home
from sidecar._internal.values import Value
from sidecar.permissions.protected import KEYS_OF_USER, SessionFolders, is_hidden, why_protected
from sidecar.permissions.table import knows_program
from sidecar.text.shell import ShellSyntaxError, parse_command_line
from sidecar.workspace.globs import glob_regex

EDITS: Final = "edit"
EDITS_LABEL: Final = "changes to files in the session's folders"
"""The key of changes to files inside the session's folders, and the words for it."""

_KINDS: Final = ("edit:", "mcp:", "fetch:")
_RUNNER_NAMES: Final = (
    "sh bash zsh dash fish ksh busybox env sudo doas su xargs nohup setsid stdbuf script watch "
    "parallel ssh chroot unshare nsenter flock ionice chrt taskset strace ltrace gdb python python2 "
    "python3 node deno bun ruby perl php lua awk gawk osascript pwsh powershell cmd eval exec command "
    "builtin docker podman kubectl tmux screen"
)
_RUNNERS: Final = frozenset(_RUNNER_NAMES.split())
"""Programs for which a rule with ``*`` would allow everything; they are allowed word for word."""


class Need(Value, kw_only=True):
    """One thing that an action needs permission for.

    Attributes:
        text: the thing, as the user reads it.
        why: the reason for *key* and *is_free*, as a part of a sentence.
        key: the scope of an answer "always"; None when there is none.
        label: the words for *key*.
        is_free: whether no question is needed.
        words: the words of a command, for the user's rules; None for other things and for computed words.
        scope: the words of the known command that *key* stands for; None when it is none.
        path: the file to change, for the user's rules.
        is_hidden: whether only a rule that names something hidden reaches it.
        tool: the server and the tool to call, for the user's rules.
        host: the host to fetch from, for the user's rules.
    """

    text: str
    why: str
    key: str | None = None
    label: str = ""
    is_free: bool = False
    words: tuple[str, ...] | None = None
    scope: tuple[str, ...] | None = None
    path: Path | None = None
    is_hidden: bool = False
    tool: tuple[str, str] | None = None
    host: str | None = None


def need_of_reading(path: Path, is_folder: bool) -> Need:
    """Return the need of reading *path* outside the roots; "always" covers its folder, or all below a folder.

    The home folder, the folders above it and the user's keys ask each time.
    """
    need = Need(text=f"reading {path}", why="it lies outside the session's folders")
    folder = path if is_folder else path.parent
    if why_protected(path, SessionFolders(())) == KEYS_OF_USER or Path(
        os.path.expanduser("~")
    ).is_relative_to(folder):
        return need
    key, below = (f"tree:{folder}", " and below") if is_folder else (f"read:{folder}", "")
    return replace(need, key=key, label=f"reading in `{folder}`{below}")


def need_of_edit(path: Path, place: SessionFolders, *, is_inside: bool) -> Need:
    """Return the need of changing the resolved *path*; outside of the roots "always" covers its folder."""
    need = Need(text=f"changing {path}", why="it changes a file", path=path)
    reason = why_protected(path, place)
    if reason is not None:
        return replace(need, why=f"{path.name} is protected as {reason}")
    if is_inside and is_hidden(path, place):
        why = f"{path.name} is hidden, and programs obey such files"
        return replace(need, why=why, key=f"edit:{path}", label=f"changes to `{path}`", is_hidden=True)
    if is_inside:
        return replace(need, key=EDITS, label=EDITS_LABEL)
    folder = path.parent
    if Path(os.path.expanduser("~")).is_relative_to(folder):
        return need
    return replace(need, key=f"edit:{folder}", label=f"changes to files in `{folder}`")


class Rule(Value):
    """One rule: its text as the user wrote it, and its kind, ``command``, ``edit``, ``mcp`` or ``fetch``."""

    text: str
    kind: str
    words: tuple[str, ...]

    def allows(self, need: Need, root: Path) -> bool:
        """Whether the rule allows *need*; paths of rules begin at *root*."""
        if self.kind == "command":
            return need.words is not None and self.allows_command(need, need.words)
        if self.kind != "edit":
            return self.names(need, root)
        if need.key is None or not self.names(need, root):
            return False
        return not need.is_hidden or any(part.startswith(".") for part in Path(self.words[0]).parts)

    def denies(self, need: Need, line: str, root: Path) -> bool:
        """Whether the rule denies *need*, a part of the command *line*."""
        if self.kind != "command":
            return self.names(need, root)
        words = need.words
        if words is None or os.path.basename(words[0]) in _RUNNERS:
            words = tuple(re.findall(r"[^\s'\"`;|&()<>${}]+", line))
            starts: Iterable[int] = range(len(words))
        else:
            starts = (0,)
        return any(self.stands_in(words[start:]) for start in starts)

    def names(self, need: Need, root: Path) -> bool:
        """Whether a rule for files, tools or hosts is about the one of *need*."""
        if self.kind == "mcp":
            return need.tool is not None and self.matches_tool(need.tool)
        if self.kind == "fetch":
            return need.host is not None and fnmatchcase(need.host, self.words[0].lower())
        return need.path is not None and self.matches_path(need.path, root)

    def allows_command(self, need: Need, words: tuple[str, ...]) -> bool:
        if self.words == words:
            return True
        is_open = self.words[-1] == "*"
        start = self.words[:-1] if is_open else self.words
        if need.scope is not None:
            return need.scope[: len(start)] == start if is_open else need.scope == start
        is_known = knows_program(os.path.basename(words[0])) or os.path.basename(words[0]) in _RUNNERS
        return is_open and not is_known and need.key is not None and words[: len(start)] == start

    def stands_in(self, words: tuple[str, ...]) -> bool:
        wanted = list(self.words[:-1] if self.words[-1] == "*" else self.words)
        if not words or os.path.basename(words[0]) != wanted.pop(0):
            return False
        for word in words[1:]:
            if wanted and (word == wanted[0]):
                wanted.pop(0)
        return not wanted

    def matches_path(self, path: Path, root: Path) -> bool:
        pattern = str(expand_home(self.words[0]))
        text = path.as_posix()
        if not os.path.isabs(pattern):
            if not path.is_relative_to(root):
                return False
            text = path.relative_to(root).as_posix()
        return re.fullmatch(glob_regex(pattern), text) is not None

    def matches_tool(self, tool: tuple[str, str]) -> bool:
        server, *names = self.words
        return tool[0] == server and (not names or names[0] in ("*", tool[1]))


class Rules(Value):
    """All rules of the user; *problem* says why some that deny may be missing here, None when none is."""

    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    problem: str | None = None


def parse_rules(allow: Iterable[str], deny: Iterable[str]) -> Rules:
    """Return the rules with these texts. Raises ValueError, which names the wrong one."""
    return Rules(tuple(map(parse_rule, allow)), tuple(map(parse_rule, deny)))


def parse_rule(text: str) -> Rule:
    """Return the rule *text*.

    >>> parse_rule("git push").words, parse_rule("edit: docs/**").kind
    (('git', 'push'), 'edit')

    Raises:
        ValueError: it is empty, or neither one plain command nor of a known kind.
    """
    kind = next((kind for kind in _KINDS if text.startswith(kind)), "")
    rest = text.removeprefix(kind).strip()
    if kind:
        words = (rest,) if kind == "edit:" else tuple(rest.split())
        if not rest:
            raise ValueError(f"the rule {text!r} names nothing")
        return Rule(text, kind.rstrip(":"), words)
    try:
        commands = parse_command_line(rest)
    except ShellSyntaxError as error:
        raise ValueError(f"the rule {text!r} is not a command: {error}") from None
    words = tuple(word.text for word in commands[0].words if word.text is not None) if commands else ()
    is_plain = len(commands) == 1 and len(words) == len(commands[0].words) and not commands[0].assignments
    if not is_plain or not words or words[0] == "*" or commands[0].redirections:
        raise ValueError(f"the rule {text!r} must be one plain command, such as 'git push' or 'npm run *'")
    return Rule(text, "command", words)
