"""The errors that an agent raises."""

from __future__ import annotations

from typing import ClassVar

from sidecar._internal.errors import SidecarError

__all__ = ["AgentBusyError", "AgentIdleError", "NothingStoredError"]


class AgentIdleError(SidecarError):
    """The call needs a run, and there is none."""

    kind: ClassVar[str] = "notSteerable"

    def __init__(self) -> None:
        super().__init__("cannot steer: the agent is at rest", hint="submit the prompt instead")


class AgentBusyError(SidecarError):
    """The call needs the agent at rest, and a run is under way."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True

    def __init__(self, action: str) -> None:
        super().__init__(f"cannot {action} during a run", hint="await its end, or abort it, then retry")


class NothingStoredError(SidecarError):
    """The agent was given neither a store nor a journal."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, session_id: str) -> None:
        message = f"cannot resume session {session_id!r}: the agent has no store"
        super().__init__(message, hint="pass AgentDeps(store=...) to create_agent")
