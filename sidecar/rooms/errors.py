"""What the rooms raise when a value breaks its own rules. Nothing here is raised for what a provider does."""

from __future__ import annotations

from sidecar._internal.errors import InvalidInput

__all__ = ["InvalidRoomValue"]


class InvalidRoomValue(InvalidInput, ValueError):
    """A value of the rooms' contract was built from arguments that cannot be meant."""
