"""The body of a streamed response, watched beside the SDK that parses it.

An SDK skips everything in a stream that is not an event. A login page, or an error that comes with status
200, then looks like an answer that was cut off, and the mark at the end of a stream is not passed on. Some
servers send that mark and no reason for the end. The watcher keeps the first and the last bytes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from sidecar.llmgateway.providers.failures import ProviderFailure

_HEAD_BYTES: Final = 65_536
_TAIL_BYTES: Final = 64


class ReportedFailureError(Exception):
    """The provider reports in its answer that there will be none."""

    def __init__(self, failure: ProviderFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class WatchedBody:
    """The first and the last bytes of the body of *response*, a response of ``httpx`` that streams."""

    def __init__(self, response: Any) -> None:
        self._head = self._tail = b""
        read = response.aiter_bytes

        async def aiter_bytes(*args: Any, **kwargs: Any) -> AsyncIterator[bytes]:
            async for piece in read(*args, **kwargs):
                if len(self._head) < _HEAD_BYTES:
                    self._head += piece[:_HEAD_BYTES]
                self._tail = (self._tail + piece)[-_TAIL_BYTES:]
                yield piece

        response.aiter_bytes = aiter_bytes

    @property
    def has_end_mark(self) -> bool:
        """Whether the mark at the end of a stream was the last thing in it."""
        return self._tail.rstrip().endswith(b"[DONE]")

    def raise_failure(self) -> None:
        """Raise ReportedFailureError when the body is no stream but an error or a page."""
        text = self._head.decode("utf-8", "replace").strip()
        if text.startswith("<"):
            page = "it sent a web page instead of an answer; check its address, and the login of the network"
            raise ReportedFailureError(ProviderFailure(page, code="web_page"))
        if text.startswith("{") and (failure := read_failure(text)) is not None:
            raise ReportedFailureError(failure)


def read_failure(text: str) -> ProviderFailure | None:
    """Return the failure that the JSON *text* reports, None when it reports none.

    >>> read_failure('{"error": {"message": "no credit", "code": 402}}')
    ProviderFailure(message='no credit', status=402, code='402', headers={}, retry_after_ms=None)
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = body.get("error") or body.get("base_resp") or body if isinstance(body, dict) else None
    if isinstance(found, str):
        return ProviderFailure(found, code="api_error")
    if not isinstance(found, dict):
        return None
    sentences = (found.get(name) for name in ("message", "status_msg", "detail", "msg"))
    message = next((each for each in sentences if isinstance(each, str) and each), None)
    code = found.get("code") or found.get("status_code") or found.get("type")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    return ProviderFailure(message, status, code=str(code or "api_error")) if message is not None else None
