"""A day of editors beside one shared daemon, compressed: what windows, panels, disks and accidents do to it.

Every act leaves the daemon as it found it: what it opened it closes, and the sessions it made it deletes. So
whatever the daemon has more of after an hour of acts has leaked. Some clients are of a socket alone, with no
more manners than they need: they can stop reading, and vanish.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, Self

import psutil

from sidecar_client import Session, SidecarClient, SidecarRequestError, allow
from soak_model import PROMPTS


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


PATIENCE_S: Final = 180.0
"""An act that takes longer has met a hang, also on a machine with much else to do."""

ENDS: Final = ("settled", "faulted")
"""The events that end a turn. A disk that is full for a moment ends one before its first word."""

ENGINES: Final = ("windowBudget", "runtime", "agentcore", "slidingWindow", "summarizing", "none")
_SMALL_FILE_BYTES: Final = 4096
_STORM_FILES: Final = 400

Act = Callable[["EditorDay", SidecarClient, Session, random.Random], Awaitable[None]]


class EditorDay:
    """The acts, on the daemon *process* at *socket*, in folder *project*. ``n_acts`` counts them by name."""

    def __init__(self, socket: Path, project: Path, process: psutil.Process) -> None:
        self.n_acts: Counter[str] = Counter()
        self._socket = socket
        self._project = project
        self._process = process
        lay_out(project)

    async def be_a_window(self, seed: int, is_over: Callable[[], bool]) -> None:
        """Open windows of an editor one after another, each with sessions of many acts."""
        rng = random.Random(seed)
        while not is_over():
            async with self._window() as client:
                for _ in range(rng.randint(1, 3)):
                    async with full_disks_forgiven():
                        await self._work(client, rng)

    async def be_a_panel(self, seed: int, is_over: Callable[[], bool]) -> None:
        """Be an agent panel after another: prompts over ACP, one of them cancelled."""
        rng = random.Random(seed)
        while not is_over():
            async with self._timed("panel"), RawClient.connect(self._socket, lines=True) as panel:
                new = await panel.request("session/new", {"cwd": str(self._project), "mcpServers": []})
                if "error" in new and new["error"]["data"]["kind"] == "storeUnavailable":
                    continue
                sid = new["result"]["sessionId"]
                for words in (*rng.sample(PROMPTS, 2), "hang"):
                    prompt = [{"type": "text", "text": words}]
                    turn = asyncio.ensure_future(
                        panel.request("session/prompt", {"sessionId": sid, "prompt": prompt})
                    )
                    if words == "hang":
                        await panel.request("_sidecar/queue/list", {"sid": sid})
                        panel.send({"method": "session/cancel", "params": {"sessionId": sid}})
                    await turn
                await panel.request("_sidecar/session/delete", {"sid": sid})

    async def be_accident_prone(self, seed: int, is_over: Callable[[], bool]) -> None:
        """Let one accident follow the other."""
        rng = random.Random(seed)
        accidents = (self.die, self.fall_silent, self.knock, self.fill_the_disk, self.raise_a_storm)
        while not is_over():
            for accident in accidents:
                async with self._timed(accident.__name__), self._window() as client:
                    await accident(client, rng)

    def describe(self) -> str:
        """Return the number of each act, in one line."""
        return ", ".join(f"{name} {n}" for name, n in sorted(self.n_acts.items()))

    # Accidents.

    async def die(self, client: SidecarClient, rng: random.Random) -> None:
        """A client dies in the middle of a turn, of a message, or right after its request."""
        async with RawClient.connect(self._socket) as dying:
            new = await dying.request("sidecar/session/new", {"cwd": str(self._project)})
            sid = new["result"]["sid"]
            hang = {"sid": sid, "input": [{"type": "text", "text": "hang"}]}
            await dying.request("sidecar/turn/start", hang)
            dying.send({"id": "last", "method": "sidecar/turn/run", "params": hang})
        await client.attach(sid, mode="control")
        await client.turn_interrupt(sid, queue="drop")
        await client.session_delete(sid, force=True)  # the daemon may not know yet that the other has died

    async def fall_silent(self, client: SidecarClient, rng: random.Random) -> None:
        """A client that follows a session reads nothing more while others work, and then goes."""
        async with self._session(client, rng) as session, RawClient.connect(self._socket) as deaf:
            await deaf.request("sidecar/attach", {"sid": session.sid, "mode": "observe"})
            await deaf.stop_reading()
            for number in range(200):
                deaf.send({"id": f"d{number}", "method": "sidecar/schema", "params": {}})
            for _ in range(3):
                await session.run("talk at length")

    async def knock(self, client: SidecarClient, rng: random.Random) -> None:
        """Strangers connect and say nothing, or nonsense, and go."""
        for said in (b"", b"\x00" * 100, b"Content-Length: 99\r\n\r\n{", b"{\n", b"GET / HTTP/1.1\r\n\r\n"):
            _, writer = await asyncio.open_unix_connection(str(self._socket))
            writer.write(said)
            await client.status()
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def fill_the_disk(self, client: SidecarClient, rng: random.Random) -> None:
        """No file can grow beyond a few kilobytes for a while. Turns may fail, and later ones work again."""
        async with self._session(client, rng) as session:
            await session.run("talk at length")
            limits = self._process.rlimit(resource.RLIMIT_FSIZE)
            self._process.rlimit(resource.RLIMIT_FSIZE, (_SMALL_FILE_BYTES, limits[1]))
            try:
                for words in rng.sample(PROMPTS, 3):
                    with suppress(SidecarRequestError):
                        await session.run(words)
                with suppress(SidecarRequestError):
                    await session.compact()
                unstored = await client.start_session(self._project)
            finally:
                self._process.rlimit(resource.RLIMIT_FSIZE, limits)
            await client.session_delete(unstored.sid)
            answer = (await session.run("talk at length")).text
            assert "Sentence 39" in answer
            await client.session_close(session.sid)
            await client.session_load(session.sid)
            nodes = (await client.session_read(session.sid)).nodes
            assert nodes[-1].blocks[0]["text"] == answer, "the answer after the full disk is not stored"

    async def raise_a_storm(self, client: SidecarClient, rng: random.Random) -> None:
        """A build writes and removes hundreds of files in the watched folder."""
        storm = self._project / "storm"
        async with self._session(client, rng) as session:
            await session.run("read a.py")
            storm.mkdir(exist_ok=True)
            for number in range(_STORM_FILES):
                (storm / f"{number}.py").write_text(f"x = {number}\n")
            await client.context_files(session.sid)
            for file in storm.iterdir():
                file.unlink()
            storm.rmdir()
            await session.run("read a.py")

    # What a user does in a session.

    async def ask(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Send a prompt and wait for the answer."""
        await session.run(rng.choice(PROMPTS))

    async def follow(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Send a prompt and read its events."""
        async for _ in session.stream(rng.choice(PROMPTS)):
            pass

    async def fail(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Ask a model that refuses."""
        with suppress(SidecarRequestError):
            await session.run("refuse")

    async def hang(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Ask a model that hangs, with prompts behind it, and interrupt it, at once or when it has begun."""
        started = await session.prompt("hang")
        await client.turn_start(session.sid, ({"type": "text", "text": "read a.py"},))
        left: Literal["keep", "drop"] = "drop"
        if rng.random() < 0.5:
            left = "keep" if rng.random() < 0.5 else "drop"
            await wait_for_any(session, "textDelta", *ENDS, turn_id=started.turn_id)
            with suppress(SidecarRequestError):
                await client.turn_steer(
                    session.sid, input=({"type": "text", "text": "faster"},), expect_turn_id=started.turn_id
                )
        await client.queue_list(session.sid)
        await client.turn_interrupt(session.sid, queue=left)
        await wait_for_any(session, *ENDS, turn_id=started.turn_id)

    async def give_up(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Cancel the request of a turn."""
        turn = asyncio.ensure_future(session.run("hang"))
        await wait_for_any(session, "userMessage", *ENDS)
        turn.cancel()
        with suppress(asyncio.CancelledError, SidecarRequestError):
            await turn
        await client.turn_interrupt(session.sid, queue="drop")

    async def type(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Open a buffer, type, save it now and then, and close it."""
        path = self._project / f"typed{rng.randrange(5)}.py"
        text = "".join(f"line {n}\n" for n in range(200))
        await client.did_open(path, text, "python")
        for number in range(20):
            start = {"line": rng.randrange(200), "character": 0}
            change = {"range": {"start": start, "end": start}, "text": f"typed {number} "}
            await client.did_change(path, [change])
        await client.context_files(session.sid)
        path.write_text(text)
        await client.did_save(path)
        await client.did_close(path)

    async def save_elsewhere(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Another program changes a file that the model has read."""
        await session.run("read a.py")
        (self._project / "a.py").write_text(content(rng.randrange(1000, 9999)))
        await client.context_files(session.sid)

    async def compact(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Look at a compaction, run it, take it back."""
        await session.run("talk at length")
        await session.preview(rng.choice(ENGINES[:4]))
        outcome = await session.compact()
        for entry in (await client.compact_list(session.sid)).compactions[-1:]:
            await client.compact_read(session.sid, entry.compaction_id, part="summary")
        if outcome.status == "completed":
            with suppress(SidecarRequestError):
                await session.undo()

    async def stop_compacting(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Start a compaction and stop it."""
        started = await client.compact_start(session.sid)
        await client.compact_cancel(session.sid, started.compaction_id)

    async def fork(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Fork the session, go on in the fork, and delete it."""
        forked = Session(client, (await client.session_fork(session.sid)).sid, 0)
        async with full_disks_forgiven():
            await forked.run("read a.py")
        await client.session_delete(forked.sid)

    async def rewind(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Go back to an earlier node."""
        await session.run("talk at length")
        tree = await client.session_tree(session.sid)
        await client.session_rewind(session.sid, rng.choice(tree.nodes).id, None)

    async def look(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Read all that there is to read."""
        await session.usage()
        await session.files()
        await client.session_read(session.sid, view="full")
        await client.session_export(session.sid)
        await client.session_list(limit=10)
        await client.rehydrate_preview(session.sid)
        await client.log_tail()

    async def join(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """A second window follows the session for a while, from its first event."""
        async with self._window() as other:
            await other.attach(session.sid, mode=rng.choice(("observe", "control")), from_seq=0)
            events = other.events(session.sid, 0)
            await session.run(rng.choice(PROMPTS))
            async for event in events:
                if event.kind in ENDS:
                    break
            if rng.random() < 0.5:
                await other.detach(session.sid)

    async def reload(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Close the session and load it again, with its past."""
        await client.session_close(session.sid)
        is_loaded = False
        while not is_loaded:
            async with full_disks_forgiven():
                await client.session_load(session.sid, replay="full")
                is_loaded = True

    async def choose(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Change an option."""
        value = rng.choice(ENGINES)
        await client.session_set_config_option(session.sid, "engine", value)

    async def watch(self, client: SidecarClient, session: Session, rng: random.Random) -> None:
        """Watch a file, change it, and watch it no more."""
        watching = await client.fs_watch(session.sid, ("*.py",))
        (self._project / "watched.py").write_text(str(rng.random()))
        await client.fs_unwatch(watching.watch_id)

    async def _work(self, client: SidecarClient, rng: random.Random) -> None:
        """Do some acts in a new session."""
        async with self._session(client, rng) as session:
            for act in rng.choices(ACTS, k=rng.randint(5, 15)):
                try:
                    async with self._timed(act.__name__), full_disks_forgiven():
                        await act(self, client, session, rng)
                except AssertionError:
                    state = await client.attach(session.sid, from_seq=0)
                    print(state, await client.queue_list(session.sid))
                    raise

    @asynccontextmanager
    async def _session(self, client: SidecarClient, rng: random.Random) -> AsyncIterator[Session]:
        """A session of any engine, deleted in the end, or just closed."""
        knowledge = rng.choice(((), (), ("workspace",), ("workspace", "sessions")))
        new = await client.session_new(
            cwd=str(self._project), model="big", engine=rng.choice(ENGINES), knowledge=knowledge
        )
        yield Session(client, new.sid, new.seq)
        await client.turn_interrupt(new.sid, queue="drop")
        await (
            client.session_delete(new.sid, force=True)
            if rng.random() < 0.8
            else client.session_close(new.sid)
        )

    @asynccontextmanager
    async def _window(self) -> AsyncIterator[SidecarClient]:
        """A client that allows everything."""
        async with SidecarClient.connect(self._socket, permission=allow) as client:
            yield client

    @asynccontextmanager
    async def _timed(self, name: str) -> AsyncIterator[None]:
        """Count an act, and fail when it takes too long."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        except TimeoutError:
            raise AssertionError(f"{name!r} hangs, after {self.describe()}") from None
        self.n_acts[name] += 1


ACTS: Final[tuple[Act, ...]] = (
    *(EditorDay.ask, EditorDay.ask, EditorDay.ask, EditorDay.type, EditorDay.type, EditorDay.save_elsewhere),
    *(EditorDay.follow, EditorDay.fail, EditorDay.hang, EditorDay.give_up, EditorDay.compact),
    *(EditorDay.stop_compacting, EditorDay.fork, EditorDay.rewind, EditorDay.look, EditorDay.join),
    *(EditorDay.reload, EditorDay.choose, EditorDay.watch),
)


async def wait_for_any(session: Session, *kinds: str, turn_id: str | None = None) -> None:
    """Wait for the next event of one of *kinds*, of the turn *turn_id* alone if it is given."""
    await session.wait_for(where=lambda event: event.kind in kinds and turn_id in (None, event.turn_id))


@asynccontextmanager
async def full_disks_forgiven() -> AsyncIterator[None]:
    """Go on when the disk was full, as it is for others now and then."""
    try:
        yield
    except SidecarRequestError as error:
        if error.kind != "storeUnavailable":
            raise


def content(number: int) -> str:
    """Return the text of the file that the model edits."""
    return f"VALUE = {number}\n" + "".join(f"def f{n}(x):\n    return x + {n}\n\n" for n in range(30))


def lay_out(project: Path) -> None:
    """Write the files of the project."""
    project.mkdir()
    (project / "a.py").write_text(content(1000))
    for number in range(20):
        (project / f"module{number}.py").write_text(content(number))
