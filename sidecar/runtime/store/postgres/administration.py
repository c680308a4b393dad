"""``sidecar database init``: an administrator makes the tables, or makes them again with the rows in them.

Tables that an earlier version made with the role of a daemon, and tables with something in them that is not
ours, are not mended one by one: their rows are copied out, the schema is dropped, and made anew. COPY reads a
plain table of plain types without calling anything that an owner may have defined for it (policies, triggers,
indexes), so nothing of theirs runs with the rights of the administrator. All of it is one transaction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Final

import psycopg
from psycopg.sql import SQL, Identifier

from sidecar.runtime.store.postgres.connection import OPTIONS, DatabaseError, PatientConnection, describe
from sidecar.runtime.store.postgres.records import WORDS_OF
from sidecar.runtime.store.postgres.schema import (
    OWNER,
    RIGHTS,
    TABLES,
    VERSION,
    check_server,
    find_left_overs,
    version_of,
)

_LOCK: Final = 0x51DECA2
"""The advisory lock of whoever makes the tables."""
_OLDEST_KEPT: Final = 3
"""The first version whose rows have the columns of today."""
_KEPT_SINCE: Final = {"spending": 8}
"""The tables that earlier versions have not, each with the first that has it."""
_KEPT: Final = {
    "sessions": (
        "owner", "id", "created_at", "modified_at", "meta", "n_records", "n_bytes",
        "lease_token", "lease_holder", "leased_until",
    ),
    "nodes": ("owner", "id", "body", "words"),
    "records": ("owner", "session", "n", "node", "body", "content"),
    "contents": ("owner", "id", "body"),
    "spending": ("owner", "day", "usd", "tokens"),
}  # fmt: skip
"""The columns that are copied; the rest is made of them."""
_COPIED_BYTES: Final = 1 << 20
_IS_PLAIN: Final = """
SELECT count(*) = cardinality(%(columns)s::text[])
FROM pg_class AS class
JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
WHERE class.oid = %(table)s AND class.relkind = 'r' AND attribute.attname = ANY(%(columns)s)
  AND attribute.atttypid < 16384
