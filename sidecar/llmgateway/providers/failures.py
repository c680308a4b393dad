"""Typed errors for the failures of providers: the kind, whether and when to retry, the next step. Pure.

SDKs raise classes of their own; an adapter takes the plain values out of them, and everything else is decided
here, in the same way for every provider. No key gets into a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from sidecar._internal.secrets import MASK, mask_secrets
from sidecar.llmgateway.contract import GatewayError, GatewayErrorKind
from sidecar.text.clip import clip

_MESSAGE_CHARS: Final = 500
_LEAST_KEY_CHARS: Final = 8
_ABOUT_KEY: Final = re.compile(
    r"\b(?:api|access)?[ _-]?key\b|token|credential|authenticat|authoriz|permission", re.IGNORECASE
)
_CERTIFICATE: Final = "CERTIFICATE_VERIFY_FAILED"
_LIMIT: Final = re.compile(r"\bmax_(?:completion_|output_|new_)?tokens\b")
_STALE_PROOF: Final = ("encrypted content", "encrypted_content", "thought signature")
_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
_CHANCE: Final = frozenset({"tool_use_failed"})
"""The codes of failures of the model, such as a call that Groq could not read; another try helps."""

NOT_SET_UP: Final = "not_set_up"
"""The code of a failure on this machine: something is missing before the provider can be called."""

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
"""The kind and status of an error without a status of its own, most often one in the middle of a stream."""


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """The report of a provider about its failure.

    Attributes:
        message: its sentence.
        status: the HTTP status, None when there was no answer.
        code: its own name for the failure.
        headers: the headers of the answer.
        retry_after_ms: the pause that it asks for elsewhere than in a header.
    """

    message: str
    status: int | None = None
    _: KW_ONLY
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after_ms: int | None = None


def to_gateway_error(
    failure: ProviderFailure,
    provider: str,
    *,
    hint: str = "",
    address: str | None = None,
    key: str | None = None,
    now_s: float = 0.0,
) -> GatewayError:
    """Return the error with which a call ends after *failure*.

    Args:
        provider: the id of the provider that failed.
        hint: the next step for a key that is missing or refused.
        address: the address of the provider, None for its own.
        key: the key that was used, to be masked in the message.
        now_s: the time in seconds since 1970, for a server that names the time of the next attempt.
    """
    from sidecar.llmgateway.providers.overflow import (  # not above: few calls fail
        is_overflow,
        window_tokens_in,
    )

    status = failure.status
    kind: GatewayErrorKind
    if status is None or status < 400:
        kind, status = _BY_CODE.get(failure.code, ("http" if failure.code else "transport", None))
    elif status == 401 or (status == 403 and _ABOUT_KEY.search(failure.message)):
        kind = "auth"
    elif status == 404:
        kind = "unsupported"
    else:
        kind = "rate_limit" if status == 429 else "http"
    does_not_fit = is_overflow(failure.message, failure.status, failure.code)
    if address is not None and kind in ("transport", "unsupported"):
        place = mask_secrets(f"{provider} ({address})")
    else:
        place = provider
    reason = mask_reason(failure.message, key)
    if does_not_fit:
        number = f" {status}" if status is not None else ""
        message = f"the conversation does not fit the model's window ({place}{number}): {reason}"
    else:
        message = error_sentence(kind, place, status, reason, hint)
    is_lasting = failure.code in _QUOTA or _CERTIFICATE in failure.message
    retryable = False if is_lasting else failure.code in _CHANCE or None
    advice = next((each for name, each in failure.headers.items() if name.lower() == "x-should-retry"), "")
    pause = failure.retry_after_ms
    return GatewayError(
        kind,
        message,
        status=status,
        provider=provider,
        # The SDKs obey this header, for and against their own rules.
        retryable={"true": True, "false": False}.get(advice, retryable),
        retry_after_ms=pause if pause is not None else retry_after_ms(failure.headers, now_s),
        is_overflow=does_not_fit,
        window_tokens=window_tokens_in(failure.message) if does_not_fit else None,
    )


def retry_after_ms(headers: Mapping[str, str], now_s: float) -> int | None:
    """Return the pause that a server asks for in *headers*, or None when it asks for none.

    >>> retry_after_ms({"retry-after": "1.5"}, 0.0), retry_after_ms({}, 0.0)
    (1500, None)
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            return max(0, int(float(lowered[name]) * factor))
        except (KeyError, ValueError, OverflowError):
            continue
    from email.utils import parsedate_to_datetime  # not above: few answers have a date, and it loads slowly

    try:
        until = parsedate_to_datetime(lowered["retry-after"])
        return max(0, int((until.timestamp() - now_s) * 1000))
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def is_stale_thinking(error: GatewayError) -> bool:
    """Whether the provider refuses earlier reasoning: its signature does not fit the turns before it."""
    message = error.message.lower()
    of_thinking = "thinking" in message and ("signature" in message or "cannot be modified" in message)
    return error.status == 400 and (of_thinking or any(words in message for words in _STALE_PROOF))


def is_refused_limit(error: GatewayError) -> bool:
    """Whether the provider refuses the limit of the answer that the call set.

    >>> is_refused_limit(GatewayError("http", "`max_tokens` must be <= 8192", status=400))
    True
    """
    return error.status in (400, 422) and not error.is_overflow and _LIMIT.search(error.message) is not None


def mask_reason(message: str, key: str | None) -> str:
    """Return *message* as one line of bounded length without secrets.

    A short *key* is none but a word, such as ``ollama`` for a server that wants any.
    """
    is_secret = key is not None and len(key) >= _LEAST_KEY_CHARS
    reason = message.replace(str(key), MASK) if is_secret else message
    return clip(mask_secrets(" ".join(reason.split())), _MESSAGE_CHARS)


def error_sentence(
    kind: GatewayErrorKind, place: str, status: int | None, reason: str, hint: str = ""
) -> str:
    """Return the message of an error.

    Args:
        kind: its kind.
        place: the provider, and perhaps its address.
        status: the HTTP status, None without one.
        reason: the provider's own sentence.
        hint: the next step for a key that is missing or refused.

    >>> error_sentence("http", "openai", 403, "not in your country")
    'openai refuses the request (403): not in your country'
    """
    match kind:
        case "auth":
            text = f"{place} does not accept the key ({status}): {reason}" if status else reason
            return f"{text}; {hint}" if hint else text
        case "unsupported" if status is None:
            return f"{place} cannot be called: {reason}"
        case "unsupported":
            return f"{place} has no such model or address ({status}): {reason}"
        case "transport" if _CERTIFICATE in reason:
            advice = "set SSL_CERT_FILE to a file with the certificates that this network uses"
            return f"the certificate of {place} is not trusted on this machine; {advice}: {reason}"
        case "transport":
            return f"{place} cannot be reached, or hung up: {reason}"
        case _ if status == 403:
            return f"{place} refuses the request (403): {reason}"
        case _:
            return f"{place} answered{f' {status}' if status is not None else ''}: {reason}"
