"""Makes a conversation one that a provider accepts, and says what it had to mend. Pure.

Pairs are healed by ``runtime.wire``, as everywhere. What is left is what providers differ in: whose
reasoning they take back, which ids and images, that roles alternate. A conversation that is sound is sent as
it is; what is stored is never changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    Conversation,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.providers.pictures import image_bytes, image_size
from sidecar.llmgateway.providers.texts import sendable, sendable_json
from sidecar.runtime.cadence import UNPARSED
from sidecar.runtime.wire import OPENING, Outgoing

__all__ = ["CONTINUE", "EMPTY", "Fitted", "WireRules", "fit"]

EMPTY: Final = TextBlock("[empty message]")
"""What stands for a message of the user's that says nothing, which providers refuse."""

CONTINUE: Final = UserTurn((TextBlock("[continue]"),))
"""What follows a conversation that ends with the assistant, which many models refuse to go on with."""

_ID: Final = re.compile(r"[^A-Za-z0-9_-]")
_MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WireRules:
    """What a provider takes.

    Attributes:
        takes_signature: whether a signature is of its own making; reasoning of others is left out whole.
        max_id_chars: how long the id of a call may be.
        max_name_chars: how long the name of a tool may be.
        image_types: the media types it sees.
        max_images: how many images one request may hold; older ones are left out.
        max_image_bytes: how large one may be, base64 encoded.
        max_image_pixels: how wide or high one may be.
    """

    takes_signature: Callable[[str], bool]
    max_id_chars: int = 64
    max_name_chars: int = 64
    image_types: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    max_images: int = 100
    max_image_bytes: int = 20 * _MEGABYTE
    max_image_pixels: int = 8_000


@dataclass(frozen=True, slots=True)
class Fitted:
    """The conversation to send. *repairs* say what was broken in it, each in one sentence."""

    conversation: Conversation
    repairs: tuple[str, ...] = ()


def fit(
    conversation: Conversation,
    rules: WireRules,
    *,
    sees_images: bool = True,
    refused: frozenset[str] = frozenset(),
) -> Fitted:
    """Return *conversation* as a provider with *rules* takes it.

    Args:
        sees_images: whether the model does.
        refused: signatures that the provider has refused; reasoning up to the last one is left out, since
            what follows was signed over what precedes it.
    """
    healed = Outgoing().extended(conversation.turns).turns() or (OPENING,)
    mend = _Mend(rules, sees_images, _refused_until(healed, refused))
    turns = tuple(mend.turns(healed))
    if isinstance(turns[-1], AssistantTurn):
        turns = (*turns, CONTINUE)
        mend.note("it ended with the assistant, so the user was made to say: continue")
    if healed != tuple(conversation.turns):
        mend.note("turns that say nothing, calls without results or results without calls were put in order")
    return Fitted(replace(conversation, turns=turns), tuple(mend.notes))


def _refused_until(turns: Sequence[Turn], refused: frozenset[str]) -> int:
    """Return the index behind the last turn with a refused signature, 0 when there is none."""
    if not refused:
        return 0
    for index in range(len(turns) - 1, -1, -1):
        blocks = turns[index].blocks
        if any(isinstance(block, ThinkingBlock) and block.signature in refused for block in blocks):
            return index + 1
    return 0