"""
_OWN_ROWS: Final = """
ALTER TABLE sidecar.{0} ENABLE ROW LEVEL SECURITY;
ALTER TABLE sidecar.{0} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON sidecar.{0} USING (owner = current_user::text) WITH CHECK (owner =
current_user::text);
"""
_WORDS: Final = f"""
INSERT INTO sidecar.words (owner, word, session)
SELECT DISTINCT record.owner, left(part, 100), record.session
FROM sidecar.records AS record
JOIN sidecar.nodes AS node ON node.owner = record.owner AND node.id = record.node,
{WORDS_OF.format("node.words")}
"""
_TOKENS: Final = """
SELECT setval('sidecar.lease_tokens', (SELECT greatest(max(lease_token), 1) FROM sidecar.sessions))
"""
_OWNED: Final = "SELECT nspowner = to_regrole(%s) FROM pg_namespace WHERE nspname = 'sidecar'"
_GRANTED: Final = """
SELECT DISTINCT rolname FROM pg_class, aclexplode(relacl) JOIN pg_roles AS role ON role.oid = grantee
WHERE pg_class.oid = 'sidecar.sessions'::regclass AND rolname <> %s ORDER BY rolname
"""


def init_tables(conninfo: str, roles: Sequence[str]) -> str:
    """Make the tables in the database *conninfo*, and return a report in words.

    Tables of this version without additions stay as they are. Blocks.

    Args:
        conninfo: the address, with the role of an administrator: a superuser, or a member of OWNER that may
            create schemas.
        roles: the roles that daemons connect with. Each gets its rights, and others keep theirs.

    Raises:
        DatabaseError: the database does not answer or refuses, its schema belongs to another program, or a
            role has too many rights for a daemon. Nothing was changed then.
    """
    try:
        with PatientConnection.connect(conninfo, autocommit=True, **OPTIONS) as connection:
            connection.patience_s = math.inf  # large tables take their time
            check_server(connection)
            with connection.transaction():
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                check_owner(connection)
                for role in roles:
                    check_role(connection, role)
                report, granted = bring_up_to_date(connection)
                connection.execute(f"SET LOCAL ROLE {OWNER}".encode())
                for role in dict.fromkeys([*granted, *roles]):
                    grant(connection, role)
                granted = granted_roles(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        why = f"the role of the address cannot administer the tables: {error.diag.message_primary}"
        hint = f"use a superuser, or have one grant {OWNER} and CREATE on the database to the role"
        raise DatabaseError(f"{why}; {hint}") from error
    except psycopg.Error as error:
        raise DatabaseError(describe(error)) from error
    if not granted:
        return f"{report}; no daemon may use them yet: name the roles of daemons with --role"
    return f"{report}; daemons may use them with the roles {', '.join(granted)}"


def bring_up_to_date(connection: PatientConnection) -> tuple[str, list[str]]:
    """Make the tables where they are missing or not sound, and return a report and the roles with rights."""
    row = connection.execute(_OWNED.encode(), (OWNER,)).fetchone()
    if row is None:
        make_tables(connection, {})
        return "the tables were made", []
    left_overs = find_left_overs(connection)
    granted = []
    # No SELECT from the tables of another owner: a plan of it may call functions that this one defined.
    if row[0] and not left_overs:
        granted = granted_roles(connection)
        if version_of(connection) == VERSION:
            return "the tables were there", granted
    n_sessions = make_again(connection)
    noun = "session" if n_sessions == 1 else "sessions"
    without = f", without {', '.join(left_overs)}" if left_overs else ""
    return f"the tables were made again with the rows of {n_sessions} {noun}{without}", granted


def check_owner(connection: PatientConnection) -> None:
    """Make the role of the tables where there is none.

    Raises:
        DatabaseError: a user could connect with it.
        psycopg.Error: the current role may not take it.
    """
    row = connection.execute("SELECT rolcanlogin FROM pg_roles WHERE rolname = %s", (OWNER,)).fetchone()
    if row is None:
        connection.execute(f"CREATE ROLE {OWNER} NOLOGIN".encode())
        connection.execute(f"GRANT {OWNER} TO CURRENT_USER".encode())
    elif row[0]:
        raise DatabaseError(f"the role {OWNER} can log in, and must not: ALTER ROLE {OWNER} NOLOGIN")
    connection.execute(f"SET LOCAL ROLE {OWNER}".encode())
    connection.execute("RESET ROLE")


def check_role(connection: PatientConnection, role: str) -> None:
    """Raise DatabaseError unless a daemon may connect with *role*."""
    row = connection.execute(
        "SELECT rolsuper OR rolbypassrls, pg_has_role(oid, %s, 'MEMBER') FROM pg_roles WHERE rolname = %s",
        (OWNER, role),
    ).fetchone()
    if row is None:
        raise DatabaseError(f"there is no role {role}; an administrator makes it: CREATE ROLE ... LOGIN")
    if row[0] or row[1]:
        what = "reads the rows of all roles" if row[0] else "may change the tables"
        raise DatabaseError(f"the role {role} {what}; give the daemon a role of its own")


def make_again(connection: PatientConnection) -> int:
    """Replace the schema by a new one with the same rows, and return how many sessions it has.

    Raises:
        DatabaseError: the schema is not that of an earlier version.
    """
    with ExitStack() as files:
        kept = {table: files.enter_context(TemporaryFile()) for table in ("migrations", *_KEPT)}
        versions = kept.pop("migrations")
        copy_out(connection, "migrations", ["version"], versions)
        newest = max(map(int, versions), default=0)
        if not _OLDEST_KEPT <= newest <= VERSION:
            raise DatabaseError(f"the tables are of version {newest}, which this program does not know")
        for table, rows in kept.items():
            if newest >= _KEPT_SINCE.get(table, 0):
                copy_out(connection, table, _KEPT[table], rows)
        connection.execute("DROP SCHEMA sidecar CASCADE")
        return make_tables(connection, kept)


def copy_out(connection: PatientConnection, table: str, columns: Sequence[str], rows: IO[bytes]) -> None:
    """Write the *columns* of an earlier *table* to *rows*, as COPY does, and go back to its beginning.

    Raises:
        DatabaseError: it is no table with these columns, each of a type of the server's own.
    """
    name, listed = f"sidecar.{table}", ", ".join(columns)
    [(found,)] = connection.execute("SELECT to_regclass(%s)::oid", (name,)).fetchall()
    if found is not None:
        connection.execute(f"LOCK TABLE {name}".encode())
    values = {"table": found, "columns": [*columns]}
    [(is_plain,)] = connection.execute(_IS_PLAIN, values).fetchall()
    if not is_plain:
        raise DatabaseError(f"sidecar did not make {name}; give it another database")
    connection.execute(f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY".encode())
    with connection.cursor().copy(f"COPY {name} ({listed}) TO STDOUT".encode()) as copy:
        for data in copy:
            rows.write(data)
    rows.seek(0)


def make_tables(connection: PatientConnection, kept: Mapping[str, IO[bytes]]) -> int:
    """Make the tables with the rows *kept* from earlier ones, and return how many sessions they have."""
    connection.execute(f"CREATE SCHEMA sidecar AUTHORIZATION {OWNER}".encode())
    connection.execute(f"SET LOCAL ROLE {OWNER}".encode())
    connection.execute(TABLES.encode())
    for table, rows in kept.items():
        columns = ", ".join(_KEPT[table])
        with connection.cursor().copy(f"COPY sidecar.{table} ({columns}) FROM STDIN".encode()) as copy:
            while data := rows.read(_COPIED_BYTES):
                copy.write(data)
    connection.execute(_WORDS.encode())
    connection.execute(_TOKENS)
    connection.execute("INSERT INTO sidecar.migrations (version) VALUES (%s)", (VERSION,))
    [(n_sessions,)] = connection.execute("SELECT count(*) FROM sidecar.sessions").fetchall()
    for table in RIGHTS:
        if table != "migrations":
            connection.execute(_OWN_ROWS.format(table).encode())
    return int(n_sessions)


def grant(connection: PatientConnection, role: str) -> None:
    """Give *role* the rights of a daemon."""
    to = Identifier(role)
    connection.execute(SQL("GRANT USAGE ON SCHEMA sidecar TO {}").format(to))
    connection.execute(SQL("GRANT USAGE ON SEQUENCE sidecar.lease_tokens TO {}").format(to))
    for table, rights in RIGHTS.items():
        connection.execute(SQL(f"GRANT {rights} ON sidecar.{table} TO {{}}").format(to))


def granted_roles(connection: PatientConnection) -> list[str]:
    """Return the roles that may write sessions, by their names."""
    return [row[0] for row in connection.execute(_GRANTED, (OWNER,)).fetchall()]
