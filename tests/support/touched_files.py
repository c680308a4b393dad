"""The files that a call or a command line touches, as the tables of tests spell them."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.text.touches import Touch

__all__ = ["spell_touches"]


def spell_touches(touches: Iterable[Touch]) -> list[str]:
    """Return each touch as kind and path; ``10+5`` stands for five lines from line 10 on.

    >>> spell_touches([Touch(kind="read", path="a.py", ranges=((1, 5), (20, None)))])
    ['read a.py 1+5 20+']
    >>> spell_touches([Touch(kind="move", path="a.py", target="b.py")])
    ['move a.py to b.py']
    """
    return [" ".join(_parts(touch)) for touch in touches]


def _parts(touch: Touch) -> Iterable[str]:
    yield from (touch.kind, touch.path)
    if touch.target:
        yield from ("to", touch.target)
    for first, count in touch.ranges:
        yield f"{first}+{count or ''}"
