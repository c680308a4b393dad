"""Clients that play a scene with real daemons, over pipes and sockets, and keep every message.

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
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

__all__ = ["FIRST_MS", "TIMEOUT_S", "Message", "Place", "Player", "Stage", "open_stage"]

Message: TypeAlias = dict[str, Any]

PLACES: Final = Path("/tmp/sidecar-same")
FIRST_MS: Final = 1_760_000_000_000
TIMEOUT_S: Final = 60.0
_ENTRY: Final = Path(__file__).with_name("fixed_daemon.py")
_MESSAGE_BYTES: Final = 1 << 26


class Place:
    """An empty folder for one scene, with a ``project`` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.clock = folder / "clock"
        self._now_ms = FIRST_MS
        for path in (self.project, folder / "home", folder / "tmp"):
            path.mkdir(parents=True)
        self.clock.write_text(str(FIRST_MS))

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
    def sessions(self) -> Path:
        """The folder of the session files."""
        return self.folder / "state" / "sessions"

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
    with suppress(PermissionError):  # it is another user's
        PLACES.chmod(0o1777)
    folder = PLACES / name
    with suppress(FileExistsError):
        (PLACES / f"{name}.lock").touch(exist_ok=False)
    with (PLACES / f"{name}.lock").open() as lock:
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
        questions: called with the requests of the daemon, by method; any other one is refused.
        has_left: whether the connection is closed.
    """

    def __init__(
        self, face: str, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.face = face
        self.place = place
        self.messages: list[tuple[str, Message]] = []
        self.questions: dict[str, Callable[[Message], None]] = {}
        self.has_left = False
        self._reader = reader
        self._writer = writer
        self._n_requests = 0
        self._n_probes = 0
        self._waiting: dict[Any, asyncio.Future[Message]] = {}
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

    async def probe(self, method: str, params: Any = None) -> Any:
        """Return the answer to a request that is no part of the scene; time stands still for it."""
        self._n_probes += 1
        name = f"probe-{self._n_probes}"
        answer = self._waiting[name] = asyncio.get_running_loop().create_future()
        self._send({"id": name, "method": method, "params": params or {}})
        return await answer

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.place.tick()
        self.send({"method": method, **({} if params is None else {"params": params})})

    def send(self, message: Message) -> None:
        """Send one message and wait for nothing."""
        self.messages.append(("-->", message))
        self._send(message)

    def _send(self, message: Message) -> None:
        self.send_body(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_body(self, body: bytes) -> None:
        """Send the body of a message as it is."""
        head = b"" if self.face == "acp" else b"Content-Length: %d\r\n\r\n" % len(body)
        self._writer.write(head + body + (b"\n" if self.face == "acp" else b""))

    async def until(self, is_met: Callable[[], object]) -> None:
        """Return once *is_met*; it is evaluated after each message."""
        async with asyncio.timeout(TIMEOUT_S):
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
        await self.leave()

    async def leave(self) -> None:
        """Close the connection without a word; returns when the daemon's output has ended."""
        self._writer.close()
        await self._reading
        self.has_left = True

    async def _read(self) -> None:
        while (body := await self._read_body()) is not None:
            message = json.loads(body)
            del message["jsonrpc"]
            if not str(message.get("id")).startswith("probe-"):
                self.messages.append(("<--", message))
            if "method" not in message:
                waiting = self._waiting.pop(message["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            elif (meet := self.questions.get(message["method"])) is not None:
                meet(message)
            elif "id" in message:
                self.send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
            self._changed.set()

    async def _read_body(self) -> bytes | None:
        try:
            if self.face == "acp":
                return (await self._reader.readuntil(b"\n")).rstrip()
            head = await self._reader.readuntil(b"\r\n\r\n")
            return await self._reader.readexactly(int(head.split(b":")[1].split()[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


class Stage:
    """A place with daemons and their clients; all of them end with it.

    Attributes:
        players: the clients, in the order in which they came.
        stored: the contents of the session files that are left at the end, by session.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.players: list[Player] = []
        self.stored: dict[str, bytes] = {}
        self._daemons: dict[Player, Process] = {}

    async def start(self, face: str, *arguments: str, **variables: str) -> Player:
        """Start a daemon and return its client at the pipe."""
        arguments = arguments or (("acp",) if face == "acp" else ("serve", "--stdio"))
        with (self.place.folder / "stderr").open("ab") as errors:
            daemon = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", str(_ENTRY), str(self.place.clock), *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=self.place.project,
                env=self.place.environment | variables,
                limit=_MESSAGE_BYTES,
            )
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        player = Player(face, self.place, daemon.stdout, daemon.stdin)
        self._daemons[player] = daemon
        self.players.append(player)
        return player

    async def join(self, face: str) -> Player:
        """Return one more client of the daemon that was started last, at its socket."""
        daemon = [*self._daemons.values()][-1]
        socket = self.place.folder / "state" / "run" / f"daemon-{daemon.pid}.sock"
        player = Player(face, self.place, *await asyncio.open_unix_connection(socket, limit=_MESSAGE_BYTES))
        self.players.append(player)
        return player

    async def end(self, player: Player) -> None:
        """Let a client take leave; its daemon ends too, if it is the one at the pipe."""
        async with asyncio.timeout(TIMEOUT_S):
            await player.end()
            if (daemon := self._daemons.get(player)) is not None:
                code = await daemon.wait()
                assert code == 0, f"the daemon ended with {code}: {self.complaints}"

    async def stop(self, player: Player) -> None:
        """Stop the daemon of a client as a system does that shuts down."""
        daemon = self._daemons[player]
        daemon.terminate()
        await player.until(lambda: player.received("sidecar/closing"))
        await player.leave()
        await daemon.wait()

    async def kill(self, player: Player) -> None:
        """Kill the daemon of a client at once, as a system does that is out of memory."""
        daemon = self._daemons[player]
        daemon.kill()
        await daemon.wait()
        await player.leave()

    @property
    def complaints(self) -> str:
        """What the daemons have written to standard error."""
        return (self.place.folder / "stderr").read_text()

    async def close(self, *, is_whole: bool) -> None:
        """End what is left, the guests first; at once where the scene is not *is_whole*."""
        for player in reversed(self.players):
            if is_whole and not player.has_left:
                await self.end(player)
        for daemon in self._daemons.values():
            if daemon.returncode is None:
                daemon.kill()
                await daemon.wait()
        self.stored = {path.stem: path.read_bytes() for path in self.place.sessions.glob("*.jsonl")}


@asynccontextmanager
async def open_stage(name: str) -> AsyncIterator[Stage]:
    """Give the stage of the scene *name*."""
    async with own_place(name) as place:
        stage = Stage(place)
        try:
            yield stage
        except BaseException:
            await stage.close(is_whole=False)
            raise
        await stage.close(is_whole=True)
