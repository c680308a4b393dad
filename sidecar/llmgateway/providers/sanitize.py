"""Sanitizing: a conversation becomes one that a provider accepts, and every repair is reported. Pure.

Problem: a provider refuses a whole conversation for one bad turn, and refuses it again at every later call.
Calls without results and results without calls are paired by ``runtime.wire``, as everywhere. The rest
depends on the provider: the reasoning it takes back, its ids and images, the order of roles.

Invariants: a sound conversation is sent as it is, object by object; the stored one is never changed; roles
alternate, begin with the user and end with the user; no two calls share an id. The cost is one pass; of a
conversation that has grown since the last call, one over its new turns.

Example: an answer that was stopped while it thought leaves a turn of reasoning alone. It is dropped, the
user turns around it are joined, and a conversation that then ends with the assistant gets ``[continue]``.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeVar

from sidecar._internal.surrogates import encodable
from sidecar._internal.values import Value
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
from sidecar.llmgateway.providers.fields import TurnMemo, encodable_json
from sidecar.runtime.cadence import UNPARSED
from sidecar.runtime.wire import OPENING, Outgoing

T = TypeVar("T")

EMPTY: Final = TextBlock("[empty message]")
"""The text of a user message that has none; providers refuse empty ones."""

CONTINUE: Final = UserTurn((TextBlock("[continue]"),))
"""The turn after a conversation that ends with the assistant, which many models refuse to continue."""

_NOT_IN_IDS: Final = re.compile(r"[^A-Za-z0-9_-]")
_MEGABYTE: Final = 1024 * 1024
_JPEG_FRAMES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


class WireRules(Value, kw_only=True):
    """The limits of a provider.

    Attributes:
        takes_signature: whether the provider made a signature; reasoning of others is left out whole.
        max_id_chars: the longest id of a call.
        max_name_chars: the longest name of a tool.
        image_types: the media types of images that it takes.
        max_images: the most images in one request; older ones are left out.
        max_image_bytes: the largest image, base64 encoded.
        max_image_pixels: the largest width and height of an image.
    """

    takes_signature: Callable[[str], bool]
    max_id_chars: int = 64
    max_name_chars: int = 64
    image_types: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    max_images: int = 100
    max_image_bytes: int = 20 * _MEGABYTE
    max_image_pixels: int = 8_000


class SanitizedConversation(Value):
    """The conversation to send, and one sentence for each kind of repair."""

    conversation: Conversation
    repairs: tuple[str, ...] = ()


class Sanitizer:
    """Makes the conversations of one model acceptable to a provider with *rules*.

    The last conversation is remembered: of one that only grew since, the new turns alone are looked at.
    """

    def __init__(self, rules: WireRules, *, sees_images: bool = True) -> None:
        """*sees_images* says whether the model takes images."""
        self._rules = rules
        self._sees_images = sees_images
        self._given: tuple[Turn, ...] = ()
        self._outgoing = Outgoing()
        self._pass = _Pass(rules, sees_images)
        self.memo = TurnMemo[Any]()

    def knows(self, conversation: Conversation) -> bool:
        """Whether *conversation* is the remembered one, or has grown from it."""
        return _begins_with(conversation.turns, self._given)

    def sanitize(
        self, conversation: Conversation, refused: frozenset[str] = frozenset()
    ) -> SanitizedConversation:
        """Return *conversation* as the provider accepts it.

        Args:
            conversation: the conversation as it is stored.
            refused: signatures that the provider has refused. Reasoning up to the last one is left out,
                because each signature also covers the turns before it.
        """
        given = tuple(conversation.turns)
        if not _begins_with(given, self._given):
            self._given, self._outgoing = (), Outgoing()
        self._outgoing = self._outgoing.extend(given[len(self._given) :])
        self._given = given
        paired = self._outgoing.turns() or (OPENING,)
        if not self._pass.can_go_on(paired, refused):
            self._pass = _Pass(self._rules, self._sees_images, paired, refused)
        turns, repairs = self._pass.go_on(paired), dict(self._pass.repairs)
        if isinstance(turns[-1], AssistantTurn):
            turns = (*turns, CONTINUE)
            repairs["it ended with the assistant, so [continue] was added as a user message"] = None
        if paired != given:
            repairs["empty turns, and calls or results that stood alone, were put in order"] = None
        system = encodable(conversation.system) if conversation.system else None
        return SanitizedConversation(replace(conversation, turns=turns, system=system), tuple(repairs))


def _begins_with(turns: Sequence[Turn], start: Sequence[Turn]) -> bool:
    return len(turns) >= len(start) and all(map(is_, turns, start))


def _count_images(turns: Sequence[Turn]) -> int:
    return sum(isinstance(block, ImageBlock) for turn in turns for block in turn.blocks)


class _Pass:
    """One pass over the paired turns of a growing conversation, *turns* to begin with.

    *repairs* has each sentence once, in order.
    """

    def __init__(
        self,
        rules: WireRules,
        sees_images: bool,
        turns: Sequence[Turn] = (),
        refused: frozenset[str] = frozenset(),
    ) -> None:
        self.repairs: dict[str, None] = {}
        self._rules = rules
        self._sees_images = sees_images
        self._refused = refused
        self._n_images = 0
        self._surplus_images = _count_images(turns) - rules.max_images
        refusals = (index + 1 for index, turn in enumerate(turns) if self._has_refused(turn))
        self._thinking_from = max(refusals, default=0)
        self._new_ids: dict[str, str] = {}
        self._taken_ids: set[str] = set()
        self._n_alike: Counter[str] = Counter()
        self._done: tuple[Turn, ...] = ()
        self._joined: list[Turn] = []
        self._last: list[Turn] = []
        """The newest turns of one role, which another one of that role may join."""

    def can_go_on(self, turns: Sequence[Turn], refused: frozenset[str]) -> bool:
        """Whether *turns* go on behind the known ones, and leave the results for these as they are."""
        new = turns[len(self._done) :]
        return (
            refused == self._refused
            and _begins_with(turns, self._done)
            and self._n_images + _count_images(new) <= self._rules.max_images
            and not any(map(self._has_refused, new))
        )

    def go_on(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """Look at the new ones of *turns* and return all as they are sent, neighbours of one role joined."""
        first, self._done = len(self._done), turns
        self._n_images += _count_images(turns[first:])
        for index, turn in enumerate(turns[first:], first):
            blocks = tuple(self._blocks(turn, may_think=index >= self._thinking_from))
            if all(isinstance(block, ThinkingBlock) for block in blocks):
                # The answer was stopped before its first word, and no provider takes an empty one.
                blocks = ()
            if not blocks and isinstance(turn, UserTurn):
                self.note("an empty message was marked as empty")
                blocks = (EMPTY,)
            if blocks:
                same = len(blocks) == len(turn.blocks) and all(map(is_, blocks, turn.blocks))
                if self._last and type(self._last[0]) is not type(turn):
                    self._joined.append(_join(self._last))
                    self._last = []
                self._last.append(turn if same else replace(turn, blocks=blocks))
        return (*self._joined, *([_join(self._last)] if self._last else []))

    def note(self, repair: str) -> None:
        """Note that something was repaired."""
        self.repairs[repair] = None

    def _has_refused(self, turn: Turn) -> bool:
        return bool(self._refused) and any(
            isinstance(block, ThinkingBlock) and block.signature in self._refused for block in turn.blocks
        )

    def _blocks(self, turn: Turn, *, may_think: bool) -> Iterator[Block]:
        is_answer = isinstance(turn, AssistantTurn)
        for block in turn.blocks:
            match block:
                case TextBlock(text=text) if text.strip():
                    clean = encodable(text)
                    if clean is not text:
                        self.note("characters that cannot be sent were replaced")
                    yield block if clean is text else TextBlock(clean)
                case ThinkingBlock(text=text, signature=str() as signature) if is_answer and may_think:
                    # A signature is valid for its exact text only.
                    if encodable(text) is text and self._rules.takes_signature(signature):
                        yield block
                case ToolCallBlock():
                    yield self._call(block)
                case ToolResultBlock(call_id=call_id):
                    new = self._new_ids.get(call_id, call_id)
                    yield block if new == call_id else replace(block, call_id=new)
                case ImageBlock():
                    reason = self._objection(block) or ("it was the model's own" if is_answer else None)
                    if reason is not None:
                        self.note(f"an image was left out: {reason}")
                    yield block if reason is None else TextBlock(f"[image left out: {reason}]")
                case _:
                    continue

    def _call(self, call: ToolCallBlock) -> ToolCallBlock:
        """Return *call* with an id that no other call of the conversation has.

        Some servers number the calls of every answer from the start; others refuse such a conversation.
        """
        longest = self._rules.max_id_chars
        base = call_id = _NOT_IN_IDS.sub("_", call.id)[:longest] or "call"
        while call_id in self._taken_ids:
            self._n_alike[base] += 1
            tail = f"_{self._n_alike[base] + 1}"
            call_id = base[: longest - len(tail)] + tail
        self._taken_ids.add(call_id)
        self._new_ids[call.id] = call_id
        name = _NOT_IN_IDS.sub("_", call.name)[: self._rules.max_name_chars] or "unknown"
        value = call.input
        if not isinstance(value, dict):
            self.note("arguments of a call that are not an object were wrapped in one")
            value = {UNPARSED: value}
        value = encodable_json(value)
        same = call_id == call.id and name == call.name and value is call.input
        return call if same else ToolCallBlock(call_id, name, value)

    def _objection(self, image: ImageBlock) -> str | None:
        """Return the reason why *image* cannot be sent; of too many images the oldest are left out."""
        self._surplus_images -= 1
        rules = self._rules
        if not self._sees_images:
            return "this model is not known to see images; if it does, set images = true for it"
        if image.media_type not in rules.image_types:
            return f"{image.media_type} is not among {', '.join(sorted(rules.image_types))}"
        if len(image.data_base64) > rules.max_image_bytes:
            return f"it is larger than {rules.max_image_bytes // _MEGABYTE} MB"
        if self._surplus_images >= 0:
            return f"a request holds at most {rules.max_images}"
        try:
            data = binascii.a2b_base64(image.data_base64, strict_mode=True)
        except (binascii.Error, ValueError):
            data = b""
        if not data:
            return "it is not base64"
        if max(image_size(data) or (0, 0)) > rules.max_image_pixels:
            return f"it is wider or higher than {rules.max_image_pixels} pixels"
        return None


def _join(turns: Sequence[Turn]) -> Turn:
    first, *others = turns
    joined = tuple(block for turn in others for block in turn.blocks)
    return replace(first, blocks=(*first.blocks, *joined)) if others else first


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels from the first bytes of an image; nothing is decoded.

    Returns:
        None for a broken image, and for a format other than PNG, GIF, JPEG and WebP.

    >>> image_size(b"GIF89a" + (640).to_bytes(2, "little") + (480).to_bytes(2, "little"))
    (640, 480)
    """
    try:
        if data.startswith(b"\x89PNG"):
            width, height = struct.unpack_from(">II", data, 16)
            return width, height
        if data.startswith(b"GIF8"):
            width, height = struct.unpack_from("<HH", data, 6)
            return width, height
        if data.startswith(b"\xff\xd8"):
            return jpeg_size(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return webp_size(data)
    except (struct.error, IndexError):
        return None
    return None


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a JPEG image, by its first frame header."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return None


def webp_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a WebP image, by its first chunk."""
    form = data[12:16]
    if form == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if form == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    return None
