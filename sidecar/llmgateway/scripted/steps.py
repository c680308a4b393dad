"""What a scripted call may do, one value a step. Values only; the player is in ``model``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sidecar.llmgateway.contract import Conversation, Emission, StreamOptions

__all__ = [
    "Call",
    "EndWithoutDone",
    "Hang",
    "Raise",
    "RecordedCall",
    "Say",
    "Script",
    "Step",
    "Think",
    "WaitFor",
]


@dataclass(frozen=True, slots=True)
class Say:
    """Prose, cut into *n_deltas* pieces of about the same length."""

    text: str
    n_deltas: int = 1


@dataclass(frozen=True, slots=True)
class Think:
    """Reasoning, cut into *n_deltas* pieces."""

    text: str
    n_deltas: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call with *input*, a JSON value; without *id* it is numbered ``call-1``, ``call-2``, ..."""

    name: str
    input: Any
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing more until cancelled."""


@dataclass(frozen=True, slots=True)
class Raise:
    """Break the stream with *error*."""

    error: Exception


@dataclass(frozen=True, slots=True)
class EndWithoutDone:
    """End the stream with no done emission."""


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Go on when :meth:`ScriptedModel.gate` of *name* is set."""

    name: str


Step: TypeAlias = Say | Think | Call | Hang | Raise | EndWithoutDone | WaitFor | Emission
Script: TypeAlias = Sequence[Sequence[Step]]
"""One sequence of steps for each model call."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """What one call was given."""

    conversation: Conversation
    options: StreamOptions
