"""What an adapter is: the only place that sees its SDK, in six small pieces. Protocols and values.

No type of an SDK gets past an adapter: what goes in and comes out are the gateway's own values.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from sidecar.llmgateway.contract import Conversation, ModelCard, StreamOptions
from sidecar.llmgateway.credentials import Key
from sidecar.llmgateway.names import Provider
from sidecar.llmgateway.providers.assembling import Assembly, Emissions
from sidecar.llmgateway.providers.failures import Failure
from sidecar.llmgateway.providers.fitting import WireRules

__all__ = ["Adapter", "Ask", "Connected", "Place", "Reader", "Request"]

ClientT = TypeVar("ClientT")
ChunkT = TypeVar("ChunkT")
ChunkT_contra = TypeVar("ChunkT_contra", contravariant=True)

Request: TypeAlias = dict[str, Any]
"""The arguments of one SDK call; JSON values."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a provider is reached, and with which key. *base_url* None is the provider's own address."""

    provider: Provider
    base_url: str | None = None
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Connected(Generic[ClientT]):
    """An SDK's client. *close* gives up its connections."""

    client: ClientT
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One call: what is asked, of which model, at which place. *card* may have a window of 0, for unknown."""

    conversation: Conversation
    options: StreamOptions
    card: ModelCard
    place: Place


class Reader(Protocol[ChunkT_contra]):
    """Reads the pieces of one stream."""

    @property
    def assembly(self) -> Assembly:
        """The answer so far."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the provider has said that the answer is over."""
        ...

    def read(self, chunk: ChunkT_contra) -> Emissions:
        """Return what *chunk* says. May raise anything for a piece that makes no sense."""
        ...


class Adapter(Protocol[ClientT, ChunkT]):
    """One wire format over one SDK."""

    @property
    def rules(self) -> WireRules:
        """What the provider takes."""
        ...

    def connect(self, place: Place) -> Connected[ClientT]:
        """Import the SDK and make its client, with everything that a first call would import. Blocks."""
        ...

    def request(self, ask: Ask) -> Request:
        """Return the call that says *ask*, whose conversation fits the rules."""
        ...

    def open(self, client: ClientT, request: Request) -> AbstractAsyncContextManager[AsyncIterator[ChunkT]]:
        """Return the stream of one call; leaving it closes the connection unless it was read to its end."""
        ...

    def reader(self) -> Reader[ChunkT]:
        """Return a reader for one stream."""
        ...

    def failure(self, error: Exception) -> Failure | None:
        """Return what the provider said in *error*, None when it is no error of the SDK."""
        ...
