"""Messages of OpenAI's chat format, as a dialect of it takes them. Pure.

Reasoning goes back in its own field, in each later request. A request that left it out later would begin
otherwise than the one before it, and the service would read the whole conversation anew. The template of a
model leaves it out where the model is not to see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.providers.fields import CHAT_MARK, encodable, json_text, without_mark
from sidecar.llmgateway.providers.quirks import ChatDialect
from sidecar.llmgateway.providers.turn_memo import TurnMemo

REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
IN_CONTENT: Final = f"{CHAT_MARK}content"
"""The signature of reasoning that came as parts of the content, as Mistral's models stream it."""

DETAILS: Final = f"{CHAT_MARK}details:"
"""Before the reasoning details of an answer and the model that gave them, as JSON."""

_REASONING_MEMBERS: Final = frozenset({*REASONING_FIELDS, "reasoning_details"})
_NO_REASONING: Final = " "
"""In the place of reasoning that is not there; an empty text counts as none."""

_BRIDGE: Final = {"role": "assistant", "content": "OK."}
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]+")


class MessageWriter:
    """Writes conversations as messages of *dialect* for *model*; *memo* has the messages of earlier calls.

    Attributes:
        n_bytes: the length of the messages as JSON, once the last one is written.
    """

    def __init__(
        self, dialect: ChatDialect, model: str, memo: TurnMemo[tuple[list[dict[str, Any]], int]]
    ) -> None:
        self.n_bytes = 0
        self._dialect = dialect
        self._model = model
        self._memo = memo

    def write(self, system: str | None, turns: Sequence[Turn]) -> Iterator[dict[str, Any]]:
        """Yield the *system* prompt as a message if there is one, then the messages of *turns*."""
        head = [{"role": "system", "content": encodable(system)}] if system else []
        yield from head

        def write_turn(at: int) -> tuple[list[dict[str, Any]], int]:
            messages = self.turn_messages(turns[at])
            return messages, len(msgspec.json.encode(messages))

        role, written = "", self._memo.write(turns, write_turn)
        self.n_bytes = len(msgspec.json.encode(head)) + sum(n_bytes for _, n_bytes in written)
        for messages, _ in written:
            for message in messages:
                if self._dialect.answers_tools and (role, message["role"]) == ("tool", "user"):
                    yield _BRIDGE
                role = message["role"]
                yield message

    def turn_messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Return the messages of one turn: of a tool's, one for each result."""
        match turn:
            case UserTurn(blocks=blocks):
                return [{"role": "user", "content": user_content(blocks)}]
            case AssistantTurn(blocks=blocks):
                return [self.answer_message(blocks)]
        messages: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": self._call_id(block.call_id), "content": json_text(block.output)}
            for block in turn.blocks
            if isinstance(block, ToolResultBlock)
        ]
        # Everything else that a tool returned, such as images, follows as the user's.
        shown = [block for block in turn.blocks if not isinstance(block, ToolResultBlock)]
        return [*messages, {"role": "user", "content": user_content(shown)}] if shown else messages

    def answer_message(self, blocks: Sequence[Block]) -> dict[str, Any]:
        """Return one answer of the model as a message, with its reasoning as the service takes it back."""
        text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        calls = [
            {
                "id": self._call_id(block.id),
                "type": "function",
                "function": {"name": block.name, "arguments": json_text(block.input)},
            }
            for block in blocks
            if isinstance(block, ToolCallBlock)
        ]
        if calls:
            message["tool_calls"] = calls
        parts: list[dict[str, Any]] = []
        for thought in (block for block in blocks if isinstance(block, ThinkingBlock)):
            field = without_mark(thought.signature, CHAT_MARK)
            if self._dialect.keeps_details and (details := read_details(thought.signature, self._model)):
                message["reasoning_details"] = details
            elif field in REASONING_FIELDS and self._dialect.writes_back is not None:
                message["content"] = self._dialect.writes_back.format(thought.text) + (
                    message["content"] or ""
                )
            elif field in REASONING_FIELDS and field in self._dialect.takes_back:
                message[field] = message.get(field, "") + thought.text
            elif thought.signature == IN_CONTENT and "content" in self._dialect.takes_back:
                parts.append({"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]})
        if parts:
            message["content"] = [*parts, {"type": "text", "text": text}] if text else parts
        if calls and self._dialect.needs_reasoning and message.keys().isdisjoint(_REASONING_MEMBERS):
            message["reasoning_content"] = _NO_REASONING
        return message

    def _call_id(self, call_id: str) -> str:
        """Return *call_id* in the length that the service takes."""
        length = self._dialect.call_id_chars
        if length is None or (len(call_id) == length and _SHORT_ID.fullmatch(call_id)):
            return call_id
        return sha256(call_id.encode()).hexdigest()[:length]


def user_content(blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
    """Return text blocks alone as plain text: small servers take nothing else."""
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    if len(texts) == len(blocks):
        return "\n\n".join(texts)
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                parts.append({"type": "text", "text": text})
            case ImageBlock(media_type=media_type, data_base64=data):
                url = f"data:{media_type};base64,{data}"
                parts.append({"type": "image_url", "image_url": {"url": url}})
            case _:
                continue
    return parts


def read_details(signature: str | None, model: str) -> Any:
    """Return the reasoning details in *signature* if *model* gave them, else None.

    >>> read_details('chat:details:{"model": "m", "details": [1]}', "m"), read_details("chat:reasoning", "m")
    ([1], None)
    """
    stored = without_mark(signature, DETAILS)
    try:
        proof = json.loads(stored) if stored is not None else {}
        return proof["details"] if proof.get("model") == model else None
    except (ValueError, AttributeError, KeyError):
        # Not as it was stored here: left out whole.
        return None
