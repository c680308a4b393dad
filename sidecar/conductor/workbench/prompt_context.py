"""The entries in front of a prompt: the content of its mentions, and a note about the editor.

The problem: the state of an editor is worth a few hundred tokens, and must not be paid again with each
prompt. So a note has sections (the active file, the selection, the open files, the problems) and leaves out a
section that the model sees already. The sections in view are an index over the notes of the conversation. It
is right by construction after an undo, a rewind or a compaction. A compaction drops all notes, and the next
note is whole again. A section begins with ``- NAME: `` and its further lines are indented, so that no text of
a file can pass for a section.

Example: after a note with ``- active file: a.py, line 3`` and ``- open files: a.py``, a prompt typed with the
cursor in line 9 has a note with ``- active file: a.py, line 9`` alone; one typed without a move has none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from sidecar.capabilities.code import CODE
from sidecar.capabilities.contract import ToolContext
from sidecar.capabilities.diagnostics import DIAGNOSTICS, SEVERITIES, problem_lines
from sidecar.capabilities.paths import display_path
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.conductor.clients import EditorState
from sidecar.conductor.content import ATTACHED, Content
from sidecar.conductor.contract import EditorFile
from sidecar.conductor.events import Notice
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.workbench.files import as_read
from sidecar.conductor.workbench.mentions import NOTE_HEADER, MentionReader, lines_of, note_entry
from sidecar.conductor.workbench.session_editor import (
    SessionEditor,
    SessionPaths,
    list_problems,
    real_path_of,
)
from sidecar.conversation import Entry, FileRead, History, Index
from sidecar.llmgateway.contract import TextBlock, UserTurn, join_texts
from sidecar.workspace.contract import FileAccessError, FileView
from sidecar.workspace.line_index import LineText, index_in_line
from sidecar.workspace.workspace import Workspace

MOST_TABS: Final = 20
_MOST_PROBLEMS: Final = 10
_PROBLEM_CHARS: Final = 1_500
_SELECTED_LINES: Final = 60
_SELECTED_CHARS: Final = 2_000
_HEADING: Final = "What the user sees in the editor now; what is not listed has not changed."
_SECTION: Final = re.compile(r"^- ([a-z ]+): (.*(?:\n  .*)*)$", re.MULTILINE)


class PromptContext:
    """The context of one session's prompts.

    Attributes:
        editors: the reported editors by client.
    """

    def __init__(
        self,
        record: SessionRecord,
        workspace: Workspace,
        editor: SessionEditor,
        tools: SessionToolBox,
        make_context: Callable[[str], ToolContext],
    ) -> None:
        """Make the context; *make_context* returns the surroundings of a tool's call."""
        self._record = record
        self._editor = editor
        self.editors = editor.editors.reported
        self._tools = tools
        self._reader = MentionReader(editor, make_context)
        self._notes = EditorNotes(editor, workspace)

    async def read_mentions(self, prompt: UserTurn, content: Content) -> tuple[Entry, ...]:
        """Return the entries of the mentions in a prompt, with a notice about mentions without an entry.

        *content* is the prompt of the client: a file that it attached is not read again.
        """
        found = [block.text for block in prompt.blocks if isinstance(block, TextBlock)]
        texts = [text for text in found if "@" in text and not text.startswith(ATTACHED)]
        if not texts:
            return ()
        parts = (part for item in content for part in (item, item.get("resource")))
        uris = [str(part["uri"]) for part in parts if isinstance(part, Mapping) and "uri" in part]
        attached = {path for uri in uris if (path := real_path_of(uri))}
        brought = await self._reader.read(texts, attached, self._record.window)
        if brought.problems:
            self._record.events.emit(
                Notice(
                    "warning", "A mention brought nothing, and stays as typed", "\n".join(brought.problems)
                )
            )
        return brought.entries()

    async def describe_editor(self) -> Sequence[Entry]:
        """Return the note about the changes in the editor, and offer the tools that ask it."""
        diagnostics = (DIAGNOSTICS,) if self._editor.provider is not None else ()
        self._tools.offer("editor", (*diagnostics, *((CODE,) if self._editor.answering else ())))
        if not self.editors:
            return ()
        note = await self._notes.note(self._record.history.current)
        return () if note is None else (note,)


def add_sections(known: dict[str, str], entry: Entry, in_view: bool = True) -> dict[str, str]:
    """Return *known*, the sections in view by name, with the sections of *entry*."""
    if entry.kind != "note":
        return known
    text = join_texts(entry.turn.blocks)
    if text.startswith(f"{NOTE_HEADER}\n{_HEADING}\n"):
        known.update(_SECTION.findall(text))
    return known


