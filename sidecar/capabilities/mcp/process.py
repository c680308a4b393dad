"""A tool server as a process: one JSON value a line in and out, that ends with the session.

Lines of its standard output that are not messages are dropped, up to a bound; its standard error goes to the
log at DEBUG. A supervisor ends the process, with all that it has started, also when the daemon was killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from sidecar._internal.env import copy_environment
from sidecar._internal.secrets import mask_secrets
from sidecar.capabilities.bash import child_environment
from sidecar.capabilities.mcp.contract import ServerHost, StdioServer
from sidecar.capabilities.processes import END_REQUEST, KILL, signal_group, supervise

MESSAGE_CAP: Final = 16 * 1024 * 1024
"""Bytes of one message; a server that sends a longer one is ended."""
UNDECODABLE: Final = "the server's answer cannot be decoded"
"""The error of a call whose answer is too deep, or not an answer at all."""
GARBAGE_CAP: Final = 1024 * 1024
"""Bytes that a server may write to its standard output in its life that are not messages."""

_ID: Final = rb'"id"\s*:\s*"?(\d{1,15})"?\s*'
_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
# Of an answer that cannot be decoded the id is found where every library writes it: first or last.
_ID_FIRST: Final = re.compile(rb"\{\s*(?:%b,\s*)?%b,\s*\"(?:result|error|jsonrpc)\"" % (_VERSION, _ID))
_ID_LAST: Final = re.compile(rb",\s*%b(?:,\s*%b)?\}\s*\Z" % (_ID, _VERSION))
_TAIL_BYTES: Final = 200

_log = logging.getLogger(__name__)
_CHUNK: Final = 65_536
_LINE_CHARS: Final = 1000
_WAITING_OUT: Final = 256
_CLOSE_GRACE_S: Final = 0.5
_TERM_GRACE_S: Final = 0.3
_DRAIN_S: Final = 0.3
_EXIT_S: Final = 0.3
"""How long a server that has closed its output may take to end by itself."""

_LONGEST_END_S: Final = 5.0
"""How long its end is waited for after a request, which it may ignore."""

_CLOSED: Final = -1
"""A descriptor that no file has."""


@asynccontextmanager
async def run_server(server: StdioServer, host: ServerHost) -> AsyncIterator[ServerProcess]:
    """Run *server* for as long as the context is open. Raises OSError when it cannot be started."""
    # On Windows a script is found by its full name only.
    found = await asyncio.to_thread(shutil.which, server.command) if os.name == "nt" else None
    theirs, ours = os.pipe()
    try:
        transport, pipes = await asyncio.get_running_loop().subprocess_exec(
            _Pipes,
            *supervise([found or server.command, *server.args], theirs),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=host.cwd,
            env=child_environment(copy_environment()) | dict(server.env),
            start_new_session=os.name != "nt",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            pass_fds=() if os.name == "nt" else (theirs,),
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    process = ServerProcess(server.name, transport, pipes, ours)
    on_gone = host.child_started(transport.get_pid(), f"mcp: {server.name}")
    try:
        yield process
    finally:
        try:
            await process.aclose()
        finally:
            on_gone()


class ServerProcess:
    """One running server. *incoming* ends with the last message of the server.

    It owns the descriptor *lifeline*; closing it ends the server by force.
    """

    def __init__(
        self, name: str, transport: asyncio.SubprocessTransport, pipes: _Pipes, lifeline: int
    ) -> None:
        self._name = name
        self._lifeline = lifeline
        self._transport = transport
        self._pipes = pipes
        self.incoming: MemoryObjectReceiveStream[SessionMessage | Exception]
        self.outgoing: MemoryObjectSendStream[SessionMessage]
        self._deliver, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.outgoing, self._collect = anyio.create_memory_object_stream[SessionMessage](_WAITING_OUT)
        self._n_garbage = 0
        self._fault: str | None = None
        self._is_over = False
        self._last_error_line = ""
        self._reader = asyncio.ensure_future(self._read())
        self._error_reader = asyncio.ensure_future(self._read_errors())
        others = (self._write(), self._end_after_exit())
        self._tasks = (self._reader, self._error_reader, *map(asyncio.ensure_future, others))

    async def why_ended(self) -> str | None:
        """Return why the output has ended, None as long as it has not."""
        if not self._is_over or self._fault is not None:
            return self._fault
        await asyncio.wait((self._pipes.exited,), timeout=_EXIT_S)
        if not self._pipes.exited.done():
            # The request ends a server that lives on. One that has ended keeps its exit code, however long it
            # takes until that is here.
            self._request_end()
            await asyncio.wait((self._pipes.exited,), timeout=_LONGEST_END_S)
        await asyncio.wait((self._error_reader,), timeout=_DRAIN_S)
        code = self._transport.get_returncode()
        is_ended_by_us = code is None or code == -signal.SIGTERM
        reason = "it closed its output" if is_ended_by_us else f"exit code {code}"
        return f"{reason}: {mask_secrets(self._last_error_line)}" if self._last_error_line else reason

    async def aclose(self) -> None:
        """End the process: by the end of its input, then by request, then by force with all its children."""
        try:
            self._stdin.close()
            await asyncio.wait((self._pipes.exited,), timeout=_CLOSE_GRACE_S)
            if not self._pipes.exited.done():
                self._request_end()
                await asyncio.wait((self._pipes.exited,), timeout=_TERM_GRACE_S)
        finally:
            lifeline, self._lifeline = self._lifeline, _CLOSED
            os.close(lifeline)
            for task in self._tasks:
                task.cancel()
            try:
                await asyncio.wait((self._pipes.exited, *self._tasks), timeout=_DRAIN_S)
            finally:
                if not self._pipes.exited.done():
                    signal_group(self._transport, KILL)
                self._transport.close()
                for stream in (self._deliver, self.incoming, self.outgoing, self._collect):
                    stream.close()

    def _request_end(self) -> None:
        if os.name == "nt":
            signal_group(self._transport, signal.SIGTERM)
        with suppress(OSError):  # it has ended in this moment, or is being closed
            os.write(self._lifeline, END_REQUEST)

    @property
    def _stdin(self) -> asyncio.StreamWriter:
        assert self._pipes.stdin is not None
        return self._pipes.stdin

    async def _read(self) -> None:
        assert self._pipes.stdout is not None
        lines = _Lines()
        async with self._deliver:
            try:
                while data := await self._pipes.stdout.read(_CHUNK):
                    for line in lines.feed(data):
                        message = parse_message(line)
                        if message is not None:
                            await self._deliver.send(SessionMessage(message))
                            continue
                        self._n_garbage += len(line) + 1
                        if self._n_garbage > GARBAGE_CAP:
                            raise _OutputRefused(
                                "it writes too much to its standard output that is not a message"
                            )
                        _log.debug("%s wrote a line that is not a message: %s", self._name, _decode(line))
            except _OutputRefused as error:
                self._fault = str(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                pass  # the reader has closed, or the pipe broke: both are the end
            finally:
                self._is_over = True

    async def _write(self) -> None:
        async with self._collect:
            try:
                async for item in self._collect:
                    body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(body.encode() + b"\n")
                    await self._stdin.drain()
            except OSError:
                # A request made now would wait for ever.
                self._reader.cancel()

    async def _read_errors(self) -> None:
        assert self._pipes.stderr is not None
        while data := await self._pipes.stderr.read(_CHUNK):
            for line in filter(None, map(bytes.strip, data.splitlines())):
                self._last_error_line = _decode(line)
                _log.debug("%s: %s", self._name, self._last_error_line)

    async def _end_after_exit(self) -> None:
        """Once the process has exited, stop reading; one that cannot be killed may hold its output open."""
        # Not awaited directly: a cancellation here must not cancel the future that others wait for.
        await asyncio.wait((self._pipes.exited,))
        await asyncio.wait((self._reader,), timeout=_DRAIN_S)
        self._reader.cancel()


class _OutputRefused(Exception):
    """The server's output is beyond a bound; the message says which."""


