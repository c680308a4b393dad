"""A scripted daemon in memory, for tests of scripts that use this client.

It exchanges real frames over a link of its own, so that all of the client runs but processes and sockets.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, Unpack

from sidecar.protocol import jsonrpc
from sidecar.protocol.framing import HeaderDecoder, frame_with_header
from sidecar.protocol.handshake import PROTOCOL
from sidecar_client.client import Setup, SidecarClient
from sidecar_client.errors import ConnectionLost, SidecarRequestError
from sidecar_client.rpc import RpcConnection

ScriptedAnswer: TypeAlias = Callable[[Any], Any]
"""Returns the result for the params; a SidecarRequestError refuses, NO_ANSWER leaves the request open."""

NO_ANSWER: Final = object()

_ANSWERS: Final[dict[str, ScriptedAnswer]] = {
    "initialize": lambda _: {"capabilities": {"experimental": {"sidecar": {"protocol": PROTOCOL}}}},
    "shutdown": lambda _: None,
}


class ScriptedDaemon:
    """A daemon with *answers* by method; other methods are answered as unknown.

    Attributes:
        answers: its answers by method; may be changed at any time.
        received: every message of the client, in order.
        exit_code: its exit code once it has died.
        stderr_tail: the end of its standard error.
    """

    def __init__(self, answers: Mapping[str, ScriptedAnswer] | None = None) -> None:
        self.answers = {**_ANSWERS, **(answers or {})}
        self._frames = HeaderDecoder()
        self._ids = itertools.count(1)
        self._requests: dict[jsonrpc.Id | None, asyncio.Future[jsonrpc.Response]] = {}
        self._room = asyncio.Event()
        self._room.set()
        self._news = asyncio.Event()
        self.received: list[jsonrpc.Message] = []
        self.exit_code: int | None = None
        self.stderr_tail = ""

    def client(self, **setup: Unpack[Setup]) -> SidecarClient:
        """Return the client of this daemon, not started yet."""

        async def open_link(receiver: RpcConnection) -> ScriptedDaemon:
            self._receiver = receiver
            return self

        return SidecarClient(open_link, None, setup)

    def params_of(self, method: str) -> list[Any]:
        """Return the params of every request and notification of *method* so far."""
        calls = (m for m in self.received if isinstance(m, jsonrpc.Request | jsonrpc.Notification))
        return [message.params for message in calls if message.method == method]

    async def wait_for(self, method: str) -> Any:
        """Wait for the first request or notification of *method* and return its params."""
        while not (params := self.params_of(method)):
            await self._news.wait()
        return params[0]

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        asyncio.get_running_loop().call_soon(self._receiver.on_data, data)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send(frame_with_header(jsonrpc.encode_notification(method, params)))

    def event(self, sid: str, seq: int, kind: str, turn_id: str | None = None, **data: Any) -> None:
        """Send an event of a session, with the time *seq* in milliseconds.

        Args:
            sid: the session.
            seq: the number of the event.
            kind: its kind.
            turn_id: the turn that it belongs to, if any.
            **data: its payload.
        """
        turn = {} if turn_id is None else {"turnId": turn_id}
        self.notify("sidecar/event", {"sid": sid, "seq": seq, "at": seq, "kind": kind, "data": data, **turn})

    async def request(self, method: str, params: Any) -> jsonrpc.Response:
        """Send a request and return the client's answer."""
        number = next(self._ids)
        future: asyncio.Future[jsonrpc.Response] = asyncio.get_running_loop().create_future()
        self._requests[number] = future
        self.send(frame_with_header(jsonrpc.encode_request(number, method, params)))
        return await future

    def die(self, exit_code: int, stderr_tail: str = "") -> None:
        """End, as a process that crashes does."""
        self.exit_code, self.stderr_tail = exit_code, stderr_tail
        error = ConnectionLost("the daemon died", exit_code=exit_code, stderr_tail=stderr_tail)
        asyncio.get_running_loop().call_soon(self._receiver.on_lost, error)

    def stop_reading(self) -> None:
        """Stop reading, so that the client's output queues up on its side."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Read again. This and the methods below are the client's link."""
        self._room.set()

    async def drain(self) -> None:
        """Wait until this daemon reads."""
        await self._room.wait()

    async def close(self, grace_s: float) -> None:
        """Do nothing."""

    def write(self, data: bytes) -> None:
        """Handle the client's bytes."""
        self._frames.feed(data)
        while (frame := self._frames.next()) is not None:
            assert isinstance(frame, bytes), frame
            message = jsonrpc.decode(frame)
            self.received.append(message)
            self._news.set()
            self._news = asyncio.Event()
            if isinstance(message, jsonrpc.Request):
                try:
                    if message.method not in self.answers:
                        problem = "the script has no such method"
                        raise SidecarRequestError(-32601, problem, {"kind": "methodNotFound"})
                    result = self.answers[message.method](message.params)
                except SidecarRequestError as error:
                    body = jsonrpc.encode_error(message.id, error.code, error.message, error.data)
                    self.send(frame_with_header(body))
                else:
                    if result is not NO_ANSWER:
                        self.send(frame_with_header(jsonrpc.encode_result(message.id, result)))
            elif isinstance(message, jsonrpc.Response):
                self._requests.pop(message.id).set_result(message)
