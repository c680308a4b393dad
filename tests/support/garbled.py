"""Messages with broken bytes in them."""

from __future__ import annotations

import random
from collections.abc import Sequence


def scratched(rng: random.Random, body: bytes, odd: Sequence[bytes]) -> bytes:
    """Return *body* with some bytes changed, moved or lost, or some of *odd* put in."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if data:
                del data[at : at + rng.randint(1, 8)]
            case 1:
                data[at:at] = bytes([rng.randrange(256)])
            case 2 if at < len(data):
                data[at] = rng.randrange(256)
            case 3:
                data[at:at] = data[: rng.randint(0, 20)]
            case _:
                data[at:at] = rng.choice(odd)
    return bytes(data)
