"""The vocabulary that models, engines and front ends share: values, and the reading of a channel.

Turns and the content blocks in them; models and the values of one call, which are cards, conversations,
options, usage and errors; emissions, the stream of a call, and the reply that they add up to. Frozen values
only. The discriminators ``kind`` and ``role`` are class variables, not arguments.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar._internal.values import Value

ProviderId: TypeAlias = str
"""The provider of a model: ``anthropic``, ``openai``, ..., ``mock``. Open: local servers have their own."""

ApiKind: TypeAlias = str
"""The wire format of a provider: ``anthropic-messages``, ..., ``mock``. Open as well."""

Modality: TypeAlias = Literal["text", "image", "audio"]
ThinkingLevel: TypeAlias = Literal["off", "low", "medium", "high", "max"]
ToolChoice: TypeAlias = Literal["auto", "required", "none"]
StopReason: TypeAlias = Literal["complete", "tool_calls", "max_output", "refusal", "aborted", "error"]
GatewayErrorKind: TypeAlias = Literal[
    "auth", "rate_limit", "http", "transport", "parse", "unsupported", "aborted"
]
BudgetPeriod: TypeAlias = Literal["prompt", "session", "day"]
RetryListener: TypeAlias = "Callable[[int, int, int, GatewayError], None]"
"""Called as ``on_retry(attempt, max_attempts, delay_ms, error)`` when attempt 1, 2, ... failed and the next
one begins in *delay_ms*. Contract: its exceptions are logged and ignored."""

RepairListener: TypeAlias = Callable[[str], None]
"""Called with one sentence about a repair of the conversation before it was sent. Contract: its exceptions
are logged and ignored."""

WarningListener: TypeAlias = Callable[[str], None]
"""Called with one sentence for the user about a call that went well and should not go on like this. Contract:
its exceptions are logged and ignored."""

_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429})


class TextBlock(Value):
    """Prose."""

    kind: ClassVar[Literal["text"]] = "text"
    text: str


class ThinkingBlock(Value):
    """The model's reasoning; *signature* is the provider's proof of it, and goes back unchanged."""

    kind: ClassVar[Literal["thinking"]] = "thinking"
    text: str
    signature: str | None = None


class ToolCallBlock(Value):
    """A request to run the tool *name*.

    *input* is the parsed JSON value once the turn is sealed, and the raw argument text while it streams.
    """

    kind: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    input: Any


class ToolResultBlock(Value):
    """The result of the call *call_id*: any JSON value, usually text."""

    kind: ClassVar[Literal["tool_result"]] = "tool_result"
    call_id: str
    output: Any
    is_error: bool | None = None


class ImageBlock(Value):
    """An image, base64 encoded."""

    kind: ClassVar[Literal["image"]] = "image"
    media_type: str
    data_base64: str


class CommandBlock(Value):
    """A command of the host, not of the model; models never see it."""

    kind: ClassVar[Literal["command"]] = "command"
    command: str
    args: tuple[str, ...] | None = None


Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock | ToolResultBlock | ImageBlock | CommandBlock


class UserTurn(Value):
    """A message of the user, or of the host on the user's behalf."""

    role: ClassVar[Literal["user"]] = "user"
    blocks: tuple[Block, ...]


class AssistantTurn(Value):
    """An answer of the model, with its tool calls."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    blocks: tuple[Block, ...]


class ToolTurn(Value):
    """The results of the tool calls of the assistant turn before it."""

    role: ClassVar[Literal["tool"]] = "tool"
    blocks: tuple[Block, ...]


Turn: TypeAlias = UserTurn | AssistantTurn | ToolTurn


def join_texts(blocks: Iterable[Block], between: str = "") -> str:
    """Return the texts of *blocks*, with *between* between each two, without thinking, calls and results."""
    return between.join([block.text for block in blocks if isinstance(block, TextBlock)])


class ToolDescriptor(Value):
    """A tool as the model sees it; *parameters* is a JSON schema object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, or of several added up.

    ``input_tokens`` excludes the cache tiers; a tier that was not reported, or sums to 0, is None.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = field(default=None, repr=False, compare=False)
    """The part of ``output_tokens`` that was reasoning, of a single call; for its price alone."""

    cost: float | None = field(default=None, repr=False, compare=False)
    """The price in US dollars that the provider reported for a single call, None for none."""


class PriceTier(Value):
    """Prices in US dollars for a million tokens of a call with an input of more than *above_tokens*."""

    above_tokens: int
    input_per_mtok: float
    output_per_mtok: float
    cache_read_per_mtok: float | None = None
    cache_write_per_mtok: float | None = None


