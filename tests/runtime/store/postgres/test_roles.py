"""Who owns the tables: a role that no daemon uses, so that no user reaches the rows of another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from shared_database import begin, shown
from sidecar.boot import init_database
from sidecar.cli import main
from sidecar.runtime.store import StoreUnavailable

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

pytestmark = [pytest.mark.postgres, pytest.mark.processes]
MakeStore = Callable[..., "PostgresStore"]
VERSION_6 = Path(__file__).with_name("version_6.sql").read_text()
"""The tables of an earlier version, which the first daemon made with its own role."""
HOSTILE_TRIGGER = """
CREATE OR REPLACE FUNCTION sidecar.add_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN CREATE TABLE public.ran_as AS SELECT current_user::text AS role; RETURN NULL; END $$
"""


@pytest.fixture
def bare_database(server: PostgresServer, database: str) -> str:
    """The name of a database in which every role may make things, without tables."""
    server.execute(f"CREATE DATABASE bare_{database}")
    server.execute("GRANT CREATE ON SCHEMA public TO PUBLIC", f"bare_{database}")
    server.execute(f"GRANT CREATE ON DATABASE bare_{database} TO ann, bob")
    return f"bare_{database}"


def run_as(server: PostgresServer, role: str, database: str, *statements: str) -> None:
    """Run *statements* as *role*, each in a transaction of its own."""
    with psycopg.connect(server.conninfo(role, database), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def refusal_of(store: PostgresStore) -> str:
    """Return the reason for which *store* does not use its database."""
    with pytest.raises(StoreUnavailable) as refused:
        await store.exists("s")
    return refused.value.reason


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE sidecar.sessions DISABLE ROW LEVEL SECURITY",
        "ALTER POLICY own_rows ON sidecar.sessions USING (true)",
        "UPDATE sidecar.sessions SET owner = 'ann'",
        "INSERT INTO sidecar.sessions (owner, id) VALUES ('ann', 'x')",
        "TRUNCATE sidecar.records",
        "CREATE TABLE sidecar.planted (x int)",
        "CREATE FUNCTION sidecar.planted() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TRIGGER planted BEFORE INSERT ON sidecar.records EXECUTE FUNCTION public.planted()",
        "CREATE RULE planted AS ON INSERT TO sidecar.records DO INSTEAD NOTHING",
        "CREATE INDEX planted ON sidecar.records (public.planted(body))",
        "SET ROLE sidecar_owner",
        "DROP SCHEMA sidecar CASCADE",
    ],
)
async def test_no_role_of_a_daemon_can_change_the_tables_or_the_rows_of_another_one(
    make_store: MakeStore, server: PostgresServer, database: str, statement: str
) -> None:
    ann, bob = make_store("ann"), make_store("bob")
    await begin(ann, "of ann")
    await begin(bob, "of bob")
    server.execute("GRANT CREATE ON SCHEMA public TO bob", database)
    planted = "CREATE FUNCTION public.planted{} LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN NULL; END'"
    run_as(
        server, "bob", database, *map(planted.format, ("() RETURNS trigger", "(text) RETURNS text"))
    )  # fmt: skip
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_as(server, "bob", database, statement)
    run_as(server, "bob", database, "UPDATE sidecar.sessions SET meta = 'x'", "DELETE FROM sidecar.words")
    assert await shown(ann) == ["of ann"]
    assert await ann.search(["ann"]) == {"s"}
    assert server.execute("SELECT meta FROM sidecar.sessions WHERE owner = 'ann'", database) == [(None,)]


async def test_a_daemon_uses_no_tables_that_another_role_has_made_first(
    make_store: MakeStore, server: PostgresServer, bare_database: str
) -> None:
    run_as(server, "bob", bare_database, VERSION_6, HOSTILE_TRIGGER)
    ann = make_store(address=server.conninfo("ann", bare_database))
    assert "an administrator mends that: sidecar database init" in await refusal_of(ann)
    with pytest.raises(StoreUnavailable):
        await ann.hold("s")
    assert server.execute("SELECT count(*) FROM sidecar.sessions", bare_database) == [(0,)]
    assert server.execute("SELECT to_regclass('public.ran_as')", bare_database) == [(None,)]


async def test_a_daemon_uses_no_tables_of_its_own_role(
    make_store: MakeStore, server: PostgresServer, bare_database: str
) -> None:
    run_as(server, "ann", bare_database, VERSION_6)
    assert "belong to a role that can log in" in await refusal_of(
        make_store(address=server.conninfo("ann", bare_database))
    )


async def test_a_daemon_makes_no_tables(
    make_store: MakeStore, server: PostgresServer, bare_database: str
) -> None:
    refusal = await refusal_of(make_store(address=server.conninfo("ann", bare_database)))
    assert "has no tables for sessions; an administrator makes them: sidecar database init" in refusal
    assert server.execute("SELECT to_regnamespace('sidecar')", bare_database) == [(None,)]


@pytest.mark.parametrize(
    ("role", "reason"),
    [
        ("tests", "a superuser, to whom no limits apply"),
        ("everywhere", "reads the rows of all roles"),
        ("keeper", "may change the tables"),
        ("stranger", "has no right to the tables"),
    ],
)
async def test_a_daemon_does_not_use_a_role_with_too_many_rights_or_without_any(
    make_store: MakeStore, server: PostgresServer, database: str, role: str, reason: str
) -> None:
    for name, options in (("everywhere", "BYPASSRLS"), ("keeper", ""), ("stranger", "")):
        server.execute(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN {options}")
    server.execute("GRANT sidecar_owner TO keeper")
    assert reason in await refusal_of(make_store(role))


@pytest.mark.parametrize(
    "leftover",
    [
        "CREATE FUNCTION sidecar.left_over() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TRIGGER t AFTER INSERT ON sidecar.sessions EXECUTE FUNCTION tsvector_update_trigger()",
        "CREATE RULE left_over AS ON INSERT TO sidecar.nodes DO INSTEAD NOTHING",
        "CREATE POLICY left_over ON sidecar.records USING (true)",
        "ALTER POLICY own_rows ON sidecar.records USING (true)",
        "ALTER TABLE sidecar.contents DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE sidecar.words NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE sidecar.words OWNER TO bob",
        "ALTER SCHEMA sidecar OWNER TO bob",
        "GRANT TRUNCATE ON sidecar.nodes TO bob",
        "GRANT CREATE ON SCHEMA sidecar TO bob",
        "CREATE VIEW sidecar.left_over AS SELECT * FROM sidecar.sessions",
    ],
)
async def test_what_a_superuser_left_in_the_schema_is_refused_until_it_is_mended(
    make_store: MakeStore, server: PostgresServer, database: str, leftover: str
) -> None:
    first = make_store()
    await begin(first, "of ann")
    server.execute(leftover, database)
    assert "an administrator mends that: sidecar database init" in await refusal_of(make_store())
    told = init_database(server.conninfo(database=database), ["ann", "bob"])
    assert "were made again with the rows of 1 session" in told
    assert await shown(make_store()) == ["of ann"]
    await begin(make_store("bob"), "of bob")


async def test_an_administrator_takes_over_tables_that_a_daemon_made(
    make_store: MakeStore, server: PostgresServer, bare_database: str
) -> None:
    """The rows stay, with their owners; no definition of the earlier owner does, and none of them runs."""
    node = (
        "INSERT INTO sidecar.nodes (id, body, words) VALUES"
        """ ('n', '{"turn":{"blocks":[]}}', to_tsvector('simple', 'kept words of src/a.py'))"""
    )
    session = "INSERT INTO sidecar.sessions (id, n_records, lease_token) VALUES ('s', 1, 41)"
    record = (
        """INSERT INTO sidecar.records (session, n, node, body) VALUES ('s', 1, 'n', '{"type":"node"}')"""
    )
    content = "INSERT INTO sidecar.contents (id, body) VALUES ('c', 'of a file')"
    run_as(server, "bob", bare_database, VERSION_6)
    for role in ("ann", "bob"):
        run_as(server, role, bare_database, session, node, record, content)
    evil = "CREATE FUNCTION public.evil(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$"
    run_as(
        server,
        "bob",
        bare_database,
        f"{evil} BEGIN IF current_user <> 'bob' THEN RAISE EXCEPTION 'ran'; END IF; RETURN NULL; END $$",
        "CREATE INDEX evil ON sidecar.contents (id) WHERE public.evil('x') IS NULL",
        "ALTER POLICY own_rows ON sidecar.sessions USING (public.evil(id) IS NULL)",
        HOSTILE_TRIGGER,
    )
    admin = server.conninfo(database=bare_database)
    assert "were made again with the rows of 2 sessions" in init_database(admin, ["ann", "bob"])
    assert "were there" in init_database(admin, [])
    assert server.execute("SELECT to_regclass('public.ran_as')", bare_database) == [(None,)]
    for role in ("ann", "bob"):
        store = make_store(address=server.conninfo(role, bare_database))
        assert await store.exists("s")
        assert await store.search(["kept", "a.py"]) == {"s"}
        assert store.read_content("s", "c") == b"of a file"
        assert (await store.hold("s")).token > 41
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_as(server, "bob", bare_database, "ALTER TABLE sidecar.sessions DISABLE ROW LEVEL SECURITY")


async def test_the_administrator_needs_no_superuser(
    make_store: MakeStore, server: PostgresServer, bare_database: str
) -> None:
    server.execute("DROP ROLE IF EXISTS dba; CREATE ROLE dba LOGIN")
    server.execute(f"ALTER DATABASE {bare_database} OWNER TO dba")
    admin = server.conninfo("dba", bare_database)
    assert main(["database", "init", admin, "--role", "ann"]) == 1
    server.execute("GRANT sidecar_owner TO dba")
    assert main(["database", "init", admin, "--role", "ann"]) == 0
    assert main(["database", "init", admin]) == 0
    await begin(make_store(address=server.conninfo("ann", bare_database)), "of ann")
    for role in ("dba", "tests"):
        assert main(["database", "init", admin, "--role", role]) == 1
    assert "has no right" in await refusal_of(make_store(address=server.conninfo("bob", bare_database)))
    server.execute("REVOKE sidecar_owner FROM dba")
    server.execute("REVOKE ALL ON ALL TABLES IN SCHEMA sidecar FROM ann", bare_database)
    assert "has no right" in await refusal_of(make_store(address=server.conninfo("ann", bare_database)))


def test_a_schema_of_that_name_that_is_not_ours_is_left_alone(
    server: PostgresServer, bare_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_as(server, "ann", bare_database, "CREATE SCHEMA sidecar", "CREATE TABLE sidecar.mine (x int)")
    assert main(["database", "init", server.conninfo(database=bare_database), "--role", "ann"]) == 1
    assert "sidecar did not make sidecar.migrations" in capsys.readouterr().err
    assert server.execute("SELECT to_regclass('sidecar.mine') IS NULL", bare_database) == [(False,)]
