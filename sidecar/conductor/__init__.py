"""Sessions: each is a record, a workbench on it, a window on both and turns on all three; the hub has all.

The runner's names are imported on first use, so the shapes in ``contract`` and ``events`` need no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidecar.conductor.session_ops import (
        CondenseFn,
        CondenseOpts,
        IdentityCondense,
        WindowBudgetCondense,
        condense_transcript,
        content_to_blocks,
        messages_to_turns,
        restore_under_count_guard,
        turns_to_messages,
    )

__all__ = [
    "CondenseFn",
    "CondenseOpts",
    "IdentityCondense",
    "WindowBudgetCondense",
    "condense_transcript",
    "content_to_blocks",
    "messages_to_turns",
    "restore_under_count_guard",
    "turns_to_messages",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.session_ops"), name)
