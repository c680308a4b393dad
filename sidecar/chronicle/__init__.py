"""The chronicle of a conversation, which a compaction leaves of it: the older, the thinner. Pure."""

from sidecar.chronicle.chronicle import HEADER, Chronicle, Meter, Resolution, Written, chronicle_index

__all__ = ["HEADER", "Chronicle", "Meter", "Resolution", "Written", "chronicle_index"]