@dataclass(frozen=True, slots=True)
class CostSheet:
    """Prices in US dollars for a million tokens, and *per_request* for a call.

    Reasoning without a price of its own costs as output, a cache without one as input. A tier prices the
    whole call, cached input counted; *tiers* are in ascending order.
    """

    input_per_mtok: float
    output_per_mtok: float
    cache_read_per_mtok: float | None = None
    cache_write_per_mtok: float | None = None
    _: KW_ONLY
    reasoning_per_mtok: float | None = None
    per_request: float | None = None
    tiers: tuple[PriceTier, ...] = ()

    def price(self, usage: Usage) -> float | None:
        """Return the price of one call in US dollars, None when the sheet has no prices.

        The provider's own price of the call, where *usage* has one, is returned instead.

        >>> long = PriceTier(200_000, 6.0, 22.5, 0.6)
        >>> sheet = CostSheet(3.0, 15.0, 0.3, tiers=(long,))
        >>> sheet.price(Usage(100_000, 1_000)), sheet.price(Usage(100_000, 1_000, 200_000))
        (0.315, 0.7425)
        """
        if usage.cost is not None:
            return usage.cost
        if not (self.input_per_mtok or self.output_per_mtok or self.per_request):
            return None
        read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        n_input = usage.input_tokens + read + written
        at: CostSheet | PriceTier = self
        for tier in self.tiers:
            at = tier if n_input > tier.above_tokens else at
        cached, kept = (
            at.input_per_mtok if price is None else price
            for price in (at.cache_read_per_mtok, at.cache_write_per_mtok)
        )
        reasoning = usage.reasoning_tokens or 0 if self.reasoning_per_mtok is not None else 0
        dollars = usage.input_tokens * at.input_per_mtok + read * cached + written * kept
        dollars += (usage.output_tokens - reasoning) * at.output_per_mtok
        dollars += reasoning * (self.reasoning_per_mtok or 0.0)
        return dollars / 1_000_000 + (self.per_request or 0.0)


class Amount(Value):
    """Money in US dollars, and tokens."""

    usd: float = 0.0
    tokens: int = 0

    def plus(self, other: Amount) -> Amount:
        """Return both together."""
        return Amount(round(self.usd + other.usd, 9), self.tokens + other.tokens)

    def minus(self, other: Amount) -> Amount:
        """Return the difference to *other*."""
        return self.plus(Amount(-other.usd, -other.tokens))


class CostBudget(Value, kw_only=True):
    """The most money, *usd* in dollars, and the most *tokens* for each *per*; one of them may be None."""

    usd: float | None = None
    tokens: int | None = None
    per: BudgetPeriod = "prompt"

    def check(self) -> CostBudget:
        """Return this budget. Raises ValueError for an amount that is not above 0, and for none at all."""
        if self.usd is None and self.tokens is None:
            raise ValueError("a budget has usd, tokens or both")
        for name, amount in (("usd", self.usd), ("tokens", self.tokens)):
            if amount is not None and not 0 < amount < float("inf"):
                raise ValueError(f"{name} of a budget must be above 0, not {amount:g}")
        return self

    def double(self) -> CostBudget:
        """Return a budget of twice the amounts.

        >>> CostBudget(usd=2.0).double()
        CostBudget(usd=4.0, tokens=None, per='prompt')
        """
        usd = None if self.usd is None else 2 * self.usd
        return CostBudget(usd=usd, tokens=None if self.tokens is None else 2 * self.tokens, per=self.per)

    def share(self, spent: Amount) -> float:
        """Return the share of this budget that *spent* is, by dollars or by tokens, whichever is more.

        >>> CostBudget(usd=2.0, tokens=1000).share(Amount(0.5, 900))
        0.9
        """
        return max(
            0.0 if self.usd is None else spent.usd / self.usd,
            0.0 if self.tokens is None else spent.tokens / self.tokens,
        )

    def allows(self, spent: Amount, more: Amount) -> bool:
        """Whether *more* may be spent: something is left now, and nothing is overdrawn then."""
        return self.share(spent) < 1 and self.share(spent.plus(more)) <= 1


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model before it is called; windows and limits are in tokens.

    *wire_id* is its name at the provider; left empty it becomes *id*.
    """

    id: str
    provider: ProviderId
    api: ApiKind
    display_name: str
    _: KW_ONLY
    base_url: str | None = None
    context_window: int
    max_output_tokens: int
    modalities: tuple[Modality, ...]
    reasoning: bool
    cost: CostSheet
    wire_id: str = ""

    def __post_init__(self) -> None:
        if not self.wire_id:
            object.__setattr__(self, "wire_id", self.id)


class Conversation(Value):
    """The input of one model call: the turns, the system prompt and the offered tools."""

    turns: tuple[Turn, ...]
    system: str | None = None
    tools: tuple[ToolDescriptor, ...] | None = None


class CallMemory:
    """The work of models on the conversations of one caller, so that a call looks at new turns alone.

    The caller owns it: once it is cleared or dropped, no model keeps anything of its conversations.

    Attributes:
        by_model: the remembered work, by the model that did it; the values are the model's own.
    """

    __slots__ = ("by_model",)

    def __init__(self) -> None:
        self.by_model: dict[object, Any] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.by_model.clear()


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of one model call; None leaves an option to the provider.

    A stream ends within one emission after *cancel*. Without a *memory* nothing of a call is kept.
    *on_retry*, *on_repair* and *on_warning* are notified of retries, repairs and warnings.
    """

    cancel: CancelToken | None = None
    thinking: ThinkingLevel | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tool_choice: ToolChoice | None = None
    api_key: str | None = field(default=None, repr=False)
    memory: CallMemory | None = field(default=None, repr=False, compare=False)
    on_retry: RetryListener | None = field(default=None, repr=False, compare=False)
    on_repair: RepairListener | None = field(default=None, repr=False, compare=False)
    on_warning: WarningListener | None = field(default=None, repr=False, compare=False)


