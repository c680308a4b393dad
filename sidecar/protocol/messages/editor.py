"""Messages of ``sidecar/editor/*`` and ``sidecar/complete``."""

from __future__ import annotations

from typing import Literal

from sidecar._internal.values import Value
from sidecar.conductor.contract import CompletionItem, EditorFile, EditorTab, FileDiagnostics


class EditorContextParams(Value):
    """The part of the editor's state that has changed. An absent member stays as it was reported before.

    *active* is the file that the user looks at; an explicit null says that there is none. *tabs* are all open
    files. *diagnostics* replace the earlier ones of each file in it, and with *replaces_diagnostics* the
    earlier ones of all files. A client that has sent *diagnostics* once, even an empty array, provides them:
    the model is offered a tool for them, and sees new errors of the files that it edits. *position_encoding*
    is the unit of characters: the negotiated one on the LSP face unless given, else UTF-16.
    """

    active: EditorFile | None = None
    tabs: tuple[EditorTab, ...] | None = None
    diagnostics: tuple[FileDiagnostics, ...] | None = None
    replaces_diagnostics: bool = False
    position_encoding: Literal["utf-8", "utf-16", "utf-32"] | None = None


class CompleteParams(Value):
    """A prompt that is being typed, and the *position* of the cursor in it, in units of *encoding*.

    Paths belong to the folder of the session *sid*, or to the folder *cwd* before there is a session.
    """

    text: str
    position: int
    sid: str | None = None
    cwd: str | None = None
    encoding: Literal["utf-8", "utf-16", "utf-32"] = "utf-16"
    limit: int = 50


class CompleteResult(Value):
    """The completions, the best first. With *is_incomplete* there are more, or the files are still read."""

    items: tuple[CompletionItem, ...]
    is_incomplete: bool = False
