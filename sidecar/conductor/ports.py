"""Ports: the Protocols by which sessions and their hub use other rooms.

A front end implements :class:`ClientPort`, the gateway :class:`Models`, the tool kernel
:class:`SessionTools`, the store :class:`StorePort`, and the hub :class:`SessionHost` for its sessions.
Nothing is implemented here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from sidecar._internal.values import Value
from sidecar.capabilities.contract import RunInTerminal, Tool, ToolActivity
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest, SessionSummary
from sidecar.conductor.workbench.editor.context import Editors
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import ModelCard, Turn
from sidecar.permissions.rules import Rules
from sidecar.runtime.contract import ModelInvoker, SessionBranch, ToolBox, ToolCall
from sidecar.runtime.contract.listing import ALL_SESSIONS, SessionQuery
from sidecar.text.calls import ToolEffects


class ClientPort(Protocol):
    """One connected client. Contract: no method blocks or raises."""

    @property
    def client_id(self) -> str:
        """The id of the connection, unique in this process."""
        ...

    @property
    def name(self) -> str:
        """The client's own name for itself, such as ``Visual Studio Code``."""
        ...

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Show the question to the user and return the answer.

        Contract: returns ``cancelled`` when the client is gone or does not know the method. The caller keeps
        the deadline and cancels this call when it has passed.
        """
        ...

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """Notify the client of the outcome of a question, which *by* decided."""
        ...

    def sessions_changed(self) -> None:
        """Notify the client that the list of sessions changed."""
        ...


ModelOrigin: TypeAlias = Literal["configured", "discovered", "published", "builtIn"]
"""The user's settings, a server on this machine, a provider's published list, or the daemon itself."""


class Models(Protocol):
    """The models that sessions may use."""

    @property
    def default(self) -> str:
        """The id of the model that is used when nobody chooses one."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """One sentence for each setting that is ignored, and why."""
        ...

    @property
    def remark(self) -> str | None:
        """One sentence on how the default was found; None when the user has chosen it."""
        ...

    @property
    def undecided(self) -> str | None:
        """Why no model is the default, None when one is."""
        ...

    def card(self, model_id: str) -> ModelCard | None:
        """Return the card of *model_id*, None for an unknown model."""
        ...

    def why_not(self, model_id: str) -> str | None:
        """Return why *model_id* cannot be called, None when a call can be tried."""
        ...

    def origin(self, model_id: str) -> ModelOrigin:
        """Return the place that *model_id* is known from."""
        ...

    def invoker(self, model_id: str) -> ModelInvoker:
        """Return the invoker of *model_id*; calls of an unknown model yield an error emission."""
        ...

    def summarizer(self, model_id: str) -> tuple[ModelInvoker, ModelCard | None]:
        """Return the summariser for conversations of *model_id*, and the card that bounds its input."""
        ...

    def summarizer_id(self, model_id: str) -> str:
        """Return the id of the model that summarises conversations of *model_id*."""
        ...

    def names(self) -> Sequence[str]:
        """Return the ids on offer, the default first."""
        ...

    async def ready(self, model_id: str) -> None:
        """Fetch the card of *model_id* where that takes time. Bounded, off the event loop; never raises."""
        ...

    def warm_up(self, model_id: str) -> None:
        """Begin to load the code of *model_id* in a thread. Opens no connection; never raises."""
        ...

    def learn_window(self, model_id: str, tokens: int) -> None:
        """Use *tokens* as the window of *model_id*, if no window is known for it."""
        ...

    async def at(self, folder: Path) -> Models:
        """Return the models with the settings of *folder* applied."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class SessionHost(Protocol):
    """The hub, as its sessions see it."""

    @property
    def editors(self) -> Editors:
        """The editors that clients have reported."""
        ...

    def terminal(self, sid: str) -> RunInTerminal | None:
        """Return the terminal that a client lends to the session, None when no client does."""
        ...

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may answer the session's questions."""
        ...

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that follow the session, controllers included."""
        ...

    def announce_change(self) -> None:
        """Notify every client that the list of sessions changed."""
        ...

    async def fork_of(self, sid: str) -> str:
        """Start a fork of *sid* at its head and return the fork's id."""
        ...


class RuleSettings(Protocol):
    """The user's rules for permissions in the settings. Works on the disk, so call it in a worker thread."""

    def read(self) -> Rules:
        """Return the rules as they are now."""
        ...

    def change(self, effect: Literal["allow", "deny"], rule: str, *, remove: bool = False) -> None:
        """Add *rule*, or remove it, for good. Raises InvalidInput, or SidecarError where it cannot."""
        ...


class SessionTools(ToolBox, Protocol):
    """The tools of one session."""

    def offer(self, group: str, tools: Sequence[Tool]) -> None:
        """Offer *tools* beside the built-in ones; they replace the earlier tools of their *group*."""
        ...

    def effects(self) -> Mapping[str, ToolEffects]:
        """Return the effects of the tools on offer, by name."""
        ...

    def describe(self, call: ToolCall) -> ToolActivity:
        """Return the activity that clients are shown when *call* begins."""
        ...


