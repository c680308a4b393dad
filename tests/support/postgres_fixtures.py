"""One server for the tests of a run, a database for each of them, and two roles that are no superusers."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_server import PostgresServer

_N_DATABASES = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A running server."""
    if sys.platform == "win32":
        pytest.skip("the server of the tests is started as POSIX programs are")
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    from postgres_server import PostgresServer, find_binaries

    binaries = find_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server here; with apt: postgresql")
    # Not below pytest's own folder, into which a server that must not be root's may not go.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            server = PostgresServer(Path(folder), binaries)
        except (
            OSError,
            subprocess.CalledProcessError,
        ) as error:
            pytest.skip(f"no database can be made here: {error}")
        server.start()
        server.execute("CREATE ROLE ann LOGIN")
        server.execute("CREATE ROLE bob LOGIN")
        yield server
        server.stop()


@pytest.fixture
def database(server: PostgresServer) -> str:
    """The name of an empty database."""
    name = f"d{next(_N_DATABASES)}"
    server.execute(f"CREATE DATABASE {name} OWNER ann")
    return name
