"""The tables, as migrations by number. They go forwards only, one daemon at a time.

A row belongs to the database role that wrote it, and row-level security shows it to no other role. Superusers
see everything, as everywhere in PostgreSQL.
"""

from __future__ import annotations

import math
from typing import Final

from sidecar.runtime.store.postgres.connection import DatabaseError, PatientConnection

_LOCK: Final = 0x51DECA2
"""The advisory lock of whoever migrates."""
_OLDEST: Final = 120_000
"""The first version of PostgreSQL that computes columns."""

_FIRST: Final = """
CREATE TABLE sidecar.sessions (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  modified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  meta text,
  n_records bigint NOT NULL DEFAULT 0,
  n_bytes bigint NOT NULL DEFAULT 0,
  lease_token bigint NOT NULL DEFAULT 0,
  lease_holder text NOT NULL DEFAULT '',
  leased_until timestamptz NOT NULL DEFAULT '-infinity',
  followed_until timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY (owner, id)
);
CREATE INDEX sessions_newest ON sidecar.sessions (owner, modified_at DESC);

CREATE TABLE sidecar.nodes (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  body text NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (owner, id)
);
CREATE INDEX nodes_words ON sidecar.nodes USING gin (words);

CREATE TABLE sidecar.records (
  owner text NOT NULL DEFAULT current_user,
  session text NOT NULL,
  n bigint NOT NULL,
  node text,
  body text NOT NULL,
  PRIMARY KEY (owner, session, n),
  FOREIGN KEY (owner, session) REFERENCES sidecar.sessions ON DELETE CASCADE
);
CREATE INDEX records_of_node ON sidecar.records (owner, node) WHERE node IS NOT NULL;

CREATE SEQUENCE sidecar.lease_tokens;
"""
_SECOND: Final = """
CREATE UNLOGGED TABLE sidecar.tunnels (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  host text NOT NULL,
  guest text NOT NULL,
  guest_name text NOT NULL,
  wire text NOT NULL,
  host_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  guest_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (owner, id)
);
CREATE UNLOGGED TABLE sidecar.chunks (
  owner text NOT NULL DEFAULT current_user,
  tunnel text NOT NULL,
  to_host boolean NOT NULL,
  n bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (owner, tunnel, to_host, n),
  FOREIGN KEY (owner, tunnel) REFERENCES sidecar.tunnels ON DELETE CASCADE
);
"""
_THIRD: Final = """
ALTER TABLE sidecar.records ADD COLUMN content text;
CREATE INDEX records_of_content ON sidecar.records (owner, content) WHERE content IS NOT NULL;
CREATE TABLE sidecar.contents (
  owner text NOT NULL DEFAULT current_user,
  id text NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (owner, id)
);
"""
_FOURTH: Final = """
CREATE FUNCTION sidecar.me() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT current_user::text';
"""
"""The current role, with the collation of *owner*: a comparison with a name cannot use its indexes."""

_FIFTH: Final = r"""
ALTER TABLE sidecar.sessions
  ADD COLUMN updated_ms bigint
    GENERATED ALWAYS AS (substring(meta FROM '"updated_at":(-?\d{1,18})')::bigint) STORED,
  ADD COLUMN cwd text
    GENERATED ALWAYS AS (left(substring(meta FROM '"cwd":("(?:[^"\\]|\\.)*")'), 500)) STORED,
  ADD COLUMN title text GENERATED ALWAYS AS (substring(meta FROM '"title":("(?:[^"\\]|\\.)*")')) STORED,
  ADD COLUMN archived boolean
    GENERATED ALWAYS AS (coalesce(substring(meta FROM '"archived":(true|false)') = 'true', false)) STORED;
CREATE INDEX sessions_listed ON sidecar.sessions (owner, updated_ms DESC, id COLLATE "C" DESC);
CREATE INDEX sessions_of_folder ON sidecar.sessions (owner, cwd, updated_ms DESC, id COLLATE "C" DESC);
DROP INDEX sidecar.sessions_newest;
"""
"""The order and the filters of lists, made of each meta record by the database, whichever version wrote it.

Folders and titles stay in JSON, for a text of the database cannot hold what JSON can. An id is compared by
its code points, as everywhere in this program. An index cannot hold a long folder, so it has the beginning.
"""

