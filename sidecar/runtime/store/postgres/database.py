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
from typing import Final, TypeVar

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from sidecar.runtime.store.postgres.connection import OPTIONS, PATIENCE_S, PatientConnection
from sidecar.runtime.store.postgres.schema import NewerSchemaError, migrate

T = TypeVar("T")
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # each failure is told by whom it meets
_N_CONNECTIONS: Final = 4
_WAIT_S: Final = 5.0
_LOOK_S: Final = 0.5
"""How long a listener takes to see that it is over."""
_ASK_S: Final = 10.0
"""How often a listener asks whether the server is there; a connection that waits for notices is silent."""
_PATIENCE_WITH_IDLE_S: Final = 3.0
"""How long a connection that lay unused may take to prove that it works."""

_CHECK: Final = """
SELECT current_setting('server_version'), current_user::text,
       (SELECT count(*) FROM sidecar.sessions WHERE owner = sidecar.me() AND n_records > 0),
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
       current_setting('transaction_read_only')::boolean
"""


class DatabaseError(OSError):
    """The database failed or refused; *strerror* says why in words for a user."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)


class Database:
    """A database, reached when it is first needed. *conninfo* is a libpq connection string or address.

    Attributes:
        patience_s: how long the server may be silent before it is taken for gone.
    """

    def __init__(self, conninfo: str) -> None:
        self.patience_s = PATIENCE_S
        self._conninfo = conninfo
        self._opening = threading.Lock()
        self._pool: ConnectionPool[PatientConnection] | None = None

    def run(self, work: Callable[[PatientConnection], T], patience_s: float | None = None) -> T:
        """Return the result of *work*, in which each statement is committed that is in no transaction.

        *patience_s* overrides the patience of the database.

        Raises:
            DatabaseError: the last statement may or may not have been committed.
        """
        try:
            with self._ready().connection(timeout=_WAIT_S) as connection:
                connection.patience_s = patience_s or self.patience_s
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
        rows = self.run(lambda connection: connection.execute(_CHECK).fetchall())
        taken_ms = (time.perf_counter() - started) * 1000
        version, user, n_sessions, is_encrypted, is_standby = rows[0]
        noun = "session" if n_sessions == 1 else "sessions"
        tls = "encrypted by TLS" if is_encrypted else "not encrypted"
        told = f"PostgreSQL {version} as {user}, {n_sessions} {noun}, {tls}, connected in {taken_ms:.0f} ms"
        return f"{told}; it takes no changes, as a standby does not" if is_standby else told

    def listen(self, channel: str, on_notice: Callable[[str], None], is_over: threading.Event) -> None:
        """Call *on_notice* with the text of each notice on *channel*, until *is_over*.

        At first, and whenever notices may have been lost with a connection, it is called with an empty text.

        Raises:
            DatabaseError: the connection is lost, or there is none.
        """
        try:
            with PatientConnection.connect(self._conninfo, autocommit=True, **OPTIONS) as connection:
                connection.execute(f"LISTEN {channel}".encode())
                on_notice("")
                asked_at = time.monotonic()
                while not is_over.is_set():
                    for notice in connection.notifies(timeout=_LOOK_S):
                        on_notice(notice.payload)
                    if time.monotonic() - asked_at > _ASK_S:
                        check_connection(connection)
                        asked_at = time.monotonic()
        except psycopg.Error as error:
            raise DatabaseError(describe(error)) from error

    def close(self) -> None:
        """Close all connections."""
        with self._opening:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=5.0)

    def _ready(self) -> ConnectionPool[PatientConnection]:
        with self._opening:
            if self._pool is None:
                # One connection first: a pool would only say that it had waited.
                with PatientConnection.connect(self._conninfo, **OPTIONS) as connection:
                    migrate(connection)
                self._pool = ConnectionPool(
                    self._conninfo,
                    kwargs={"autocommit": True, **OPTIONS},
                    min_size=1,
                    max_size=_N_CONNECTIONS,
                    open=True,
                    connection_class=PatientConnection,
                    check=check_connection,
                )
            return self._pool


def check_connection(connection: PatientConnection) -> None:
    """Raise ``psycopg.Error`` unless the server answers soon."""
    connection.patience_s = _PATIENCE_WITH_IDLE_S
    ConnectionPool.check_connection(connection)


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
        return "the database took longer than a quarter of a minute"
    if isinstance(error, PoolTimeout) or error.sqlstate is None:
        return "the database does not answer"
    words = error.sqlstate
    with suppress(AttributeError):
        words = f"{error.diag.message_primary} ({error.sqlstate})"
    return f"the database refuses: {words}"
