"""A client of a socket with no more manners than it needs: it can stop reading, and vanish."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

__all__ = ["RawClient"]


class RawClient:
    """One connection, with headers or one message a line. It allows everything it is asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, lines: bool) -> None:
        self._reader = reader
        self._writer = writer
        self._lines = lines
        self._n_requests = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    @asynccontextmanager
    async def connect(cls, path: Path, *, lines: bool = False) -> AsyncIterator[Self]:
        """A client of the daemon at *path* that has shaken hands; it vanishes in the end, if not before."""
        client = cls(*await asyncio.open_unix_connection(str(path), limit=1 << 26), lines=lines)
        ours = {"sidecar": {"protocol": [1], "permission": {}}}
        own = (
            {"protocolVersion": 1, "clientCapabilities": {"_meta": ours}}
            if lines
            else {"processId": None, "capabilities": {"experimental": ours}}
        )
        try:
            await client.request("initialize", own)
            yield client
        finally:
            await client.vanish()

    async def request(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to a request, a result or an error."""
        self._n_requests += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._n_requests] = answer
        self.send({"id": self._n_requests, "method": method, "params": params})
        return await answer

    def send(self, message: dict[str, Any]) -> None:
        """Send one message and wait for nothing."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._writer.write(
            body + b"\n" if self._lines else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )

    async def stop_reading(self) -> None:
        """Read nothing more; the connection stays."""
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's can

    async def vanish(self) -> None:
        """Drop the connection, whatever is under way."""
        self._writer.transport.abort()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                message = json.loads(await self._read_body())
                if "method" not in message:
                    answer = self._waiting.pop(message["id"])
                    if not answer.done():
                        answer.set_result(message)
                elif "id" in message:
                    self.send({"id": message["id"], **_reply(message)})

    async def _read_body(self) -> bytes:
        if self._lines:
            return await self._reader.readuntil(b"\n")
        head = await self._reader.readuntil(b"\r\n\r\n")
        return await self._reader.readexactly(int(head.split(b":")[1].split()[0]))


def _reply(question: dict[str, Any]) -> dict[str, Any]:
    if question["method"] == "session/request_permission":
        chosen = question["params"]["options"][0]["optionId"]
        return {"result": {"outcome": {"outcome": "selected", "optionId": chosen}}}
    if question["method"] == "sidecar/permission/request":
        return {"result": {"outcome": "selected", "optionId": "allow_once"}}
    return {"error": {"code": -32601, "message": "not here"}}
