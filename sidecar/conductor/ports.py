"""Who a session talks to: attached clients, models, and the hub that holds it. Protocols only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sidecar.capabilities.contract import Tool, ToolActivity
from sidecar.conductor.contract import PermissionAnswer, PermissionRequest
from sidecar.conductor.terminals import Terminals
from sidecar.llmgateway.contract import ModelCard
from sidecar.runtime.contract import ModelInvoker, ToolBox, ToolCall

__all__ = ["ClientPort", "Models", "SessionHost", "SessionTools"]


class ClientPort(Protocol):
    """One connected client. A face implements it; nothing here blocks or raises."""

    @property
    def client_id(self) -> str:
        """A name of the connection, unique in this process."""
        ...

    @property
    def name(self) -> str:
        """What the client calls itself, such as ``Visual Studio Code``."""
        ...

    async def request_permission(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question to the user.

        Contract: answers ``cancelled`` when the client is gone or does not understand; the hub alone keeps
        the deadline and cancels the call when it has passed.
        """
        ...

    def permission_resolved(self, sid: str, permission_id: str, outcome: str, by: str) -> None:
        """Tell the client that a question was answered, or ran out, and by whom."""
        ...

    def sessions_changed(self) -> None:
        """Tell the client that the list of sessions changed."""
        ...


class Models(Protocol):
    """The models a session may use."""

    @property
    def default(self) -> str:
        """The id used when nothing is chosen."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """What the user should know about settings that are not used."""
        ...

    def card(self, model_id: str) -> ModelCard | None:
        """Return what is known of *model_id*, or None."""
        ...

    def why_not(self, model_id: str) -> str | None:
        """Return why *model_id* cannot be called, None when it can be tried."""
        ...

    def invoker(self, model_id: str) -> ModelInvoker:
        """Return how to call *model_id*; one that nobody serves answers with an error emission."""
        ...

    def summarizer(self, model_id: str) -> tuple[ModelInvoker, ModelCard | None]:
        """Return who condenses the conversations of *model_id*, and the card of what they can read."""
        ...

    def names(self) -> Sequence[str]:
        """Return the ids on offer, the default first."""
        ...

    async def ready(self, model_id: str) -> None:
        """Learn of *model_id* what takes time to learn. Bounded, off the event loop; never raises."""
        ...

    def learn_window(self, model_id: str, tokens: int) -> None:
        """Take *tokens* for the window of *model_id*, of which none is known."""
        ...

    async def at(self, folder: Path) -> Models:
        """Return the models as a session in *folder* sees them: with the settings of that folder."""
        ...

    async def aclose(self) -> None:
        """Give up connections."""
        ...


class SessionHost(Protocol):
    """What a session asks of the hub that holds it."""

    @property
    def terminals(self) -> Terminals:
        """The terminals that clients lend."""
        ...

    def controllers(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that may answer the session's questions."""
        ...

    def listeners(self, sid: str) -> Sequence[ClientPort]:
        """Return the clients that follow the session, controllers included."""
        ...

    def changed(self) -> None:
        """Hear that what a list of sessions shows has changed."""
        ...

    async def fork_of(self, sid: str) -> str:
        """Begin a session that goes on from where *sid* stands, and return its id."""
        ...


class SessionTools(ToolBox, Protocol):
    """The tools of one session."""

    def offer_also(self, tools: Sequence[Tool]) -> None:
        """Offer *tools* besides those of our own from now on, instead of any offered so before."""
        ...

    def describe(self, call: ToolCall) -> ToolActivity:
        """Return what a client is shown of *call* as it begins."""
        ...
