"""Dependencies of every session of a daemon: the parts that ``boot`` names, and the hub."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value
from sidecar.capabilities.contract import (
    Confine,
    SubagentEnd,
    SubagentTask,
    ToolContext,
    ToolObserver,
)
from sidecar.capabilities.mcp import ServerHost, SessionToolServers
from sidecar.capabilities.toolbox import SessionToolBox
from sidecar.conductor.clients import Audience, Terminals
from sidecar.conductor.contract import SessionSummary
from sidecar.conductor.engine import SessionEngine
from sidecar.conductor.spending import DaySpending, Spending
from sidecar.conductor.token_estimate import ModelFactors
from sidecar.extensions.contract import ExtensionsPort
from sidecar.llmgateway.config import CompactionSettings
from sidecar.llmgateway.contract import CostBudget
from sidecar.llmgateway.registry import ModelRegistry
from sidecar.llmgateway.user_rules import UserRules
from sidecar.rooms.knowledge.library import KnowledgeLibrary
from sidecar.runtime.store.place import SessionQuery
from sidecar.workspace.kept_contents import KeptContents
from sidecar.workspace.workspace import Workspace


class SessionHost(Protocol):
    """The hub, as its sessions see it."""

    @property
    def audience(self) -> Audience:
        """The connected clients and the editors that they have reported."""
        ...

    @property
    def terminals(self) -> Terminals:
        """The terminals that clients lend to sessions."""
        ...

    def announce_change(self, *changed: SessionSummary) -> None:
        """Notify every client of the lines of the list of sessions that *changed*."""
        ...

    async def fork_of(self, sid: str) -> str:
        """Start a fork of *sid* at its head and return the fork's id."""
        ...

    async def new_like(self, sid: str) -> str:
        """Start an empty session with the settings of *sid* and return its id."""
        ...

    async def list(self, query: SessionQuery) -> Sequence[SessionSummary]:
        """Return the sessions that *query* asks for, the newest first."""
        ...

    async def run_subagent(
        self, sid: str, task: SubagentTask, context: ToolContext, cancel: CancelToken
    ) -> SubagentEnd:
        """Run a sub-agent for a call of session *sid*. Raises SidecarError where it cannot begin."""
        ...


class SessionDeps(Value, kw_only=True):
    """The dependencies of every session of a hub; a suffix names the unit of a time.

    Attributes:
        toolbox: makes the tools of one session, from its context maker and its observer.
        tool_servers: makes the runner of the tool servers that clients name for a session.
        resolve: makes a path of the model absolute.
        budgets: the budgets of the settings.
        day: the spending of all sessions by days.
        spending: the spending of the session that a sub-agent works for, None for a session of its own.
        max_model_calls: the most model calls of one prompt, 0 for no limit.
        question_timeout_s: how long a form waits for its answer.
        permission_rules: the rules by which the user allows and denies actions, None for none.
        may_fetch_private: whether pages may be fetched from this machine and its network.
        confine: confines commands, where the user's settings ask for it.
        contents: stores the files that sessions change as they were before, None for nowhere.
        home: the state directory, which holds the user's own rules; None for none. Its files are protected.
        knowledge_timeout_s: a knowledge source that takes longer is not waited for.
        compaction: the user's settings of compactions.
        surroundings: describes the machine and the folders of a session to a model.
        extensions: finds the commands, skills, hooks and tool servers of the user and of a folder.
    """

    models: ModelRegistry
    workspace: Workspace
    engines: Mapping[str, Callable[[], SessionEngine]]
    toolbox: Callable[[Callable[[str], ToolContext], ToolObserver], SessionToolBox]
    tool_servers: Callable[[ServerHost], SessionToolServers]
    resolve: Callable[[str, Path], Path]
    child_started: Callable[[int, str], Callable[[], None]]
    clock_ms: Callable[[], int]
    new_id: Callable[[], str]
    permission_rules: UserRules | None = None
    may_fetch_private: bool = False
    confine: Confine | None = None
    contents: KeptContents | None = None
    home: Path | None = None
    library: KnowledgeLibrary
    factors: ModelFactors = field(default_factory=ModelFactors)
    budgets: Sequence[CostBudget] = ()
    day: DaySpending = field(default_factory=DaySpending)
    spending: Spending | None = None
    max_model_calls: int = 0
    question_timeout_s: float = 1800.0
    knowledge_timeout_s: float = 5.0
    compaction: CompactionSettings
    surroundings: Callable[[Sequence[Path]], Coroutine[Any, Any, str]]
    extensions: ExtensionsPort
