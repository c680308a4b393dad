"""One model of one provider as an invoker: the same course of a call for every provider.

Mend the conversation, get a client, open the stream, read it to its end; try again where nothing was shown
yet; end in exactly one done or error emission. What differs between providers is the adapter's.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Final, Generic, ParamSpec, TypeVar

from sidecar._internal.errors import log_fault
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Channel,
    Conversation,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    StreamOptions,
    ThinkingBlock,
    gateway_error,
)
from sidecar.llmgateway.credentials import Key, how_to_set
from sidecar.llmgateway.providers.adapter import Adapter, Ask
from sidecar.llmgateway.providers.assembling import MalformedAnswerError
from sidecar.llmgateway.providers.connecting import Clients
from sidecar.llmgateway.providers.failures import Failure, as_error, is_stale_thinking
from sidecar.llmgateway.providers.fitting import fit
from sidecar.llmgateway.providers.interrupting import Interrupted, Interrupter
from sidecar.llmgateway.providers.patience import Patience

__all__ = ["ProviderModel", "Retrying"]

ClientT = TypeVar("ClientT")
ChunkT = TypeVar("ChunkT")
P = ParamSpec("P")

_log = logging.getLogger(__name__)
_WIRE_MODULES: Final = frozenset({"httpx", "httpcore", "h", "anyio", "aiohttp", "requests"})
"""Packages below the SDKs, without the digits at the end of their names."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """How failed calls are tried again. *sleep* takes seconds, *chance* returns a number in 0..1."""

    patience: Patience = field(default_factory=Patience)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


class ProviderModel(Generic[ClientT, ChunkT]):
    """The model of *card*, called through *adapter*; a ``ModelInvoker`` of ``sidecar.runtime.contract``.

    It never raises, and honours cancel at once wherever it waits. Signatures that the provider has refused
    are remembered, so that a conversation whose beginning was condensed costs one refusal, not one a call.
    """

    def __init__(
        self,
        card: ModelCard,
        adapter: Adapter[ClientT, ChunkT],
        clients: Clients[ClientT],
        retrying: Retrying | None = None,
    ) -> None:
        self._card = card
        self._adapter = adapter
        self._clients = clients
        self._retrying = retrying or Retrying()
        self._refused: frozenset[str] = frozenset()
        self._told: set[str] = set()

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        """Return the channel of one call; reading it again makes the call again."""
        return channel_of(lambda: self._call(conversation, options))

    async def _call(self, conversation: Conversation, options: StreamOptions) -> AsyncIterator[Emission]:
        attempt, shown = 0, False
        with Interrupter(options.cancel) as waits:
            try:
                while True:
                    attempt += 1
                    try:
                        async with aclosing(self._attempt(conversation, options, waits)) as emissions:
                            async for emission in emissions:
                                shown = True
                                yield emission
                        return
                    except GatewayError as error:
                        failed = error
                    # What was shown or acted on cannot be taken back: then the failure is the end.
                    if shown or not await self._may_repeat(attempt, failed, options, waits):
                        yield ErrorEmission(failed)
                        return
            except Interrupted:
                name = self._card.provider
                yield ErrorEmission(gateway_error("aborted", "the call was cancelled", provider=name))

    async def _attempt(
        self, conversation: Conversation, options: StreamOptions, waits: Interrupter
    ) -> AsyncGenerator[Emission, None]:
        """Yield what one request comes to. Raises GatewayError for whatever goes wrong, or Interrupted."""
        fitted = self._fit(conversation, options)
        reader, place, failed = self._adapter.reader(), None, None
        try:
            place, connected = await waits.run(self._clients.get(options.api_key))
            request = self._adapter.request(Ask(fitted, options, self._card, place))
            async with AsyncExitStack() as stack:
                opening = self._adapter.open(connected.client, request)
                chunks = aiter(await waits.run(stack.enter_async_context(opening)))
                while True:
                    try:
                        chunk = await waits.run(anext(chunks))
                    except StopAsyncIteration:
                        break
                    for emission in reader.read(chunk):
                        yield emission
        except (GatewayError, Interrupted):
            raise
        except Exception as error:
            failed = self._error(error, place.key if place is not None else None)
        if failed is not None:
            # Raised out here: an error of the SDK holds the request, and with it the key and the prompt.
            self._refuse_thinking(failed, fitted, options)
            raise failed
        if not reader.is_complete:
            name = self._card.provider
            raise gateway_error("transport", f"{name} hung up in the middle of an answer", provider=name)
        for emission in reader.assembly.ending(self._card.id):
            yield emission

    def _fit(self, conversation: Conversation, options: StreamOptions) -> Conversation:
        fitted = fit(
            conversation,
            self._adapter.rules,
            sees_images="image" in self._card.modalities,
            refused=self._refused,
        )
        for repair in fitted.repairs:
            self._tell_repair(options, repair)
        return fitted.conversation

    def _error(self, error: Exception, key: Key | None) -> GatewayError:
        """Return what went wrong as the error a call ends with."""
        name = self._card.provider
        try:
            failure = self._adapter.failure(error)
            if failure is None and _is_of_the_wire(error):
                failure = Failure(str(error) or type(error).__name__)
            if failure is not None:
                hint, secret = how_to_set(self._clients.provider), key.value if key is not None else None
                address = self._clients.base_url
                return as_error(failure, name, hint=hint, address=address, key=secret, now_s=time.time())
        except Exception as malformed:
            # The report of the failure is itself of no known shape.
            error = malformed
        _log.debug("an answer of %s cannot be understood", name, exc_info=error)
        found = str(error) if isinstance(error, MalformedAnswerError) else type(error).__name__
        return gateway_error("parse", f"the answer of {name} cannot be understood ({found})", provider=name)

    def _refuse_thinking(self, failed: GatewayError, sent: Conversation, options: StreamOptions) -> None:
        """Send the reasoning of *sent* no more, when that is what the provider refused; then try again."""
        signatures = frozenset(
            block.signature
            for turn in sent.turns
            for block in turn.blocks
            if isinstance(block, ThinkingBlock) and block.signature is not None
        )
        if signatures and is_stale_thinking(failed):
            self._refused |= signatures
            failed.retryable = True
            self._tell_repair(options, "earlier reasoning was left out, since what precedes it has changed")

    def _tell_repair(self, options: StreamOptions, repair: str) -> None:
        # A conversation that stays broken is mended at every call; the log says it once.
        level = logging.DEBUG if repair in self._told else logging.WARNING
        self._told.add(repair)
        _log.log(level, "mended a conversation for %s: %s", self._card.provider, repair)
        if options.on_repair is not None:
            _quietly(options.on_repair, repair)

    async def _may_repeat(
        self, attempt: int, failed: GatewayError, options: StreamOptions, waits: Interrupter
    ) -> bool:
        """Wait until the call may be made again; False when it may not."""
        if failed.kind == "auth":
            self._clients.forget(options.api_key)
        patience = self._retrying.patience
        pause_ms = patience.pause_ms(attempt, failed, self._retrying.chance())
        if pause_ms is None:
            return False
        _log.info("attempt %d failed (%s), next one in %d ms", attempt, failed.kind, pause_ms)
        if options.on_retry is not None:
            _quietly(options.on_retry, attempt, patience.max_attempts, pause_ms, failed)
        await waits.run(self._retrying.sleep(pause_ms / 1000))
        return True


def _is_of_the_wire(error: Exception) -> bool:
    """Whether *error* comes from below the SDK: a connection that broke, a time that ran out."""
    package = type(error).__module__.partition(".")[0].rstrip("0123456789")
    return isinstance(error, OSError) or package in _WIRE_MODULES


def _quietly(listener: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    try:
        listener(*args, **kwargs)
    except Exception as error:
        # A call never depends on who watches it.
        log_fault("a listener of a model call", error)
