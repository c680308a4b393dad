"""One model of one provider as an invoker: the same course of a call for every provider.

A call sanitizes the conversation, gets a client, opens the stream and reads it to its end. After a broken
stream it withdraws its emissions and is made again. It ends in exactly one done or error emission. Everything
that differs between providers is in their adapters.

Cancelling. A call waits for bytes inside an SDK. To end that wait, the waiting task is cancelled at just that
point, as ``asyncio.timeout`` does it, so that the SDK closes the connection on its way out. A task for each
chunk would be slower, and an SDK must be closed by the task that opened it. The invariant: outside of a wait
of :class:`CancelScope` the task is never cancelled, and a cancellation of ours never leaves ``run`` as one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from itertools import chain
from types import TracebackType
from typing import Final, Generic, ParamSpec, TypeVar

from msgspec import field

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import log_fault
from sidecar._internal.values import Value
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    CallMemory,
    Channel,
    Conversation,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    StreamOptions,
    ThinkingBlock,
    WithdrawnEmission,
)
from sidecar.llmgateway.credentials import Key, how_to_set
from sidecar.llmgateway.providers.adapter import Adapter, ChunkReader, ModelCall
from sidecar.llmgateway.providers.assembly import Assembly, MalformedAnswerError, join_deltas
from sidecar.llmgateway.providers.failures import (
    ProviderFailure,
    is_refused_limit,
    is_stale_thinking,
    to_gateway_error,
)
from sidecar.llmgateway.providers.http_calls import ReportedFailureError
from sidecar.llmgateway.providers.sanitize import Sanitizer
from sidecar.llmgateway.providers.serving import ClientPool

T = TypeVar("T")
ClientT = TypeVar("ClientT")
ChunkT = TypeVar("ChunkT")
P = ParamSpec("P")

_log = logging.getLogger(__name__)
_REMEMBERED: Final = 2
"""The conversations of one caller that a model remembers: the whole one, and a view of it."""

_END_S: Final = 5.0
"""How long a whole answer waits for what may follow it, such as its usage, on a line that stays open."""

_EMPTY_ATTEMPTS: Final = 3
"""How often a call is made at most whose answers have no text and no calls: each is paid for."""

_WIRE_MODULES: Final = frozenset({"httpx", "httpcore", "h", "anyio", "aiohttp", "requests"})
"""Packages below the SDKs, without the digits at the end of their names."""

_TIMEOUTS: Final = frozenset({"ReadTimeout", "WriteTimeout", "PoolTimeout"})
"""The errors of these packages when no byte came in time."""


class RetryPolicy(Value):
    """The limits of retrying; times in milliseconds.

    Attributes:
        max_attempts: how often a call is made at most.
        first_ms: the first pause, about; each further one is twice as long.
        longest_ms: the longest pause of our own.
        longest_asked_ms: the longest pause that is made because a server asks for it; when it asks for a
            longer one, the call fails and the user learns why.
    """

    max_attempts: int = 6
    first_ms: int = 500
    longest_ms: int = 30_000
    longest_asked_ms: int = 120_000

    def pause_ms(self, attempt: int, error: GatewayError, chance: float) -> int | None:
        """Return the pause after a failed attempt, or None to give up.

        Args:
            attempt: the number of the attempt that failed: 1, 2, ...
            error: its failure.
            chance: in 0..1; spreads clients that failed together over half of the pause.

        >>> from sidecar.llmgateway.contract import GatewayError
        >>> RetryPolicy().pause_ms(3, GatewayError("http", "busy", status=503), chance=1.0)
        2000
        """
        if not error.retryable or attempt >= self.max_attempts:
            return None
        pause = min(self.longest_ms, self.first_ms * 2 ** (attempt - 1))
        jittered = int(pause * (1 + chance) / 2)
        if error.retry_after_ms is None:
            return jittered
        if error.retry_after_ms > self.longest_asked_ms:
            return None
        return max(error.retry_after_ms, jittered)


class RetryDeps(Value):
    """The retry policy and its collaborators. *sleep* takes seconds, *chance* returns a number in 0..1."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


class CallCancelledError(Exception):
    """The token of the call was cancelled before or during a wait."""


class CancelScope:
    """The waits of one call under one *token*; None never cancels. A context manager.

    The token may be cancelled from any thread.
    """

    def __init__(self, token: CancelToken | None) -> None:
        self._token = token
        self._waiting: asyncio.Task[object] | None = None
        self._was_cancelled = False
        self._dispose: Callable[[], None] | None = None

    def __enter__(self) -> CancelScope:
        loop = asyncio.get_running_loop()

        def cancel_wait() -> None:
            if self._waiting is not None and not self._was_cancelled:
                self._was_cancelled = True
                self._waiting.cancel()

        def on_cancel() -> None:
            loop.call_soon_threadsafe(cancel_wait)

        if self._token is not None:
            self._dispose = self._token.add_callback(on_cancel)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._dispose is not None:
            self._dispose()

    async def run(self, work: Awaitable[T]) -> T:
        """Return the result of *work*. Raises CallCancelledError once the token is cancelled."""
        if self._token is None:
            return await work
        task = asyncio.current_task()
        if task is None or self._token.cancelled:
            # Closed, so that Python does not warn of a coroutine that was never awaited.
            close = getattr(work, "close", None)
            if close is not None:
                close()
            raise CallCancelledError
        before = task.cancelling()
        self._waiting = task
        try:
            result = await work
        except asyncio.CancelledError:
            if self._was_cancelled and task.uncancel() <= before:
                raise CallCancelledError from None
            raise
        finally:
            self._waiting = None
        if self._was_cancelled:
            # The work swallowed the cancellation; it must not reach the caller's next wait.
            task.uncancel()
            raise CallCancelledError
        return result


