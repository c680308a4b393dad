"""Dependencies of a session and of its compactor.

Values only; ``boot`` names the concrete implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sidecar.capabilities.contract import ToolContext, ToolObserver
from sidecar.capabilities.mcp.contract import ServerHost, ToolServers
from sidecar.conductor.engines.base import EngineInput, FreshFiles, SessionEngine
from sidecar.conductor.knowledge import Library, NoLibrary
from sidecar.conductor.ports import Models, SessionTools
from sidecar.llmgateway.contract import ModelCard, Turn
from sidecar.runtime.contract import ModelInvoker
from sidecar.workspace.contract import WorkspacePort


@dataclass(frozen=True, slots=True)
class SessionDeps:
    """The dependencies of every session of a hub; a suffix names the unit of a time.

    Attributes:
        toolbox: makes the tools of one session, from its context maker and its observer.
        tool_servers: makes the runner of the tool servers that clients name for a session.
        resolve: makes a path of the model absolute.
        model_idle_timeout_s: a model call without an emission for this time has failed.
        knowledge_timeout_s: a knowledge source that takes longer is not waited for.
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
    model_idle_timeout_s: float = 300.0
    knowledge_timeout_s: float = 5.0
    max_output_chars: int = 30_000


@dataclass(frozen=True, slots=True)
class CompactorDeps:
    """The dependencies of a compactor; the callables return the values of the moment.

    Attributes:
        engine_input: returns the conversation, weighed.
        own_engine: returns the name of the session's engine.
        reseat: gives the agent another conversation.
        uri_of: returns the URI of a path that the model wrote.
    """

    engine_input: Callable[[], EngineInput]
    own_engine: Callable[[], str]
    engine: Callable[[str], SessionEngine]
    reseat: Callable[[Sequence[Turn]], None]
    summarizer: Callable[[], tuple[ModelInvoker | None, ModelCard | None]]
    fresh: FreshFiles
    uri_of: Callable[[str], str]
    restored: Callable[[Sequence[str], str], None]
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    deadline_s: float