class _Mend:
    """One pass over a conversation. *thinking_from* is the first turn whose reasoning may be sent."""

    def __init__(self, rules: WireRules, sees_images: bool, thinking_from: int) -> None:
        self._rules = rules
        self._sees_images = sees_images
        self._thinking_from = thinking_from
        self._ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._n_alike: Counter[str] = Counter()
        self._images_left = 0
        self.notes: dict[str, None] = {}

    def note(self, repair: str) -> None:
        self.notes[repair] = None

    def turns(self, turns: Sequence[Turn]) -> Iterator[Turn]:
        n_images = sum(isinstance(block, ImageBlock) for turn in turns for block in turn.blocks)
        self._images_left = n_images - self._rules.max_images
        shown = (turn for index, each in enumerate(turns) if (turn := self._turn(each, index)) is not None)
        for _, group in groupby(shown, type):
            first, *others = group
            merged = tuple(block for turn in others for block in turn.blocks)
            yield replace(first, blocks=(*first.blocks, *merged)) if others else first

    def _turn(self, turn: Turn, index: int) -> Turn | None:
        blocks = tuple(self._blocks(turn, may_think=index >= self._thinking_from))
        if all(isinstance(block, ThinkingBlock) for block in blocks):
            # Stopped before it said a word, and nobody takes an answer that says nothing.
            blocks = ()
        if not blocks and isinstance(turn, UserTurn):
            self.note("a message that says nothing was marked as empty")
            blocks = (EMPTY,)
        if not blocks:
            return None
        same = len(blocks) == len(turn.blocks) and all(map(_is, blocks, turn.blocks))
        return turn if same else replace(turn, blocks=blocks)

    def _blocks(self, turn: Turn, *, may_think: bool) -> Iterator[Block]:
        is_answer = isinstance(turn, AssistantTurn)
        for block in turn.blocks:
            match block:
                case TextBlock(text=text):
                    if text.strip():
                        yield self._text(block)
                case ThinkingBlock(text=text, signature=signature) if is_answer and may_think:
                    # A signature fits what it was made for, to the letter.
                    is_whole = signature is not None and sendable(text) is text
                    if signature is not None and is_whole and self._rules.takes_signature(signature):
                        yield block
                case ToolCallBlock():
                    yield self._call(block)
                case ToolResultBlock(call_id=call_id):
                    new = self._ids.get(call_id, call_id)
                    yield block if new == call_id else replace(block, call_id=new)
                case ImageBlock():
                    yield self._image(block, is_answer=is_answer)
                case _:
                    continue

    def _text(self, block: TextBlock) -> TextBlock:
        clean = sendable(block.text)
        if clean is not block.text:
            self.note("characters that cannot be sent were replaced")
            return TextBlock(clean)
        return block

    def _call(self, call: ToolCallBlock) -> ToolCallBlock:
        call_id, name, value = self._new_id(call.id), self._name(call.name), call.input
        if not isinstance(value, dict):
            self.note("arguments of a call that are no object were wrapped in one")
            value = {UNPARSED: value}
        value = sendable_json(value)
        same = call_id == call.id and name == call.name and value is call.input
        return call if same else ToolCallBlock(call_id, name, value)

    def _new_id(self, call_id: str) -> str:
        """Return what a call goes by that was made as *call_id*: no two calls of a conversation share an id.

        Some servers count anew in every answer; others then refuse the conversation.
        """
        longest = self._rules.max_id_chars
        base = new = _ID.sub("_", call_id)[:longest] or "call"
        while new in self._taken:
            self._n_alike[base] += 1
            tail = f"_{self._n_alike[base] + 1}"
            new = base[: longest - len(tail)] + tail
        self._taken.add(new)
        self._ids[call_id] = new
        return new

    def _name(self, name: str) -> str:
        return _ID.sub("_", name)[: self._rules.max_name_chars] or "unknown"

    def _image(self, image: ImageBlock, *, is_answer: bool) -> Block:
        why = self._why_not(image) or ("it was the model's own" if is_answer else None)
        if why is None:
            return image
        self.note(f"an image was left out: {why}")
        return TextBlock(f"[image left out: {why}]")

    def _why_not(self, image: ImageBlock) -> str | None:
        """Return why *image* cannot be sent; the oldest go first where there are too many."""
        self._images_left -= 1
        rules = self._rules
        if not self._sees_images:
            return "this model sees no images"
        if image.media_type not in rules.image_types:
            return f"{image.media_type} is not among {', '.join(sorted(rules.image_types))}"
        if len(image.data_base64) > rules.max_image_bytes:
            return f"it is larger than {rules.max_image_bytes // _MEGABYTE} MB"
        if self._images_left >= 0:
            return f"a request holds at most {rules.max_images}"
        data = image_bytes(image)
        if data is None:
            return "it is not base64"
        if max(image_size(data) or (0, 0)) > rules.max_image_pixels:
            return f"it is wider or higher than {rules.max_image_pixels} pixels"
        return None


def _is(one: object, other: object) -> bool:
    return one is other
