"""What both formats of the OpenAI SDK share: its client, its errors, how much effort a model is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sidecar.llmgateway.contract import ThinkingLevel, gateway_error
from sidecar.llmgateway.credentials import how_to_set
from sidecar.llmgateway.providers.adapter import Connected, Place
from sidecar.llmgateway.providers.failures import Failure

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["connect", "effort_of", "failure_of", "is_official"]

_OFFICIAL_HOST: Final = "api.openai.com"
_NO_KEY: Final = "none"
"""What a server that asks for no key is sent; the SDK insists on sending one."""

_EFFORTS: Final[Mapping[ThinkingLevel, str]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "high",
}
_NEVER_OFF: Final = ("o1", "o3", "o4", "gpt-5-", "gpt-5.1-codex", "gpt-6-astra", "gpt-6.1-sol")
_UP_TO_HIGH: Final = ("o1", "o3", "o4", "gpt-5-", "gpt-5.1")


def connect(place: Place) -> Connected[AsyncOpenAI]:
    """Return a client that does not try again by itself: the call does, and tells."""
    # Imported here, in the thread that connects: it takes most of a second.
    from openai import AsyncOpenAI

    if place.key is None and place.provider.needs_key:
        name = place.provider.id
        raise gateway_error("auth", f"no key for {name}; {how_to_set(place.provider)}", provider=name)
    key = place.key.value if place.key is not None else _NO_KEY
    client = AsyncOpenAI(api_key=key, base_url=place.base_url, max_retries=0)
    # Both load their types when first looked at.
    _ = client.chat.completions, client.responses
    return Connected(client, client.close)


def is_official(place: Place) -> bool:
    """Whether *place* is OpenAI itself."""
    return place.base_url is None or _OFFICIAL_HOST in place.base_url


def effort_of(model: str, level: ThinkingLevel) -> str | None:
    """Return the effort that *level* is for a model of OpenAI, None to leave it to the model.

    >>> effort_of("gpt-5.5", "off"), effort_of("gpt-5.5", "max"), effort_of("o3", "off")
    ('none', 'xhigh', 'low')
    """
    name = f"{model}-"
    if level == "off":
        return "low" if name.startswith(_NEVER_OFF) else "none"
    if level == "max":
        return "high" if name.startswith(_UP_TO_HIGH) else "xhigh"
    return _EFFORTS[level]


def failure_of(error: Exception) -> Failure | None:
    """Return what OpenAI, or who speaks like it, said in *error*; None when it is no error of the SDK."""
    import openai

    if isinstance(error, openai.APIStatusError):
        headers = dict(error.response.headers)
        return Failure(_message(error), error.status_code, str(error.code or error.type or ""), headers)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        return Failure(f"{error.message} {cause or ''}".strip())
    if isinstance(error, openai.APIError):
        return Failure(_message(error), code=str(error.code or error.type or "api_error"))
    return None


def _message(error: Any) -> str:
    """Return the provider's sentence, which compatible servers put in several places."""
    body = error.body
    for found in (body.get("error"), body) if isinstance(body, Mapping) else ():
        if isinstance(found, Mapping) and isinstance(found.get("message"), str):
            return str(found["message"])
        if isinstance(found, str):
            return found
    return str(error.message)
