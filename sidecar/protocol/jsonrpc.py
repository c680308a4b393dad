"""The JSON-RPC 2.0 envelope: bodies to messages, messages to bodies, and the table of open requests.

Does no I/O and knows no method. Decoding never raises: a body that is not a message becomes a
:class:`Malformed` with the error to answer.

Half a surrogate pair, such as ``"\\ud83d"``, is legal JSON: ``JSON.stringify`` writes it for a JavaScript
string that was cut inside a character. It is decoded as it is. It is sent as U+FFFD, because strict readers
refuse it; only an id is repeated exactly. A number beyond the range of a double is legal too, and is decoded
as the largest double.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from sidecar._internal.errors import SidecarError
from sidecar._internal.surrogates import replace_halves_in
from sidecar._internal.values import Value
from sidecar.protocol.errors import ParseError, RequestRefused

Id: TypeAlias = int | str
"""The id that an answer repeats; 0 and the empty string are valid ids."""

VERSION: Final = "2.0"
_MAX_DIGITS: Final = 4_000
_PIECE_ITEMS: Final = 256
_PIECE_CHARS: Final = 1 << 20
"""The length of a piece of a list and of a text that are encoded in pieces."""


class Request(msgspec.Struct, frozen=True):
    """A message that has to be answered; *params* is None when absent."""

    id: Id
    method: str
    params: Any


class Notification(msgspec.Struct, frozen=True):
    """A message that is never answered; *params* is None when absent."""

    method: str
    params: Any


class Response(msgspec.Struct, frozen=True):
    """The answer to a request of ours.

    *error* is the error object, None for a result. *is_bare* is True when the message has neither member:
    clients in JavaScript send that for a result of ``undefined``.
    """

    id: Id | None
    result: Any
    error: dict[str, Any] | None
    is_bare: bool = False


class Malformed(msgspec.Struct, frozen=True):
    """A body that is not a message; the answer is the error *problem* under *id*."""

    id: Id | None
    problem: SidecarError


Message: TypeAlias = Request | Notification | Response | Malformed


def decode(body: bytes) -> Message:
    """Return the message in *body*.

    >>> decode(b'{"jsonrpc":"2.0","id":0,"method":"sidecar/status"}')
    Request(id=0, method='sidecar/status', params=None)
    """
    try:
        value = decode_json(body)
    except RecursionError:
        found = read_envelope(body[:HEAD_BYTES], body[-TAIL_BYTES:])
        if found.is_response:
            return Response(found.id, None, {})
        return Malformed(found.id, ParseError("the body is nested too deeply"))
    except ValueError:  # malformed JSON, invalid UTF-8, NaN, numbers out of range
        return Malformed(
            None, ParseError("the body is not valid JSON", hint="send one JSON object, in UTF-8")
        )
    if not isinstance(value, dict):
        what = "batches are not supported" if isinstance(value, list) else "a message is an object"
        return Malformed(None, RequestRefused("invalidRequest", what, hint="send one message a frame"))
    message_id = value.get("id")
    if type(message_id) is not int and type(message_id) is not str:
        message_id = None
    if value.get("jsonrpc") != VERSION:
        return _refuse(message_id, 'a message has "jsonrpc": "2.0"')
    if "method" not in value:
        if "error" in value:
            error = value["error"]
            return Response(message_id, None, error if isinstance(error, dict) else {})
        if "result" in value:
            return Response(message_id, value["result"], None)
        if message_id is not None:
            return Response(message_id, None, None, is_bare=True)
        return _refuse(None, "a message has a method, a result or an error")
    method = value["method"]
    if not isinstance(method, str):
        return _refuse(message_id, "a method is a string")
    if "id" not in value:
        return Notification(method, value.get("params"))
    if message_id is None:
        return _refuse(None, "an id is an integer or a string")
    return Request(message_id, method, value.get("params"))


def decode_json(data: bytes) -> Any:
    """Return the JSON value in *data*, lone surrogates and numbers of any size included.

    Raises:
        ValueError: *data* is not UTF-8 or not JSON; NaN is not JSON.
        RecursionError: the value is nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except ValueError:
        # NaN and the infinities, which Python would take, are no numbers to ``int`` either. Integers of many
        # digits it refuses, because it takes the square of their length to read them.
        return json.loads(
            data.decode(),
            parse_constant=int,
            parse_int=lambda text: int(text) if len(text) <= _MAX_DIGITS else _to_double(text),
            parse_float=_to_double,
        )


def _to_double(text: str) -> float:
    return max(-sys.float_info.max, min(sys.float_info.max, float(text)))


def _refuse(message_id: Id | None, message: str) -> Malformed:
    return Malformed(message_id, RequestRefused("invalidRequest", message))


def member(value: Any, *names: str) -> Any:
    """Return the member of a JSON value that the path of *names* leads to, None where there is none.

    >>> member({"outcome": {"optionId": "yes"}}, "outcome", "optionId"), member([], "outcome")
    ('yes', None)
    """
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def encode_result(message_id: Id, value: Any) -> bytes:
    """Return the answer *value* to *message_id*. Raises TypeError for a value that JSON cannot hold."""
    return _encode({"jsonrpc": VERSION, "id": message_id, "result": value})


