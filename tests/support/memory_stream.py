"""A connection in memory, for tests of everything above streams: both ends in one process.

:class:`MemoryStream` is the daemon's end, a :class:`sidecar.transport.streams.ByteStream`, and the client's
end in one object; :class:`MemoryClient` speaks JSON-RPC over it. Nothing here sleeps.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sidecar.protocol.framing import HeaderDecoder, LineDecoder, frame_with_header, frame_with_newline
from sidecar.protocol.jsonrpc import Id
from sidecar.transport.streams import ByteStream

_TIMEOUT_S: Final = 20.0


class MemoryStream(ByteStream):
    """A client that reads at once, unless it is told to stall."""

    def __init__(self) -> None:
        super().__init__()
        self.received_bytes = bytearray()
        """The bytes that the client has read."""
        self.is_reading_paused = False
        self._unread: deque[bytes] = deque()
        self._is_delivering = False
        self._stalled: bytearray | None = None
        self._changed = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether everything written so far is on its way."""
        return not self._stalled and not self._is_lost

    def pause_reading(self) -> None:
        """Keep the client's bytes until reading is resumed."""
        self.is_reading_paused = True

    def resume_reading(self) -> None:
        """Go on reading."""
        self.is_reading_paused = False
        if self._is_delivering:
            return  # called by the receiver of the chunk that is being delivered
        self._is_delivering = True
        try:
            while self._unread and not self.is_reading_paused:
                self._deliver(self._unread.popleft())
        finally:
            self._is_delivering = False

    def write(self, data: bytes) -> None:
        """Send *data* to the client."""
        assert self.has_room or self._is_lost, "written without room"
        if self._is_lost:
            return
        into = self.received_bytes if self._stalled is None else self._stalled
        into += data
        self._changed.set()

    def close(self) -> None:
        """Close both ends."""
        self._end(is_lost=True)
        self._changed.set()

    def send(self, data: bytes) -> None:
        """Send bytes as the client."""
        self._unread.append(data)
        if not self.is_reading_paused:
            self.resume_reading()

    def stall(self) -> None:
        """Stop reading as the client; one write more fills the pipe."""
        self._stalled = self._stalled or bytearray()

    def read_on(self) -> None:
        """Read again as the client, first of all the bytes that are stuck in the pipe."""
        self.received_bytes += self._stalled or b""
        self._stalled = None
        self._changed.set()
        if self._receiver is not None:
            self._receiver.on_writable()

    def hang_up(self) -> None:
        """Close the client's writing end."""
        self._end(is_lost=False)

    def vanish(self) -> None:
        """Close both of the client's ends."""
        self.close()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once *condition* holds; it is evaluated after every write of the daemon.

        A tick passes in any case, as it does for a client in another process.
        Raises TimeoutError when it never holds, so that a test fails and does not hang.
        """
        await asyncio.sleep(0)
        async with asyncio.timeout(_TIMEOUT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class MemoryClient:
    """A client that speaks JSON-RPC over a :class:`MemoryStream`, with headers or one message a line."""

    def __init__(self, *, lines: bool = False) -> None:
        self.stream = MemoryStream()
        self._wrap = frame_with_newline if lines else frame_with_header
        self._decoder = LineDecoder() if lines else HeaderDecoder()
        self._read = 0
        self._messages: list[dict[str, Any]] = []

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Everything the daemon has sent, in order."""
        self._decoder.feed(bytes(self.stream.received_bytes[self._read :]))
        self._read = len(self.stream.received_bytes)
        while (frame := self._decoder.next()) is not None:
            assert isinstance(frame, bytes), frame
            self._messages.append(msgspec.json.decode(frame))
        return self._messages

    def send_body(self, body: bytes) -> None:
        """Send one body, well formed or not."""
        self.stream.send(self._wrap(body))

    def send(self, message: Any) -> None:
        """Send one message as it is."""
        self.send_body(json.dumps(message).encode())

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification; *params* None is left out."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def ask(self, request_id: Id, method: str, params: Any = None) -> None:
        """Send a request; *params* None is left out."""
        given = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **given})

    def reply(self, request_id: Any, result: Any) -> None:
        """Answer a request of the daemon."""
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def answers(self, request_id: Id | None) -> list[dict[str, Any]]:
        """Return every answer to *request_id* that has come."""
        return [m for m in self.messages if "method" not in m and m.get("id") == request_id]

    def calls(self, method: str) -> list[dict[str, Any]]:
        """Return every request and notification *method* that has come."""
        return [message for message in self.messages if message.get("method") == method]

    async def answer(self, request_id: Id | None) -> dict[str, Any]:
        """Return the first answer to *request_id* once it has come."""
        await self.stream.wait_until(lambda: bool(self.answers(request_id)))
        return self.answers(request_id)[0]

    async def request(self, request_id: Id, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request and return its answer."""
        self.ask(request_id, method, params)
        return await self.answer(request_id)

    async def call(self, method: str, n: int = 1) -> dict[str, Any]:
        """Return the *n*-th request or notification *method* once it has come."""
        await self.stream.wait_until(lambda: len(self.calls(method)) >= n)
        return self.calls(method)[n - 1]
