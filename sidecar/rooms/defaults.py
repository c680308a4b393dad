"""The one place where the rooms' values take an id or the time by themselves.

An event that is made without an id or a time gets them here; whoever needs fixed ones passes them. Nothing
else in the rooms' contract looks at a clock or draws a random number.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

__all__ = ["new_id", "utc_now"]


def new_id() -> str:
    """Return a fresh id: 32 hex digits."""
    return uuid4().hex


def utc_now() -> datetime:
    """Return the present moment, aware of its time zone (UTC)."""
    return datetime.now(UTC)
