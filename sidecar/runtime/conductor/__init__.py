"""The one stateful layer of the runtime: an agent that carries out what the state machine asks for."""

from sidecar.runtime.conductor.agent import Agent, AgentEventHandler, create_agent
from sidecar.runtime.conductor.deps import AgentDeps
from sidecar.runtime.conductor.errors import AgentAtRest, AgentBusy, NothingStored
from sidecar.runtime.conductor.journal import Journal, JournalStore, MemoryJournal

__all__ = [
    "Agent",
    "AgentAtRest",
    "AgentBusy",
    "AgentDeps",
    "AgentEventHandler",
    "Journal",
    "JournalStore",
    "MemoryJournal",
    "NothingStored",
    "create_agent",
]
