"""The tables, and the check that a daemon makes before it uses them.

A row belongs to the database role that wrote it, and row-level security shows it to no other role. The owner
of a table can switch that off, and triggers, defaults and policies of a table run with the rights of the role
that changes it. So the tables belong to a role of their own, with which nobody connects: ``administration``
makes them, on the order of an administrator. A daemon makes no tables. It refuses tables that belong to
another role, and tables with additions. There is no function and no trigger among them.
"""

from __future__ import annotations

from typing import Final

from sidecar.runtime.store.postgres.connection import DatabaseError, PatientConnection

VERSION: Final = 8
"""The version of the tables, stored with them."""
OWNER: Final = "sidecar_owner"
"""The role of the tables. It cannot log in."""
_OLDEST: Final = 120_000
"""The first version of PostgreSQL that computes columns."""

TABLES: Final = r"""
CREATE TABLE sidecar.migrations (
  version int PRIMARY KEY,
  made_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE SEQUENCE sidecar.lease_tokens;

CREATE TABLE sidecar.sessions (
  owner text COLLATE "C" NOT NULL DEFAULT current_user,
  id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  modified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  meta text,
  n_records bigint NOT NULL DEFAULT 0,
  n_bytes bigint NOT NULL DEFAULT 0,
  lease_token bigint NOT NULL DEFAULT 0,
  lease_holder text NOT NULL DEFAULT '',
  leased_until timestamptz NOT NULL DEFAULT '-infinity',
  wanted_by text NOT NULL DEFAULT '',
  updated_ms bigint
    GENERATED ALWAYS AS (substring(meta FROM '"updated_at":(-?\d{1,18})')::bigint) STORED,
  cwd text
    GENERATED ALWAYS AS (left(substring(meta FROM '"cwd":("(?:[^"\\]|\\.)*")'), 500)) STORED,
  archived boolean
    GENERATED ALWAYS AS (coalesce(substring(meta FROM '"archived":(true|false)') = 'true', false)) STORED,
  folded text GENERATED ALWAYS AS (
    CASE
      WHEN substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') IS NULL THEN ''
      WHEN length(substring(meta FROM '"title":("(?:[^"\\]|\\.)*")')) <= 500
        AND substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') ~ '^[ -\[\]-~]*$'
      THEN lower(substring(meta FROM '"title":("(?:[^"\\]|\\.)*")') COLLATE "C")
    END
  ) STORED,
  PRIMARY KEY (owner, id)
);
CREATE INDEX sessions_of_folder ON sidecar.sessions (owner, cwd, updated_ms DESC, id COLLATE "C" DESC);
CREATE INDEX sessions_titled ON sidecar.sessions (owner, updated_ms DESC, id COLLATE "C" DESC)
  INCLUDE (folded, archived);

CREATE TABLE sidecar.nodes (
  owner text COLLATE "C" NOT NULL DEFAULT current_user,
  id text NOT NULL,
  body text NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (owner, id)
);

CREATE TABLE sidecar.records (
  owner text COLLATE "C" NOT NULL DEFAULT current_user,
  session text NOT NULL,
  n bigint NOT NULL,
  node text,
  body text NOT NULL,
  content text,
  PRIMARY KEY (owner, session, n),
  FOREIGN KEY (owner, session) REFERENCES sidecar.sessions ON DELETE CASCADE
);
CREATE INDEX records_of_node ON sidecar.records (owner, node) WHERE node IS NOT NULL;
CREATE INDEX records_of_content ON sidecar.records (owner, content) WHERE content IS NOT NULL;

CREATE TABLE sidecar.contents (
  owner text COLLATE "C" NOT NULL DEFAULT current_user,
  id text NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (owner, id)
);

CREATE TABLE sidecar.words (
  owner text COLLATE "C" NOT NULL DEFAULT current_user,
  word text NOT NULL,
  session text NOT NULL,
  PRIMARY KEY (owner, word, session)
);

CREATE TABLE sidecar.spending (
  owner text COLLATE "C" NOT NULL DEFAULT current_user,
  day text NOT NULL,
  usd double precision NOT NULL,
  tokens bigint NOT NULL,
  PRIMARY KEY (owner, day)
);
"""
"""The tables of VERSION.

The columns that are made of *meta* are the order and the filters of lists. Folders and titles stay in JSON,
for a text of the database cannot hold everything that JSON can. An id is compared by its code points, as
everywhere in this program. An index cannot hold a long folder, so it has the beginning. *folded* is a title
of plain ASCII in lower case; any other title is compared by the client.

Where policies guard rows, an index serves only the few operators that are known to leak nothing. Comparisons
are among them and the operators of a text search are not, so each word of a session is a row. The names of
roles have the collation "C" of the current role, because a comparison of two collations uses no index.
"""

RIGHTS: Final = {
    "migrations": "SELECT",
    "sessions": "SELECT, INSERT, UPDATE, DELETE",
    "nodes": "SELECT, INSERT, UPDATE, DELETE",
    "records": "SELECT, INSERT",
    "contents": "SELECT, INSERT, UPDATE, DELETE",
    "words": "SELECT, INSERT, DELETE",
    "spending": "SELECT, INSERT, UPDATE",
}
"""The rights of a daemon's role in each table; to lock a row it needs that to change it."""

