"""What a model does in one call, whoever serves it: steps that each fake spells in its provider's format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeGuard

from provider_fakes.http import Cut, Drip, Hang, Piece, Until
from sidecar.llmgateway.contract import StopReason


@dataclass(frozen=True, slots=True)
class Said:
    """Prose, one piece a delta."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning, with the provider's proof of it."""

    pieces: tuple[str, ...]
    signature: str = "c2lnbmF0dXJl"


@dataclass(frozen=True, slots=True)
class Called:
    """A call; *pieces* are its arguments as they stream."""

    id: str
    name: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spent:
    """What the call cost; *input* excludes the cache tiers."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """The model stops."""

    stop: StopReason = "complete"


@dataclass(frozen=True, slots=True)
class Broken:
    """The provider fails in the middle of its answer."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The provider answers with an error instead; must be the only step. *details* are Google's."""

    status: int
    message: str
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    details: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The server answers with *body* instead of a stream; must be the only step."""

    body: str
    status: int = 200


@dataclass(frozen=True, slots=True)
class Raw:
    """The server answers with *pieces* and nothing else; must be the only step."""

    pieces: Sequence[Piece]
    content_type: str = "text/event-stream"


SceneStep: TypeAlias = Said | Thought | Called | Spent | Ended | Broken | Refused | Page | Raw | Piece
Scene: TypeAlias = Sequence[SceneStep]
"""One call. A piece of the wire among the steps is sent as it is: junk, silence, a cut."""


class Wire(Protocol):
    """How one provider spells scenes."""

    def frames(self, scene: Scene) -> Iterator[Piece]:
        """Yield the pieces of the answer."""
        ...

    def refusal(self, refused: Refused) -> Mapping[str, Any]:
        """Return the body of an error."""
        ...


def frame(data: Mapping[str, Any] | str, event: str | None = None) -> bytes:
    """Return one server-sent event.

    >>> frame({"a": 1}, "x")
    b'event: x\\ndata: {"a": 1}\\n\\n'
    """
    name = f"event: {event}\n" if event else ""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"{name}data: {text}\n\n".encode()


def spent_in(scene: Scene) -> Spent:
    """Return what the call of *scene* costs, nothing when it does not say."""
    return next((step for step in scene if isinstance(step, Spent)), Spent(0, 0))


def is_piece(step: SceneStep) -> TypeGuard[Piece]:
    """Whether *step* is sent as it is."""
    return isinstance(step, bytes | Cut | Drip | Hang | Until)
