"""The HTTP client of both OpenAI formats, the reports of errors, and the effort of reasoning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sidecar._internal.env import read_raw
from sidecar.llmgateway.contract import Conversation, TextBlock, ThinkingLevel
from sidecar.llmgateway.providers.adapter import Endpoint, SdkClient
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.http_calls import RefusedRequestError, failure_in, open_client

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_OFFICIAL_HOST: Final = "api.openai.com"
_OFFICIAL_ADDRESS: Final = f"https://{_OFFICIAL_HOST}/v1"
_EFFORTS: Final[Mapping[ThinkingLevel, str]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "high",
}
_NEVER_OFF: Final = ("o1", "o3", "o4", "gpt-5-", "gpt-5.1-codex", "gpt-6-astra", "gpt-6.1-sol")
_UP_TO_HIGH: Final = ("o1", "o3", "o4", "gpt-5-", "gpt-5.1")


class OpenAIService:
    """The part of an adapter that both formats share."""

    def connect(self, endpoint: Endpoint) -> SdkClient[AsyncClient]:
        """Return an HTTP client, for the organization and project that the environment names."""
        headers = {"Authorization": f"Bearer {endpoint.require_key()}"}
        for name, variable in (("Organization", "OPENAI_ORG_ID"), ("Project", "OPENAI_PROJECT_ID")):
            if (value := read_raw(variable)) is not None:
                headers[f"OpenAI-{name}"] = value
        address = endpoint.base_url or _OFFICIAL_ADDRESS
        client = open_client(endpoint, address, headers, "OPENAI_CUSTOM_HEADERS")
        return SdkClient(client, client.aclose)

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the server's report in *error*, None when it has none.

        Servers that are compatible with OpenAI put their sentence in several places of the body.
        """
        if not isinstance(error, RefusedRequestError):
            return None
        message, body = error.message, error.body
        if isinstance(body, Mapping):
            body = body.get("error", body)
        for found in (body, body.get("error")) if isinstance(body, Mapping) else ():
            if isinstance(found, Mapping) and isinstance(found.get("message"), str):
                message = str(found["message"])
            elif isinstance(found, str):
                message = found
        if (reported := failure_in(body)) is not None and reported.message.startswith(message):
            message = reported.message  # with the reason of the service behind a router
        if isinstance(body, str) and body.strip():
            message = body
        codes = (body.get("code"), body.get("type")) if isinstance(body, Mapping) else ()
        code = next((str(code) for code in codes if code), "")
        return ProviderFailure(message, error.status, code=code, headers=error.headers)


def is_official(endpoint: Endpoint) -> bool:
    """Whether *endpoint* is OpenAI itself."""
    return endpoint.base_url is None or _OFFICIAL_HOST in endpoint.base_url


def cache_key(conversation: Conversation) -> str:
    """Return the key by which OpenAI finds the machine that has the beginning of *conversation* in its cache.

    It is the same for all calls that begin alike, and two conversations of one user have two of them.
    """
    first = conversation.turns[0].blocks if conversation.turns else ()
    texts = [block.text for block in first if isinstance(block, TextBlock)]
    begin = json.dumps([conversation.system, texts])
    return hashlib.sha256(begin.encode()).hexdigest()[:32]


def effort_of(model: str, level: ThinkingLevel) -> str | None:
    """Return OpenAI's name for *level* in a request to *model*.

    >>> effort_of("gpt-5.5", "off"), effort_of("gpt-5.5", "max"), effort_of("o3", "off")
    ('none', 'xhigh', 'low')
    """
    name = f"{model}-"
    if level == "off":
        return "low" if name.startswith(_NEVER_OFF) else "none"
    if level == "max":
        return "high" if name.startswith(_UP_TO_HIGH) else "xhigh"
    return _EFFORTS[level]
