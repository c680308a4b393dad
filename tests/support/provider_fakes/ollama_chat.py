"""Ollama's own chat format, as a server speaks it: a JSON object a line; a call always comes whole."""

from __future__ import annotations

import json
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
    Thought,
    is_piece,
    spent_in,
)


class OllamaWire:
    """Spells scenes as lines of a chat."""

    def frames(self, scene: Scene) -> Iterator[Piece]:
        """Yield the pieces of the answer."""
        for step in scene:
            match step:
                case Said(pieces=pieces):
                    yield from (_line({"content": piece}) for piece in pieces)
                case Thought(pieces=pieces):
                    yield from (_line({"content": "", "thinking": piece}) for piece in pieces)
                case Called(id=call_id, name=name, pieces=pieces):
                    function = {"name": name, "arguments": json.loads("".join(pieces) or "{}")}
                    yield _line({"content": "", "tool_calls": [{"id": call_id, "function": function}]})
                case Ended(stop=stop):
                    spent = spent_in(scene)
                    counts = {"prompt_eval_count": spent.input, "eval_count": spent.output}
                    reason = "length" if stop == "max_output" else "stop"
                    yield _line({"content": ""}, done=True, done_reason=reason, **counts)
                case Broken(message=message):
                    yield json.dumps({"error": message}).encode() + b"\n"
                case _ if is_piece(step):
                    yield step

    def refusal(self, refused: Refused) -> Mapping[str, Any]:
        """Return the body of an error."""
        return {"error": refused.message}


def _line(message: Mapping[str, Any], *, done: bool = False, **fields: Any) -> bytes:
    whole = {"model": "fake", "message": {"role": "assistant", **message}, "done": done, **fields}
    return json.dumps(whole).encode() + b"\n"
