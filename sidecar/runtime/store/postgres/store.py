"""The sessions of one user in PostgreSQL: read, listed, searched and deleted.

A list is read by the index of its order, so the cost of a page is that of its lines. The database selects by
the columns that it makes of each ``meta`` record. Upper case differs from that of Python there, so it
compares titles of plain ASCII only. Other titles are compared here, and where many lines fall away, the next
query asks for more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final, TypeVar

from psycopg.rows import TupleRow

from sidecar._internal.errors import InvalidInput
from sidecar._internal.surrogates import to_storable
from sidecar.conversation import Entry, kind_by_role
from sidecar.llmgateway.contract import Amount, CostBudget
from sidecar.runtime.contract import Migrator
from sidecar.runtime.store.codec import RecogniseKind, encode_line
from sidecar.runtime.store.dag import Clock, wall_clock_ms
from sidecar.runtime.store.errors import StoreUnavailable, TakenOverError
from sidecar.runtime.store.journal import SessionJournal
from sidecar.runtime.store.lines import Append, SessionWriters
from sidecar.runtime.store.place import (
    DaySum,
    Describe,
    ListedSession,
    ListSessions,
    SessionQuery,
    StoredSummary,
)
from sidecar.runtime.store.postgres.connection import DatabaseError, PatientConnection
from sidecar.runtime.store.postgres.database import Database
from sidecar.runtime.store.postgres.lease import LEASE_S, Lease, Leases, host_of
from sidecar.runtime.store.postgres.records import (
    STANDS,
    WORDS_OF,
    Batch,
    find_missing,
    insert_contents,
    insert_rows,
    lines_of,
    remove_session,
    rows_of,
)
from sidecar.runtime.store.reading import StoredSession, read_session

T = TypeVar("T", bound=ListedSession)

_AGAIN_S: Final = 5.0
"""The pause before waiting records are written again."""
_READ: Final = """
SELECT record.body, node.body
FROM sidecar.records AS record
LEFT JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node
WHERE record.owner = current_user::text AND record.session = %s
ORDER BY record.n
"""
_SEARCH: Final = f"""
WITH wanted AS MATERIALIZED (
  SELECT DISTINCT left(part, 100) AS word FROM {WORDS_OF.format("to_tsvector('simple', %(words)s)")}
)
SELECT session FROM sidecar.words
WHERE owner = current_user::text AND word = ANY(ARRAY(SELECT word FROM wanted))
GROUP BY session
HAVING count(*) = (SELECT count(*) FROM wanted)
"""
_CONTENT: Final = "SELECT body FROM sidecar.contents WHERE owner = current_user::text AND id = %s"
_SPEND: Final = """
INSERT INTO sidecar.spending AS spent (day, usd, tokens) VALUES (%(day)s, %(usd)s, %(tokens)s)
ON CONFLICT (owner, day) DO UPDATE SET usd = spent.usd + excluded.usd, tokens = spent.tokens + excluded.tokens
WHERE coalesce(spent.usd < %(most_usd)s::float8 AND spent.usd + excluded.usd <= %(most_usd)s::float8, true)
AND coalesce(
  spent.tokens < %(most_tokens)s::bigint AND spent.tokens + excluded.tokens <= %(most_tokens)s::bigint, true
)
RETURNING usd, tokens
"""
_SPENT: Final = "SELECT usd, tokens FROM sidecar.spending WHERE owner = current_user::text AND day = %s"
_GROWTH: Final = 4
_FIELDS: Final = """
SELECT id, meta, (extract(epoch FROM modified_at) * 1000)::bigint, n_bytes,
       CASE WHEN leased_until > clock_timestamp() THEN lease_holder ELSE '' END,
       CASE WHEN leased_until > clock_timestamp() THEN (extract(epoch FROM leased_until) * 1000)::bigint END,
       updated_ms
