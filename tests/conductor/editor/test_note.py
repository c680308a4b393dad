"""Notes about the editor: which sections are in view, and where that is looked up."""

from __future__ import annotations

from pathlib import Path
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.conductor.clients import EditorState
from sidecar.conductor.workbench import prompt_context
from sidecar.conductor.workbench.prompt_context import EditorNotes, add_sections
from sidecar.conversation import Entry, History
from turns import user

N_ENTRIES = 1_000
ASKED = Entry(user("hello"), "user")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that receives the thread of each entry that is looked at."""
    seen: list[object] = []

    def add(known: dict[str, str], entry: Entry, in_view: bool = True) -> dict[str, str]:
        seen.append(current_thread())
        return add_sections(known, entry, in_view)

    monkeypatch.setattr(prompt_context, "add_sections", add)
    return seen


async def test_a_note_looks_for_the_sections_in_view_in_a_thread(
    threads: list[object], tmp_path: Path
) -> None:
    editor: Any = SimpleNamespace(state=EditorState(), roots=(tmp_path,))
    nothing: Any = None
    notes, history = EditorNotes(editor, nothing), History([ASKED] * N_ENTRIES)
    note = await notes.note(history)
    assert note is not None
    assert len(threads) == N_ENTRIES
    assert main_thread() not in threads
    later = history.extended([note])
    assert await notes.note(later) is None, "it says nothing twice"
    assert await notes.note(history) == note, "nor hides what was taken back"
