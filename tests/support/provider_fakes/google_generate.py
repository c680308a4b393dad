"""Google's generate format, as a server speaks it; a call always comes whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from provider_fakes.http import Piece
from provider_fakes.scenes import (
    Broken,
    Called,
    Ended,
    Refused,
    Said,
    Scene,
    Spent,
    Thought,
    frame,
    is_piece,
    spent_in,
)

_STOPS: Final = {"max_output": "MAX_TOKENS", "refusal": "SAFETY"}


class GenerateWire:
    """Spells scenes as chunks of generated content; the signature of a thought is on the part behind it."""

    def frames(self, scene: Scene) -> Iterator[Piece]:
        """Yield the pieces of the answer."""
        signature: str | None = None
        for step in scene:
            match step:
                case Said(pieces=pieces):
                    for piece in pieces:
                        yield _chunk({"text": piece})
                    if signature is not None:
                        yield _chunk({"text": "", "thoughtSignature": signature})
                    signature = None
                case Thought(pieces=pieces):
                    signature = step.signature
                    yield from (_chunk({"text": piece, "thought": True}) for piece in pieces)
                case Called():
                    yield _call(step, signature)
                    signature = None
                case Ended(stop=stop):
                    yield _end(_STOPS.get(stop, "STOP"), spent_in(scene))
                case Broken(code=code, message=message):
                    yield frame({"error": {"code": 503, "status": code, "message": message}})
                case _ if is_piece(step):
                    yield step

    def refusal(self, refused: Refused) -> Mapping[str, Any]:
        """Return the body of an error."""
        error = {"code": refused.status, "message": refused.message, "status": refused.code}
        return {"error": error | {"details": list(refused.details)}}


def _call(call: Called, signature: str | None) -> bytes:
    raw = "".join(call.pieces)
    part: dict[str, Any] = {
        "functionCall": {"id": call.id, "name": call.name, "args": json.loads(raw) if raw else {}}
    }
    return _chunk(part | ({"thoughtSignature": signature} if signature is not None else {}))


def _end(reason: str, spent: Spent) -> bytes:
    usage = {
        "promptTokenCount": spent.input + spent.cache_read + spent.cache_write,
        "candidatesTokenCount": spent.output,
        "cachedContentTokenCount": spent.cache_read,
    }
    candidate = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason, "index": 0}
    has_usage = spent != Spent(0, 0)
    return frame({"candidates": [candidate]} | ({"usageMetadata": usage} if has_usage else {}))


def _chunk(part: Mapping[str, Any]) -> bytes:
    return frame({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]})