class ProviderModel(Generic[ClientT, ChunkT]):
    """The model of *card*, called through *adapter*; a ``ModelInvoker`` of ``sidecar.runtime.contract``.

    It never raises, and cancels at once wherever it waits. Signatures that the provider has refused are
    remembered: after a compaction they cost one refusal, not one for each call.
    """

    def __init__(
        self,
        card: ModelCard,
        adapter: Adapter[ClientT, ChunkT],
        clients: ClientPool[ClientT],
        retries: RetryDeps | None = None,
    ) -> None:
        self._card = card
        self._adapter = adapter
        self._clients = clients
        self._retries = retries or RetryDeps()
        self._refused_signatures: frozenset[str] = frozenset()
        self._logged_repairs: set[str] = set()

    def __call__(self, conversation: Conversation, options: StreamOptions) -> Channel:
        """Return the channel of one call; reading it again makes the call again."""

        async def emissions() -> AsyncIterator[Emission]:
            attempt, has_emitted = 0, False
            with CancelScope(options.cancel) as scope:
                try:
                    while True:
                        attempt += 1
                        try:
                            attempted = self._attempt(conversation, options, scope, attempt)
                            async with aclosing(attempted):
                                async for emission in attempted:
                                    has_emitted = True
                                    yield emission
                            return
                        except GatewayError as error:
                            failed = error
                        pause_ms = self._plan_retry(attempt, failed, options)
                        if pause_ms is None:
                            yield ErrorEmission(failed)
                            return
                        if has_emitted:
                            # Nothing was acted on yet: the tools of an answer run once it is whole.
                            has_emitted = False
                            yield WithdrawnEmission()
                        await scope.run(self._retries.sleep(pause_ms / 1000))
                except CallCancelledError:
                    name = self._card.provider
                    yield ErrorEmission(GatewayError("aborted", "the call was cancelled", provider=name))

        return channel_of(emissions)

    async def _attempt(
        self, conversation: Conversation, options: StreamOptions, scope: CancelScope, attempt: int
    ) -> AsyncGenerator[Emission, None]:
        """Yield the emissions of one request. Raises GatewayError for any failure, or CallCancelledError."""
        key, failed, sent = None, None, conversation
        reader: ChunkReader[ChunkT] | None = None
        try:
            sanitizer = self.find_sanitizer(conversation, options.memory)
            sane = sanitizer.sanitize(conversation, self._refused_signatures)
            sent = sane.conversation
            for repair in sane.repairs:
                self._report_repair(options, repair)
            endpoint, connected = await scope.run(self._clients.get(options.api_key))
            key = endpoint.key
            call = ModelCall(sent, options, self._card, endpoint, sanitizer.memo)
            request, reader = self._adapter.request(call), self._adapter.reader(call)
            async with AsyncExitStack() as stack:
                opening = self._adapter.open(connected.client, request)
                chunks = aiter(await scope.run(stack.enter_async_context(opening)))
                while True:
                    upcoming = anext(chunks)
                    try:
                        together = await scope.run(soon(upcoming) if reader.is_complete else upcoming)
                    except StopAsyncIteration:
                        break
                    if len(together) == 1:
                        emissions = iter(reader.read(together[0]))
                    else:
                        emissions = join_deltas(chain.from_iterable(map(reader.read, together)))
                    for emission in emissions:
                        yield emission
        except (GatewayError, CallCancelledError):
            raise
        except Exception as error:
            failed = self._gateway_error(error, key)
        # A whole answer is kept, however its connection ended: the same one would be paid for twice.
        is_whole = reader is not None and reader.is_complete
        if failed is not None and not (is_whole and failed.kind == "transport"):
            # Raised out here: an error of the SDK holds the request, and with it the key and the prompt.
            self._adapt_to_refusal(failed, sent, options)
            raise failed
        if reader is None or not is_whole:
            name = self._card.provider
            raise GatewayError("transport", f"{name} hung up in the middle of an answer", provider=name)
        last = reader.assembly.finish(self._card.id)
        self.refuse_empty_answer(reader.assembly, sent, attempt)
        for emission in last:
            yield emission

    def refuse_empty_answer(self, answer: Assembly, sent: Conversation, attempt: int) -> None:
        """Raise GatewayError where the finished *answer* to *sent* has no text and no calls, and should have.

        After tools some models end without a word, and the work is done. The end itself is a token: an answer
        of none is a failure of the service, which the next attempt seldom has.
        """
        if (reason := answer.why_empty()) is None:
            return
        is_end = bool(sent.turns) and sent.turns[-1].role == "tool" and answer.stop in (None, "complete")
        is_failure = answer.usage is not None and answer.usage.output_tokens == 0
        may_retry = attempt < _EMPTY_ATTEMPTS and answer.stop != "max_output"
        if not is_end or (is_failure and may_retry):
            name = self._card.provider
            raise GatewayError("http", f"{name} {reason}", provider=name, retryable=may_retry)

    def find_sanitizer(self, conversation: Conversation, memory: CallMemory | None) -> Sanitizer:
        """Return the sanitizer in *memory* that remembers *conversation*, a new one where none does."""
        new = Sanitizer(self._adapter.rules, sees_images="image" in self._card.modalities)
        if memory is None:
            return new
        known: deque[Sanitizer] = memory.by_model.setdefault(self, deque(maxlen=_REMEMBERED))
        found = next((each for each in known if each.knows(conversation)), new)
        if found is not new:
            known.remove(found)
        known.append(found)
        return found

    def _gateway_error(self, error: Exception, key: Key | None) -> GatewayError:
        name = self._card.provider
        try:
            if isinstance(error, ReportedFailureError):
                failure: ProviderFailure | None = error.failure
            else:
                failure = self._adapter.failure(error)
            package = type(error).__module__.partition(".")[0].rstrip("0123456789")
            if failure is None and (isinstance(error, OSError) or package in _WIRE_MODULES):
                # From below the SDK: a connection that broke, a time that ran out.
                failure = ProviderFailure(str(error) or type(error).__name__)
            if type(error).__name__ in _TIMEOUTS or type(error.__cause__).__name__ in _TIMEOUTS:
                failure = ProviderFailure(f"it sent nothing for {self._clients.idle_timeout_s:g} s")
            if failure is not None:
                return to_gateway_error(
                    failure,
                    name,
                    hint=how_to_set(self._clients.provider),
                    address=self._clients.base_url,
                    key=key.value if key is not None else None,
                    now_s=time.time(),
                )
        except Exception as malformed:
            # The report of the failure has an unknown shape itself.
            error = malformed
        _log.debug("an answer of %s cannot be understood", name, exc_info=error)
        found = str(error) if isinstance(error, MalformedAnswerError) else type(error).__name__
        return GatewayError("parse", f"the answer of {name} cannot be understood ({found})", provider=name)

    def _adapt_to_refusal(self, failed: GatewayError, sent: Conversation, options: StreamOptions) -> None:
        """Leave out of later calls a part that the provider refused; this call is retried then.

        The part is earlier reasoning in *sent*, or a limit of the answer that the call did not ask for.
        """
        signatures = frozenset(
            block.signature
            for turn in sent.turns
            for block in turn.blocks
            if isinstance(block, ThinkingBlock) and block.signature is not None
        )
        if signatures and is_stale_thinking(failed):
            self._refused_signatures |= signatures
            failed.retryable = True
            self._report_repair(
                options, "earlier reasoning was left out, because the turns before it changed"
            )
        is_own_limit = options.max_output_tokens is None and self._card.max_output_tokens > 0
        if is_own_limit and is_refused_limit(failed):
            self._card = replace(self._card, max_output_tokens=0)
            failed.retryable = True

    def _report_repair(self, options: StreamOptions, repair: str) -> None:
        # A broken conversation is repaired at every call, and logged once.
        level = logging.DEBUG if repair in self._logged_repairs else logging.WARNING
        self._logged_repairs.add(repair)
        _log.log(level, "repaired a conversation for %s: %s", self._card.provider, repair)
        if options.on_repair is not None:
            _call_listener(options.on_repair, repair)

    def _plan_retry(self, attempt: int, failed: GatewayError, options: StreamOptions) -> int | None:
        """Return the pause before the call is made again, and report it; None when it may not be."""
        if failed.kind == "auth":
            self._clients.forget(options.api_key)
        policy = self._retries.policy
        pause_ms = policy.pause_ms(attempt, failed, self._retries.chance())
        if pause_ms is None:
            return None
        _log.info("attempt %d failed (%s), next one in %d ms", attempt, failed.kind, pause_ms)
        if options.on_retry is not None:
            _call_listener(options.on_retry, attempt, policy.max_attempts, pause_ms, failed)
        return pause_ms


async def soon(upcoming: Awaitable[T]) -> T:
    """Return the result of *upcoming*. Raises TimeoutError when there is none within seconds."""
    async with asyncio.timeout(_END_S):
        return await upcoming


def _call_listener(listener: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    try:
        listener(*args, **kwargs)
    except Exception as error:
        # A call never depends on its listeners.
        log_fault("a listener of a model call", error)
