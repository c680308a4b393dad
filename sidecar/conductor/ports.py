"""Ports: the Protocols by which sessions and their hub use other rooms.

A front end implements :class:`ClientPort`, the gateway :class:`Models`, the tool kernel
:class:`SessionTools`, the store :class:`StorePort`, and the hub :class:`SessionHost` for its sessions.
Nothing is implemented here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from sidecar.capabilities.contract import RunInTerminal, Tool, ToolActivity
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.editors import Editors
from sidecar.conversation import History
from sidecar.llmgateway.contract import ModelCard
from sidecar.permissions.rules import Rules
from sidecar.rooms import KnowledgeSource, RoomEvent
from sidecar.runtime.contract import ModelInvoker, ToolBox, ToolCall
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


class Library(Protocol):
    """The knowledge sources of a daemon, implemented by ``rooms.knowledge.library.KnowledgeLibrary``."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sources on offer."""
        ...

    @property
    def in_use(self) -> Collection[Path]:
        """The folders in which an open session searches past sessions.

        In others new events need not be ingested: they are read from the store when a session opens.
        """
        ...

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        excluded_ids: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        """Return the sources *names* for a session.

        Args:
            sid: the session.
            names: the sources to open, as in :attr:`names`.
            roots: the session's folders, its working folder first.
            excluded_ids: returns the ids of events that are not to be found, because the model sees them
                anyway.
            progress: called with the numbers of done and of all files while an index is built.
        """
        ...

    async def release(self, sid: str) -> None:
        """Close the sources that were opened for a session."""
        ...

    def ingest(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        """Add *events* of a session that works in *folder*; returns before they are indexed."""
        ...

    def forget(self, sid: str) -> None:
        """Remove the events of a deleted session; returns before they are gone."""
        ...


class SessionTools(ToolBox, Protocol):
    """The tools of one session."""

    @property
    def n_failed_alike(self) -> int:
        """How often in a row the newest call has failed alike; 0 for one that has not."""
        ...

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
