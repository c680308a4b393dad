"""One writer a session, over machines: leases with fencing tokens, which an idle holder hands over.

A lease is taken for half a minute and kept by a heartbeat. The clock is the database's own, so clocks that
differ between machines mean nothing. Every taking draws a new token, and every write names the token of its
lease: a daemon that was thought dead, and wakes up after another one took over, writes nothing. It learns of
the loss from the refused write or the next heartbeat, whichever comes first. The lease of a process that died
on this machine is taken over at once.

A daemon that wants the session of a living one on another machine writes its name beside the lease. The
holder finds it with its next heartbeat. If the session is idle, it closes it, which frees the lease. Else it
removes the name, which is a refusal. Nothing else passes between daemons.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias
from uuid import getnode, uuid4

import msgspec
import psutil
from psycopg.rows import TupleRow

from sidecar.runtime.store.errors import SessionLockedError, StoreUnavailable, TakenOverError
from sidecar.runtime.store.postgres.connection import DatabaseError
from sidecar.runtime.store.postgres.database import Database

LEASE_S: Final = 30.0
_BEATS: Final = 3
"""Heartbeats in the time of a lease."""
_LOOK_S: Final = 0.25
"""How often a daemon that wants a session looks whether it is free."""
_HANDOVER_BEATS: Final = 1.5
"""How many heartbeats it waits: the holder closes the session after the first one."""

LostHandler: TypeAlias = Callable[[str, str], None]
"""Called on the event loop with a session id and the daemon that has taken it over. It must not raise."""

WantedHandler: TypeAlias = Callable[[str, str], bool]
"""Called on the event loop with a session id and a daemon that wants it. It must not raise.

It returns whether the session is being closed for that, which releases the lease.
"""

_TAKE: Final = """
INSERT INTO sidecar.sessions AS s (id, lease_token, lease_holder, leased_until)
VALUES (%(id)s, nextval('sidecar.lease_tokens'), %(holder)s,
        clock_timestamp() + %(seconds)s * interval '1 s')
ON CONFLICT (owner, id) DO UPDATE
SET lease_token = excluded.lease_token, lease_holder = excluded.lease_holder,
    leased_until = excluded.leased_until, wanted_by = ''
