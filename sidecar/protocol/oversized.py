"""The envelope of a message that is too large to keep: its id, and whether it is a response.

Such a message is refused, and the refusal needs the id. Only the first and the last kilobytes of the body are
kept. A scan of the head yields the members in front of the large value; if the id is not among them, a
pattern looks for it at the end of the tail. Nothing is guessed: an id that is found is the top-level one, for
inside a string every quote is escaped, and inside a nested object something other than scalars and one brace
follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sidecar._internal.values import Value
from sidecar.protocol.jsonrpc import Id, decode_json

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
