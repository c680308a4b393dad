"""The agent, the one stateful layer of the runtime: it carries out the effects of the state machine."""

from sidecar.runtime.conductor.agent import (
    Agent,
    AgentBusyError,
    AgentEventHandler,
    AgentIdleError,
    NothingStoredError,
    create_agent,
)
from sidecar.runtime.conductor.journal import Journal, JournalStore
from sidecar.runtime.conductor.run_loop import AgentDeps

__all__ = [
    "Agent",
    "AgentBusyError",
    "AgentDeps",
    "AgentEventHandler",
    "AgentIdleError",
    "Journal",
    "JournalStore",
    "NothingStoredError",
    "create_agent",
]
