"""Read what can be read of a message too large to keep: its id, and whether it is an answer.

Looks at the two ends of the body only, and guesses nothing: an id it returns is the top-level one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from sidecar.protocol.jsonrpc import Id

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "Salvaged", "salvage"]

HEAD_BYTES: Final = 16 * 1024
TAIL_BYTES: Final = 4 * 1024
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN: Final = re.compile(rb"\s*(" + _STRING + rb'|[{}\[\]:,]|[^\s{}\[\]:,"]+)', re.DOTALL)
_LAST_MEMBERS: Final = re.compile(
    rb'[,{]\s*"id"\s*:\s*(' + _STRING + rb"|-?\d+)\s*"
    rb'(?:,\s*"\w+"\s*:\s*(?:' + _STRING + rb"|[-+.\w]+)\s*)*\}\s*\Z",
    re.DOTALL,
)
"""The id where only scalars follow it to the end. Nothing in a string can match: there a quote is escaped."""


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What is known of a message that was not kept."""

    id: Id | None
    is_response: bool


def salvage(head: bytes, tail: bytes) -> Salvaged:
    """Return the id and the sort of the message that begins with *head* and ends with *tail*.

    >>> salvage(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"aaa', b'aaa"}}')
    Salvaged(id=7, is_response=False)
    >>> salvage(b'{"result":["aaa', b'aaa"],"id":"q"}')
    Salvaged(id='q', is_response=True)
    """
    members = dict(_members(head))
    token = members.get(b'"id"')
    if not token and (found := _LAST_MEMBERS.search(tail)):
        token = found[1]
    is_response = b'"method"' not in members and (b'"result"' in members or b'"error"' in members)
    return Salvaged(_id(token), is_response)


def _members(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys of the object that *head* begins, each with what there is of its value's first token."""
    depth, key, previous = 0, b"", b""
    for token in _tokens(head):
        if depth == 1 and token == b":":
            yield key, b""
        if depth == 1 and previous == b":":
            yield key, token
        if depth == 1 and previous in (b"{", b","):
            key = token
        depth += token in (b"{", b"[")
        depth -= token in (b"}", b"]")
        previous = token


def _tokens(head: bytes) -> Iterator[bytes]:
    """Yield the whole tokens of *head*; one that touches the end may go on and is left out."""
    at = 0
    while (found := _TOKEN.match(head, at)) and found.end() < len(head):
        yield found[1]
        at = found.end()


def _id(token: bytes | None) -> Id | None:
    try:
        value = msgspec.json.decode(token) if token else None
    except (ValueError, RecursionError):  # what is no JSON is no id
        return None
    return value if type(value) in (int, str) else None
