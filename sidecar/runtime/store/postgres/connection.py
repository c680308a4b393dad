"""A connection that gives up on a server which is silent in the middle of an answer.

A server that stands still, or a network that swallows packets, closes nothing. The timeouts of the server do
not help then, and a caller would wait for ever. A slow connection is no silent one: each byte counts.
"""

from __future__ import annotations

import errno
import re
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")
PATIENCE_S: Final = 20.0

AWAY: Final = "the database does not answer"
_REFUSAL: Final = re.compile(r"\S: {2}(\S.*)")
"""A refusal of the server to connect, behind its severity in the language of the server."""

OPTIONS: Final[dict[str, Any]] = {
    "application_name": "sidecar",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # for bytes that the other end does not take, on Linux
    "client_encoding": "utf8",
    # A daemon that stops in the middle of a write must not keep others from taking its session over. The time
    # of a statement has no limit: that of a long session on a slow network counts as well.
    # Names without a schema are the server's own, and not what another role made in a schema for all.
    "options": "-c lock_timeout=15000 -c idle_in_transaction_session_timeout=10000 -c search_path=pg_catalog",
}
"""What each connection asks of libpq and of the server, which gives up a lock before its client does."""


class DatabaseError(OSError):
    """The database failed or refused; *why* says so in words for a user."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EIO, why)
        self.why = why


class PatientConnection(Connection[TupleRow]):
    """A connection that is closed when its server takes and sends nothing for *patience_s* seconds."""

    patience_s: float = PATIENCE_S

    def wait(self, gen: PQGen[T], *options: Any, **named: Any) -> T:
        """Return the result of *gen*, as the driver's own. Raises OperationalError for a silent server."""
        return super().wait(self.end_at_silence(gen), *options, **named)

    def end_at_silence(self, work: PQGen[T]) -> PQGen[T]:
        """Run *work*, which waits for its socket; a false answer to it is that nothing has come."""
        try:
            wanted, heard_at = next(work), time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > self.patience_s:
                    self.pgconn.finish()
                    raise OperationalError("the server is silent")
                wanted = work.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def describe(error: psycopg.Error) -> str:
    """Return *error* in words, without the address and the user of the database.

    >>> describe(psycopg.OperationalError('connection to server at "10.0.0.1", port 1 failed: timeout'))
    'the database does not answer'
    >>> describe(psycopg.OperationalError('... failed: FATAL:  role "ann" does not exist'))
    'the database refuses: role does not exist'
    """
    match error:
        case psycopg.errors.ReadOnlySqlTransaction():
            return "the database takes no changes now, as a standby does not"
        case psycopg.errors.DiskFull():
            return "the disk of the database is full"
        case psycopg.errors.LockNotAvailable():
            return "the database is busy: a row was locked for a quarter of a minute"
        case psycopg.ProgrammingError() if error.sqlstate is None:
            return "the address of the database is not valid"
        case _ if error.sqlstate is None:
            return describe_no_connection(str(error))
    return f"the database refuses: {error.diag.message_primary or ''} ({error.sqlstate})"


def describe_no_connection(text: str) -> str:
    """Return in words why no connection was made, or none is left; *text* is the message of the driver.

    >>> describe_no_connection('failed: server does not support SSL, but SSL was required')
    'the connection cannot be encrypted as asked for: server does not support SSL, but SSL was required'
    """
    text = re.sub(r' *"[^"]*"', "", text)  # names and addresses stand in quotes
    if refusal := _REFUSAL.findall(text):
        return f"the database refuses: {refusal[-1]}"
    reason = text.rpartition("failed: ")[2].partition("\n")[0]
    if "SSL" in reason or "certificate" in reason:
        return f"the connection cannot be encrypted as asked for: {reason}"
    if "no password" in reason:
        return "the database asks for a password, and its address has none"
    if "translate host name" in reason or "resolve host" in text:
        return "the name of the database's server is not known"
    return AWAY
