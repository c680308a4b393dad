"""A client that plays a scene with one real daemon over its pipe, and keeps every message that comes out.

A scene is played in a folder that is the same in every run, since a path is a part of what the model is sent
and counts as tokens; with an environment of its own; on a clock that moves by one second with each request.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

__all__ = ["Message", "Place", "Player", "own_place", "play_daemon"]

Message: TypeAlias = dict[str, Any]

PLACES: Final = Path("/tmp/sidecar-same")
_FIRST_MS: Final = 1_760_000_000_000
_TIMEOUT_S: Final = 60.0
_ENTRY: Final = Path(__file__).with_name("fixed_daemon.py")
_ENDS: Final = ("settled", "faulted")


class Place:
    """An empty folder for one scene, with a ``project`` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.clock = folder / "clock"
        self._now_ms = _FIRST_MS
        for path in (self.project, folder / "home", folder / "tmp"):
            path.mkdir(parents=True)
        self.clock.write_text(str(_FIRST_MS))

    def tick(self, ms: int = 1000) -> None:
        """Let time go by."""
        self._now_ms += ms
        fd = os.open(self.clock, os.O_WRONLY)
        os.pwrite(fd, str(self._now_ms).encode(), 0)
        os.close(fd)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project, with a time of change that is the same in every run."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (self._now_ms / 1000, self._now_ms / 1000))
        return path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the daemon."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "INDUSAGI_HOME": str(self.folder / "state"),
            "INDUSAGI_STRICT": "1",
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            "SHELL": "/bin/sh",
            "USER": "user",
        }


@asynccontextmanager
async def own_place(name: str) -> AsyncIterator[Place]:
    """Give the place of the scene *name*, empty; another run that plays the scene waits until the end."""
    PLACES.mkdir(exist_ok=True)
    folder = PLACES / name
    with (PLACES / f"{name}.lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            yield Place(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Player:
    """One client of a daemon at a pipe.

    Attributes:
        face: ``lsp`` or ``acp``.
        place: where the scene is played.
        messages: every message that was sent (``-->``) or received (``<--``), in order.
        replies: the answers to requests of the daemon, by method; a function of the params returns one.
    """

    def __init__(
        self, face: str, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.face = face
        self.place = place
        self.messages: list[tuple[str, Message]] = []
        self.replies: dict[str, Callable[[Any], Any]] = {}
        self._reader = reader
        self._writer = writer
        self._n_requests = 0
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._changed = asyncio.Event()
        self._reading = asyncio.ensure_future(self._read())

    async def ask(self, method: str, params: Any = None) -> Message:
        """Send a request and return its answer, a result or an error."""
        return await self.send_request(method, params)

    def send_request(self, method: str, params: Any = None) -> asyncio.Future[Message]:
        """Send a request; its answer comes later."""
        self.place.tick()
        self._n_requests += 1
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[self._n_requests] = answer
        message = {"id": self._n_requests, "method": method, "params": params}
        self.send({name: value for name, value in message.items() if value is not None})
        return answer

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.place.tick()
        self.send({"method": method, **({} if params is None else {"params": params})})

    def send(self, message: Message) -> None:
        """Send one message and wait for nothing."""
        self.messages.append(("-->", message))
        self.send_body(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_body(self, body: bytes) -> None:
        """Send the body of a message as it is."""
        head = b"" if self.face == "acp" else b"Content-Length: %d\r\n\r\n" % len(body)
        self._writer.write(head + body + (b"\n" if self.face == "acp" else b""))

    async def until(self, is_met: Callable[[], object]) -> None:
        """Return once *is_met*; it is evaluated after each message."""
        async with asyncio.timeout(_TIMEOUT_S):
            while not is_met():
                self._changed.clear()
                await self._changed.wait()

    async def event(self, kind: str, *, n: int = 1, **data: Any) -> Message:
        """Return the params of the *n*-th event of *kind* with these *data*, once it has come."""
        await self.until(lambda: len(self.events(kind, **data)) >= n)
        return self.events(kind, **data)[n - 1]

    def events(self, kind: str, **data: Any) -> list[Message]:
        """Return the params of the events of *kind* with these *data*, so far."""
        found = [message["params"] for message in self.received("sidecar/event")]
        return [each for each in found if each["kind"] == kind and data.items() <= each["data"].items()]

    def received(self, method: str) -> list[Message]:
        """Return the notifications and requests *method* of the daemon, so far."""
        names = (method, f"_{method}")
        return [
            message for side, message in self.messages if side == "<--" and message.get("method") in names
        ]

    async def end(self) -> None:
        """Take leave as the protocol has it; returns when the daemon's output has ended."""
        if self.face == "lsp":
            await self.ask("shutdown")
            self.notify("exit")
        self._writer.close()
        await self._reading

    async def _read(self) -> None:
        while (body := await self._read_body()) is not None:
            message = json.loads(body)
            del message["jsonrpc"]
            self.messages.append(("<--", message))
            if "method" not in message:
                waiting = self._waiting.pop(message["id"], None) if message["id"] is not None else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            elif "id" in message:
                self._reply(message)
            self._changed.set()

    def _reply(self, message: Message) -> None:
        reply = self.replies.get(message["method"])
        if reply is None:
            self.send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
        elif (result := reply(message["params"])) is not None:
            self.send({"id": message["id"], "result": result})

    async def _read_body(self) -> bytes | None:
        try:
            if self.face == "acp":
                return (await self._reader.readuntil(b"\n")).rstrip()
            head = await self._reader.readuntil(b"\r\n\r\n")
            return await self._reader.readexactly(int(head.split(b":")[1].split()[0]))
        except asyncio.IncompleteReadError:
            return None


@asynccontextmanager
async def play_daemon(face: str, place: Place, *arguments: str) -> AsyncIterator[Player]:
    """Give a client of a new daemon; in the end the daemon ends too, with nothing to complain about."""
    arguments = arguments or (("acp",) if face == "acp" else ("serve", "--stdio"))
    command = [sys.executable, "-P", str(_ENTRY), str(place.clock), *arguments]
    stderr = place.folder / "stderr"
    with stderr.open("ab") as errors:
        daemon = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=place.project,
            env=place.environment,
            limit=1 << 26,
        )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    player = Player(face, place, daemon.stdout, daemon.stdin)
    try:
        yield player
        async with asyncio.timeout(_TIMEOUT_S):
            await player.end()
            code = await daemon.wait()
        assert code == 0, f"the daemon ended with {code}: {stderr.read_text()}"
    except BaseException:
        if daemon.returncode is None:
            daemon.kill()
            await daemon.wait()
        raise
