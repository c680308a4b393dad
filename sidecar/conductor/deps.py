"""Dependencies of a session and of its compactor.

Values only; ``boot`` names the concrete implementations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidecar._internal.cancel import CancelToken
from sidecar.capabilities.contract import (
    AskUser,
    CheckpointPort,
    Confine,
    SubagentEnd,
    SubagentTask,
    Tool,
    ToolContext,
    ToolObserver,
)
from sidecar.capabilities.mcp.contract import ServerHost, ToolServers
from sidecar.conductor.contract import Compaction
from sidecar.conductor.engines.contract import CompactionResult, EngineInput, FreshFiles, SessionEngine
from sidecar.conductor.knowledge import Library
from sidecar.conductor.loss_values import Loss
from sidecar.conductor.ports import Models, SessionTools
from sidecar.conductor.records import SessionInfo
from sidecar.conductor.token_estimate import ModelFactors
from sidecar.conversation import History
from sidecar.extensions.contract import ExtensionsPort
from sidecar.llmgateway.config import CompactionSettings
from sidecar.llmgateway.contract import ModelCard, Usage
from sidecar.permissions.rules import Rules
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget.contract import CachedRequest
from sidecar.workspace.contract import ContentsPort, WorkspacePort


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeps:
    """The dependencies of every session of a hub; a suffix names the unit of a time.

    Attributes:
        toolbox: makes the tools of one session, from its context maker and its observer.
        tool_servers: makes the runner of the tool servers that clients name for a session.
        resolve: makes a path of the model absolute.
        max_model_calls: the most model calls of one prompt, 0 for no limit.
        permission_rules: the rules by which the user allows and denies actions.
        may_fetch_private: whether pages may be fetched from this machine and its network.
        ask: answers the questions of tools, where not the session's own clients do.
        run_subagent: runs sub-agents for a session with these dependencies and values, with the tools of its
            servers; None for none.
        confine: confines commands, where the user's settings ask for it.
        contents: stores the files that sessions change as they were before, None for nowhere.
        checkpoints: keeps the files that tools change, None for the checkpoints of the session itself.
        home: the state directory, which holds the user's own rules; None for none. Its files are protected.
        knowledge_timeout_s: a knowledge source that takes longer is not waited for.
        compaction: the user's settings of compactions.
        surroundings: describes the machine and the folders of a session to a model.
        extensions: finds the commands, skills, hooks and tool servers of the user and of a folder.
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
    permission_rules: Rules = field(default_factory=Rules)
    may_fetch_private: bool = False
    ask: AskUser | None = None
    run_subagent: (
        Callable[
            [SessionDeps, SessionInfo, SubagentTask, ToolContext, Sequence[Tool], CancelToken],
            Awaitable[SubagentEnd],
        ]
        | None
    ) = None
    confine: Confine | None = None
    contents: ContentsPort | None = None
    checkpoints: CheckpointPort | None = None
    home: Path | None = None
    library: Library
    factors: ModelFactors = field(default_factory=ModelFactors)
    permission_timeout_ms: int = 300_000
    summary_deadline_s: float = 120.0
    max_model_calls: int = 0
    knowledge_timeout_s: float = 5.0
    compaction: CompactionSettings
    surroundings: Callable[[Sequence[Path]], Coroutine[Any, Any, str]]
    extensions: ExtensionsPort
    max_output_chars: int = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactorDeps:
    """The parts of a session that its compactor uses; the callables return the values of the moment.

    Attributes:
        engine_input: the conversation as it is now, weighed.
        own_engine: the name of the session's engine.
        engine: the session's instance of a named engine.
        summarizer: the model that writes summaries and its card, None for none.
        with_loss: returns a result with the facts counted that it folds away, if that takes a moment only.
        count_loss: counts the facts that a compaction folded away, however long it takes; None on failure.
        cached: the conversation as the summarising model's provider has it in its cache, None for none.
        count: counts the usage of a call of that model.
        on_summary: called with a summary by that model, and the conversation that it was made of.
        fresh: reads files as they are now.
        is_stale: whether the file that the model named by a path changed since it was shown.
        new_id: makes ids.
        clock_ms: the time in epoch milliseconds.
        deadline_s: how long a model may take for a summary.
        prepares: whether the summary of a compaction is prepared before it is due.
        refuse: returns why a compaction with an engine, for a trigger, must not run, None where it may.
    """

    engine_input: Callable[[], EngineInput]
    own_engine: Callable[[], str]
    engine: Callable[[str], SessionEngine]
    summarizer: Callable[[], tuple[ModelInvoker | None, ModelCard | None]]
    cached: Callable[[], CachedRequest | None]
    count: Callable[[Usage], object]
    on_summary: Callable[[str, History], object]
    with_loss: Callable[[EngineInput, CompactionResult], Awaitable[CompactionResult]]
    count_loss: Callable[[Compaction], Awaitable[Loss | None]]
    fresh: FreshFiles
    is_stale: Callable[[str], bool]
    new_id: Callable[[], str]
    clock_ms: Callable[[], int]
    deadline_s: float
    prepares: bool
    refuse: Callable[[str, str], Awaitable[str | None]]
