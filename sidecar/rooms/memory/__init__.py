"""Memory providers (seed 003): what of a room is put before a model, and how it is kept within its window.

The providers are the stateful shells; their arithmetic is in the pure modules beside them.
"""

from sidecar.rooms.memory.mock import MockMemoryProvider
from sidecar.rooms.memory.provider import MemoryProvider, MemoryResult
from sidecar.rooms.memory.retrieval import RetrievalMemory
from sidecar.rooms.memory.sliding import SlidingWindowMemory
from sidecar.rooms.memory.summarizing import SummarizingMemory

__all__ = [
    "MemoryProvider",
    "MemoryResult",
    "MockMemoryProvider",
    "RetrievalMemory",
    "SlidingWindowMemory",
    "SummarizingMemory",
]