_SIXTH: Final = r"""
CREATE TABLE sidecar.words (
  owner text NOT NULL DEFAULT current_user,
  word text NOT NULL,
  session text NOT NULL,
  PRIMARY KEY (owner, word, session)
);
CREATE FUNCTION sidecar.words_in(tsvector) RETURNS SETOF text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT DISTINCT left(part, 100)
  FROM unnest(tsvector_to_array($1)) AS word, regexp_split_to_table(word, '[!-/:-@[-`{-~]+') AS part
  WHERE part <> ''
$$;
CREATE FUNCTION sidecar.add_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO sidecar.words (owner, word, session)
  SELECT DISTINCT record.owner, word, record.session
  FROM added AS record
  JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
  sidecar.words_in(node.words) AS word
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE FUNCTION sidecar.drop_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM sidecar.words AS found
  WHERE found.owner = old.owner AND found.session = old.id AND found.word IN (
    SELECT word
    FROM sidecar.records AS record
    JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
    sidecar.words_in(node.words) AS word
    WHERE record.owner = old.owner AND record.session = old.id
  );
  RETURN old;
END $$;
CREATE TRIGGER add_words AFTER INSERT ON sidecar.records REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION sidecar.add_words();
CREATE TRIGGER drop_words BEFORE DELETE ON sidecar.sessions
  FOR EACH ROW EXECUTE FUNCTION sidecar.drop_words();
ALTER TABLE sidecar.nodes NO FORCE ROW LEVEL SECURITY;
ALTER TABLE sidecar.records NO FORCE ROW LEVEL SECURITY;
INSERT INTO sidecar.words (owner, word, session)
  SELECT DISTINCT record.owner, word, record.session
  FROM sidecar.records AS record
  JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
  sidecar.words_in(node.words) AS word;
ALTER TABLE sidecar.nodes FORCE ROW LEVEL SECURITY;
ALTER TABLE sidecar.records FORCE ROW LEVEL SECURITY;
DROP INDEX sidecar.nodes_words;

ALTER TABLE sidecar.sessions ADD COLUMN folded text GENERATED ALWAYS AS (
  CASE
    WHEN substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') IS NULL THEN ''
    WHEN length(substring(meta FROM '"title":("(?:[^"\\]|\\.)*")')) <= 500
      AND substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') ~ '^[ -\[\]-~]*$'
    THEN lower(substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') COLLATE "C")
  END
) STORED;
CREATE INDEX sessions_titled ON sidecar.sessions (owner, updated_ms DESC, id COLLATE "C" DESC)
  INCLUDE (folded, archived);
DROP INDEX sidecar.sessions_listed;
"""
"""The words of each session, and what a search of titles reads, in the order of the list.

Where policies guard rows, an index serves only the few operators that are known to leak nothing. Comparisons
are among them and those of a text search are not, so each word of a session is a row. Earlier versions write
and delete sessions as well, therefore triggers keep the words. *folded* is a title of plain ASCII in lower
case; any other title is compared by the client.
"""

_TABLES: Final = (("sessions", "nodes", "records"), ("tunnels", "chunks"), ("contents",), ("words",))
_OWN_ROWS: Final = """
ALTER TABLE sidecar.{0} ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.{0} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.{0}
  USING (owner = current_user::text) WITH CHECK (owner = current_user::text);
GRANT SELECT, INSERT, UPDATE, DELETE ON sidecar.{0} TO PUBLIC;
"""
_OWN_ROWS_BY_INDEX: Final = """
ALTER POLICY own_rows ON sidecar.{0} USING (owner = sidecar.me()) WITH CHECK (owner = sidecar.me());
"""
_FOR_ALL: Final = """
GRANT USAGE ON SCHEMA sidecar TO PUBLIC;
GRANT USAGE ON SEQUENCE sidecar.lease_tokens TO PUBLIC;
GRANT SELECT ON sidecar.migrations TO PUBLIC;
"""

MIGRATIONS: Final = (
    _FIRST + "".join(_OWN_ROWS.format(table) for table in _TABLES[0]) + _FOR_ALL,
    _SECOND + "".join(_OWN_ROWS.format(table) for table in _TABLES[1]),
    _THIRD + "".join(_OWN_ROWS.format(table) for table in _TABLES[2]),
    _FOURTH + "".join(_OWN_ROWS_BY_INDEX.format(table) for tables in _TABLES[:3] for table in tables),
    _FIFTH,
    _SIXTH + "".join(each.format("words") for each in (_OWN_ROWS, _OWN_ROWS_BY_INDEX)),
)
"""The statements of each version of the tables, version 1 first. A released one never changes."""


def check_server(connection: PatientConnection) -> None:
    """Raise DatabaseError where the server is too old, or the database cannot hold every text."""
    version, encoding = connection.info.server_version, connection.info.parameter_status("server_encoding")
    if version < _OLDEST:
        found = f"{version // 10_000}"
        raise DatabaseError(f"PostgreSQL {found} is too old; {_OLDEST // 10_000} or newer is needed")
    if encoding != "UTF8":
        raise DatabaseError(f"the encoding of the database is {encoding}; create one with ENCODING 'UTF8'")


def migrate(connection: PatientConnection) -> None:
    """Bring the tables to the newest version; nothing is written where they are.

    Raises:
        DatabaseError: they are newer than this program.
    """
    found = _version(connection)
    if found < len(MIGRATIONS):
        connection.patience_s = math.inf  # large tables take their time
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            connection.execute("CREATE SCHEMA IF NOT EXISTS sidecar")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS sidecar.migrations"
                " (version int PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT clock_timestamp())"
            )
            found = _version(connection)  # another daemon may have been first
            for version, statements in enumerate(MIGRATIONS[found:], start=found + 1):
                connection.execute(statements.encode())
                connection.execute("INSERT INTO sidecar.migrations (version) VALUES (%s)", (version,))
    if found > len(MIGRATIONS):
        why = f"the tables in the database are of version {found}, this program knows {len(MIGRATIONS)}"
        raise DatabaseError(f"{why}; install a newer one")


def _version(connection: PatientConnection) -> int:
    """Return the version of the tables, 0 where there are none."""
    row = connection.execute("SELECT to_regclass('sidecar.migrations') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM sidecar.migrations").fetchone()
    return int(row[0]) if row is not None else 0