class Follower(Protocol):
    """Something that follows a conversation, as an :class:`Index` does."""

    def prepare(self, history: History) -> object:
        """Take in *history*, to which the conversation is about to move, in a thread."""
        ...

    def forget(self) -> object:
        """Let go of the conversation, which is closed, in a thread."""
        ...


class GraphPort(Protocol):
    """Every branch of a stored session, for reading (``runtime.store.SessionGraph``)."""

    @property
    def leaf(self) -> str | None:
        """The head: the newest node of the active path."""
        ...

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entry of every node of every branch, by its id, in the order they were stored."""
        ...

    def kept_path(self, node_id: str | None) -> Sequence[Entry]:
        """Return the entries from the root to *node_id*. Raises ValueError for an unknown one."""
        ...


class JournalPort(Protocol):
    """The writer of one session's file (``runtime.store.SessionJournal``, or one in memory)."""

    @property
    def history(self) -> History:
        """The active path."""
        ...

    @property
    def graph(self) -> GraphPort:
        """Every branch, for reading."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether entries or records wait for the store to work again."""
        ...

    def history_at(self, node_id: str | None) -> History:
        """Return the history as it stood at *node_id*. Raises ValueError for an unknown one."""
        ...

    async def load(self) -> Sequence[Turn]:
        """Read the active path."""
        ...

    async def append(self, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Append *entries* after the head and return them as stored, on disk when this returns."""
        ...

    def make_branch(self, entries: Sequence[Entry]) -> SessionBranch:
        """Return a branch that holds exactly *entries*, made in any thread; nothing changes yet."""
        ...

    async def begin(self, branch: SessionBranch) -> None:
        """Add the nodes of *branch*, and move the head to its end."""
        ...

    async def adopt(
        self,
        records: Sequence[Mapping[str, Any]],
        entries: Sequence[Entry],
        leaf: str | None,
    ) -> None:
        """Store records and entries of another session in one piece or not at all, and stand at *leaf*."""
        ...

    def heal(self, history: History) -> Sequence[Turn]:
        """Return the turns of *history* as :meth:`load` would heal them, in any thread."""
        ...

    async def move_to(self, history: History) -> None:
        """Stand at the end of *history*, a stored path."""
        ...

    async def append_records(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append records that are not nodes."""
        ...

    def forget(self) -> list[Entry]:
        """Let go of the session, and return the entries that were in memory."""
        ...

    def hold(self) -> None:
        """Keep all writes from now on for :meth:`release`."""
        ...

    async def release(self) -> None:
        """Write the held lines in one piece: a crash leaves all of them or none."""
        ...


class StoreReport(Value):
    """The state of a session's file: *repaired* lists mended defects, *missing* lost parts."""

    ok: bool = True
    repaired: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class OpenedSession(Value):
    """A stored session, opened for writing; *release* gives up its lock."""

    journal: JournalPort
    records: Sequence[Mapping[str, Any]]
    report: StoreReport
    release: Callable[[], Awaitable[None]]


class StorePort(Protocol):
    """The place where sessions are kept; ``boot`` adapts ``runtime.store.SessionStore`` to it."""

    async def open(self, sid: str, *, create: bool) -> OpenedSession:
        """Open *sid* for writing and lock it. Raises SidecarError ``busy`` when another process has it."""
        ...

    async def take_over(self, sid: str) -> OpenedSession:
        """Open a stored *sid*; an idle daemon on another machine hands it over, in some seconds.

        Raises SidecarError ``busy`` when another process is at work in it.
        """
        ...

    async def open_in_memory(self, sid: str) -> OpenedSession:
        """Return a session that is never written to disk."""
        ...

    async def exists(self, sid: str) -> bool:
        """Return whether *sid* is stored."""
        ...

    async def graph(self, sid: str) -> GraphPort:
        """Return every branch of *sid*; takes no lock."""
        ...

    async def page(self, sid: str, page: range, *, of_path: bool) -> Sequence[Entry]:
        """Return the nodes of *sid* with the numbers *page*, on the path to the head or of all branches.

        Costs the page, and takes no lock. Files that earlier versions stored apart are not among their reads.
        """
        ...

    async def records(self, sid: str) -> Sequence[Mapping[str, Any]]:
        """Return the records of *sid* that are not nodes; takes no lock."""
        ...

    async def delete(self, sid: str) -> bool:
        """Delete *sid* and return whether it existed. Raises SidecarError ``busy``."""
        ...

    async def aclose(self) -> None:
        """Write the lines that could not be written before, and let go of the place of the sessions."""
        ...

    async def search(self, words: Sequence[str]) -> Set[str]:
        """Return the ids of the sessions with all *words* in them, on any branch."""
        ...

    async def list(self, query: SessionQuery = ALL_SESSIONS) -> Sequence[SessionSummary]:
        """Return the lines of the stored sessions that *query* asks for, as if none was in memory."""
        ...