WHERE s.leased_until < clock_timestamp() OR s.lease_holder = %(dead)s
RETURNING lease_token, n_records
"""
_HOLDER: Final = """
SELECT lease_holder, wanted_by FROM sidecar.sessions WHERE owner = current_user::text AND id = %s
"""
_WANT: Final = """
UPDATE sidecar.sessions SET wanted_by = %s WHERE owner = current_user::text AND id = %s AND lease_holder = %s
"""
_REFUSE: Final = """
UPDATE sidecar.sessions SET wanted_by = ''
WHERE owner = current_user::text AND id = %s AND lease_token = %s AND wanted_by = %s
"""
_KEEP: Final = """
UPDATE sidecar.sessions AS s SET leased_until = clock_timestamp() + %s * interval '1 s'
FROM unnest(%s::text[], %s::bigint[]) AS mine(id, token)
WHERE s.owner = current_user::text AND s.id = mine.id AND s.lease_token = mine.token
RETURNING s.id, s.wanted_by
"""
_RELEASE: Final = """
UPDATE sidecar.sessions SET leased_until = '-infinity', lease_holder = ''
WHERE owner = current_user::text AND id = %s AND lease_token = %s
"""
_DROP_EMPTY: Final = """
DELETE FROM sidecar.sessions
WHERE owner = current_user::text AND id = %s AND lease_token = %s AND n_records = 0
"""


class Lease:
    """The right to write one session; *n_records* is how many records it had."""

    def __init__(self, session_id: str, token: int, n_records: int, release: Callable[[Lease], None]) -> None:
        self.session_id = session_id
        self.token = token
        self.n_records = n_records
        self._release = release

    def release(self) -> None:
        """Let another daemon have it; a second call does nothing."""
        self._release(self)


class Leases:
    """The leases of this daemon, and their heartbeat.

    Attributes:
        on_lost: called once for each lease that another daemon took over.
        on_wanted: called when a daemon on another machine wants one.
    """

    def __init__(self, database: Database, seconds: float = LEASE_S) -> None:
        self.on_lost: LostHandler | None = None
        self.on_wanted: WantedHandler | None = None
        self._database = database
        self._seconds = seconds
        self._holder = describe_self()
        self._held: dict[str, Lease] = {}
        self._taking: set[str] = set()
        self._choosing = threading.Lock()
        self._heart: asyncio.Task[None] | None = None
        self._releasing: dict[str, asyncio.Task[None]] = {}

    def find(self, session_id: str) -> Lease | None:
        """Return the lease of *session_id*, None when this daemon has none."""
        return self._held.get(session_id)

    async def take(self, session_id: str) -> Lease:
        """Take the lease of *session_id*; one that has run out is taken over.

        Raises:
            SessionLockedError: another daemon, or another holder here, has it.
            StoreUnavailable: the database does not answer.
        """
        await self.wait_free(session_id)
        lease = await self._database.in_thread(self.take_now, session_id)
        self.start_heart()
        return lease

    async def take_over(self, session_id: str) -> Lease:
        """Take the lease of *session_id*; a living holder on another machine is asked for it first.

        Raises:
            SessionLockedError: the session is at work there, or its holder is on this machine.
            StoreUnavailable: the database does not answer.
        """
        try:
            return await self.take(session_id)
        except SessionLockedError as error:
            if error.pid is not None:
                raise
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HANDOVER_BEATS * self._seconds / _BEATS
        try:
            holder, _ = await self._database.in_thread(self.find_holder, session_id)
            key = (self._holder, session_id, holder)
            await self._database.in_thread(self._database.run, lambda each: each.execute(_WANT, key))
            while True:
                try:
                    return await self.take(session_id)
                except SessionLockedError:
                    _, wanted_by = await self._database.in_thread(self.find_holder, session_id)
                    if wanted_by != self._holder or loop.time() > deadline:
                        raise
                await asyncio.sleep(_LOOK_S)
        except DatabaseError as error:
            raise StoreUnavailable(session_id, error) from error

    def start_heart(self) -> None:
        """Keep the leases, unless that is done already. On the event loop."""
        if self._heart is None or self._heart.done():
            self._heart = asyncio.create_task(self._beat())

    def take_now(self, session_id: str) -> Lease:
        """Take the lease as :meth:`take`, but block; the caller starts the heartbeat."""
        with self._choosing:
            if session_id in self._held or session_id in self._taking:
                raise SessionLockedError(session_id, os.getpid(), name_of(self._holder))
            self._taking.add(session_id)
        try:
            row, holder = self._try_to_take(session_id, dead="")
            # Ours, and not held here: the answer to a taking or a release was lost.
            if row is None and (holder == self._holder or is_dead_here(holder, self._holder)):
                row, holder = self._try_to_take(session_id, dead=holder)
            if row is None:
                raise SessionLockedError(session_id, pid_of(holder, self._holder), name_of(holder))
            lease = self._held[session_id] = Lease(session_id, int(row[0]), int(row[1]), self._let_go)
            return lease
        except DatabaseError as error:
            raise StoreUnavailable(session_id, error) from error
        finally:
            self._taking.discard(session_id)

    def take_late(self, session_id: str) -> Lease:
        """Take the lease for the first write of a session that began while the database was away. Blocks.

        Raises:
            TakenOverError: another daemon has it.
            DatabaseError: the database does not answer.
        """
        try:
            return self.take_now(session_id)
        except SessionLockedError as error:
            raise TakenOverError(error.writer) from error
        except StoreUnavailable as error:
            raise DatabaseError(error.reason) from error

    def lose(self, lease: Lease, holder: str) -> None:
        """Give *lease* up, which *holder* has now. On the event loop."""
        if self._held.get(lease.session_id) is lease:
            del self._held[lease.session_id]
            if self.on_lost is not None:
                self.on_lost(lease.session_id, holder)

    async def wait_free(self, session_id: str) -> None:
        """Return once the released lease of *session_id* is free in the database."""
        if session_id in self._releasing:
            await asyncio.wait([self._releasing[session_id]])

    async def settle(self) -> None:
        """Wait until the released leases are free."""
        if self._releasing:
            await asyncio.wait(self._releasing.values())
        if not self._held and self._heart is not None:
            self._heart.cancel()
            self._heart = None

    def _try_to_take(self, session_id: str, dead: str) -> tuple[TupleRow | None, str]:
        """Return the token and count of the new lease, or None for a lease of another, and its holder."""
        values = {"id": session_id, "holder": self._holder, "seconds": self._seconds, "dead": dead}
        row = self._database.run(lambda connection: connection.execute(_TAKE, values).fetchone())
        return row, self._holder if row is not None else self.find_holder(session_id)[0]

    def _let_go(self, lease: Lease) -> None:
        if self._held.get(lease.session_id) is not lease:
            return
        del self._held[lease.session_id]
        task = asyncio.create_task(self._database.in_thread(self._free, lease))
        self._releasing[lease.session_id] = task
        task.add_done_callback(lambda _: self._releasing.pop(lease.session_id, None))

    def _free(self, lease: Lease) -> None:
        key = (lease.session_id, lease.token)
        # Without an answer the lease runs out by itself.
        with suppress(DatabaseError):
            self._database.run(
                lambda connection: [connection.execute(each, key) for each in (_DROP_EMPTY, _RELEASE)]
            )

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        due_at, pause_s = loop.time(), self._seconds / _BEATS
        while self._held:
            # After one that took longer than its time the next follows at once: the lease runs out meanwhile.
            due_at = max(due_at + pause_s, loop.time())
            await asyncio.sleep(due_at - loop.time())
            leases = tuple(self._held.values())
            try:
                kept = await self._database.in_thread(self.keep, leases)
                for lease in leases:
                    if self._held.get(lease.session_id) is lease:
                        await self.keep_or_give_up(lease, kept.get(lease.session_id))
                pause_s = self._seconds / _BEATS
            except DatabaseError:  # the token still guards every write
                pause_s = self._seconds / _BEATS / 10

    async def keep_or_give_up(self, lease: Lease, wanted_by: str | None) -> None:
        """Give *lease* up where it is lost, or hand it over; *wanted_by* is None for a lost one."""
        if wanted_by is None:
            holder, _ = await self._database.in_thread(self.find_holder, lease.session_id)
            self.lose(lease, name_of(holder))
            return
        if not wanted_by or (self.on_wanted and self.on_wanted(lease.session_id, name_of(wanted_by))):
            return
        key = (lease.session_id, lease.token, wanted_by)
        await self._database.in_thread(self._database.run, lambda each: each.execute(_REFUSE, key))

    def keep(self, leases: tuple[Lease, ...]) -> dict[str, str]:
        """Prolong *leases*, and return the daemon that wants it for each session of ours, or "". Blocks."""
        ids, tokens = [each.session_id for each in leases], [each.token for each in leases]
        rows = self._database.run(
            lambda connection: connection.execute(_KEEP, (self._seconds, ids, tokens)).fetchall(),
            patience_s=self._seconds / _BEATS / 2,
        )
        return {row[0]: row[1] for row in rows}

    def find_holder(self, session_id: str) -> tuple[str, str]:
        """Return the stored holder of a lease, and the daemon that wants it, or empty names. Blocks.

        Raises:
            DatabaseError: the database does not answer.
        """
        rows = self._database.run(lambda connection: connection.execute(_HOLDER, (session_id,)).fetchall())
        return (str(rows[0][0]), str(rows[0][1])) if rows else ("", "")


class _Holder(msgspec.Struct, frozen=True):
    """A process as it is stored. *machine* tells machines and containers apart where their names do not.

    *daemon* tells the stores of one process apart.
    """

    host: str
    pid: int
    started: float
    machine: str
    daemon: str = ""


def describe_self() -> str:
    """Return this process as the holder of leases, another one each time."""
    machine = f"{getnode():x} {int(psutil.boot_time())}"
    if sys.platform == "linux":  # where a container may have the name and the address of another one
        with suppress(OSError):
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
            machine = f"{boot.strip()} {os.readlink('/proc/self/ns/pid')}"
    own = psutil.Process()
    return msgspec.json.encode(
        _Holder(platform.node()[:100], own.pid, start_of(own), machine, uuid4().hex)
    ).decode()


def start_of(process: psutil.Process) -> float:
    """Return when *process* started, in seconds that stay the same when the clock of the machine is set."""
    # Linux counts from the boot, whose time moves with the clock.
    return process.create_time() - (psutil.boot_time() if sys.platform == "linux" else 0.0)


def _parse(holder: str) -> _Holder | None:
    try:
        return msgspec.json.decode(holder, type=_Holder)
    except ValueError:
        return None


def name_of(holder: str) -> str:
    """Return the stored *holder* of a lease in words.

    >>> name_of('{"host":"box","pid":7,"started":1.5,"machine":"m"}')
    'process 7 on box'
    >>> name_of("")
    'another daemon'
    """
    found = _parse(holder)
    return "another daemon" if found is None else f"process {found.pid} on {found.host}"


def host_of(holder: str) -> tuple[str, int | None]:
    """Return the machine and the process of the stored *holder*; an empty name where it cannot be read."""
    found = _parse(holder)
    return ("", None) if found is None else (found.host, found.pid)


def pid_of(holder: str, own: str) -> int | None:
    """Return the process of *holder*, if it is on the machine of *own*; None where that is not known."""
    found, here = _parse(holder), _parse(own)
    return found.pid if found is not None and here is not None and found.machine == here.machine else None


def is_dead_here(holder: str, own: str) -> bool:
    """Whether *holder* was a process on the machine of *own* that has ended."""
    found, pid = _parse(holder), pid_of(holder, own)
    if found is None or pid is None:
        return False
    try:
        return abs(start_of(psutil.Process(pid)) - found.started) > 1
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