FROM sidecar.sessions
WHERE owner = current_user::text"""
_ALL: Final = f"{_FIELDS} AND n_records > 0 ORDER BY modified_at DESC"
_ORDER: Final = 'ORDER BY updated_ms DESC, id COLLATE "C" DESC'
_PAGE: Final = f"""
{_FIELDS} AND id IN (
  SELECT id FROM sidecar.sessions WHERE owner = current_user::text AND {{0}} {_ORDER} LIMIT %(limit)s::bigint
) {_ORDER}"""
"""A page; which sessions are on it, the index tells alone."""
_AFTER: Final = '(updated_ms, id COLLATE "C") < (%(after_ms)s, %(after_id)s)'
_FOLDER_CHARS: Final = 500
_FOLDER: Final = "cwd = %({0})s"
_PARENT: Final = """position('"parent":' || %({0})s IN meta) > 0"""
_TITLE: Final = "(folded IS NULL OR position(%({0})s IN folded) > 0)"


class PostgresStore:
    """The sessions in the database *conninfo*, a libpq connection string or address; a ``SessionPlace``.

    *migrators* and *recognise* are as for ``SessionStore``; a lease lasts *lease_s* seconds without a
    heartbeat. Nothing is connected before the first call.

    Attributes:
        database: its connections.
        leases: the rights of this daemon to write sessions.
        find_content: returns the content of a file that a session kept here, by its name, None where it has
            gone; it is stored with the checkpoint that names it. Without it no contents are stored.
    """

    def __init__(
        self,
        conninfo: str,
        migrators: Sequence[Migrator] = (),
        *,
        clock: Clock = wall_clock_ms,
        recognise: RecogniseKind = kind_by_role,
        lease_s: float = LEASE_S,
    ) -> None:
        self.database = Database(conninfo)
        self.find_content: Callable[[str, str], bytes | None] | None = None
        self.leases = Leases(self.database, lease_s)
        self._writers = SessionWriters(self._append_to, self.hold, self.database.in_thread)
        self._writing_again: asyncio.Task[None] | None = None
        self._migrators = tuple(migrators)
        self._clock = clock
        self._recognise = recognise

    async def hold(self, session_id: str) -> Lease:
        """Take the lease of *session_id*. Raises as ``Leases.take``, or InvalidInput for its id."""
        return await self.leases.take(checked_id(session_id))

    async def take_over(self, session_id: str) -> Lease:
        """Take the lease of *session_id*, also from an idle holder elsewhere. Raises as :meth:`hold`."""
        return await self.leases.take_over(checked_id(session_id))

    async def wait_free(self, session_id: str) -> None:
        """Return once the released lease of *session_id* is free in the database."""
        await self.leases.wait_free(session_id)

    def journal(self, session_id: str) -> SessionJournal:
        """Return the journal of *session_id*, stored or not."""
        return SessionJournal(self._writers.of(session_id), lambda: self._read(session_id))

    def close(self, session_id: str) -> None:
        """Let go of the journal of *session_id*, and of a lease that a write took for it.

        Records that could not be written wait for the next one.
        """
        self._writers.close(session_id)
        if (lease := self.leases.find(session_id)) is not None:
            lease.release()

    async def write_waiting(self, session_id: str) -> None:
        """Write the records that wait since *session_id* was closed. Raises StoreUnavailable."""
        await self._writers.write_waiting(session_id)

    async def settle(self) -> None:
        """Write the waiting records of closed sessions, and wait until released leases are free."""
        await self._writers.settle()
        await self.leases.settle()

    async def aclose(self) -> None:
        """Settle, and close every connection."""
        if self._writing_again is not None:
            self._writing_again.cancel()
        await self.settle()
        await self.database.in_thread(self.database.close)

    async def open(self, session_id: str) -> StoredSession:
        """Return the stored *session_id*, empty when there is none. Raises StoreUnavailable."""
        return await self.database.in_thread(self._read, session_id)

    async def page(self, session_id: str, page: range, *, of_path: bool) -> Sequence[Entry]:
        """Return nodes of *session_id*, as :meth:`SessionPlace.page`; all of them are read."""
        return (await self.open(session_id)).graph.page(page, of_path=of_path)

    async def exists(self, session_id: str) -> bool:
        """Whether anything is stored under *session_id*. Raises StoreUnavailable."""
        rows = await self.database.in_thread(self._query, session_id, STANDS)
        return bool(rows) and rows[0][1] > 0

    async def delete(self, session_id: str) -> bool:
        """Remove *session_id* for good, with the nodes that no other session shares; as ``SessionStore``."""
        held = await self.hold(session_id)
        try:
            await self._writers.abandon(session_id)
            return await self.database.in_thread(
                self.database.run, lambda each: remove_session(each, session_id)
            )
        except DatabaseError as error:
            raise StoreUnavailable(session_id, error) from error
        finally:
            held.release()

    async def summaries(self) -> list[StoredSummary]:
        """Return the summaries of all sessions, the newest first, with the holders of their leases."""

        try:
            return await self.database.in_thread(self.database.run, read_summaries)
        except DatabaseError as error:
            raise StoreUnavailable("", error) from error

    def lister(self, kind: type[T], describe: Describe[T]) -> ListSessions[T]:
        """Return a function that lists sessions by the index of their order."""

        def read(connection: PatientConnection, query: SessionQuery) -> list[T]:
            return read_page(connection, query, describe)

        async def list_sessions(query: SessionQuery) -> list[T]:
            try:
                return await self.database.in_thread(self.database.run, partial(read, query=query))
            except DatabaseError as error:
                raise StoreUnavailable("", error) from error

        return list_sessions

    async def holders(self, session_ids: Sequence[str]) -> Mapping[str, int]:
        """Return nothing: the summaries name the holders of leases."""
        return {}

    async def search(self, words: Sequence[str]) -> Set[str]:
        """Return the ids of the sessions with all *words* in them. Raises StoreUnavailable."""
        given = {"words": to_storable(" ".join(words).lower())}

        def search(connection: PatientConnection) -> Set[str]:
            return {row[0] for row in connection.execute(_SEARCH.encode(), given)}

        try:
            return await self.database.in_thread(self.database.run, search)
        except DatabaseError as error:
            raise StoreUnavailable("", error) from error

    async def spend(self, day: str, amount: Amount, budget: CostBudget | None = None) -> DaySum:
        """Add *amount* to the sum of *day*, as :meth:`SessionPlace.spend`, in one statement."""
        most = budget or CostBudget()
        values = {"day": day, "usd": amount.usd, "tokens": amount.tokens}
        values |= {"most_usd": most.usd, "most_tokens": most.tokens}

        def spend(connection: PatientConnection) -> DaySum:
            row = None
            if most.allows(Amount(), amount):  # else no sum allows it, not even that of a new day
                row = connection.execute(_SPEND.encode(), values).fetchone()
            if row is not None:
                return DaySum(Amount(*row))
            row = connection.execute(_SPENT.encode(), (day,)).fetchone()
            return DaySum(Amount() if row is None else Amount(*row), is_added=False)

        try:
            return await self.database.in_thread(self.database.run, spend)
        except DatabaseError as error:
            raise StoreUnavailable("", error) from error

    async def read_raw(self, session_id: str) -> bytes:
        """Return the records of *session_id* as sealed lines. Raises StoreUnavailable."""

        def read() -> bytes:
            rows = self._query(session_id, _READ)
            return b"".join(encode_line(line.record) for line in lines_of(rows) if line.record)

        return await self.database.in_thread(read)

    async def write_raw(self, session_id: str, lines: bytes) -> None:
        """Append sealed *lines* to *session_id*, which the caller holds. Raises StoreUnavailable."""
        await self._writers.of(session_id).write([lines])

    def read_content(self, session_id: str, name: str) -> bytes | None:
        """Return the stored content of a file, None where it is not. Blocks. Raises StoreUnavailable."""
        rows = self._query(session_id, _CONTENT, name)
        return bytes(rows[0][0]) if rows else None

    def _read(self, session_id: str) -> StoredSession:
        lines = lines_of(self._query(session_id, _READ))
        return read_session(lines, session_id, self._clock, self._migrators, self._recognise)

    def _query(self, session_id: str, query: str, key: str | None = None) -> list[TupleRow]:
        """Return the rows of *query* for *key*, by default the session; no rows for a text with a NUL."""
        values = (session_id if key is None else key,)
        if to_storable(values[0]) != values[0]:
            return []
        try:
            return self.database.run(lambda connection: connection.execute(query.encode(), values).fetchall())
        except DatabaseError as error:
            raise StoreUnavailable(session_id, error) from error

    def _append_to(self, session_id: str) -> Append:
        loop, held = asyncio.get_running_loop(), self.leases.find(session_id)
        n_stored, tried = (-1 if held is None else held.n_records), set[int]()

        def append(data: bytes) -> None:
            nonlocal n_stored
            lease, rows = self.leases.find(session_id), rows_of(data)
            if lease is None:
                lease = self.leases.take_late(session_id)
                loop.call_soon_threadsafe(self.leases.start_heart)
            at = lease.n_records if n_stored < 0 else n_stored

            names, find = {row.content for row in rows if row.content is not None}, self.find_content

            def write(connection: PatientConnection) -> None:
                if find is None or not names:
                    insert_rows(connection, lease, Batch(rows), at, tried)
                    return
                find_here = partial(find, session_id)
                contents = find_missing(connection, names, find_here)
                insert_rows(connection, lease, Batch(rows, contents), at, tried)
                # Another session that had them may have been deleted just before.
                insert_contents(connection, find_missing(connection, names, find_here))

            try:
                self.database.run(write)
            except TakenOverError as error:
                loop.call_soon_threadsafe(self.leases.lose, lease, error.holder)
                raise
            except DatabaseError:
                n_stored = at
                tried.add(len(rows))
                loop.call_soon_threadsafe(self.write_later)
                raise
            n_stored = at + len(rows)
            tried.clear()

        return append

    def write_later(self) -> None:
        """Write the waiting records once the database works again, also when no more come. On the loop."""

        async def write() -> None:
            while self._writers.are_waiting:
                await asyncio.sleep(_AGAIN_S)
                await self._writers.write_all()

        if self._writing_again is None or self._writing_again.done():
            self._writing_again = asyncio.ensure_future(write())


def checked_id(session_id: str) -> str:
    """Return *session_id*. Raises InvalidInput for one that a database cannot hold."""
    if to_storable(session_id) != session_id:
        hint = "give the session another id"
        raise InvalidInput(f"a database cannot hold the session id {session_id!r:.100}", hint=hint)
    return session_id


def read_summaries(connection: PatientConnection) -> list[StoredSummary]:
    """Return the summaries of all sessions, the newest first, with the holders of their leases."""
    return [summary_of(row) for row in connection.execute(_ALL.encode()).fetchall()]


def read_page(connection: PatientConnection, query: SessionQuery, describe: Describe[T]) -> list[T]:
    """Return the page that *query* asks for, by the lines that *describe* makes of summaries."""
    conditions, values = conditions_of(query)
    limit, after, found = query.limit, query.after, list[T]()
    while True:
        where = " AND ".join(["updated_ms IS NOT NULL", *conditions, *([] if after is None else [_AFTER])])
        values["limit"] = limit
        if after is not None:
            values |= {"after_ms": after[0], "after_id": to_storable(after[1])}
        rows = connection.execute(_PAGE.format(where).encode(), values).fetchall()
        lines = map(describe, map(summary_of, rows))
        found += [line for line in lines if line is not None and query.matches(line)]
        if limit is None or len(rows) < limit or query.limit is None or len(found) >= query.limit:
            return found[: query.limit]
        after, limit = (rows[-1][6], rows[-1][0]), limit * _GROWTH


def conditions_of(query: SessionQuery) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions that the database can check, and their values."""
    conditions, values = [], dict[str, Any]()
    for name, condition, text in (("cwd", _FOLDER, query.cwd), ("parent", _PARENT, query.parent)):
        if text is not None:
            # A record with half a character in it is stored in ASCII.
            spellings = {to_storable(json.dumps(text, ensure_ascii=is_ascii)) for is_ascii in (False, True)}
            named = {f"{name}{at}": each[:_FOLDER_CHARS] for at, each in enumerate(spellings)}
            conditions.append(f"({' OR '.join(map(condition.format, named))})")
            values |= named
    words = {f"word{at}": to_storable(word) for at, word in enumerate(query.words)}
    conditions += map(_TITLE.format, words)
    values |= words
    if not query.archived:
        conditions.append("NOT archived")
    if query.ids is not None:
        conditions.append("id = ANY(%(ids)s)")
        values["ids"] = [*query.ids]
    return conditions, values


def summary_of(row: Sequence[Any]) -> StoredSummary:
    """Return the summary in *row*, as the queries here bring it."""
    session_id, meta, modified_ms, n_bytes, holder, leased_until_ms, _ = row
    found = json.loads(meta) if meta else None
    host, pid = host_of(holder) if holder else (None, None)
    return StoredSummary(session_id, found, modified_ms, n_bytes, host, pid, leased_until_ms)
