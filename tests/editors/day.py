"""The day that is lived in each face: the same ten steps, and no face leaves one out.

Each face plays them in its own editor, terminal or browser, and keeps a picture of every one. What is more of
a face (an unsaved buffer, the selection, a queue, themes, speed) stands in its test, or in one of its own.

=======  =====================================================================================
face     how it is played
=======  =====================================================================================
chat     in three widths of a terminal
panel    in Chromium, 300 pixels wide, dark, by the keyboard alone, with axe at each step
VS Code  in code-server, its view 300 pixels wide, dark, by the keyboard alone, with axe likewise
Neovim   in a terminal
Emacs    in a terminal; its parts are those of a change of the selection
=======  =====================================================================================
"""

from __future__ import annotations

import json
from typing import Final

STEPS: Final = {
    "answer": "a prompt, and its answer as it streams",
    "allow": "a change, shown as a difference and allowed",
    "parts": "a change by its parts: one kept, one refused",
    "steer": "a command, refused, and words that go into the running turn",
    "compact": "a compaction, after its preview",
    "undo": "the compaction taken back",
    "rewind": "back to before a prompt, with the files",
    "kill": "kill -9 of the daemon, and on with another",
    "import": "a conversation of another agent",
    "resume": "back to a stored conversation",
}
AS_JSON: Final = json.dumps([*STEPS])


class Day:
    """Takes down the steps as a face lives them."""

    def __init__(self) -> None:
        self.lived: list[str] = []

    def step(self, name: str) -> None:
        """Begin the step *name*."""
        assert name in STEPS, name
        assert name not in self.lived, f"{name} a second time"
        self.lived.append(name)

    def end(self) -> None:
        """Fail for a step that was left out."""
        assert set(self.lived) == set(STEPS), f"left out: {', '.join(set(STEPS) - set(self.lived))}"