_MEND: Final = "an administrator mends that: sidecar database init"
_FACTS: Final = """
SELECT owner.rolname, owner.rolcanlogin, own.rolsuper, own.rolbypassrls,
       pg_has_role(session_user, owner.oid, 'MEMBER'),
       has_schema_privilege(schema.oid, 'USAGE') AND has_table_privilege(migrations.oid, 'SELECT')
FROM pg_namespace AS schema
LEFT JOIN pg_class AS migrations ON migrations.relnamespace = schema.oid AND migrations.relname = 'migrations'
JOIN pg_roles AS owner ON owner.oid = schema.nspowner, pg_roles AS own
WHERE schema.nspname = 'sidecar' AND own.rolname = session_user
"""
_LEFT_OVERS: Final = """
WITH schema AS (SELECT oid, nspowner AS owner, nspacl FROM pg_namespace WHERE nspname = 'sidecar'),
relation AS (
  SELECT class.*, schema.owner FROM pg_class AS class JOIN schema ON class.relnamespace = schema.oid
)
SELECT 'the function ' || proname FROM pg_proc JOIN schema ON pronamespace = schema.oid
UNION ALL
SELECT 'the owner of ' || relname FROM relation WHERE relowner <> owner
UNION ALL
SELECT 'the trigger ' || tgname FROM pg_trigger JOIN relation ON tgrelid = relation.oid WHERE NOT tgisinternal
UNION ALL
SELECT 'the rule ' || rulename FROM pg_rewrite JOIN relation ON ev_class = relation.oid
UNION ALL
SELECT 'the policy ' || polname FROM pg_policy JOIN relation ON polrelid = relation.oid
WHERE polname <> 'own_rows' OR polcmd <> '*' OR polroles <> '{0}'
  OR pg_get_expr(polqual, polrelid) IS DISTINCT FROM '(owner = (CURRENT_USER)::text)'
  OR pg_get_expr(polwithcheck, polrelid) IS DISTINCT FROM '(owner = (CURRENT_USER)::text)'
UNION ALL
SELECT 'no row-level security of ' || relname FROM relation
WHERE relkind = 'r' AND relname <> 'migrations' AND NOT (relrowsecurity AND relforcerowsecurity)
UNION ALL
SELECT lower(privilege_type) || ' of ' || relname FROM relation, aclexplode(relacl)
WHERE grantee <> owner AND privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'USAGE')
UNION ALL
SELECT 'create in the schema' FROM schema, aclexplode(nspacl)
WHERE grantee <> owner AND privilege_type <> 'USAGE'
"""
"""The additions to TABLES and RIGHTS in the schema, in words."""


def check_server(connection: PatientConnection) -> None:
    """Raise DatabaseError where the server is too old, or the database cannot hold every text."""
    version, encoding = connection.info.server_version, connection.info.parameter_status("server_encoding")
    if version < _OLDEST:
        found = f"{version // 10_000}"
        raise DatabaseError(f"PostgreSQL {found} is too old; {_OLDEST // 10_000} or newer is needed")
    if encoding != "UTF8":
        raise DatabaseError(f"the encoding of the database is {encoding}; create one with ENCODING 'UTF8'")


def check_tables(connection: PatientConnection) -> None:
    """Return if the role of *connection* may use the tables, and no other role can do harm with them.

    Raises:
        DatabaseError: there are no tables, or other ones. They belong to a role that could be a user, or have
            additions. The role of *connection* has too many rights, or none. The reason names the next step.
    """
    facts = connection.execute(_FACTS).fetchone()
    if facts is None:
        why = "the database has no tables for sessions"
        raise DatabaseError(f"{why}; an administrator makes them: sidecar database init")
    owner, can_log_in, is_superuser, sees_all, is_member, may_read = facts
    if owner != OWNER or can_log_in:
        whose = "a role that can log in" if can_log_in else "another role"
        raise DatabaseError(f"the tables for sessions belong to {whose}; {_MEND}")
    for is_too_much, what in (
        (is_superuser, "is that of a superuser, to whom no limits apply"),
        (sees_all, "reads the rows of all roles"),
        (is_member, "may change the tables"),
    ):
        if is_too_much:
            raise DatabaseError(f"the role of the address {what}; give the daemon a role of its own")
    if not may_read:
        why = "the role of the address has no right to the tables for sessions"
        raise DatabaseError(f"{why}; an administrator gives it: sidecar database init --role")
    found = version_of(connection)
    if found > VERSION:
        why = f"the tables in the database are of version {found}, this program knows {VERSION}"
        raise DatabaseError(f"{why}; install a newer one")
    if found < VERSION:
        why = f"the tables in the database are of version {found}, this program needs {VERSION}"
        raise DatabaseError(f"{why}; an administrator brings them to it: sidecar database init")
    if left_overs := find_left_overs(connection):
        raise DatabaseError(f"sidecar did not make {left_overs[0]} in its tables; {_MEND}")


def find_left_overs(connection: PatientConnection) -> list[str]:
    """Return the additions of others to the schema, in words."""
    return [row[0] for row in connection.execute(_LEFT_OVERS.encode()).fetchall()]


def version_of(connection: PatientConnection) -> int:
    """Return the version of the tables that are there."""
    row = connection.execute("SELECT coalesce(max(version), 0) FROM sidecar.migrations").fetchone()
    return int(row[0]) if row is not None else 0
