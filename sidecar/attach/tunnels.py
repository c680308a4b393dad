"""Byte streams between two daemons, through the database that they share.

A guest opens a tunnel to the daemon that has a session open. Each write of an end is a row, and a notice
wakes the other end, which takes its rows in order and removes them: the rows are the truth, and a notice that
is lost costs time and nothing else. An end with no sign of life for half a minute is taken for gone, and a
tunnel without its row is closed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import uuid4

from sidecar._internal.errors import log_fault
from sidecar._internal.values import Value
from sidecar.runtime.store.postgres.connection import DatabaseError
from sidecar.runtime.store.postgres.database import Database
from sidecar.runtime.store.postgres.store import PostgresStore
from sidecar.transport.streams import ByteStream, StreamBase

_BEAT_S: Final = 10.0
_GONE_S: Final = 30.0
_AGAIN_S: Final = 1.0

_OPEN: Final = """
INSERT INTO sidecar.tunnels (id, host, guest, guest_name, wire) VALUES (%s, %s, %s, %s, %s)
"""
_FIND: Final = """
SELECT guest, guest_name, wire FROM sidecar.tunnels WHERE owner = current_user::text AND id = %s AND host = %s
"""
_WAITING: Final = "SELECT id FROM sidecar.tunnels WHERE owner = current_user::text AND host = %s"
_SEND: Final = """
INSERT INTO sidecar.chunks (tunnel, to_host, n, body) VALUES (%s, %s, %s, %s)
"""
_TAKE: Final = """
DELETE FROM sidecar.chunks WHERE owner = current_user::text AND tunnel = %s AND to_host = %s RETURNING n, body
"""
_IS_OPEN: Final = "SELECT FROM sidecar.tunnels WHERE owner = current_user::text AND id = %s"
_CLOSE: Final = "DELETE FROM sidecar.tunnels WHERE owner = current_user::text AND id = %s"
_NOTIFY: Final = "SELECT pg_notify(%s, %s)"
_BEAT: Final = """
WITH ended_at_both_ends AS (
  DELETE FROM sidecar.tunnels
  WHERE owner = current_user::text
    AND greatest(host_seen_at, guest_seen_at) < clock_timestamp() - 2 * %(gone_s)s * interval '1 s'
)
UPDATE sidecar.tunnels
SET host_seen_at = CASE WHEN host = %(daemon)s THEN clock_timestamp() ELSE host_seen_at END,
    guest_seen_at = CASE WHEN guest = %(daemon)s THEN clock_timestamp() ELSE guest_seen_at END
WHERE owner = current_user::text AND id = ANY(%(ids)s)
RETURNING id, least(host_seen_at, guest_seen_at) < clock_timestamp() - %(gone_s)s * interval '1 s'
"""


class Guest(Value):
    """Another daemon that opened a tunnel, for a client of the *name*; *wire* is the protocol it speaks."""

    name: str
    wire: str


def channel_of(daemon: str) -> str:
    """Return the channel of the notices for *daemon*."""
    return f"sidecar_{daemon}"


class TunnelStream(StreamBase):
    """One end of the tunnel *tunnel_id*; *channel* is where the other end listens."""

    def __init__(self, tunnels: Tunnels, tunnel_id: str, channel: str, *, is_host: bool) -> None:
        super().__init__()
        self._tunnels = tunnels
        self._id = tunnel_id
        self._channel = channel
        self._is_host = is_host
        self._n_sent = 0
        self._sending: asyncio.Task[None] | None = None
        self._taking: asyncio.Task[None] | None = None
        self._is_paused = False
        self._has_news = False

    @property
    def has_room(self) -> bool:
        """Whether everything written so far is stored."""
        return self._sending is None and not self._is_lost

    def write(self, data: bytes) -> None:
        """Store *data* for the other end."""
        if not self._is_lost:
            self._sending = asyncio.ensure_future(self._send(bytes(data)))

    def pause_reading(self) -> None:
        """Leave the rows that come in the database."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Take the rows that have come."""
        self._is_paused = False
        self.take()

    def take(self) -> None:
        """Pass on the rows that have come, now or once the reader resumes."""
        self._has_news = True
        if not self._is_paused and self._taking is None and not self._is_ended:
            self._taking = asyncio.ensure_future(self._take())

    def end(self) -> None:
        """Record that the other end is gone."""
        self._end(is_lost=True)

    def close(self) -> None:
        """Close both ends."""
        self._end(is_lost=True)
        self._tunnels.forget(self._id, self._channel)

    async def _send(self, data: bytes) -> None:
        self._n_sent += 1
        row = (self._id, not self._is_host, self._n_sent, data)
        try:
            await self._tunnels.execute((_SEND, row), (_NOTIFY, (self._channel, self._id)))
        except DatabaseError:  # the tunnel is closed, or the database is away
            self.close()
            return
        self._sending = None
        if self._receiver is not None:
            self._receiver.on_writable()

    async def _take(self) -> None:
        try:
            while self._has_news and not self._is_paused and not self._is_ended:
                self._has_news = False
                rows, is_open = await self._tunnels.take(self._id, to_host=self._is_host)
                for _, body in sorted(rows):
                    self._deliver(body)
                if not is_open:
                    self.end()
        except DatabaseError:
            self.close()
        finally:
            self._taking = None


