"""What the user of a session should hear once: settings that are not used, a conversation that was mended.

What was known before a turn is told with the next one, so that whoever follows turns alone hears it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sidecar.conductor.events import Notice
from sidecar.conductor.stored import Report
from sidecar.llmgateway.contract import Turn
from sidecar.workspace.contract import FileProblem

__all__ = ["OneTimeNotices"]

_UNUSED: Final = "Some settings are not used"
_LOADED: Final = "The stored conversation was mended"
_SENT: Final = "The conversation was mended before it was sent"
_IN_ORDER: Final = (
    "turns that could not be sent as they are were put in order; what is stored stays as it was"
)


class OneTimeNotices:
    """The concerns of one session; *problems* are those with its settings."""

    def __init__(self, emit: Callable[[Notice], None], problems: Sequence[str]) -> None:
        self._emit = emit
        self._waiting = [(_UNUSED, problem) for problem in problems]
        self._repairs: set[str] = set()
        self._refused: set[str] = set()
        self._has_sent = False

    def loaded(self, report: Report) -> None:
        """Hear what the store found wrong."""
        if not report.ok:
            self._waiting.append((_LOADED, "; ".join((*report.repaired, *report.missing))))

    def emit_pending(self) -> None:
        """Tell what waits."""
        waiting, self._waiting = self._waiting, []
        for title, text in waiting:
            self._emit(Notice("warning", title, text))

    def repaired(self, repair: str) -> None:
        """Hear what was mended for a model call: what stays broken is mended at every one, and told once."""
        if repair not in self._repairs:
            self._repairs.add(repair)
            self._emit(Notice("warning", _SENT, repair))

    def rule_file_refused(self, name: str, problem: FileProblem) -> None:
        """Emit one notice for each reason why the rule file *name* is not used."""
        text = f"{name} is not used: {problem.message}"
        if text not in self._refused:
            self._refused.add(text)
            self._waiting.append((_UNUSED, text))

    def sending(self, turns: Sequence[Turn], stored: Sequence[Turn]) -> None:
        """Hear that *turns* are sent of what is *stored*; when others are, what was loaded was broken."""
        if not self._has_sent and tuple(turns) != tuple(stored):
            self.repaired(_IN_ORDER)
        self._has_sent = True
