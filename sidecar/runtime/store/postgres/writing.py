"""Writes of one session: its records, the nodes that they share with others, and contents of files.

A write of records is one statement: it moves the session's count of records on from where this daemon left
it, under the token of its lease, and adds the rows. A daemon that lost its lease writes nothing. When the
answer to a write is lost with the connection, the count tells whether it was made, and it is not made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Final

from sidecar.runtime.store.errors import TakenOverError
from sidecar.runtime.store.postgres.connection import PatientConnection
from sidecar.runtime.store.postgres.lease import Lease, name_of
from sidecar.runtime.store.postgres.rows import Row, newest_meta

_APPEND: Final = """
WITH mine AS (
  UPDATE sidecar.sessions
  SET n_records = n_records + %(n)s, n_bytes = n_bytes + %(n_bytes)s, meta = coalesce(%(meta)s, meta),
      modified_at = clock_timestamp()
  WHERE owner = sidecar.me() AND id = %(id)s AND lease_token = %(token)s AND n_records = %(at)s
  RETURNING followed_until > clock_timestamp() AS is_followed
), new_nodes AS (
  INSERT INTO sidecar.nodes (id, body, words)
  SELECT node.id, node.body, to_tsvector('simple', node.words)
  FROM mine, unnest(%(nodes)s::text[], %(contents)s::text[], %(words)s::text[]) AS node(id, body, words)
  WHERE node.id IS NOT NULL
  -- Locked and not written: a session that shares it may be deleted meanwhile.
  ON CONFLICT (owner, id) DO UPDATE SET id = excluded.id WHERE false
), new_records AS (
  INSERT INTO sidecar.records (session, n, node, body, content)
  SELECT %(id)s, %(at)s + record.n, record.node, record.body, record.content
  FROM mine, unnest(%(nodes)s::text[], %(bodies)s::text[], %(files)s::text[])
    WITH ORDINALITY AS record(node, body, content, n)
)
SELECT CASE WHEN is_followed THEN pg_notify('sidecar', %(id)s) END FROM mine
"""
STANDS: Final = """
SELECT lease_token, n_records, lease_holder FROM sidecar.sessions WHERE owner = sidecar.me() AND id = %s
"""
_KEPT: Final = "SELECT id FROM sidecar.contents WHERE owner = sidecar.me() AND id = ANY(%s) FOR KEY SHARE"
_KEEP: Final = "INSERT INTO sidecar.contents (id, body) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_DELETE: Final = "DELETE FROM sidecar.sessions WHERE owner = sidecar.me() AND id = %s RETURNING n_records"
_SHARED: Final = {"nodes": "node", "contents": "content"}
"""The tables with rows that sessions share, and the columns of records that name them."""

_NAMED: Final = """
SELECT DISTINCT {column} FROM sidecar.records
WHERE owner = sidecar.me() AND session = %s AND {column} IS NOT NULL
"""
_LOCK: Final = "SELECT FROM sidecar.{table} WHERE owner = sidecar.me() AND id = ANY(%s) FOR UPDATE"
_DROP: Final = """
DELETE FROM sidecar.{table} AS shared
WHERE shared.owner = sidecar.me() AND shared.id = ANY(%s) AND NOT EXISTS (
  SELECT FROM sidecar.records AS record WHERE record.owner = shared.owner AND record.{column} = shared.id
)
"""


def insert_contents(
    connection: PatientConnection, names: Set[str], find: Callable[[str], bytes | None]
) -> None:
    """Store the contents *names*, as far as *find* has them and the database has not."""
    there = {row[0] for row in connection.execute(_KEPT, ([*names],)).fetchall()}
    for name in names - there:
        if (content := find(name)) is not None:
            connection.execute(_KEEP, (name, content))


def insert_rows(
    connection: PatientConnection, lease: Lease, rows: Sequence[Row], at: int, tried: Set[int]
) -> None:
    """Store *rows* behind the first *at* records.

    Earlier writes without an answer brought the first *tried* of them, each a number; one may be stored.

    Raises:
        TakenOverError: another daemon has written the session since.
    """
    if append_rows(connection, lease, rows, at):
        return
    row = connection.execute(STANDS.encode(), (lease.session_id,)).fetchone()
    if row is None or row[0] != lease.token:
        raise TakenOverError(name_of(row[2]) if row is not None else "another daemon")
    n_done = int(row[1]) - at
    left = rows[n_done:]
    if n_done not in tried or (left and not append_rows(connection, lease, left, at + n_done)):
        raise TakenOverError("another daemon")


def append_rows(connection: PatientConnection, lease: Lease, rows: Sequence[Row], at: int) -> bool:
    """Store *rows* behind the first *at* records, and return False where the database has more or fewer."""
    values = {
        "id": lease.session_id,
        "token": lease.token,
        "at": at,
        "n": len(rows),
        "n_bytes": sum(len(row.body) + len(row.node) for row in rows),
        "meta": newest_meta(rows),
        "nodes": [row.node_id for row in rows],
        "contents": [row.node for row in rows],
        "words": [row.words for row in rows],
        "bodies": [row.body for row in rows],
        "files": [row.content for row in rows],
    }
    return connection.execute(_APPEND.encode(), values).fetchone() is not None


def remove_session(connection: PatientConnection, session_id: str) -> bool:
    """Remove a session with the rows that no other one shares, and say whether anything was stored."""
    with connection.transaction():
        named = {
            table: connection.execute(_NAMED.format(column=column).encode(), (session_id,)).fetchall()
            for table, column in _SHARED.items()
        }
        row = connection.execute(_DELETE, (session_id,)).fetchone()
        for table, rows in named.items():
            ids = [each[0] for each in rows]
            # The lock waits for sessions that begin to share them; the next statement sees these.
            connection.execute(_LOCK.format(table=table).encode(), (ids,))
            connection.execute(_DROP.format(table=table, column=_SHARED[table]).encode(), (ids,))
    return row is not None and row[0] > 0
