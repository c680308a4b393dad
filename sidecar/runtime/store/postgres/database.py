"""The connections to one database. Most of this blocks; its callers use the threads of the database.

The threads are not shared with anything else, so that only the work with the database waits for it.

A pool connects in the background, repeats that, and can only say that it had no connection in time. So where
it has none soon, one operation at a time connects directly: that fails with the true reason, or says that the
pool is only busy. A server that does not answer costs each such attempt some seconds, therefore a failure is
believed for as long as it took, and operations fail at once meanwhile.

Messages for the user never have the password, nor any other part of the connection string.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from sidecar.runtime.store.postgres.connection import (
    AWAY,
    OPTIONS,
    PATIENCE_S,
    DatabaseError,
    PatientConnection,
    describe,
)
from sidecar.runtime.store.postgres.schema import check_server, check_tables

T = TypeVar("T")
_N_THREADS: Final = 16
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # each failure is told by whom it meets
_N_CONNECTIONS: Final = 4
_WAIT_S: Final = 5.0
"""How long an operation waits until another one has given its connection back."""
_SOON_S: Final = 1.0
"""How long it waits for the pool alone; a failure that took less may be tried again at once."""
_PATIENCE_WITH_IDLE_S: Final = 3.0
"""How long a connection that lay unused may take to prove that it works."""

_CHECK: Final = """
SELECT current_setting('server_version'), current_user::text,
       (SELECT count(*) FROM sidecar.sessions WHERE owner = current_user::text AND n_records > 0),
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
       current_setting('transaction_read_only')::boolean
"""


class Database:
    """A database, reached when it is first needed. *conninfo* is a libpq connection string or address.

    The first connection checks its tables.

    Attributes:
        patience_s: how long the server may be silent before it is taken for gone.
    """

    def __init__(self, conninfo: str) -> None:
        self.patience_s = PATIENCE_S
        self._conninfo = conninfo
        self._threads = ThreadPoolExecutor(_N_THREADS, "database")
        self._pool: ConnectionPool[PatientConnection] | None = None
        self._trying = threading.Lock()
        self._tried_at = 0.0
        self._failure = ""
        self._believed_until = 0.0

    async def in_thread(self, work: Callable[..., T], *given: object) -> T:
        """Return the result of *work*, which blocks, in a thread of the database."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def run(self, work: Callable[[PatientConnection], T], patience_s: float | None = None) -> T:
        """Return the result of *work*, in which each statement is committed that is in no transaction.

        *patience_s* overrides the patience of the database.

        Raises:
            DatabaseError: the last statement may or may not have been committed.
        """
        try:
            connection = self.take()
            try:
                connection.patience_s = patience_s or self.patience_s
                return work(connection)
            finally:
                self.give_back(connection)
        except psycopg.Error as error:
            raise DatabaseError(describe(error)) from error

    def check(self) -> str:
        """Return in words which server answers, how fast, and whether the connection is encrypted.

        Raises:
            DatabaseError: none answers, or it refuses.
        """
        started = time.perf_counter()
        rows = self.run(lambda connection: connection.execute(_CHECK).fetchall())
        taken_ms = (time.perf_counter() - started) * 1000
        version, user, n_sessions, is_encrypted, is_standby = rows[0]
        noun = "session" if n_sessions == 1 else "sessions"
        tls = "encrypted by TLS" if is_encrypted else "not encrypted"
        told = f"PostgreSQL {version} as {user}, {n_sessions} {noun}, {tls}, connected in {taken_ms:.0f} ms"
        return f"{told}; it takes no changes, as a standby does not" if is_standby else told

    def close(self) -> None:
        """Close the connections; the next operation begins a new pool."""
        with self._trying:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=5.0)

    def take(self) -> PatientConnection:
        """Return a connection that works, to be given back.

        Raises:
            DatabaseError: there is none, or an attempt failed a moment ago.
        """
        if self._failure or self._pool is None:
            self._try_to_connect()
        for wait_s in (_SOON_S, _WAIT_S - _SOON_S):
            pool = self._pool
            if pool is None:  # it was closed
                break
            try:
                return pool.getconn(wait_s)
            except PoolTimeout:
                self._try_to_connect()
            except psycopg.OperationalError:  # it was closed
                break
        raise DatabaseError(AWAY)

    def give_back(self, connection: PatientConnection) -> None:
        """Keep *connection* for the next operation, unless it broke or its pool was closed."""
        try:
            if (pool := self._pool) is not None:
                pool.putconn(connection)
            else:
                connection.close()
        except ValueError:  # of an earlier pool
            connection.close()

    def _try_to_connect(self) -> None:
        """Raise DatabaseError unless the server answers, and has a pool for it then.

        The outcome of an attempt that ended meanwhile counts, and a failure as long as it is believed.
        """
        asked_at = time.monotonic()
        if not self._trying.acquire(timeout=_SOON_S if self._failure else _WAIT_S):
            raise DatabaseError(self._failure or AWAY)
        try:
            started = time.monotonic()
            if self._tried_at < asked_at and started >= self._believed_until:
                try:
                    with PatientConnection.connect(self._conninfo, autocommit=True, **OPTIONS) as connection:
                        if self._pool is None:
                            check_server(connection)
                            check_tables(connection)
                            self._pool = self._make_pool()
                    self._failure = ""
                except (psycopg.Error, DatabaseError) as error:
                    self._failure = describe(error) if isinstance(error, psycopg.Error) else error.why
                    taken_s = time.monotonic() - started
                    self._believed_until = started + 2 * taken_s if taken_s > _SOON_S else started
                    raise DatabaseError(self._failure) from error
                finally:
                    self._tried_at = time.monotonic()
            if self._failure:
                raise DatabaseError(self._failure)
        finally:
            self._trying.release()

    def _make_pool(self) -> ConnectionPool[PatientConnection]:
        return ConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True, **OPTIONS},
            min_size=1,
            max_size=_N_CONNECTIONS,
            open=True,
            connection_class=PatientConnection,
            check=check_connection,
            reconnect_timeout=_SOON_S,  # its pauses grow to minutes, and the next operation begins anew
        )


def check_connection(connection: PatientConnection) -> None:
    """Raise ``psycopg.Error`` unless the server answers soon."""
    connection.patience_s = _PATIENCE_WITH_IDLE_S
    ConnectionPool.check_connection(connection)
