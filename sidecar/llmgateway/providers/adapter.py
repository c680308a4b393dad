"""The interface of an adapter, the only place that sees its SDK. Protocols and values.

No type of an SDK leaves an adapter: its arguments and results are the gateway's own values.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from msgspec import field

from sidecar._internal.values import Value
from sidecar.llmgateway.contract import Conversation, GatewayError, ModelCard, StreamOptions
from sidecar.llmgateway.credentials import Key, how_to_set
from sidecar.llmgateway.names import Provider
from sidecar.llmgateway.providers.assembly import Assembly, Emissions
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.fields import TurnMemo
from sidecar.llmgateway.providers.sanitize import WireRules

ClientT = TypeVar("ClientT")
ChunkT = TypeVar("ChunkT")
ChunkT_contra = TypeVar("ChunkT_contra", contravariant=True)

SdkArguments: TypeAlias = dict[str, Any]
"""The keyword arguments of one SDK call; JSON values."""


CONNECT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 300.0
"""A call without a byte from the server for this time has failed, unless the settings say otherwise."""


class Endpoint(Value):
    """The address of a provider and the key used there; *base_url* None is the provider's own address.

    A call without a byte from there for *idle_timeout_s* has failed; pings count as life.
    """

    provider: Provider
    base_url: str | None = None
    key: Key | None = None
    idle_timeout_s: float = IDLE_TIMEOUT_S

    def require_key(self) -> str:
        """Return the key, a placeholder where none is needed; raise the error where it is missing."""
        if self.key is not None:
            return self.key.value
        if self.provider.needs_key:
            raise self.missing_key_error()
        return "none"

    def missing_key_error(self) -> GatewayError:
        """Return the error of a call without a key."""
        name = self.provider.id
        return GatewayError("auth", f"no key for {name}; {how_to_set(self.provider)}", provider=name)


class SdkClient(Value, Generic[ClientT]):
    """The client of an SDK; *close* ends its connections."""

    client: ClientT
    close: Callable[[], Awaitable[None]]


class ModelCall(Value):
    """One call of a model. The window of *card* may be 0, for unknown; *memo* has parts of earlier calls."""

    conversation: Conversation
    options: StreamOptions
    card: ModelCard
    endpoint: Endpoint
    memo: TurnMemo[Any] = field(default_factory=TurnMemo)

    def sampling_arguments(self) -> SdkArguments:
        """Return the arguments for sampling that the call sets, under the names of all formats."""
        knobs = {"temperature": self.options.temperature, "top_p": self.options.top_p}
        return {name: value for name, value in knobs.items() if value is not None}


class ChunkReader(Protocol[ChunkT_contra]):
    """A reader of the chunks of one stream."""

    @property
    def assembly(self) -> Assembly:
        """The answer so far."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the provider has marked the end of the answer."""
        ...

    def read(self, chunk: ChunkT_contra) -> Emissions:
        """Return the emissions of *chunk*. May raise any exception for a malformed one."""
        ...


class Adapter(Protocol[ClientT, ChunkT]):
    """One wire format over one SDK."""

    @property
    def rules(self) -> WireRules:
        """The limits of the provider."""
        ...

    def connect(self, endpoint: Endpoint) -> SdkClient[ClientT]:
        """Import the SDK, with everything that a first call would import, and make its client. Blocks."""
        ...

    def request(self, call: ModelCall) -> SdkArguments:
        """Return the arguments of *call*, with a conversation that keeps the rules."""
        ...

    def open(
        self, client: ClientT, request: SdkArguments
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[ChunkT]]]:
        """Return the stream of one call: the chunks that came together, one or more at a time.

        Leaving it closes the connection unless it was read to its end.
        """
        ...

    def reader(self, call: ModelCall) -> ChunkReader[ChunkT]:
        """Return a reader for the stream of *call*."""
        ...

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the provider's report in *error*, None when it is not an error of the SDK."""
        ...
