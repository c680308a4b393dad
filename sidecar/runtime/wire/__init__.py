"""From a history to what a provider is sent: per-role projection, and every call with its result."""

from sidecar.runtime.wire.outgoing import OPENING, Outgoing, build_conversation
from sidecar.runtime.wire.pairing import NO_RESULT, is_blank, paired, with_distinct_ids
from sidecar.runtime.wire.projectors import PROJECTORS, Projector

__all__ = [
    "NO_RESULT",
    "OPENING",
    "PROJECTORS",
    "Outgoing",
    "Projector",
    "build_conversation",
    "is_blank",
    "paired",
    "with_distinct_ids",
]
