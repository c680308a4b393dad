"""Tells a host's callback something, and goes on whatever the callback does."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

__all__ = ["tell"]

P = ParamSpec("P")


def tell(hook: Callable[P, object] | None, *args: P.args, **kwargs: P.kwargs) -> None:
    """Call *hook* if there is one. What it raises is swallowed: a run never depends on who watches it."""
    if hook is None:
        return
    try:
        hook(*args, **kwargs)
    except Exception:
        # Swallowed by contract, as with the subscribers of the ledger (R20).
        return
