"""What a client may set of an engine's thresholds, by their wire names. Pure; the engines know the names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidecar._internal.errors import InvalidInput

__all__ = ["sound_policy"]

_MOST: Final = 1e12


def sound_policy(policy: Mapping[str, float]) -> dict[str, float]:
    """Return *policy*. Raises InvalidInput for a threshold that no arithmetic could go by.

    >>> sound_policy({"triggerRatio": 0.5})
    {'triggerRatio': 0.5}
    """
    for name, value in policy.items():
        if not 0 <= value <= _MOST:
            raise InvalidInput(f"policy.{name} is {value}", hint=f"give a number from 0 to {_MOST:g}")
    return dict(policy)
