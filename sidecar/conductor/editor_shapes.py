"""The context of an editor as values, as clients report it: open files, selections, diagnostics. Shapes only.

Lines and characters count from 0, in the position encoding of the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

DiagnosticSeverity: TypeAlias = Literal[1, 2, 3, 4]
"""Error, warning, information, hint; as in the Language Server Protocol."""

CompletionKind: TypeAlias = Literal["command", "argument", "file", "folder", "mention"]


@dataclass(frozen=True, slots=True)
class EditorPosition:
    """A place in a text; *line* and *character* count from 0."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class EditorRange:
    """A part of a text, from *start* up to *end*."""

    start: EditorPosition
    end: EditorPosition


@dataclass(frozen=True, slots=True)
class EditorFile:
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


@dataclass(frozen=True, slots=True)
class EditorTab:
    """A file that is open in the editor; *is_dirty* says that it has unsaved changes."""

    uri: str
    is_dirty: bool = False


@dataclass(frozen=True, slots=True)
class EditorDiagnostic:
    """One problem, in the shape of the Language Server Protocol; *severity* is 1 (an error) to 4 (a hint)."""

    range: EditorRange
    message: str
    severity: int = 1
    code: str | int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class FileDiagnostics:
    """Every problem of one file, none where *diagnostics* is empty; *version* is that of its buffer."""

    uri: str
    diagnostics: tuple[EditorDiagnostic, ...]
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CompletionItem:
    """One completion: *insert_text* replaces the text from *start* up to *end*.

    *kind* is `command`, `argument` of one, `file`, `folder` or `mention`.
    """

    kind: CompletionKind
    label: str
    insert_text: str
    start: int
    end: int
    detail: str | None = None
