"""Messages that many methods share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Empty",
    "SidParams",
]


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing to say."""


@dataclass(frozen=True, slots=True)
class SidParams:
    """A session."""

    sid: str
