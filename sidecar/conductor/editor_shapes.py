"""The context of an editor as values, as clients report it: open files, selections, diagnostics. Shapes only.

Lines and characters count from 0, in the position encoding of the report.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from sidecar._internal.values import Value

CompletionKind: TypeAlias = Literal["command", "argument", "file", "folder", "mention"]


class EditorPosition(Value):
    """A place in a text; *line* and *character* count from 0."""

    line: int
    character: int


class EditorRange(Value):
    """A part of a text, from *start* up to *end*."""

    start: EditorPosition
    end: EditorPosition


class EditorFile(Value):
    """The file that the user looks at.

    *selections* has the main one first; an empty range is a cursor. *selected_text* is needed only for a text
    that the daemon cannot read, such as a file that was never saved.
    """

    uri: str
    language_id: str | None = None
    is_dirty: bool = False
    selections: tuple[EditorRange, ...] = ()
    selected_text: str | None = None
    visible_ranges: tuple[EditorRange, ...] = ()


class EditorTab(Value):
    """A file that is open in the editor; *is_dirty* says that it has unsaved changes."""

    uri: str
    is_dirty: bool = False


class EditorDiagnostic(Value):
    """One problem, in the shape of the Language Server Protocol; *severity* is 1 (an error) to 4 (a hint)."""

    range: EditorRange
    message: str
    severity: int = 1
    code: str | int | None = None
    source: str | None = None


class FileDiagnostics(Value):
    """Every problem of one file, none where *diagnostics* is empty; *version* is that of its buffer."""

    uri: str
    diagnostics: tuple[EditorDiagnostic, ...]
    version: int | None = None


class CompletionItem(Value):
    """One completion: *insert_text* replaces the text from *start* up to *end*.

    *kind* is `command`, `argument` of one, `file`, `folder` or `mention`.
    """

    kind: CompletionKind
    label: str
    insert_text: str
    start: int
    end: int
    detail: str | None = None
