"""Models and the words of one call to them: cards, options, usage, errors (facts 1.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sidecar._internal.cancel import CancelToken
from sidecar.llmgateway.contract.blocks import Turn

__all__ = [
    "ApiKind",
    "Conversation",
    "CostSheet",
    "GatewayError",
    "GatewayErrorKind",
    "Modality",
    "ModelCard",
    "ProviderId",
    "RepairListener",
    "RetryListener",
    "StopReason",
    "StreamOptions",
    "ThinkingLevel",
    "ToolChoice",
    "ToolDescriptor",
    "Usage",
    "gateway_error",
]

ProviderId: TypeAlias = str
"""Who serves a model: ``anthropic``, ``openai``, ..., ``mock``. Open: local servers bring their own."""

ApiKind: TypeAlias = str
"""Which wire format a provider speaks: ``anthropic-messages``, ..., ``mock``. Open as well."""

Modality: TypeAlias = Literal["text", "image", "audio"]
ThinkingLevel: TypeAlias = Literal["off", "low", "medium", "high", "max"]
ToolChoice: TypeAlias = Literal["auto", "required", "none"]
StopReason: TypeAlias = Literal["complete", "tool_calls", "max_output", "refusal", "aborted", "error"]
GatewayErrorKind: TypeAlias = Literal[
    "auth", "rate_limit", "http", "transport", "parse", "unsupported", "aborted"
]


@dataclass(frozen=True, slots=True)
class ToolDescriptor:
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


@dataclass(frozen=True, slots=True)
class CostSheet:
    """Prices in US dollars for a million tokens."""

    input_per_mtok: float
    output_per_mtok: float
    cache_read_per_mtok: float | None = None
    cache_write_per_mtok: float | None = None


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of a model before it is called; windows and limits are in tokens.

    *wire_id* is the name the provider knows it by; left empty it becomes *id*.
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


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one model call is given: the turns, the system prompt and the tools on offer."""

    turns: tuple[Turn, ...]
    _: KW_ONLY
    system: str | None = None
    tools: tuple[ToolDescriptor, ...] | None = None


RetryListener: TypeAlias = "Callable[[int, int, int, GatewayError], None]"
"""Hears that attempt 1, 2, ... of at most so many failed, and that the next begins in so many milliseconds:
``on_retry(attempt, max_attempts, delay_ms, error)``. Contract: what it raises is swallowed."""

RepairListener: TypeAlias = Callable[[str], None]
"""Hears, in words, what was mended in a conversation before it was sent. Contract: what it raises is
swallowed."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The knobs of one model call; None leaves a knob to the provider.

    A stream honours *cancel* within one emission. *on_retry* and *on_repair* hear what the call does besides.
    """

    cancel: CancelToken | None = None
    thinking: ThinkingLevel | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tool_choice: ToolChoice | None = None
    api_key: str | None = field(default=None, repr=False)
    on_retry: RetryListener | None = field(default=None, repr=False, compare=False)
    on_repair: RepairListener | None = field(default=None, repr=False, compare=False)


_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429})


class GatewayError(Exception):
    """A model call failed; *kind* says how, *status* is the HTTP status where there was one.

    *retryable* says whether the same call may succeed later; left None it follows from kind and status.
    *retry_after_ms* is what the server asked for. *is_overflow* says that the conversation does not fit the
    model's window: the same call never succeeds, a shorter one may; *window_tokens* is how large that window
    is, where the provider says so.
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
        self.retryable = not is_overflow and (_is_transient(kind, status) if retryable is None else retryable)


def _is_transient(kind: GatewayErrorKind, status: int | None) -> bool:
    if kind == "http":
        return status is not None and (status >= 500 or status in _TRANSIENT_STATUS)
    return kind in ("rate_limit", "transport")


def gateway_error(
    kind: GatewayErrorKind,
    message: str,
    *,
    status: int | None = None,
    provider: ProviderId | None = None,
    cause: BaseException | None = None,
) -> GatewayError:
    """Return a :class:`GatewayError`; the spelling of the seeds."""
    return GatewayError(kind, message, status=status, provider=provider, cause=cause)
