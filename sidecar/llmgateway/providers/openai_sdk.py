"""The OpenAI SDK as both of its formats use it: the client, errors, the effort of reasoning."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from sidecar.llmgateway.contract import ThinkingLevel
from sidecar.llmgateway.providers.adapter import CONNECT_S, Endpoint, SdkArguments, SdkClient
from sidecar.llmgateway.providers.body import EventBody, ReportedFailureError, failure_in
from sidecar.llmgateway.providers.failures import ProviderFailure
from sidecar.llmgateway.providers.windows import direct_mounts

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_OFFICIAL_HOST: Final = "api.openai.com"
_EFFORTS: Final[Mapping[ThinkingLevel, str]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "high",
}
_NEVER_OFF: Final = ("o1", "o3", "o4", "gpt-5-", "gpt-5.1-codex", "gpt-6-astra", "gpt-6.1-sol")
_UP_TO_HIGH: Final = ("o1", "o3", "o4", "gpt-5-", "gpt-5.1")


class OpenAISdk:
    """The part of an adapter that both formats share."""

    def connect(self, endpoint: Endpoint) -> SdkClient[AsyncOpenAI]:
        """Return a client that does not retry by itself: the gateway retries, and reports it."""
        # Imported here, in the thread that connects: it takes most of a second.
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        client = AsyncOpenAI(
            api_key=endpoint.require_key(),
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=Timeout(endpoint.idle_timeout_s, connect=CONNECT_S),
            http_client=DefaultAsyncHttpxClient(mounts=direct_mounts(endpoint.base_url)),
        )
        return SdkClient(client, client.close)

    @asynccontextmanager
    async def post(self, client: AsyncOpenAI, path: str, request: SdkArguments) -> AsyncIterator[EventBody]:
        """Send *request* and stream the answer.

        Args:
            client: the SDK's client, which signs the request and raises the errors of a refused one.
            path: the path below its base address.
            request: the body. The SDK's own methods would walk through all of it, at the price of a short
                answer.
        """
        from httpx2 import Response

        content = msgspec.json.encode(request | {"stream": True})
        response = await client.post(path, content=content, cast_to=Response, stream=True)
        try:
            yield EventBody(response)
        finally:
            await response.aclose()

    def failure(self, error: Exception) -> ProviderFailure | None:
        """Return the server's report in *error*, None when it is not an error of the SDK.

        Servers that are compatible with OpenAI put their sentence in several places of the body.
        """
        import openai

        if isinstance(error, ReportedFailureError):
            return error.failure
        if isinstance(error, openai.APIConnectionError):
            return ProviderFailure(f"{error.message} {error.__cause__ or ''}".strip())
        if not isinstance(error, openai.APIError):
            return None
        message, body = str(error.message), error.body
        for found in (body, body.get("error")) if isinstance(body, Mapping) else ():
            if isinstance(found, Mapping) and isinstance(found.get("message"), str):
                message = str(found["message"])
            elif isinstance(found, str):
                message = found
        if (reported := failure_in(body)) is not None and reported.message.startswith(message):
            message = reported.message  # with the reason of the service behind a router
        if isinstance(body, str) and body.strip():
            message = body
        code = error.code or error.type
        if isinstance(error, openai.APIStatusError):
            return ProviderFailure(
                message, error.status_code, code=str(code or ""), headers=dict(error.response.headers)
            )
        return ProviderFailure(message, code=str(code or "api_error"))


def is_official(endpoint: Endpoint) -> bool:
    """Whether *endpoint* is OpenAI itself."""
    return endpoint.base_url is None or _OFFICIAL_HOST in endpoint.base_url


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
