"""Having a model take the notes on what a view leaves out: piece by piece, each with the notes so far.

It keeps nothing and cuts nothing; what becomes of the notes, and of a failure, is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sidecar.rooms.ai import AIProvider
from sidecar.rooms.memory.marks import summary_body
from sidecar.rooms.memory.progress import Progress, opening
from sidecar.rooms.memory.prompt import prompt_budget, summariser_context, to_pieces
from sidecar.rooms.memory.reading import Reading

__all__ = ["take_notes"]


async def take_notes(
    reading: Reading,
    provider: AIProvider,
    max_tokens: int,
    on_error: Callable[[Exception], None] | None = None,
) -> Progress:
    """Show *provider* all of the reading's material, and return how far its notes came.

    Args:
        reading: one retrieve, sorted out; what its cut names is the material.
        provider: who takes the notes; what it raises ends them, and is not raised here.
        max_tokens: the longest answer to ask for.
        on_error: is told what the provider raised. Contract: never raises.
    """
    budget = prompt_budget(provider.context_window, max_tokens)
    notes, lines = opening(reading, budget)
    n_prior_lines = len(lines) - len(reading.material)
    progress = Progress()
    for piece in to_pieces(lines, budget.piece_bytes):
        try:
            response = await provider.generate(summariser_context(piece.text, notes, budget))
            notes = summary_body(response.content.strip())
        except Exception as error:
            if on_error is not None:
                on_error(error)
            return replace(progress, failure="raised")
        if not notes:
            return replace(progress, failure="empty")
        progress = Progress(notes, max(0, piece.n_lines_done - n_prior_lines))
    return progress