class _Pipes(asyncio.subprocess.SubprocessStreamProtocol):
    """The process's pipes as streams. *exited* does not wait for other processes that still hold them."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit=_CHUNK, loop=loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        super().process_exited()
        if not self.exited.done():
            self.exited.set_result(None)


class _Lines:
    """Whole lines out of chunks. Never splits at anything but a line feed."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._n_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes. Raises _OutputRefused for one that does not end."""
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._parts, whole[0]))
            self._parts, self._n_bytes = [], 0
        self._parts.append(rest)
        self._n_bytes += len(rest)
        if self._n_bytes > MESSAGE_CAP:
            raise _OutputRefused(f"it sent a message of more than {MESSAGE_CAP // 1024 // 1024} MiB")
        return whole


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Return *line* as a message, bytes that are not UTF-8 replaced; None for anything else.

    An answer that cannot be decoded, as one that nests too deep, becomes an error under its id, so that its
    call does not wait in vain.
    """
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        if not line.startswith(b"{"):
            return None
    try:
        mended = json.dumps(json.loads(line.decode("utf-8", "replace")), ensure_ascii=False)
        return jsonrpc_message_adapter.validate_json(mended.encode("utf-8", "replace"), by_name=False)
    except (ValueError, RecursionError):
        found = _ID_FIRST.match(line) or _ID_LAST.search(line[-_TAIL_BYTES:])
        if found is None:
            return None
        error = ErrorData(code=PARSE_ERROR, message=UNDECODABLE)
        return JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error)


def _decode(line: bytes) -> str:
    return line[:_LINE_CHARS].decode("utf-8", "replace")
