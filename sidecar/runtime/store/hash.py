"""The id of a node: a hash of its canonical JSON. Pure.

Canonical JSON is RFC 8785, so that the order of keys does not change an id (B-R23). What RFC 8785 refuses
(integers past 2**53, NaN and the infinities, lone surrogates) is written in full in one fixed form of
its own, which no other value shares.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import rfc8785

from sidecar.llmgateway.contract import Turn
from sidecar.runtime.store.codec import turn_to_record

__all__ = ["canonical_json", "hash_node", "hash_record"]

_ID_CHARS: Final = 32


def canonical_json(value: Any) -> str:
    """Return *value*, a JSON value, as RFC 8785 text, or in the fixed form for what that refuses.

    >>> canonical_json({"b": 1.0, "a": "é"})
    '{"a":"é","b":1}'
    >>> canonical_json([2**60, float("nan")])
    '[1152921504606846976,NaN]'
    """
    try:
        return rfc8785.dumps(value).decode("utf-8")
    except ValueError:
        # Full integers, NaN and \\udXXX escapes never occur in RFC 8785 text, so the forms cannot meet.
        return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def hash_node(parent: str | None, turn: Turn, created_at: int) -> str:
    """Return the id of the node with *turn* under *parent*: 32 hex digits.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> hash_node(None, UserTurn((TextBlock("hi"),)), 0)
    '0ed48b6ef87051cde314b35d61cb688c'
    """
    return hash_record(parent, turn_to_record(turn), created_at)


def hash_record(parent: str | None, turn: Any, created_at: int) -> str:
    """Return the id of a node whose turn is already a record (see :func:`turn_to_record`)."""
    text = canonical_json({"parent": parent, "turn": turn, "createdAt": created_at})
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:_ID_CHARS]
