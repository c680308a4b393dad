"""The connections to one database, which are lent to operations.

An operation takes a connection that lies idle, and looks whether it still works, or makes one. A server that
does not answer costs each attempt some seconds, so a failed attempt is believed for as long as it took:
meanwhile operations fail at once, and one at a time tries again. Everything here blocks, in any thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Final

import psycopg
from psycopg.pq import TransactionStatus

from sidecar.runtime.store.postgres.connection import (
    AWAY,
    OPTIONS,
    DatabaseError,
    PatientConnection,
    describe,
)
from sidecar.runtime.store.postgres.schema import check_server, migrate

_N_CONNECTIONS: Final = 4
_WAIT_S: Final = 5.0
"""How long an operation waits until another one has given its connection back."""
_SOON_S: Final = 1.0
"""A failure that took less may be tried again at once."""
_UNUSED_S: Final = 60.0
"""How long a connection may lie unused beside another one."""
_PATIENCE_WITH_IDLE_S: Final = 3.0
"""How long a connection that lay unused may take to prove that it works."""


class Connections:
    """The connections to the database *conninfo*. The first one brings its tables to the newest version."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._slots = threading.BoundedSemaphore(_N_CONNECTIONS)
        self._idle: list[tuple[PatientConnection, float]] = []
        self._is_migrated = False
        self._trying = threading.Lock()
        self._failure = ""
        self._believed_until = 0.0
        self._keeps_idle = True

    def take(self) -> PatientConnection:
        """Return a connection that works, to be given back.

        Raises:
            DatabaseError, psycopg.Error: none can be made, or an attempt failed a moment ago.
        """
        if not self._slots.acquire(timeout=_WAIT_S):
            raise DatabaseError(AWAY)
        try:
            with suppress(IndexError):
                connection, _ = self._idle.pop()
                try:
                    check_connection(connection)
                except psycopg.Error:
                    connection.close()
                    self._drop_idle()  # the others have met the same
                else:
                    return connection
            if not self._failure:
                return self._open()
            if not self._trying.acquire(timeout=_SOON_S):
                raise DatabaseError(self._failure or AWAY)
            try:
                if time.monotonic() < self._believed_until:
                    raise DatabaseError(self._failure)
                return self._open()
            finally:
                self._trying.release()
        except BaseException:
            self._slots.release()
            raise

    def give_back(self, connection: PatientConnection) -> None:
        """Keep *connection* for the next operation unless it broke, and close the ones that lie unused."""
        now = time.monotonic()
        is_idle = connection.info.transaction_status is TransactionStatus.IDLE
        if is_idle and not connection.closed and self._keeps_idle:
            self._idle.append((connection, now))
        else:
            connection.close()
        while len(self._idle) > 1 and self._idle[0][1] < now - _UNUSED_S:
            with suppress(IndexError):  # another thread took it
                self._idle.pop(0)[0].close()
        self._slots.release()

    def connect(self) -> PatientConnection:
        """Return a connection that is not lent. Raises psycopg.Error."""
        return PatientConnection.connect(self._conninfo, autocommit=True, **OPTIONS)

    def close(self) -> None:
        """Close the idle connections, and each that is given back."""
        self._keeps_idle = False
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop()[0].close()

    def _open(self) -> PatientConnection:
        """Return a new connection to a database with all tables, and note a failure."""
        started = time.monotonic()
        try:
            connection = self.connect()
            if not self._is_migrated:
                try:
                    check_server(connection)
                    migrate(connection)
                except BaseException:
                    connection.close()
                    raise
                self._is_migrated = True
        except (psycopg.Error, DatabaseError) as error:
            now = time.monotonic()
            self._failure = describe(error) if isinstance(error, psycopg.Error) else str(error.strerror)
            self._believed_until = 2 * now - started if now - started > _SOON_S else now
            raise
        self._failure = ""
        return connection


def check_connection(connection: PatientConnection) -> None:
    """Raise ``psycopg.Error`` unless the server answers soon."""
    connection.patience_s = _PATIENCE_WITH_IDLE_S
    connection.execute("")
