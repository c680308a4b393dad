"""The port to one client's bytes, both ways, and what its adapters share.

A stream never blocks the event loop, never looks into the bytes, and holds no more of them than one chunk
each way: whoever has more to write asks :attr:`ByteStream.has_room` first.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

__all__ = ["ByteStream", "Receiver", "StreamBase"]


class Receiver(Protocol):
    """Who takes the bytes of a stream. Nothing here raises."""

    def received(self, data: bytes) -> None:
        """Take what has come in."""
        ...

    def writable(self) -> None:
        """Learn that there is room again."""
        ...

    def ended(self) -> None:
        """Learn that nothing more will come in; told again when the way out goes later than the way in."""
        ...


class ByteStream(Protocol):
    """One open connection. All of it belongs to the thread of the event loop."""

    @property
    def has_room(self) -> bool:
        """Whether everything written so far is on its way; False for ever once the way out is gone."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the way out is gone."""
        ...

    async def peek(self) -> bytes:
        """Return the first bytes and leave them for the receiver; nothing at the end of input."""
        ...

    def open(self, receiver: Receiver) -> None:
        """Hand everything to *receiver*, beginning with what came before."""
        ...

    def pause_reading(self) -> None:
        """Take nothing more from the client until told to; a chunk that is here already may follow."""
        ...

    def resume_reading(self) -> None:
        """Go on reading."""
        ...

    def write(self, data: bytes) -> None:
        """Send *data*. Contract: called only while there is room; after the loss it is dropped."""
        ...

    def close(self) -> None:
        """Let go of both ends; what was not sent yet is dropped."""
        ...


class StreamBase:
    """What every stream shares: who receives, what came before anybody did, and the end."""

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._early: list[bytes] = []
        self._is_ended = False
        self._is_lost = False
        self._anything = asyncio.Event()

    @property
    def is_lost(self) -> bool:
        """Whether the way out is gone."""
        return self._is_lost

    async def peek(self) -> bytes:
        """Return the first bytes and leave them for the receiver; nothing at the end of input."""
        await self._anything.wait()
        return b"".join(self._early)

    def open(self, receiver: Receiver) -> None:
        """Hand everything to *receiver*, beginning with what came before."""
        self._receiver = receiver
        early, self._early = self._early, []
        if early:
            self.resume_reading()
        for data in early:
            receiver.received(data)
        if self._is_ended:
            receiver.ended()

    def pause_reading(self) -> None:
        """Take nothing more from the client until told to."""
        raise NotImplementedError

    def resume_reading(self) -> None:
        """Go on reading."""
        raise NotImplementedError

    def _take(self, data: bytes) -> None:
        """Pass on what has come in, or keep it while there is nobody."""
        if self._receiver is not None:
            self._receiver.received(data)
            return
        self._early.append(data)
        self.pause_reading()
        self._anything.set()

    def _end(self, *, is_lost: bool) -> None:
        is_news = not self._is_ended or (is_lost and not self._is_lost)
        self._is_lost = self._is_lost or is_lost
        self._is_ended = True
        self._anything.set()
        if is_news and self._receiver is not None:
            self._receiver.ended()
