"""The client's end of a JSON-RPC connection: requests and notifications, both ways.

It knows no method. Messages are handled in the order in which they come, inside the link's callback. Only
requests of the daemon run as tasks, which :meth:`RpcConnection.close` ends.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any, assert_never

from sidecar.protocol import jsonrpc
from sidecar.protocol.framing import BrokenStream, Frame, HeaderDecoder, Oversized, frame_with_header
from sidecar_client.errors import ConnectionLost, ProtocolError, SidecarRequestError
from sidecar_client.inbox import Inbox
from sidecar_client.links import Link

_log = logging.getLogger("sidecar_client")


class RpcConnection:
    """The client's end of one connection; *inbox* gets the notifications and requests of the daemon.

    Attributes:
        link: the open connection, None before there is one.
        is_closing: whether this client leaves, so that the end is not an error for its readers.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._frames = HeaderDecoder()
        self._ids = itertools.count(1)
        self._pending: dict[jsonrpc.Id | None, asyncio.Future[jsonrpc.Response | ConnectionLost]] = {}
        self._serving: dict[jsonrpc.Id, asyncio.Task[None]] = {}
        self._lost: ConnectionLost | None = None
        self.link: Link | None = None
        self.is_closing = False

    async def request(self, method: str, params: Any) -> Any:
        """Return the result of *method*. Cancelling this cancels the request at the daemon.

        Raises:
            SidecarRequestError: the daemon refused, or failed.
            ConnectionLost: it is gone, or went before it answered.
        """
        await self._ready()
        number = next(self._ids)
        future = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            self._write(jsonrpc.encode_request(number, method, params))
            reply = await future
        finally:
            del self._pending[number]
            if future.cancelled():
                self._write(jsonrpc.encode_notification("$/cancelRequest", {"id": number}))
        if isinstance(reply, ConnectionLost):
            raise reply.with_traceback(None)
        if reply.error is not None:
            data = reply.error.get("data")
            if not isinstance(data, Mapping):
                data = {} if data is None else {"details": data}
            raise SidecarRequestError(reply.error.get("code", 0), reply.error.get("message", ""), data)
        return reply.result

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification. Raises ConnectionLost."""
        await self._ready()
        self._write(jsonrpc.encode_notification(method, params))

    async def close(self, grace_s: float) -> None:
        """End the tasks that serve the daemon, then the link; each takes a bounded time."""
        tasks = tuple(self._serving.values())
        try:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=grace_s)
        finally:
            if self.link is not None:
                await self.link.close(grace_s)
            self.on_lost(ConnectionLost("this client has been closed"))

    def on_data(self, data: bytes) -> None:
        """Decode bytes from the link."""
        self._frames.feed(data)
        while self._lost is None and (frame := self._frames.next()) is not None:
            self._handle_frame(frame)

    def on_lost(self, error: ConnectionLost) -> None:
        """Fail all requests, present and future, and end all readers. Only the first call counts."""
        if self._lost is not None:
            return
        self._lost = error
        for future in self._pending.values():
            if not future.done():
                future.set_result(error)
        if self.link is not None:
            self.link.resume_writing()
        self._inbox.end(None if self.is_closing else error)

    async def _ready(self) -> None:
        """Wait for room. Raises ConnectionLost at the end."""
        if self._lost is None and self.link is not None:
            await self.link.drain()
        if self._lost is not None:
            raise self._lost.with_traceback(None)

    def _write(self, body: bytes) -> None:
        if self._lost is None and self.link is not None:
            self.link.write(frame_with_header(body))

    def _handle_frame(self, frame: Frame) -> None:
        match frame:
            case bytes():
                self._handle_message(jsonrpc.decode(frame), len(frame))
            case Oversized(id=number, is_response=True) if number in self._pending:
                error = {
                    "code": -32600,
                    "message": f"the answer has {frame.size} bytes, which is over the limit",
                }
                self._settle(jsonrpc.Response(number, None, {**error, "data": {"kind": "messageTooLarge"}}))
            case Oversized():
                self._give_up(f"a message of {frame.size} bytes, which is over the limit")
            case BrokenStream():
                self._give_up(frame.reason)
            case _:
                assert_never(frame)

    def _handle_message(self, message: jsonrpc.Message, size: int) -> None:
        match message:
            case jsonrpc.Response(id=None):
                self._give_up(f"it could not read a message of this client: {message.error}")
            case jsonrpc.Response():
                self._settle(message)
            case jsonrpc.Notification(method="$/cancelRequest"):
                self._cancel(message.params)
            case jsonrpc.Notification():
                try:
                    self._inbox.receive(message.method, message.params or {}, size)
                except (KeyError, TypeError) as error:
                    self._give_up(f"{message.method} has unfit params: {error!r}")
            case jsonrpc.Request() if message.id in self._serving:
                self._give_up(f"request {message.id!r} is open already")
            case jsonrpc.Request():
                self._serving[message.id] = asyncio.create_task(self._serve(message))
            case jsonrpc.Malformed():
                self._give_up(message.problem.message)
            case _:
                assert_never(message)

    def _settle(self, reply: jsonrpc.Response) -> None:
        future = self._pending.get(reply.id)
        if future is not None and not future.done():
            future.set_result(reply)

    def _cancel(self, params: Any) -> None:
        task = self._serving.get(params["id"]) if isinstance(params, dict) and "id" in params else None
        if task is not None:
            # A task that is cancelled before its first step would never answer.
            asyncio.get_running_loop().call_soon(task.cancel)

    async def _serve(self, request: jsonrpc.Request) -> None:
        try:
            body = jsonrpc.encode_result(
                request.id, await self._inbox.answer(request.method, request.params or {})
            )
        except SidecarRequestError as error:
            body = jsonrpc.encode_error(request.id, error.code, error.message, error.data)
        except asyncio.CancelledError:
            self._write(jsonrpc.encode_error(request.id, -32800, "cancelled", {"kind": "cancelled"}))
            raise
        except Exception:
            _log.exception("the handler of %s failed", request.method)
            body = jsonrpc.encode_error(
                request.id, -32603, "the client's handler failed", {"kind": "internal"}
            )
        finally:
            del self._serving[request.id]
        self._write(body)

    def _give_up(self, problem: str) -> None:
        tail = self.link.stderr_tail if self.link is not None else ""
        reason = f"the daemon's output is not valid protocol: {problem}"
        self.on_lost(ProtocolError(reason, stderr_tail=tail))
