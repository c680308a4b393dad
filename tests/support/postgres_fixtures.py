"""One server for the tests of a run, a database for each of them, and two roles that are no superusers."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from postgres_server import PostgresServer

_N_DATABASES = count(1)


MakeServer = Callable[..., "PostgresServer"]


@pytest.fixture(scope="session")
def make_server() -> Iterator[MakeServer]:
    """Returns servers with the options of ``PostgresServer``, to be started; each is stopped in the end."""
    if sys.platform == "win32":
        pytest.skip("the server of the tests is started as POSIX programs are")
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    from postgres_server import PostgresServer, find_binaries

    binaries = find_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL server here; with apt: postgresql")
    # Not below pytest's own folder, into which a server that must not be root's may not go.
    made: list[PostgresServer] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)

        def make(**options: Any) -> PostgresServer:
            room = Path(folder) / f"server{len(made)}"
            room.mkdir()
            try:
                made.append(PostgresServer(room, binaries, **options))
            except (OSError, subprocess.CalledProcessError) as error:
                why = getattr(error, "stderr", b"").decode(errors="replace")
                pytest.skip(f"no database can be made here: {error} {why}")
            return made[-1]

        yield make
        for server in made:
            server.stop(signal.SIGQUIT)  # what is in them is wanted no more


@pytest.fixture(scope="session")
def server(make_server: MakeServer) -> PostgresServer:
    """A running server."""
    made = make_server()
    made.start()
    return made


@pytest.fixture
def database(server: PostgresServer) -> str:
    """The name of a database with empty tables, for ann and bob."""
    name = f"d{next(_N_DATABASES)}"
    server.make_database(name)
    return name
