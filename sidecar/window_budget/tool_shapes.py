"""The effects of tools that no table names, told from their names and arguments.

Agents name their tools as they like (``builtin_read_file``, ``view_file``, ``mcp__fs__read_text_file``), and
so their arguments (``TargetFile``, ``absolute_path``). The words in both tell the effect: an argument for a
command line runs it, an argument for a file and one for new text change the file, a verb such as "view" reads
it, a pattern or a query searches. For example, ``view_file {"AbsolutePath": ...}`` reads.

Pure; the cost is linear in the names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from sidecar.window_budget.contract import CallEffect

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FILE: Final = frozenset(["path", "file", "filepath", "filename", "abspath", "uri"])
_COMMAND: Final = frozenset(["command", "cmd", "commandline", "script"])
_PATTERN: Final = frozenset(["pattern", "query", "regex", "regexp", "q"])
_NEW_TEXT: Final = frozenset(
    [
        "content",
        "contents",
        "text",
        "str",
        "string",
        "new",
        "replacement",
        "diff",
        "edit",
        "edits",
        "changes",
        "patch",
    ]
)
_LOOK_FOR: Final = frozenset(["search", "grep", "find", "finder", "glob", "list", "ls", "query"])
_LOOK_AT: Final = frozenset(["read", "view", "open", "get", "show", "cat", "load"])
_CHANGE: Final = frozenset(
    [
        "write",
        "edit",
        "create",
        "replace",
        "insert",
        "modify",
        "update",
        "append",
        "save",
        "apply",
        "delete",
        "patch",
    ]
)
_MAKE: Final = frozenset(["write", "create", "save"])
_RUN: Final = frozenset(["run", "execute", "exec", "shell", "bash", "terminal", "process", "command"])

_LONG_COMMAND: Final = 2_000
_LONG_OUTPUT: Final = 400_000
_SHELL: Final = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh\Z")
_WRAPPED: Final = re.compile(
    r"""\s*(?:\S{1,40}/)?(?:ba|z|da|k)?sh -[a-z]{0,3}c (['"])(.*)\1\s*\Z""", re.DOTALL
)


def words_of(name: str) -> frozenset[str]:
    """Return the words of a name in any style, in lower case.

    >>> sorted(words_of("mcp__fs__ReadTextFile"))
    ['file', 'fs', 'mcp', 'read', 'text']
    """
    return frozenset(word.lower() for word in _WORD.findall(name))


def guess_effect(name: str, arguments: Any) -> CallEffect:
    """Return the effect of a call of the tool *name*, as far as the names of tool and *arguments* tell it.

    >>> guess_effect("view_file", {"AbsolutePath": "a.py"}).reads
    True
    """
    given = arguments if isinstance(arguments, Mapping) else {}
    texts = tuple(str(key) for key, value in given.items() if value and isinstance(value, str | list | tuple))
    files = tuple(key for key in texts if isinstance(given.get(key), str) and len(given[key]) < _LONG_COMMAND)
    return guess_by_names(name, texts, files)


@lru_cache(maxsize=256)
def guess_by_names(name: str, texts: tuple[str, ...], short: tuple[str, ...]) -> CallEffect:
    """Return the effect of the tool *name* with the arguments *texts*, of which *short* may name a file."""
    does = words_of(name.rpartition("__")[2] or name)
    says = {key: words_of(key) for key in texts}
    files = tuple(key for key in short if says[key] & _FILE and not says[key] & _LOOK_FOR)
    commands = tuple(key for key in texts if says[key] & _COMMAND)
    if commands and files:
        return CallEffect(reads=True, writes="part", path_arguments=files)
    if commands or (does & _RUN and short and not files):
        return CallEffect(runs=True, command_arguments=commands or short)
    if files and (does & _CHANGE or any(says[key] & _NEW_TEXT for key in texts if key not in files)):
        return CallEffect(writes="whole" if does & _MAKE else "part", path_arguments=files)
    if does & _LOOK_FOR or (not files and any(words & _PATTERN for words in says.values())):
        return CallEffect(searches=bool(texts))
    return CallEffect(reads=bool(files and does & _LOOK_AT), path_arguments=files)


def unwrap_command(value: Any) -> str:
    """Return the command line that *value*, text or a list of words, runs; that of a shell without the shell.

    >>> unwrap_command(["bash", "-lc", "make test"]), unwrap_command("sh -c 'make test'")
    ('make test', 'make test')
    """
    if isinstance(value, list | tuple):
        words = [*map(str, value)]
        is_shell = len(words) > 2 and _SHELL.match(words[0]) and re.match(r"-[a-z]{0,3}c\Z", words[1])
        value = words[2] if is_shell else " ".join(words)
    if not isinstance(value, str):
        return ""
    wrapped = _WRAPPED.match(value) if "sh -" in value[:60] else None
    return wrapped[2] if wrapped else value


def unwrap_output(body: str) -> str:
    """Return the output of a command: *body*, or the texts in it where it is one JSON value.

    >>> unwrap_output('{"output": "a\\\\nb", "metadata": {"exit_code": 0}}')
    'a\\nb'
    """
    if not body.startswith(("{", "[")) or len(body) > _LONG_OUTPUT:
        return body
    try:
        return "\n".join(texts_in(json.loads(body), 3)) or body
    except (ValueError, RecursionError):
        return body


def texts_in(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts in a JSON value, at most *depth* levels deep.

    >>> list(texts_in([{"type": "text", "text": "a"}, {"text": "b"}], 2))
    ['a', 'b']
    """
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in parts:
            if name != "type":
                yield from texts_in(part, depth - 1)
