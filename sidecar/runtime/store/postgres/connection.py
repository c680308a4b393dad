"""A connection that gives up on a server which is silent in the middle of an answer.

A server that stands still, or a network that swallows packets, closes nothing. The timeouts of the server do
not help then, and a caller would wait for ever. A slow connection is no silent one: each byte counts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from psycopg import Connection, OperationalError
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")
PATIENCE_S: Final = 20.0

OPTIONS: Final[dict[str, Any]] = {
    "application_name": "sidecar",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # A daemon that stops in the middle of a write must not keep others from taking its session over.
    "options": "-c statement_timeout=15000 -c idle_in_transaction_session_timeout=10000",
}
"""What each connection asks of libpq and of the server, which gives up before its client does."""


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
