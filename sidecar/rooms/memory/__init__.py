"""Memory providers: they choose the context that a model gets of a room, and keep it within its window.

The providers are the stateful shells; their arithmetic is in the pure modules beside them. They are for hosts
with rooms of their own. The daemon's sessions use the arithmetic alone: a view is made of stored entries,
notes are records that can be undone, and sources of knowledge index whole sessions at the end of a turn. So
they need neither ``SummarizingMemory`` nor ``RetrievalMemory.ingest``.
"""

from sidecar.rooms.memory.provider import (
    MemoryProvider,
    MemoryResult,
    MockMemoryProvider,
    SlidingWindowMemory,
)
from sidecar.rooms.memory.retrieval import RetrievalMemory
from sidecar.rooms.memory.summaries import SUMMARY_MARK
from sidecar.rooms.memory.summarizing import SummarizingMemory

__all__ = [
    "SUMMARY_MARK",
    "MemoryProvider",
    "MemoryResult",
    "MockMemoryProvider",
    "RetrievalMemory",
    "SlidingWindowMemory",
    "SummarizingMemory",
]