class GatewayError(Exception):
    """A model call failed.

    Attributes:
        kind: the kind of the failure.
        message: one sentence with the next step, for a user.
        status: the HTTP status, None when there was no answer.
        provider: the id of the provider that failed.
        cause: the exception behind it.
        retryable: whether the same call may succeed later; given as None it follows from kind and status.
        retry_after_ms: the pause that the server asked for.
        is_overflow: whether the conversation does not fit the model's window. The same call never succeeds
            then, a shorter one may.
        window_tokens: the size of that window, when the provider names it.
    """

    def __init__(
        self,
        kind: GatewayErrorKind,
        message: str,
        *,
        status: int | None = None,
        provider: ProviderId | None = None,
        cause: BaseException | None = None,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
        is_overflow: bool = False,
        window_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: GatewayErrorKind = kind
        self.message = message
        self.status = status
        self.provider = provider
        self.cause = cause
        self.retry_after_ms = retry_after_ms
        self.is_overflow = is_overflow
        self.window_tokens = window_tokens
        if retryable is None and kind == "http":
            retryable = status is not None and (status >= 500 or status in _TRANSIENT_STATUS)
        elif retryable is None:
            retryable = kind in ("rate_limit", "transport")
        self.retryable = retryable and not is_overflow


def gateway_error(
    kind: GatewayErrorKind,
    message: str,
    *,
    status: int | None = None,
    provider: ProviderId | None = None,
    cause: BaseException | None = None,
) -> GatewayError:
    """Return a :class:`GatewayError` with the common arguments; the spelling of the seeds."""
    return GatewayError(kind, message, status=status, provider=provider, cause=cause)


class Reply(Value):
    """A finished answer: its blocks, usage and stop reason."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    model: str
    blocks: tuple[Block, ...]
    usage: Usage
    stop: StopReason


class TextEmission(Value):
    """More prose."""

    kind: ClassVar[Literal["text"]] = "text"
    delta: str


class ThinkingEmission(Value):
    """More reasoning."""

    kind: ClassVar[Literal["thinking"]] = "thinking"
    delta: str


class ToolCallStartEmission(Value):
    """A tool call opens; its arguments follow as deltas under the same id."""

    kind: ClassVar[Literal["tool_call_start"]] = "tool_call_start"
    id: str
    name: str


class ToolCallDeltaEmission(Value):
    """More raw argument text of the call *id*."""

    kind: ClassVar[Literal["tool_call_delta"]] = "tool_call_delta"
    id: str
    args_delta: str


class UsageEmission(Value):
    """The usage of this call so far; a later figure replaces an earlier one."""

    kind: ClassVar[Literal["usage"]] = "usage"
    usage: Usage


class StopEmission(Value):
    """The reason why the model stopped."""

    kind: ClassVar[Literal["stop"]] = "stop"
    stop: StopReason


class WithdrawnEmission(Value):
    """The call failed and is made again: everything that it emitted before is taken back."""

    kind: ClassVar[Literal["withdrawn"]] = "withdrawn"


class DoneEmission(Value):
    """The whole answer; its blocks replace everything streamed before.

    *usage* belongs to an :class:`AssistantTurn`, which carries none of its own.
    """

    kind: ClassVar[Literal["done"]] = "done"
    reply: Reply | AssistantTurn
    usage: Usage | None = None


class ErrorEmission(Value):
    """The call failed."""

    kind: ClassVar[Literal["error"]] = "error"
    error: GatewayError


Emission: TypeAlias = (
    TextEmission
    | ThinkingEmission
    | ToolCallStartEmission
    | ToolCallDeltaEmission
    | UsageEmission
    | StopEmission
    | WithdrawnEmission
    | DoneEmission
    | ErrorEmission
)

Channel: TypeAlias = AsyncIterable[Emission]
"""One model call. Those of :func:`sidecar.llmgateway.channel_of` restart the call on each ``async for``."""


@asynccontextmanager
async def emissions_of(channel: Channel) -> AsyncIterator[AsyncIterator[Emission]]:
    """Read *channel* inside the block; its generator is closed at the end, however early that is."""
    emissions = aiter(channel)
    try:
        yield emissions
    finally:
        if isinstance(emissions, AsyncGenerator):
            await emissions.aclose()
