"""Pins: passages of the conversation that the model sees word for word until they are unpinned.

They stand at the end of the system prompt, beside the conversation and not in it. So no engine can shorten
them, and no compaction, rewind or undo takes them away; they are stored with the session and forked with it.
Together they take a twentieth of the model's window at most.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.content import prompt_text, text_of_turn
from sidecar.conductor.contract import Pin
from sidecar.conductor.errors import NodeNotFound
from sidecar.conductor.events import PinsChanged
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.token_estimate import text_tokens
from sidecar.conductor.window.compaction.loss import LossReports

SHARE: Final = 20
"""The pins take one token in so many of the window at most."""

MAX_TOKENS: Final = 4_000
"""The most that all pins take, and their room where the window is not known."""

_FACT_ID: Final = re.compile("[0-9a-f]{10}")


class Pins:
    """The pins of one session."""

    def __init__(self, record: SessionRecord, losses: LossReports) -> None:
        self._record = record
        self._losses = losses

    @property
    def all(self) -> tuple[Pin, ...]:
        """The pins, oldest first."""
        return self._record.pins()

    @property
    def limit_tokens(self) -> int:
        """The most tokens that the pins may take."""
        return min(self._record.window // SHARE or MAX_TOKENS, MAX_TOKENS)

    @property
    def used_tokens(self) -> int:
        """The tokens that the pins take."""
        return sum(text_tokens(pin.text) for pin in self.all)

    async def find(self, given: str) -> Pin:
        """Return the pin of *given*: the id of a fact in a loss report, the id of a node, or any text.

        Raises InvalidInput for an empty text and for an id that no report has.
        """
        if given in self._record.history.graph.entries:
            return self.of_node(given)
        if not _FACT_ID.fullmatch(given):
            return self.of_text(given)
        if (pin := await self.find_fact(given)) is None:
            raise InvalidInput(f"there is no fact {given!r}", hint="take an id from /loss")
        return pin

    def of_text(self, text: str) -> Pin:
        """Return the pin of *text*. Raises InvalidInput for an empty one."""
        if not text.strip():
            raise InvalidInput("there is nothing to pin", hint="name a fact of /loss, a node, or a text")
        pin_id = blake2b(text.strip().encode(errors="replace"), digest_size=5).hexdigest()
        return Pin(pin_id, text.strip())

    def of_node(self, node_id: str) -> Pin:
        """Return the pin of an entry on any branch: its prose, or its results where it has none."""
        entry = self._record.history.graph.entries.get(node_id)
        if entry is None:
            raise NodeNotFound(self._record.sid, node_id)
        text = prompt_text(entry.turn.blocks) or text_of_turn(entry.turn)
        return replace(self.of_text(text), node_id=node_id)

    async def find_fact(self, fact_id: str) -> Pin | None:
        """Return the pin of a fact of the conversation, None where it has no such one."""
        found = await self._losses.find(fact_id)
        return None if found is None else Pin(fact_id, found.text, found.node_id)

    async def add(self, pin: Pin) -> Pin:
        """Pin it, from the next request on. Raises InvalidInput when there is no room for it."""
        if any(each.pin_id == pin.pin_id for each in self.all):
            return pin
        tokens, left = text_tokens(pin.text), self.limit_tokens - self.used_tokens
        if tokens > left:
            room = f"{max(0, left):,} of the {self.limit_tokens:,} tokens for pins are left"
            hint = "pin a shorter passage, or unpin another one first"
            raise InvalidInput(f"this takes {tokens:,} tokens, and {room}", hint=hint)
        await self._set((*self.all, pin))
        return pin

    async def remove(self, pin_id: str) -> None:
        """Unpin. Raises InvalidInput for an unknown pin."""
        kept = tuple(pin for pin in self.all if pin.pin_id != pin_id)
        if len(kept) == len(self.all):
            known = ", ".join(pin.pin_id for pin in self.all) or "none"
            raise InvalidInput(f"there is no pin {pin_id!r:.100}", hint=f"the pins are: {known}")
        await self._set(kept)

    async def _set(self, pins: tuple[Pin, ...]) -> None:
        self._record.amend(lambda info: replace(info, pins=tuple(map(asdict, pins))))
        self._record.events.emit(PinsChanged(pins))
        await self._record.store()
