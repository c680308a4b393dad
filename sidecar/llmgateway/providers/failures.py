"""From what a provider answered to a typed error: its kind, whether and when to try again, what to do. Pure.

SDKs raise classes of their own; an adapter takes the plain values out of them, and everything else is decided
here, the same for every provider. No key gets into a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from sidecar._internal.secrets import MASK, mask_secrets
from sidecar.llmgateway.contract import GatewayError, GatewayErrorKind

__all__ = ["NOT_SET_UP", "Failure", "as_error", "is_stale_thinking", "retry_after_ms", "window_in"]

_MESSAGE_CHARS: Final = 500
_OVERFLOW_STATUS: Final = frozenset({None, 400, 413, 422, 500})
_OVERFLOW_CODES: Final = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "request_too_large", "string_above_max_length"}
)
_OVERFLOW: Final = re.compile(
    r"""
    prompt\ (?:is\ )?too\ long | input\ is\ too\ long | request\ too\ large
  | request\ exceeds\ the\ maximum\ size
  | exceeds?\ (?:the\ )?(?:available\ |maximum\ |model'?s?\ )*context | maximum\ context\ length
  | context[ _](?:length|window|size|limit)\ (?:is\ )?exceeded | exceeds?\ context\ limit
  | exceeds\ the\ context\ window | larger\ than\ the\ (?:model'?s\ )?context | too\ large\ for\ model\ with
  | input\ token\ count .{0,40} exceeds | maximum\ prompt\ length | max_seq_len | max_model_len
  | reduce\ the\ length\ of\ the\ messages | too\ many\ tokens\ in\ the\ prompt
  | greater\ than\ the\ context\ length | n_ctx
    """,
    re.IGNORECASE | re.VERBOSE,
)
_WINDOW: Final = re.compile(
    r"""
    maximum\ (?:context|prompt)\ length\ (?:is|of)\ (\d[\d,]{2,9})
  | context\ (?:size|length|window|limit)\ (?:of\ |is\ )?\(?(\d[\d,]{2,9})
  | >\ (\d[\d,]{2,9})(?:\ maximum|$) | (\d[\d,]{2,9})\ maximum\ context
  | maximum\ number\ of\ tokens\ allowed\ \((\d[\d,]{2,9}) | max_seq_len\ \((\d[\d,]{2,9})
    """,
    re.IGNORECASE | re.VERBOSE,
)
_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
NOT_SET_UP: Final = "not_set_up"
"""The code of what is missing on this machine before a provider can be asked."""

_BY_CODE: Final[Mapping[str, tuple[GatewayErrorKind, int | None]]] = {
    "authentication_error": ("auth", 401),
    "permission_error": ("auth", 403),
    "rate_limit_error": ("rate_limit", 429),
    "rate_limit_exceeded": ("rate_limit", 429),
    "overloaded_error": ("http", 529),
    "api_error": ("http", 500),
    "server_error": ("http", 500),
    "timeout_error": ("http", 504),
    "invalid_request_error": ("http", 400),
    "invalid_prompt": ("http", 400),
    NOT_SET_UP: ("unsupported", None),
}
"""What an error amounts to that has no status of its own: mostly one in the middle of a stream."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a provider said when it failed.

    *code* is its own word for it; *status* is None when there was no answer.
    """

    message: str
    status: int | None = None
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after_ms: int | None = None


def as_error(
    failure: Failure,
    provider: str,
    *,
    hint: str = "",
    address: str | None = None,
    key: str | None = None,
    now_s: float = 0.0,
) -> GatewayError:
    """Return *failure* as the error a call ends with.

    Args:
        provider: who failed.
        hint: what to do about a key that is missing or refused.
        address: where the provider is reached, None for its own place.
        key: the key that was used, to be taken out of the message.
        now_s: the time, for a server that asks to be left alone until another one.
    """
    kind, status = _kind(failure)
    is_overflow = _is_overflow(failure)
    said = _said(failure, key)
    asked = failure.retry_after_ms
    wait = asked if asked is not None else retry_after_ms(failure.headers, now_s)
    return GatewayError(
        kind,
        _sentence(kind, _placed(provider, kind, address), status, said, hint, is_overflow=is_overflow),
        status=status,
        provider=provider,
        retryable=False if failure.code in _QUOTA else None,
        retry_after_ms=wait,
        is_overflow=is_overflow,
        window_tokens=window_in(failure.message) if is_overflow else None,
    )


def window_in(message: str) -> int | None:
    """Return the window in tokens that *message*, a refusal of what does not fit, tells of, or None.

    >>> window_in("This model's maximum context length is 8192 tokens. You requested 9000 tokens.")
    8192
    >>> window_in("the request (9000 tokens) exceeds the available context size (4096 tokens)")
    4096
    """
    found = _WINDOW.search(message)
    return int(next(filter(None, found.groups())).replace(",", "")) if found else None


def retry_after_ms(headers: Mapping[str, str], now_s: float) -> int | None:
    """Return how long the server asks to be left alone, or None when it does not ask.

    >>> retry_after_ms({"retry-after": "1.5"}, 0.0), retry_after_ms({}, 0.0)
    (1500, None)
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            return max(0, int(float(lowered[name]) * factor))
        except (KeyError, ValueError, OverflowError):
            continue
    try:
        until = parsedate_to_datetime(lowered["retry-after"])
        return max(0, int((until.timestamp() - now_s) * 1000))
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def is_stale_thinking(error: GatewayError) -> bool:
    """Whether the provider refuses earlier reasoning: its signature does not fit what now precedes it."""
    said = error.message.lower()
    if "encrypted content" in said or "encrypted_content" in said or "thought signature" in said:
        return error.status == 400
    return (
        error.status == 400 and "thinking" in said and ("signature" in said or "cannot be modified" in said)
    )


def _kind(failure: Failure) -> tuple[GatewayErrorKind, int | None]:
    status = failure.status
    if status is None or status < 400:
        return _BY_CODE.get(failure.code, ("http" if failure.code else "transport", None))
    if status in (401, 403):
        return "auth", status
    if status == 404:
        return "unsupported", status
    return ("rate_limit" if status == 429 else "http"), status


def _is_overflow(failure: Failure) -> bool:
    if failure.status not in _OVERFLOW_STATUS:
        return False
    return failure.code in _OVERFLOW_CODES or _OVERFLOW.search(failure.message) is not None


def _said(failure: Failure, key: str | None) -> str:
    said = failure.message if not key else failure.message.replace(key, MASK)
    said = mask_secrets(" ".join(said.split()))
    return said if len(said) <= _MESSAGE_CHARS else said[: _MESSAGE_CHARS - 1] + "…"


def _placed(provider: str, kind: GatewayErrorKind, address: str | None) -> str:
    """Return *provider*, with where it was looked for when it cannot be reached or does not know a model."""
    is_about_place = kind in ("transport", "unsupported") and address is not None
    return mask_secrets(f"{provider} ({address})") if is_about_place else provider


def _sentence(
    kind: GatewayErrorKind, provider: str, status: int | None, said: str, hint: str, *, is_overflow: bool
) -> str:
    number = f" {status}" if status is not None else ""
    if is_overflow:
        return f"the conversation does not fit the model's window ({provider}{number}): {said}"
    match kind:
        case "auth":
            text = f"{provider} does not accept the key ({status}): {said}" if status else said
            text = f"{text}; {hint}" if hint else text
        case "unsupported" if status is None:
            text = f"{provider} cannot be asked: {said}"
        case "unsupported":
            text = f"{provider} has no such model or address ({status}): {said}"
        case "transport":
            text = f"{provider} cannot be reached, or hung up: {said}"
        case _:
            text = f"{provider} answered{number}: {said}"
    return text
