"""What the sessions of a hub stand on, each part behind its Protocol. Values only; boot names real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.capabilities.contract import ToolContext, ToolObserver
from sidecar.capabilities.mcp.contract import ServerHost, ToolServers
from sidecar.conductor.engines.base import SessionEngine
from sidecar.conductor.knowledge import Library, NoLibrary
from sidecar.conductor.ports import Models, SessionTools
from sidecar.workspace.contract import WorkspacePort

__all__ = ["SessionParts"]


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What every session of a hub stands on; times in milliseconds or seconds as named.

    *toolbox* builds the tools of one session from its context maker and observer, *tool_servers* what runs
    the servers that clients name for it. *resolve* makes a path that the model wrote absolute. A model call
    that says nothing for *model_silence_s* seconds has failed; a knowledge source that finds nothing for
    *knowledge_timeout_s* seconds is not waited for.
    """

    models: Models
    workspace: WorkspacePort
    engines: Mapping[str, Callable[[], SessionEngine]]
    toolbox: Callable[[Callable[[str], ToolContext], ToolObserver], SessionTools]
    tool_servers: Callable[[ServerHost], ToolServers]
    resolve: Callable[[str, Path], Path]
    child_started: Callable[[int, str], Callable[[], None]]
    clock_ms: Callable[[], int]
    new_id: Callable[[], str]
    library: Library = field(default_factory=NoLibrary)
    permission_timeout_ms: int = 300_000
    summary_deadline_s: float = 120.0
    model_silence_s: float = 300.0
    knowledge_timeout_s: float = 5.0
    max_output_chars: int = 30_000
