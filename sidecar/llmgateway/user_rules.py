"""The user's rules for permissions, read from ``config.toml`` and written into it.

The file is the user's: its order, its comments and its spelling stay. So a rule is put into the text, or cut
out of it, and the text is parsed again. Unless the result is exactly the old settings with that one change,
nothing is written, and the error has the line to write by hand. For example, adding ``git push`` to the
denied rules of

    [permissions]
    deny = ["rm"]  # never

makes ``deny = ["git push", "rm"]  # never``. The cost is linear in the file, which is small.
"""

from __future__ import annotations

import json
import re
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.errors import InvalidInput, SidecarError
from sidecar.llmgateway.config import CONFIG_FILE, OPAQUE, SETTINGS_LIMIT_BYTES, UserSettings, read_settings
from sidecar.permissions.rules import Rules, parse_rule
from sidecar.workspace.contract import FileAccessError
from sidecar.workspace.disk_write import write_text
from sidecar.workspace.files import read_text, real_path

RuleEffect: TypeAlias = Literal["allow", "deny"]

_TRIES: Final = 5
_HEADER: Final = re.compile(r"^[ \t]*\[[ \t]*permissions[ \t]*\][^\n]*\n?", re.MULTILINE)
_NEXT_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)


class SettingsError(SidecarError):
    """The settings cannot be changed: the file cannot be written, or has a mistake."""

    kind = "fileProblem"


class UserRules:
    """The user's rules in ``config.toml`` of *home*. Works on the disk, so call it in a worker thread."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._settings = UserSettings(home)

    def read(self) -> Rules:
        """Return the rules as the file has them now; a file with a mistake changes nothing."""
        return self._settings.read().rules

    def change(self, effect: RuleEffect, rule: str, *, remove: bool = False) -> None:
        """Add *rule*, or remove it; the change is on disk when this returns.

        Raises:
            InvalidInput: it is not a rule, or there is none to remove.
            SettingsError: the file has a mistake, another form, or cannot be written.
        """
        try:
            parse_rule(rule)
        except ValueError as error:
            if not remove:
                hint = 'write a command such as "git push" or "npm run *", or "edit: docs/**", "fetch: HOST"'
                raise InvalidInput(str(error), hint=f'{hint} or "mcp: SERVER TOOL"') from None
        for tries_left in reversed(range(_TRIES)):
            try:
                self.change_once(effect, rule, remove=remove)
                return
            except FileAccessError as error:
                if error.problem != "changedSinceRead" or not tries_left:
                    raise SettingsError(f"{CONFIG_FILE} cannot be written: {error.message}") from error

    def change_once(self, effect: RuleEffect, rule: str, *, remove: bool) -> None:
        """Change the file as it is now. Raises FileAccessError, also when it was changed meanwhile."""
        path = real_path(self._home / CONFIG_FILE)
        try:
            found = read_text(path, SETTINGS_LIMIT_BYTES)
        except FileAccessError as error:
            if error.problem != "notFound":
                raise
            found = None
        text = "" if found is None else found.text
        is_broken = read_settings(self._home).unreadable is not None
        try:
            before = {} if is_broken else tomllib.loads(text)
        except tomllib.TOMLDecodeError:  # of which a line is left out
            before, is_broken = {}, True
        table = before.get("permissions", {})
        lists = [table.get(each, []) for each in ("allow", "deny")] if isinstance(table, dict) else [None]
        if is_broken or not all(isinstance(each, list) for each in lists):
            hint = "correct it first; sidecar doctor says what it is"
            raise SettingsError(f"{CONFIG_FILE} has a mistake, and nothing is written into it", hint=hint)
        listed = table.get(effect, [])
        if remove and rule not in listed:
            known = ", ".join(map(repr, listed)) or "none"
            raise InvalidInput(f"no rule {rule!r} is set to {effect}", hint=f"the rules are: {known}")
        if not remove and rule in listed:
            return
        after = remove_rule(text, effect, rule) if remove else add_rule(text, effect, rule)
        wanted = deepcopy(before)
        rules = [each for each in listed if each != rule] if remove else [rule, *listed]
        wanted.setdefault("permissions", {})[effect] = rules
        if not means(after, wanted):
            line = f"[permissions] {effect} = {json.dumps(rules, ensure_ascii=False)}"
            message = f"{CONFIG_FILE} writes its rules in a form that only you can change"
            raise SettingsError(message, hint=f"write by hand: {line}")
        write_text(path, after, None if found is None else found.hash, SETTINGS_LIMIT_BYTES)
        if found is None:
            path.chmod(0o600)  # as all in the state directory; a file that was there keeps its mode


def means(text: str, wanted: dict[str, Any]) -> bool:
    """Whether *text* is TOML for *wanted*."""
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def add_rule(text: str, effect: RuleEffect, rule: str) -> str:
    """Return *text* with *rule* as the first one of its list.

    >>> print(add_rule('model = "m"', "deny", "git push"), end="")
    model = "m"
    <BLANKLINE>
    [permissions]
    deny = ["git push"]
    """
    quoted = json.dumps(rule, ensure_ascii=False)
    begin, end = find_list(text, effect)
    if begin < end:
        is_empty = not text[begin : end - 1].strip()
        return f"{text[:begin]}{quoted}{'' if is_empty else ', '}{text[begin:]}"
    line = f"{effect} = [{quoted}]\n"
    header = _HEADER.search(hide_strings(text))
    if header is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[permissions]\n{line}"
    head = text[: header.end()]
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{line}{text[header.end() :]}"


def remove_rule(text: str, effect: RuleEffect, rule: str) -> str:
    """Return *text* without *rule* in its list.

    >>> remove_rule('[permissions]\\nallow = ["a", "b"] # c', "allow", "a")
    '[permissions]\\nallow = ["b"] # c'
    """
    begin, end = find_list(text, effect)
    for found in reversed([*OPAQUE.finditer(text, begin, end)]):
        if found[0][0] == "#" or tomllib.loads(f"value = {found[0]}")["value"] != rule:
            continue
        behind = re.compile(r"[ \t]*,[ \t]*").match(text, found.end())
        before = re.search(r",\s*$", text[begin : found.start()])
        start, stop = found.span()
        if behind is not None:
            stop = behind.end()
        elif before is not None:
            start = begin + before.start()
        text = text[:start] + text[stop:]
    return text


def find_list(text: str, effect: RuleEffect) -> tuple[int, int]:
    """Return where the list of *effect* begins and ends, behind its brackets; the same place for no list."""
    plain = hide_strings(text)
    header = _HEADER.search(plain)
    if header is None:
        return 0, 0
    after = _NEXT_HEADER.search(plain, header.end())
    section_end = len(text) if after is None else after.start()
    opening = re.compile(rf"^[ \t]*{effect}[ \t]*=[ \t]*\[", re.MULTILINE).search(
        plain, header.end(), section_end
    )
    closing = -1 if opening is None else plain.find("]", opening.end())
    return (0, 0) if opening is None or closing < 0 else (opening.end(), closing + 1)


def hide_strings(text: str) -> str:
    """Return *text* with its strings and comments blanked, so that nothing in them looks like TOML."""
    return OPAQUE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
