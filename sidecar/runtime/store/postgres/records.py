"""Records of sessions as rows, and the statements that write and remove them.

A node's row is its content alone, under its hash, so that forks and copies share it. The rest (its kind, the
files that were read) stands in the record of the session. The record of a checkpoint names the content of a
file that it kept, by hash as well. A damaged node, with an id that is not the hash of its content, is kept
whole in the record.

A write of records is one statement: it moves the session's count of records on from where this daemon left
it, under the token of its lease, and adds the rows. A daemon that lost its lease writes nothing. When the
answer to a write is lost with the connection, the count tells whether it was made, and it is not made twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from msgspec import field

from sidecar._internal.surrogates import to_storable
from sidecar._internal.values import Value
from sidecar.runtime.store.codec import encode_record, hash_record, records_of
from sidecar.runtime.store.errors import TakenOverError
from sidecar.runtime.store.lines import Line, parse_line
from sidecar.runtime.store.postgres.connection import PatientConnection
from sidecar.runtime.store.postgres.lease import Lease, name_of

_MAX_WORDS: Final = 20_000
"""The characters of a turn that can be searched for."""
WORDS_OF: Final = r"""
unnest(regexp_split_to_array(array_to_string(tsvector_to_array({0}), ' '), '[ !-/:-@[-`{{-~]+')) AS part
WHERE part <> ''
"""
"""The words that can be searched for, *part*, in a text that was made ready for a search."""

_APPEND: Final = f"""
WITH mine AS (
  UPDATE sidecar.sessions
  SET n_records = n_records + %(n)s, n_bytes = n_bytes + %(n_bytes)s, meta = coalesce(%(meta)s, meta),
      modified_at = clock_timestamp()
  WHERE owner = current_user::text AND id = %(id)s AND lease_token = %(token)s AND n_records = %(at)s
  RETURNING id
), given AS MATERIALIZED (
  SELECT node.id, node.body, to_tsvector('simple', node.words) AS words
  FROM mine, unnest(%(nodes)s::text[], %(contents)b::text[], %(words)b::text[]) AS node(id, body, words)
  WHERE node.id IS NOT NULL
), new_contents AS (
  INSERT INTO sidecar.contents (id, body)
  SELECT content.id, content.body
  FROM mine, unnest(%(new_names)s::text[], %(new_files)s::bytea[]) AS content(id, body)
  ON CONFLICT DO NOTHING
), new_nodes AS (
  INSERT INTO sidecar.nodes (id, body, words)
  SELECT id, body, words FROM given
  -- Locked and not written: a session that shares it may be deleted meanwhile.
  ON CONFLICT (owner, id) DO UPDATE SET id = excluded.id WHERE false
), new_words AS (
  INSERT INTO sidecar.words (word, session)
  SELECT DISTINCT left(part, 100), %(id)s FROM given, {WORDS_OF.format("given.words")}
  ON CONFLICT DO NOTHING
), new_records AS (
  INSERT INTO sidecar.records (session, n, node, body, content)
  SELECT %(id)s, %(at)s + record.n, record.node, record.body, record.content
  FROM mine, unnest(%(nodes)s::text[], %(bodies)b::text[], %(files)s::text[])
    WITH ORDINALITY AS record(node, body, content, n)
)
SELECT FROM mine
"""
STANDS: Final = """
SELECT lease_token, n_records, lease_holder FROM sidecar.sessions WHERE owner = current_user::text AND id = %s
"""
_KEPT: Final = "SELECT id FROM sidecar.contents WHERE owner = current_user::text AND id = ANY(%s)"
_KEEP: Final = "INSERT INTO sidecar.contents (id, body) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_SLOWEST_BYTES_S: Final = 20_000
"""The slowest network on which a large write is waited for."""
_DELETE: Final = """
DELETE FROM sidecar.sessions WHERE owner = current_user::text AND id = %s RETURNING n_records
"""
_SHARED: Final = {"nodes": "node", "contents": "content"}
"""The tables with rows that sessions share, and the columns of records that name them."""

_FORGET: Final = f"""
DELETE FROM sidecar.words
WHERE owner = current_user::text AND session = %(id)s AND word IN (
  SELECT left(part, 100)
  FROM sidecar.records AS record
  JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
  {WORDS_OF.format("node.words")} AND record.owner = current_user::text AND record.session = %(id)s
)
"""
_NAMED: Final = """
SELECT DISTINCT {column} FROM sidecar.records
WHERE owner = current_user::text AND session = %s AND {column} IS NOT NULL
"""
_LOCK: Final = "SELECT FROM sidecar.{table} WHERE owner = current_user::text AND id = ANY(%s) FOR UPDATE"
_DROP: Final = """
DELETE FROM sidecar.{table} AS shared
WHERE shared.owner = current_user::text AND shared.id = ANY(%s) AND NOT EXISTS (
  SELECT FROM sidecar.records AS record WHERE record.owner = shared.owner AND record.{column} = shared.id
)
"""


class Row(Value):
    """A record as it is stored: *body* in JSON, and for a node its id, its content and its text.

    *content* is the name of the file content that a checkpoint kept.
    """

    body: str
    node_id: str | None = None
    node: str = ""
    words: str = ""
    content: str | None = None


def rows_of(lines: bytes) -> list[Row]:
    """Return the rows of sealed *lines*; a batch becomes its records."""
    parsed = [line for raw in lines.split(b"\n") if (line := parse_line(raw)) is not None]
    for line in parsed:
        line.pop("sum", None)
    return [row_of(record) for line in parsed for record in records_of(line)]


def lines_of(rows: Iterable[tuple[str, str | None]]) -> Iterator[Line]:
    """Yield the lines that *rows* stand for: pairs of a body, and of its node's content or None.

    They have no checksums; a node is checked by its id.
    """
    for number, (body, node) in enumerate(rows, start=1):
        record = json.loads(body)
        if node is not None:  # second, as in a line
            record = {"type": record.pop("type"), "node": json.loads(node), **record}
        yield Line(number, record)


def newest_meta(rows: Sequence[Row]) -> str | None:
    """Return the last meta record of *rows*, or None."""
    return next((row.body for row in reversed(rows) if row.body.startswith('{"type":"meta"')), None)


def row_of(record: Mapping[str, Any]) -> Row:
    """Return the row of *record*."""
    node = record.get("node")
    if record.get("type") != "node" or not isinstance(node, Mapping) or not is_whole(node):
        name = record.get("content") if record.get("type") == "checkpoint" else None
        return Row(_encode(record), content=name if isinstance(name, str) else None)
    rest = {name: value for name, value in record.items() if name != "node"}
    return Row(_encode(rest), str(node["id"]), _encode(node), words_of(node["turn"]))


def is_whole(node: Mapping[str, Any]) -> bool:
    """Whether the id of *node* is the hash of its content."""
    try:
        found: object = node["id"]
        return hash_record(node["parent"], node["turn"], node["createdAt"]) == found
    except (KeyError, TypeError, ValueError):
        return False


def _encode(record: Mapping[str, Any]) -> str:
    return encode_record(record).decode()


def words_of(turn: Mapping[str, Any]) -> str:
    """Return the text of *turn* that can be searched for."""
    blocks = [block for block in turn.get("blocks", ()) if isinstance(block, Mapping)]
    found = [block.get("text") or block.get("output") for block in blocks]
    text = "\n".join(each[:_MAX_WORDS] for each in found if isinstance(each, str))[:_MAX_WORDS]
    return to_storable(text.lower())  # a database may know the upper case of plain ASCII alone


class Batch(Value):
    """Records that are written together, and the contents of files that they name, by name."""

    rows: Sequence[Row]
    contents: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """The bytes on their way to the database, about."""
        n_bytes = sum(len(row.body) + len(row.node) + len(row.words) for row in self.rows)
        return n_bytes + sum(map(len, self.contents.values()))


def find_missing(
    connection: PatientConnection, names: Set[str], find: Callable[[str], bytes | None]
) -> dict[str, bytes]:
    """Return the contents *names* that *find* has and the database has not."""
    there = {row[0] for row in connection.execute(_KEPT, ([*names],)).fetchall()}
    found = ((name, find(name)) for name in names - there)
    return {name: content for name, content in found if content is not None}


def insert_contents(connection: PatientConnection, contents: Mapping[str, bytes]) -> None:
    """Store *contents*, which stored records name."""
    for name, content in contents.items():
        connection.execute(_KEEP, (name, content))


def insert_rows(connection: PatientConnection, lease: Lease, batch: Batch, at: int, tried: Set[int]) -> None:
    """Store *batch* behind the first *at* records.

    Earlier writes without an answer brought the first *tried* of its rows, each a number; one may be stored.

    Raises:
        TakenOverError: another daemon has written the session since.
    """
    if append_rows(connection, lease, batch, at):
        return
    row = connection.execute(STANDS.encode(), (lease.session_id,)).fetchone()
    if row is None or row[0] != lease.token:
        raise TakenOverError(name_of(row[2]) if row is not None else "another daemon")
    n_done = int(row[1]) - at
    left = batch.rows[n_done:]
    if n_done not in tried or (
        left and not append_rows(connection, lease, replace(batch, rows=left), at + n_done)
    ):
        raise TakenOverError("another daemon")


def append_rows(connection: PatientConnection, lease: Lease, batch: Batch, at: int) -> bool:
    """Store *batch* behind the first *at* records, and return False where the database has more or fewer."""
    rows = batch.rows
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
        "new_names": [*batch.contents],
        "new_files": [*batch.contents.values()],
    }
    # A slow network takes its time, in which nothing comes back.
    connection.patience_s += batch.n_bytes / _SLOWEST_BYTES_S
    return connection.execute(_APPEND.encode(), values).fetchone() is not None


def remove_session(connection: PatientConnection, session_id: str) -> bool:
    """Remove a session with the rows that no other one shares, and say whether anything was stored."""
    with connection.transaction():
        named = {
            table: connection.execute(_NAMED.format(column=column).encode(), (session_id,)).fetchall()
            for table, column in _SHARED.items()
        }
        connection.execute(_FORGET.encode(), {"id": session_id})
        row = connection.execute(_DELETE, (session_id,)).fetchone()
        for table, rows in named.items():
            ids = [each[0] for each in rows]
            # The lock waits for sessions that begin to share them; the next statement sees these.
            connection.execute(_LOCK.format(table=table).encode(), (ids,))
            connection.execute(_DROP.format(table=table, column=_SHARED[table]).encode(), (ids,))
    return row is not None and row[0] > 0
