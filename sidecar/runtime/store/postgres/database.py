"""The connections to one database. Everything here blocks; its callers use a worker thread.

Messages for the user never have the password, nor any other part of the connection string.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from sidecar.runtime.store.postgres.schema import NewerSchemaError, migrate

T = TypeVar("T")
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # each failure is told by whom it meets
_N_CONNECTIONS: Final = 4
_WAIT_S: Final = 5.0
_LOOK_S: Final = 0.5
"""How long a listener takes to see that it is over."""

_OPTIONS: Final[dict[str, Any]] = {
    "application_name": "sidecar",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "options": "-c statement_timeout=60000 -c idle_in_transaction_session_timeout=60000",
}


_CHECK: Final = """
SELECT current_setting('server_version'), current_user::text,
       (SELECT count(*) FROM sidecar.sessions WHERE owner = current_user AND n_records > 0),
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)
"""


class DatabaseError(OSError):
    """The database failed or refused; *strerror* says why in words for a user."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


class Database:
    """A database, reached when it is first needed. *conninfo* is a libpq connection string or address."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._opening = threading.Lock()
        self._pool: ConnectionPool[Connection[TupleRow]] | None = None

    def transact(self, work: Callable[[Connection[TupleRow]], T]) -> T:
        """Return the result of *work*, committed.

        Raises:
            DatabaseError: it may or may not have been committed.
        """
        try:
            with self._ready().connection(timeout=_WAIT_S) as connection:
                return work(connection)
        except NewerSchemaError as error:
            raise DatabaseError(str(error.strerror)) from error
        except psycopg.Error as error:
            raise DatabaseError(describe(error)) from error

    def check(self) -> str:
        """Return in words which server answers, how fast, and whether the connection is encrypted.

        Raises:
            DatabaseError: none answers, or it refuses.
        """
        started = time.perf_counter()
        rows = self.transact(lambda connection: connection.execute(_CHECK).fetchall())
        taken_ms = (time.perf_counter() - started) * 1000
        version, user, n_sessions, is_encrypted = rows[0]
        noun = "session" if n_sessions == 1 else "sessions"
        tls = "encrypted by TLS" if is_encrypted else "not encrypted"
        return f"PostgreSQL {version} as {user}, {n_sessions} {noun}, {tls}, connected in {taken_ms:.0f} ms"

    def listen(self, channel: str, on_notice: Callable[[str], None], is_over: threading.Event) -> None:
        """Call *on_notice* with the text of each notice on *channel*, until *is_over*.

        At first, and whenever notices may have been lost with a connection, it is called with an empty text.

        Raises:
            DatabaseError: the connection is lost, or there is none.
        """
        try:
            with psycopg.connect(self._conninfo, autocommit=True, **_OPTIONS) as connection:
                connection.execute(f"LISTEN {channel}".encode())
                on_notice("")
                while not is_over.is_set():
                    for notice in connection.notifies(timeout=_LOOK_S):
                        on_notice(notice.payload)
        except psycopg.Error as error:
            raise DatabaseError(describe(error)) from error

    def close(self) -> None:
        """Close all connections."""
        with self._opening:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=5.0)

    def _ready(self) -> ConnectionPool[Connection[TupleRow]]:
        with self._opening:
            if self._pool is None:
                # One connection first: a pool would only say that it had waited.
                with psycopg.connect(self._conninfo, **_OPTIONS) as connection:
                    migrate(connection)
                self._pool = ConnectionPool(
                    self._conninfo,
                    kwargs=_OPTIONS,
                    min_size=1,
                    max_size=_N_CONNECTIONS,
                    open=True,
                    check=ConnectionPool.check_connection,
                )
            return self._pool


def describe(error: psycopg.Error) -> str:
    """Return *error* in words, without the address and the user of the database.

    >>> describe(psycopg.OperationalError("connection to server at 10.0.0.1 failed"))
    'the database does not answer'
    """
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return "the database takes no changes now, as a standby does not"
    if isinstance(error, psycopg.errors.DiskFull):
        return "the disk of the database is full"
    if isinstance(error, psycopg.errors.QueryCanceled):
        return "the database took longer than a minute"
    if isinstance(error, PoolTimeout) or error.sqlstate is None:
        return "the database does not answer"
    words = error.sqlstate
    with suppress(AttributeError):
        words = f"{error.diag.message_primary} ({error.sqlstate})"
    return f"the database refuses: {words}"