class Tunnels:
    """The tunnels of this daemon.

    Attributes:
        on_guest: called with the end of a tunnel that another daemon opened to this one.
    """

    def __init__(self, store: PostgresStore, wire: str) -> None:
        self.on_guest: Callable[[ByteStream, Guest], None] | None = None
        self._store = store
        self._database: Database = store.database
        self._wire = wire
        self._streams: dict[str, TunnelStream] = {}
        self._is_over = threading.Event()
        self._listening: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._work: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Listen for guests; a second call does nothing."""
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._listen(asyncio.get_running_loop()))
            self._beating = asyncio.ensure_future(self._beat())

    async def open(self, session_id: str, name: str) -> ByteStream | None:
        """Return a tunnel to the daemon that has *session_id* open, for the client *name*; None for none.

        Raises:
            StoreUnavailable: the database does not answer.
        """
        host = await self._store.daemon_with(session_id)
        if host is None:
            return None
        self.start()
        tunnel_id, channel = uuid4().hex, channel_of(host)
        stream = TunnelStream(self, tunnel_id, channel, is_host=False)
        row = (tunnel_id, host, self._store.daemon, name, self._wire)
        try:
            await self.execute((_OPEN, row), (_NOTIFY, (channel, tunnel_id)))
        except DatabaseError:
            stream.end()
            return stream
        # Not before: a tunnel without its row is closed.
        self._streams[tunnel_id] = stream
        stream.take()
        return stream

    async def aclose(self) -> None:
        """Close every tunnel, and stop listening."""
        self._is_over.set()
        for stream in tuple(self._streams.values()):
            stream.close()
        tasks = [task for task in (self._listening, self._beating) if task is not None]
        if self._beating is not None:
            self._beating.cancel()
        await asyncio.gather(*tasks, *self._work, return_exceptions=True)

    async def execute(self, *statements: tuple[str, tuple[object, ...]]) -> None:
        """Execute *statements* one after another. Raises DatabaseError."""
        await self._database.in_thread(
            self._database.run,
            lambda connection: [connection.execute(text.encode(), values) for text, values in statements],
        )

    async def take(self, tunnel_id: str, *, to_host: bool) -> tuple[list[tuple[int, bytes]], bool]:
        """Return the rows for one end, which are removed, and whether the tunnel is open."""
        return await self._database.in_thread(
            self._database.run,
            lambda connection: (
                [(n, bytes(body)) for n, body in connection.execute(_TAKE, (tunnel_id, to_host)).fetchall()],
                connection.execute(_IS_OPEN, (tunnel_id,)).fetchone() is not None,
            ),
        )

    def forget(self, tunnel_id: str, channel: str) -> None:
        """Remove a tunnel, and wake its other end."""
        if self._streams.pop(tunnel_id, None) is not None:
            self._begin(self.execute((_CLOSE, (tunnel_id,)), (_NOTIFY, (channel, tunnel_id))))

    def _begin(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await work
            except DatabaseError:
                return  # the other end sees that nothing more is heard
            except Exception as error:
                log_fault("a tunnel", error)

        task = asyncio.ensure_future(run())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        def pass_on(text: str) -> None:
            loop.call_soon_threadsafe(self._on_notice, text)

        while not self._is_over.is_set():
            try:
                channel = channel_of(self._store.daemon)
                await self._database.in_thread(self._database.listen, channel, pass_on, self._is_over)
            except DatabaseError:
                await asyncio.sleep(_AGAIN_S)

    def _on_notice(self, tunnel_id: str) -> None:
        if tunnel_id in self._streams:
            self._streams[tunnel_id].take()
        elif tunnel_id:
            self._begin(self._accept(tunnel_id))
        else:
            for stream in self._streams.values():
                stream.take()
            self._begin(self.accept_waiting())

    async def accept_waiting(self) -> None:
        """Accept the tunnels that were opened while no notice could come."""
        daemon = self._store.daemon
        rows = await self._database.in_thread(
            self._database.run, lambda connection: connection.execute(_WAITING, (daemon,)).fetchall()
        )
        for (tunnel_id,) in rows:
            await self._accept(tunnel_id)

    async def _accept(self, tunnel_id: str) -> None:
        key = (tunnel_id, self._store.daemon)
        rows = await self._database.in_thread(
            self._database.run, lambda connection: connection.execute(_FIND, key).fetchall()
        )
        if rows and tunnel_id not in self._streams and self.on_guest is not None:
            guest, name, wire = rows[0]
            stream = TunnelStream(self, tunnel_id, channel_of(guest), is_host=True)
            self._streams[tunnel_id] = stream
            self.on_guest(stream, Guest(name, wire))
            stream.take()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            ids = [*self._streams]
            try:
                alive = await self._database.in_thread(self.keep_alive, ids)
            except DatabaseError:
                continue
            for tunnel_id in ids:
                if tunnel_id not in alive and tunnel_id in self._streams:
                    self._streams[tunnel_id].close()

    def keep_alive(self, ids: list[str]) -> set[str]:
        """Report this end of the tunnels *ids* alive, and return those with another end that is, too.

        The tunnels of which both ends died are removed.
        """
        values = {"daemon": self._store.daemon, "ids": ids, "gone_s": _GONE_S}
        rows = self._database.run(lambda connection: connection.execute(_BEAT, values).fetchall())
        return {tunnel_id for tunnel_id, is_gone in rows if not is_gone}