class EditorNotes:
    """Writes the notes of one session about its editor."""

    def __init__(self, editor: SessionEditor, workspace: Workspace) -> None:
        self._editor = editor
        self._workspace = workspace
        self._index: Index[dict[str, str]] = Index(dict, add_sections)
        self._folding = Lock()

    async def note(self, history: History) -> Entry | None:
        """Return the note with every change since the notes in *history*, None for no change."""
        state = self._editor.state
        if state is None:
            return None
        path, text = await self.view_selected(state)

        def look() -> tuple[dict[str, str], tuple[FileRead, ...], dict[str, str]]:
            return *self.describe(state, path, text), self.find_known(history)

        lines, reads, known = await asyncio.to_thread(look)
        changed = [f"- {name}: {text}" for name, text in lines.items() if known.get(name) != text]
        if not changed:
            return None
        is_shown = any(line.startswith("- selection: ") for line in changed)
        return note_entry("\n".join((_HEADING, *changed)), reads if is_shown else ())

    def find_known(self, history: History) -> dict[str, str]:
        """Return the sections that the notes in *history* show, by name; costs all of it after a move."""
        with self._folding:  # the thread of a turn that was stopped may still be at it
            return dict(self._index.of(history))

    async def view_selected(self, state: EditorState) -> tuple[Path | None, FileView | None]:
        """Return the active file if the session may see it, and its text if some of it is selected."""
        if state.active is None:
            return None, None
        path = await asyncio.to_thread(SessionPaths(self._editor.roots).find, state.active.uri)
        if path is None or not any(each.start != each.end for each in state.active.selections):
            return path, None
        try:
            return path, await self._workspace.view(path)
        except FileAccessError:
            return path, None

    def describe(
        self, state: EditorState, path: Path | None, view: FileView | None
    ) -> tuple[dict[str, str], tuple[FileRead, ...]]:
        """Return the sections by name, and the lines of the selection that they show.

        Args:
            state: the editor.
            path: the active file, None where there is none that the session may see.
            view: the text of that file, None where nothing of it is selected.
        """
        cwd, reads = self._editor.roots[0], list[FileRead]()
        sections = {"active file": describe_active(state.active, path, cwd)}
        sections["selection"] = "none"
        if state.active is not None and path is not None and view is not None:
            sections["selection"], read = describe_selection(state, view, display_path(path, cwd))
            reads += [read]
        sections["open files"] = describe_tabs(state, SessionPaths(self._editor.roots), cwd)
        if state.has_diagnostics:
            sections["problems"] = describe_problems(state, self._editor.roots)
        return sections, tuple(reads)


def describe_active(active: EditorFile | None, path: Path | None, cwd: Path) -> str:
    """Return the active file with the line of its cursor and the visible lines."""
    if active is None:
        return "none"
    if path is None:
        return "one that is ignored or outside of the session's folders"
    parts = [display_path(path, cwd)]
    if active.selections:
        parts.append(f"line {active.selections[0].end.line + 1}")
    if active.visible_ranges:
        first = min(each.start.line for each in active.visible_ranges) + 1
        parts.append(f"lines {first}-{max(each.end.line for each in active.visible_ranges) + 1} visible")
    return ", ".join((*parts, "unsaved") if active.is_dirty else parts)


def describe_selection(state: EditorState, view: FileView, name: str) -> tuple[str, FileRead]:
    """Return the selected lines of *view*, indented and bounded, and the lines that this shows."""
    assert state.active is not None
    selected = next(each for each in state.active.selections if each.start != each.end)
    first, last = lines_of(selected)
    text = LineText(view.text)
    shown: list[str] = []
    room = _SELECTED_CHARS
    for line in text.lines(first - 1, min(last - first + 1, _SELECTED_LINES)):
        room -= len(line)
        if room < 0:
            break
        shown.append(line.rstrip("\r\n"))
    place = f"{name} lines {first}-{last}" if last > first else f"{name} line {first}"
    if last == first and shown:
        begin, end = (
            index_in_line(shown[0], each.character, state.encoding) for each in (selected.start, selected.end)
        )
        if 0 < end - begin < len(shown[0]):
            place += f", of it `{shown[0][begin:end]}`"
    n_more = last - first + 1 - len(shown)
    body = [f"  {line}" for line in shown] + ([f"  [{n_more} more lines]"] if n_more > 0 else [])
    return "\n".join((place, *body)), as_read(view, first_line=first, line_count=len(shown))


def describe_tabs(state: EditorState, paths: SessionPaths, cwd: Path) -> str:
    """Return the open files that the session may see, and the number of others."""
    found = [(paths.find(tab.uri), tab.is_dirty) for tab in state.tabs]
    names = [f"{display_path(path, cwd)}{' (unsaved)' if dirty else ''}" for path, dirty in found if path]
    n_more = max(0, len(names) - MOST_TABS)
    n_others = len(found) - len(names) + state.n_tabs_cut
    more = [f"{n_more} more"] if n_more else []
    others = [f"{n_others} ignored or outside"] if n_others else []
    return ", ".join((*names[:MOST_TABS], *more, *others)) or "none"


def describe_problems(state: EditorState, roots: Sequence[Path]) -> str:
    """Return the number of errors and warnings, and the first of them."""
    listed = list_problems(state, roots)
    counts: Mapping[str, int] = {
        name: sum(each.severity == severity for each in listed.problems)
        for severity, name in SEVERITIES.items()
        if severity <= 2
    }
    total = ", ".join(f"{n} {name}{'' if n == 1 else 's'}" for name, n in counts.items() if n) or "none"
    severe = [each for each in listed.problems if each.severity <= 2]
    lines = problem_lines(severe[:_MOST_PROBLEMS], roots[0], _PROBLEM_CHARS)
    n_more = len(severe) - len(lines)
    more = [f"  [{n_more} more: the tool diagnostics lists them]"] if n_more else []
    return "\n".join((total, *(f"  {line}" for line in lines), *more))
