"""Arrays and objects on the wire: a message of many mistakes is refused early and cheaply."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.protocol.codec import MAX_WRONG_ITEMS, from_wire
from sidecar.protocol.messages import CompactStartParams, TurnParams


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(TurnParams, {"sid": "s", "input": [0] * 100_000}, id="an array"),
        pytest.param(
            CompactStartParams,
            {"sid": "s", "policy": {f"p{n}": "x" for n in range(100_000)}},
            id="an object",
        ),
    ],
)
def test_a_message_with_countless_wrong_items_is_refused_early(kind: type[Any], value: Any) -> None:
    """Each mistake costs kilobytes, so a message of megabytes would cost gigabytes."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput) as caught:
            from_wire(kind, value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.message.count(";") == MAX_WRONG_ITEMS - 1
    assert peak < 2_000_000
