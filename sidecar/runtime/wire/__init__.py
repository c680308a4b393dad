"""From a history to a provider's conversation: a projection per role, and every call with its result."""

from sidecar.runtime.wire.outgoing import (
    NO_RESULT,
    OPENING,
    PROJECTORS,
    Outgoing,
    Projector,
    build_conversation,
    is_blank,
    pair_results,
    with_distinct_ids,
)

__all__ = [
    "NO_RESULT",
    "OPENING",
    "PROJECTORS",
    "Outgoing",
    "Projector",
    "build_conversation",
    "is_blank",
    "pair_results",
    "with_distinct_ids",
]
