"""The connections to one database. Most of this blocks; its callers use the threads of the database.

The threads are not shared with anything else, so that only the work with the database waits for it.

Messages for the user never have the password, nor any other part of the connection string.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import psycopg

from sidecar.runtime.store.postgres.connection import PATIENCE_S, DatabaseError, PatientConnection, describe
from sidecar.runtime.store.postgres.connections import Connections

T = TypeVar("T")
_N_THREADS: Final = 16

_CHECK: Final = """
SELECT current_setting('server_version'), current_user::text,
       (SELECT count(*) FROM sidecar.sessions WHERE owner = current_user::text AND n_records > 0),
       coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
       current_setting('transaction_read_only')::boolean
"""


class Database:
    """A database, reached when it is first needed. *conninfo* is a libpq connection string or address.

    Attributes:
        patience_s: how long the server may be silent before it is taken for gone.
    """

    def __init__(self, conninfo: str) -> None:
        self.patience_s = PATIENCE_S
        self._connections = Connections(conninfo)
        self._threads = ThreadPoolExecutor(_N_THREADS, "database")

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
            connection = self._connections.take()
            try:
                connection.patience_s = patience_s or self.patience_s
                return work(connection)
            finally:
                self._connections.give_back(connection)
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
        """Close the idle connections."""
        self._connections.close()
