"""OpenAI's responses format, as a server speaks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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


class ResponsesWire:
    """Spells scenes as the events of a response."""

    def frames(self, scene: Scene) -> Iterator[Piece]:
        """Yield the pieces of the answer."""
        yield _event("response.created", response=_response("in_progress"))
        for index, step in enumerate(scene):
            match step:
                case Said():
                    yield from _message(index, step)
                case Thought():
                    yield from _reasoning(index, step)
                case Called():
                    yield from _call(index, step)
                case Ended(stop=stop):
                    yield _end(stop, spent_in(scene))
                case Broken(code=code, message=message):
                    yield _event("error", code=code, message=message, param=None)
                case _ if is_piece(step):
                    yield step

    def refusal(self, refused: Refused) -> Mapping[str, Any]:
        """Return the body of an error."""
        code = refused.code or None
        return {"error": {"message": refused.message, "type": code, "code": code, "param": None}}


def _message(index: int, said: Said) -> Iterator[bytes]:
    item = {
        "id": f"msg_{index}",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    yield _event("response.output_item.added", output_index=index, item=item)
    for piece in said.pieces:
        yield _event(
            "response.output_text.delta",
            output_index=index,
            item_id=f"msg_{index}",
            content_index=0,
            delta=piece,
            logprobs=[],
        )
    whole = [{"type": "output_text", "text": "".join(said.pieces), "annotations": []}]
    done = item | {"status": "completed", "content": whole}
    yield _event("response.output_item.done", output_index=index, item=done)


def _reasoning(index: int, thought: Thought) -> Iterator[bytes]:
    item: dict[str, Any] = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    yield _event("response.output_item.added", output_index=index, item=item)
    for piece in thought.pieces:
        yield _event(
            "response.reasoning_summary_text.delta",
            output_index=index,
            item_id=f"rs_{index}",
            summary_index=0,
            delta=piece,
        )
    summary = [{"type": "summary_text", "text": "".join(thought.pieces)}]
    done = item | {"summary": summary, "encrypted_content": thought.signature}
    yield _event("response.output_item.done", output_index=index, item=done)


def _call(index: int, call: Called) -> Iterator[bytes]:
    item = {
        "id": f"fc_{index}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": "",
        "status": "in_progress",
    }
    yield _event("response.output_item.added", output_index=index, item=item)
    for piece in call.pieces:
        yield _event(
            "response.function_call_arguments.delta", output_index=index, item_id=f"fc_{index}", delta=piece
        )
    done = item | {"arguments": "".join(call.pieces), "status": "completed"}
    yield _event("response.output_item.done", output_index=index, item=done)


def _end(stop: str, spent: Spent) -> bytes:
    reasons = {"max_output": "max_output_tokens", "refusal": "content_filter"}
    status = "incomplete" if stop in reasons else "completed"
    details = {"reason": reasons[stop]} if stop in reasons else None
    prompt = spent.input + spent.cache_read + spent.cache_write
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": spent.cache_read,
            "cache_write_tokens": spent.cache_write,
        },
        "output_tokens": spent.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + spent.output,
    }
    has_usage = spent != Spent(0, 0)
    response = _response(status) | {
        "incomplete_details": details,
        "usage": usage if has_usage else None,
    }
    return _event(f"response.{status}", response=response)


def _response(status: str) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "fake",
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _event(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, "sequence_number": 0, **fields}, kind)
