"""Completion of a prompt that is typed: slash commands, their arguments, and mentions of files.

One completion for all clients. It finds the unfinished word before the cursor and returns its possible
replacements. Files come from an index of the folder's paths; nothing is opened.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from sidecar._internal.values import Value
from sidecar.conductor.clients import EditorState
from sidecar.conductor.content import ALIASES, COMMANDS
from sidecar.conductor.contract import CompletionItem, CompletionKind
from sidecar.conductor.events import CommandInfo
from sidecar.conductor.hub import Hub
from sidecar.conductor.session import Session
from sidecar.conductor.workbench.mentions import SPECIAL
from sidecar.runtime.store.place import SessionQuery
from sidecar.workspace.contract import PositionEncoding
from sidecar.workspace.line_index import count_units
from sidecar.workspace.path_index import PathIndexes
from sidecar.workspace.paths import uri_to_path

_COMMAND: Final = re.compile(r"/([\w:.-]*)")
_ARGUMENT: Final = re.compile(r"/([\w:.-]+)\s+(?:\S+\s+)*(\S*)")
_MENTION: Final = re.compile(r"""(?:^|(?<=[\s(\[{'"]))@("[^"\n]*|[^\s"]*)$""")
_UNQUOTED: Final = re.compile(r"[\w./~+-]+")
"""Paths with other characters are written in quotes."""

_DETAIL_CHARS: Final = 80


@dataclass(frozen=True)
class Prompt:
    """The text of a prompt and the *offset* of its cursor, in units of *encoding*."""

    text: str
    offset: int
    encoding: PositionEncoding

    @cached_property
    def before(self) -> str:
        """The text before the cursor."""
        if self.encoding == "utf-32":
            return self.text[: max(0, self.offset)]
        codec, unit = ("utf-8", 1) if self.encoding == "utf-8" else ("utf-16-le", 2)
        raw = self.text.encode(codec, "surrogatepass")
        return raw[: max(0, self.offset) * unit].decode(codec, "ignore")

    def offset_of(self, index: int) -> int:
        """Return the offset of the character at *index*."""
        return count_units(self.text[:index], self.encoding)


class Suggestion(Value):
    """One completion of a word."""

    kind: CompletionKind
    label: str
    text: str
    detail: str | None = None


async def complete_prompt(
    prompt: Prompt,
    hub: Hub,
    session: Session | None,
    *,
    indexes: PathIndexes,
    folder: str | None,
    editor: EditorState,
    limit: int,
) -> tuple[tuple[CompletionItem, ...], bool]:
    """Return the completions of *prompt*, the best first, and whether there may be more.

    Args:
        prompt: the text and the cursor.
        hub: knows the stored sessions.
        session: the session that the prompt is for, None for none yet.
        indexes: the paths of folders.
        folder: the folder of paths where there is no session, None for no paths.
        editor: the state of the client's editor.
        limit: the number of completions.
    """
    before, is_incomplete = prompt.before, False
    choices: Iterable[Suggestion] = ()
    if (found := _COMMAND.fullmatch(before)) is not None:
        commands = COMMANDS if session is None else session.workbench.extensions.commands
        word, choices = found[0], list_commands(found[1], commands)
    elif (found := _MENTION.search(before)) is not None:
        word, root = found[1], session.info.cwd if session is not None else folder
        choices = [*list_special(word, editor)]
        if root is not None:
            index = indexes.of(Path(root))
            paths = await index.find(word.strip('"'), limit)
            is_incomplete = index.is_walking or len(paths) == limit
            choices += [*list_paths(paths, Path(root), editor)]
        word = f"@{word}"
    elif session is not None and (found := _ARGUMENT.fullmatch(before)) is not None:
        word = found[2]
        choices = [
            Suggestion("argument", value, value, detail)
            async for value, detail in list_arguments(found[1], hub, session)
            if word.lower() in value.lower()
        ]
    else:
        return (), False
    start, end = prompt.offset_of(len(before) - len(word)), prompt.offset_of(len(before))
    items = [CompletionItem(each.kind, each.label, each.text, start, end, each.detail) for each in choices]
    return tuple(items[:limit]), is_incomplete or len(items) > limit


def list_commands(typed: str, commands: Sequence[CommandInfo]) -> Iterator[Suggestion]:
    """Yield the slash *commands* by the beginning *typed* of their names, or of their other names."""
    meant = {name for alias, name in ALIASES.items() if typed and alias.startswith(typed)}
    for command in sorted(commands, key=lambda each: not each.name.startswith(typed)):
        if command.name.startswith(typed) or command.name in meant:
            text = f"/{command.name}{' ' if command.hint else ''}"
            detail = "  ".join(filter(None, (command.description, command.hint)))
            yield Suggestion("command", f"/{command.name}", text, detail)


def list_special(typed: str, editor: EditorState) -> Iterator[Suggestion]:
    """Yield the mentions besides files that begin with *typed*, as the editor has them."""
    has = {
        "selection": editor.active is not None and bool(editor.active.selections),
        "diagnostics": editor.has_diagnostics,
        "diff": True,
    }
    for name, detail in SPECIAL.items():
        if has[name] and name.startswith(typed):
            yield Suggestion("mention", f"@{name}", f"@{name} ", detail)


async def list_arguments(command: str, hub: Hub, session: Session) -> AsyncIterator[tuple[str, str | None]]:
    """Yield the arguments that *command* takes in *session*, each with a description."""
    wanted = "engine" if command in ("compact", "preview") else command
    for option in session.turns.options.all():
        for choice in option.options if option.id == wanted else ():
            yield choice.value, None if choice.name == choice.value else choice.name
    match command:
        case "resume":
            for summary in await hub.list(SessionQuery(cwd=session.info.cwd, children=False)):
                if summary.sid != session.sid:
                    yield summary.sid, summary.title or None
        case "unpin":
            for pin in session.window.pins.all:
                yield pin.pin_id, pin.text[:_DETAIL_CHARS]
        case "forget":
            for rule in session.window.rules.standing:
                yield rule.id, rule.text[:_DETAIL_CHARS]
        case "rules":
            for verb in ("keep", "dismiss"):
                yield verb, "all proposed rules"
                for rule in session.window.rules.standing:
                    if rule.proposed:
                        yield f"{verb} {rule.id}", rule.text[:_DETAIL_CHARS]
        case "expand":
            for done in session.record.compactions.all:
                yield done.compaction_id, f"{done.engine}, {done.trigger}"
        case "checkpoint":
            for verb in ("diff", "restore"):
                yield verb, None
            for kept in session.workbench.checkpoints.all:
                yield kept.checkpoint_id, ", ".join(file.uri for file in kept.files)[:_DETAIL_CHARS]


def list_paths(paths: Iterable[str], root: Path, editor: EditorState) -> Iterator[Suggestion]:
    """Yield *paths* as mentions, the ones that are open in the editor first."""
    opened = {uri_to_path(tab.uri) for tab in editor.tabs}
    is_open = {path: root / path in opened for path in paths}
    for path in sorted(is_open, key=lambda path: not is_open[path]):
        text = f"@{path}" if _UNQUOTED.fullmatch(path) else f'@"{path}"'
        if path.endswith("/"):  # goes on with what is in it
            yield Suggestion("folder", path, text.removesuffix('"'))
        else:
            yield Suggestion("file", path, f"{text} ", "open in the editor" if is_open[path] else None)
