"""Anthropic's messages format, as a server speaks it."""

from __future__ import annotations

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

_STOPS: Final = {"tool_calls": "tool_use", "max_output": "max_tokens", "refusal": "refusal"}


class MessagesWire:
    """Spells scenes as the events of a message."""

    def frames(self, scene: Scene) -> Iterator[Piece]:
        """Yield the pieces of the answer."""
        spent = spent_in(scene)
        yield _start(spent)
        yield _event("ping")
        for index, step in enumerate(scene):
            match step:
                case Said(pieces=pieces):
                    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
                    yield from _block(index, {"type": "text", "text": ""}, deltas)
                case Thought(pieces=pieces, signature=signature):
                    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
                    deltas.append({"type": "signature_delta", "signature": signature})
                    yield from _block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
                case Called(id=call_id, name=name, pieces=pieces):
                    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
                    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                    yield from _block(index, block, deltas)
                case Ended(stop=stop):
                    yield from _end(_STOPS.get(stop, "end_turn"), spent)
                case Broken(code=code, message=message):
                    yield _event("error", error={"type": code, "message": message})
                case _ if is_piece(step):
                    yield step

    def refusal(self, refused: Refused) -> Mapping[str, Any]:
        """Return the body of an error."""
        kind = refused.code or "invalid_request_error"
        return {"type": "error", "error": {"type": kind, "message": refused.message}}


def _start(spent: Spent) -> bytes:
    usage = {
        "input_tokens": spent.input,
        "output_tokens": 1 if spent.output else 0,
        "cache_read_input_tokens": spent.cache_read,
        "cache_creation_input_tokens": spent.cache_write,
    }
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return _event("message_start", message=message)


def _block(index: int, block: Mapping[str, Any], deltas: list[dict[str, str]]) -> Iterator[bytes]:
    yield _event("content_block_start", index=index, content_block=block)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _end(reason: str, spent: Spent) -> Iterator[bytes]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": spent.output})
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, **fields}, kind)
