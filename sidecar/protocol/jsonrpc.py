"""The JSON-RPC 2.0 envelope, sans-IO: bodies to messages, messages to bodies, and the table of open requests.

Knows no method and no face. Decoding never raises: what is no message is a :class:`Malformed` that says how
to answer it. Encoding never fails on text: half a surrogate pair goes out as U+FFFD.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from sidecar._internal.errors import SidecarError
from sidecar.protocol.errors import ParseProblem, RequestRefused

__all__ = [
    "Id",
    "InFlight",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "Response",
    "decode",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
]

Id: TypeAlias = int | str
"""What a request is answered under; 0 and the empty string are as good as any."""

VERSION: Final = "2.0"


@dataclass(frozen=True, slots=True)
class Request:
    """Wants an answer; *params* is None when absent."""

    id: Id
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Notification:
    """Wants none."""

    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Response:
    """Answers a request of ours.

    *error* is the error object, None for a result. *is_bare*: it has neither, which is what a client in
    JavaScript sends for a result of ``undefined``.
    """

    id: Id | None
    result: Any
    error: dict[str, Any] | None
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Malformed:
    """No message; to be answered with *problem* under *id*."""

    id: Id | None
    problem: SidecarError


Message: TypeAlias = Request | Notification | Response | Malformed


def decode(body: bytes) -> Message:
    """Return the message in *body*.

    >>> decode(b'{"jsonrpc":"2.0","id":0,"method":"sidecar/status"}')
    Request(id=0, method='sidecar/status', params=None)
    """
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        return Malformed(None, ParseProblem("the body is nested too deeply"))
    except ValueError:  # malformed JSON, invalid UTF-8, NaN, numbers out of range
        return Malformed(None, ParseProblem("the body is no JSON", hint="send one JSON object, in UTF-8"))
    if not isinstance(value, dict):
        what = "batches are not supported" if isinstance(value, list) else "a message is an object"
        return Malformed(None, RequestRefused("invalidRequest", what, hint="send one message a frame"))
    return _classify(value)


def _classify(value: dict[str, Any]) -> Message:
    message_id = _valid_id(value.get("id"))
    has_id = "id" in value
    if value.get("jsonrpc") != VERSION:
        return _refused(message_id, 'a message has "jsonrpc": "2.0"')
    if "method" not in value:
        return _response(value, message_id)
    method = value["method"]
    if not isinstance(method, str):
        return _refused(message_id, "a method is a string")
    if not has_id:
        return Notification(method, value.get("params"))
    if message_id is None:
        return _refused(None, "an id is an integer or a string")
    return Request(message_id, method, value.get("params"))


def _response(value: dict[str, Any], message_id: Id | None) -> Message:
    if "error" in value:
        error = value["error"]
        return Response(message_id, None, error if isinstance(error, dict) else {})
    if "result" in value:
        return Response(message_id, value["result"], None)
    if message_id is not None:
        return Response(message_id, None, None, is_bare=True)
    return _refused(None, "a message has a method, a result or an error")


def _refused(message_id: Id | None, message: str) -> Malformed:
    return Malformed(message_id, RequestRefused("invalidRequest", message))


def _valid_id(value: Any) -> Id | None:
    return value if type(value) in (int, str) else None


def encode_result(message_id: Id, value: Any) -> bytes:
    """Return the answer *value* to *message_id*. Raises TypeError for what is not JSON-ready."""
    return _encode({"jsonrpc": VERSION, "id": message_id, "result": value})


def encode_error(message_id: Id | None, code: int, message: str, data: Any) -> bytes:
    """Return the error answer to *message_id*, None where no id could be read."""
    error = {"code": code, "message": message, "data": data}
    return _encode({"jsonrpc": VERSION, "id": message_id, "error": error})


def encode_request(message_id: Id, method: str, params: Any) -> bytes:
    """Return a request of ours; *params* None is left out."""
    return _encode({"jsonrpc": VERSION, "id": message_id, "method": method, **_given(params)})


def encode_notification(method: str, params: Any) -> bytes:
    """Return a notification; *params* None is left out."""
    return _encode({"jsonrpc": VERSION, "method": method, **_given(params)})


def _given(params: Any) -> dict[str, Any]:
    return {} if params is None else {"params": params}


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(message))


def _mended(value: Any) -> Any:
    """Return *value* with its lone surrogates, as in names of files that are not UTF-8, replaced."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(item) for item in value]
    return value


class InFlight:
    """The requests of a client that are not answered yet: each id once, and no more than *limit*."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: set[Id] = set()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, message_id: Id) -> None:
        """Open a request. Raises RequestRefused for an id that is open, or when there are too many."""
        if message_id in self._open:
            hint = "give every request an id of its own"
            raise RequestRefused("invalidRequest", f"request {message_id!r} is still open", hint=hint)
        if len(self._open) >= self._limit:
            message = f"{self._limit} requests are open already"
            raise RequestRefused("overloaded", message, hint="wait for answers, then retry", retryable=True)
        self._open.add(message_id)

    def settle(self, message_id: Id) -> bool:
        """Close a request; False when it is closed already and must not be answered again."""
        if message_id not in self._open:
            return False
        self._open.remove(message_id)
        return True
