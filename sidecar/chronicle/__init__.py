"""The chronicle of a conversation, which a compaction leaves of it: the older, the thinner. Pure."""

from sidecar.chronicle.chronicle import (
    HEADER,
    INDEX_HEADER,
    Chronicle,
    Meter,
    Resolution,
    Written,
    entries_by_place,
)
from sidecar.chronicle.ranking import measure_telling, pick_telling

__all__ = [
    "HEADER",
    "INDEX_HEADER",
    "Chronicle",
    "Meter",
    "Resolution",
    "Written",
    "entries_by_place",
    "measure_telling",
    "pick_telling",
]
