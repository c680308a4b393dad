"""What a caller of an agent may have to handle."""

from __future__ import annotations

from typing import ClassVar

from sidecar._internal.errors import SidecarError

__all__ = ["AgentBusyError", "AgentIdleError", "NothingStoredError"]


class AgentIdleError(SidecarError):
    """There is no run, and what was asked needs one."""

    kind: ClassVar[str] = "notSteerable"

    def __init__(self) -> None:
        super().__init__("cannot steer: the agent is at rest", hint="submit the prompt instead")


class AgentBusyError(SidecarError):
    """The agent is at work, and what was asked needs it at rest."""

    kind: ClassVar[str] = "busy"
    retryable: ClassVar[bool] = True

    def __init__(self, asked: str) -> None:
        super().__init__(f"cannot {asked} during a run", hint="await its end, or abort it, then retry")


class NothingStoredError(SidecarError):
    """The agent was given neither a store nor a journal."""

    kind: ClassVar[str] = "invalidState"

    def __init__(self, session_id: str) -> None:
        message = f"cannot resume session {session_id!r}: the agent has no store"
        super().__init__(message, hint="pass AgentDeps(store=...) to create_agent")
