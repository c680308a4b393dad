"""OpenAI's chat format, as a server speaks it; reasoning in the field that most servers use."""

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
)

_STOPS: Final = {"tool_calls": "tool_calls", "max_output": "length", "refusal": "content_filter"}


class ChatWire:
    """Spells scenes as chunks of a chat completion."""

    def frames(self, scene: Scene) -> Iterator[Piece]:
        """Yield the pieces of the answer."""
        n_calls = 0
        yield _chunk({"role": "assistant", "content": ""})
        for step in scene:
            match step:
                case Said(pieces=pieces):
                    yield from (_chunk({"content": piece}) for piece in pieces)
                case Thought(pieces=pieces):
                    yield from (_chunk({"reasoning_content": piece}) for piece in pieces)
                case Called():
                    yield from _call(n_calls, step)
                    n_calls += 1
                case Ended(stop=stop):
                    yield _chunk({}, _STOPS.get(stop, "stop"))
                case Spent():
                    yield frame(_base([]) | {"usage": _usage(step)})
                case Broken(code=code, message=message):
                    yield frame({"error": {"code": code, "message": message, "type": code}})
                case _ if is_piece(step):
                    yield step
        if any(isinstance(step, Ended) for step in scene):
            yield frame("[DONE]")

    def refusal(self, refused: Refused) -> Mapping[str, Any]:
        """Return the body of an error."""
        code = refused.code or None
        return {"error": {"message": refused.message, "type": code, "code": code, "param": None}}


def _call(index: int, call: Called) -> Iterator[bytes]:
    function = {"name": call.name, "arguments": ""}
    yield _chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
    for piece in call.pieces:
        yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})


def _usage(spent: Spent) -> dict[str, Any]:
    prompt = spent.input + spent.cache_read + spent.cache_write
    details = {"cached_tokens": spent.cache_read, "cache_write_tokens": spent.cache_write}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": spent.output,
        "total_tokens": prompt + spent.output,
        "prompt_tokens_details": details,
    }


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    return frame(_base([{"index": 0, "delta": delta, "finish_reason": finish_reason}]))


def _base(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "fake",
        "choices": choices,
    }
