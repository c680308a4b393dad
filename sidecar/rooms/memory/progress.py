"""What a summariser begins with, and what stands in the view for as far as it came (facts K7, K10).

Pure functions over a :class:`Reading`; the asking itself is done by the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sidecar.rooms.memory.marks import EMPTY_SUMMARY, summary_body, unavailable_summary
from sidecar.rooms.memory.prompt import Line, PromptBudget, byte_length
from sidecar.rooms.memory.reading import Reading

__all__ = ["Progress", "opening", "stand_in"]

EARLIER_NOTES_LABEL = "[earlier notes]: "


@dataclass(frozen=True, slots=True)
class Progress:
    """The summariser's *notes*, which cover the first *n_events* of the material.

    *failure* says why not all of it: it raised, or gave an empty answer. None when it is all.
    """

    notes: str = ""
    n_events: int = 0
    failure: Literal["raised", "empty"] | None = None


def opening(reading: Reading, budget: PromptBudget) -> tuple[str | None, list[Line]]:
    """Return the notes to begin with, and the lines to be shown.

    Notes that would take too much of every prompt are put among the lines, ahead of the events: there they
    are divided like any other line.
    """
    notes = "\n\n".join(reading.standing)
    lines = [reading.known.line(event) for event in reading.material]
    if byte_length(notes) <= budget.prior_bytes:
        return notes or None, lines
    return None, [*(Line(EARLIER_NOTES_LABEL, text) for text in reading.standing), *lines]


def stand_in(reading: Reading, progress: Progress) -> str:
    """Return what the view says of the material: the notes, or the notes there are beside a placeholder."""
    if progress.failure is None:
        return progress.notes
    kept = [progress.notes] if progress.n_events else [summary_body(text) for text in reading.standing]
    missing = unavailable_summary(len(reading.material) - progress.n_events)
    return "\n\n".join((*kept, EMPTY_SUMMARY if progress.failure == "empty" else missing))