def encode_value(value: Mapping[str, Any]) -> msgspec.Raw:
    """Return *value* as JSON that goes into a result as it is. Raises TypeError as :func:`encode_result`.

    Its long members are encoded in pieces: other threads go on in between.
    """
    encode = msgspec.json.encode
    members = dict(value)
    try:
        for name, member in value.items():
            is_text = isinstance(member, str)
            size, ends = (_PIECE_CHARS, b'"%b"') if is_text else (_PIECE_ITEMS, b"[%b]")
            if isinstance(member, str | list | tuple) and len(member) > size:
                pieces = [encode(member[at : at + size])[1:-1] for at in range(0, len(member), size)]
                members[name] = msgspec.Raw(ends % (b"" if is_text else b",").join(pieces))
        return msgspec.Raw(encode(members))
    except UnicodeEncodeError:
        return msgspec.Raw(_encode(dict(value)))


def encode_error(message_id: Id | None, code: int, message: str, data: Any) -> bytes:
    """Return the error answer to *message_id*; its id is None when none could be read."""
    error = {"code": code, "message": message, "data": data}
    return _encode({"jsonrpc": VERSION, "id": message_id, "error": error})


def encode_request(message_id: Id, method: str, params: Any) -> bytes:
    """Return a request of ours; *params* None is left out."""
    request = {"jsonrpc": VERSION, "id": message_id, "method": method}
    return _encode(request if params is None else request | {"params": params})


def encode_notification(method: str, params: Any) -> bytes:
    """Return a notification; *params* None is left out."""
    if params is None:
        return _encode({"jsonrpc": VERSION, "method": method})
    return _encode({"jsonrpc": VERSION, "method": method, "params": params})


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        exact = {"id": msgspec.Raw(json.dumps(message["id"]).encode())} if "id" in message else {}
        return msgspec.json.encode(replace_halves_in(message) | exact)


class InFlight:
    """The unanswered requests of one client: each id once, and at most *limit* of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: set[Id] = set()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, message_id: Id) -> None:
        """Record a request as open. Raises RequestRefused for an id that is open, or beyond the limit."""
        if message_id in self._open:
            hint = "give every request an id of its own"
            raise RequestRefused("invalidRequest", f"request {message_id!r} is still open", hint=hint)
        if len(self._open) >= self._limit:
            message = f"{self._limit} requests are open already"
            raise RequestRefused("overloaded", message, hint="wait for answers, then retry", retryable=True)
        self._open.add(message_id)

    def settle(self, message_id: Id) -> bool:
        """Record a request as answered; return False for one that is not open and must not be answered."""
        if message_id not in self._open:
            return False
        self._open.remove(message_id)
        return True


# A message that is too large to keep is refused, and the refusal needs its id. Only the first and the last
# kilobytes of the body are kept. A scan of the head yields the members in front of the large value; if the
# id is not among them, a pattern looks for it at the end of the tail. Nothing is guessed: an id that is
# found is the top-level one, for inside a string every quote is escaped, and inside a nested object
# something other than scalars and one brace follows.

HEAD_BYTES: Final = 16 * 1024
TAIL_BYTES: Final = 4 * 1024
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN: Final = re.compile(rb"\s*(" + _STRING + rb'|[{}\[\]:,]|[^\s{}\[\]:,"]+)', re.DOTALL)
_LAST_MEMBERS: Final = re.compile(
    rb'[,{]\s*"id"\s*:\s*(' + _STRING + rb"|-?\d+)\s*"
    rb'(?:,\s*"\w+"\s*:\s*(?:' + _STRING + rb"|[-+.\w]+)\s*)*\}\s*\Z",
    re.DOTALL,
)
"""The id when only scalar members follow it up to the end of the body."""


class Envelope(Value):
    """The id of a message that was not kept, None if not found, and whether it is a response."""

    id: Id | None
    is_response: bool


def read_envelope(head: bytes, tail: bytes) -> Envelope:
    """Return the envelope of the message that begins with *head* and ends with *tail*.

    >>> read_envelope(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"aaa', b'aaa"}}')
    Envelope(id=7, is_response=False)
    >>> read_envelope(b'{"result":["aaa', b'aaa"],"id":"q"}')
    Envelope(id='q', is_response=True)
    """
    members = dict(scan_members(head))
    token = members.get(b'"id"')
    if not token and (found := _LAST_MEMBERS.search(tail)):
        token = found[1]
    is_response = b'"method"' not in members and (b'"result"' in members or b'"error"' in members)
    try:
        found_id = decode_json(token) if token else None
    except (ValueError, RecursionError):  # part of a value, or a name without quotes
        found_id = None
    return Envelope(found_id if type(found_id) in (int, str) else None, is_response)


def scan_members(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the top-level keys in *head*, first with an empty value and then with the value's first token."""
    depth, key, previous, at = 0, b"", b"", 0
    # A token that touches the end of the head may go on behind it, and is left out.
    while (found := _TOKEN.match(head, at)) and found.end() < len(head):
        token, at = found[1], found.end()
        if depth == 1 and token == b":":
            yield key, b""
        if depth == 1 and previous == b":":
            yield key, token
        if depth == 1 and previous in (b"{", b","):
            key = token
        depth += token in (b"{", b"[")
        depth -= token in (b"}", b"]")
        previous = token
