"""A PostgreSQL server of the tests' own, in a folder of theirs, that listens on loopback alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg

from sidecar.runtime.store.postgres.administration import init_tables


def find_binaries() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``, the newest version; None when there is none."""
    found = [Path(each).resolve().parent for each in (shutil.which("initdb"),) if each is not None]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found += [Path(each) for each in ("/opt/homebrew/opt/postgresql/bin", "/usr/local/opt/postgresql/bin")]
    return next((each for each in found if (each / "initdb").exists() and (each / "postgres").exists()), None)


class PostgresServer:
    """A server that is started, stopped, killed and started again by its tests.

    Attributes:
        folder: where it has its own.
        port: where it listens.
    """

    def __init__(
        self, folder: Path, binaries: Path, *, leader: PostgresServer | None = None, wal: Path | None = None
    ) -> None:
        """Make a server in *folder*: an empty one, or a standby of *leader*; *wal* is where its log goes."""
        self.folder = folder
        self._data = folder / "data"
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self._user = user_that_may_run_it()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        folder.chmod(0o755)
        self._data.mkdir()
        if self._user is not None:
            shutil.chown(self._data, self._user)
        if leader is None:
            where = () if wal is None else ("--waldir", str(wal), "--wal-segsize", "1")
            given = ("-D", str(self._data), "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync")
            self._run("initdb", *given, *where)
        else:
            self._data.chmod(0o700)
            source = ("-h", "127.0.0.1", "-p", str(leader.port), "-U", "tests", "--checkpoint=fast")
            self._run("pg_basebackup", "-D", str(self._data), "--write-recovery-conf", "--no-sync", *source)

    def conninfo(self, user: str = "tests", database: str = "postgres") -> str:
        """Return the connection string of *user* for *database*."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self, *settings: str) -> None:
        """Start it with *settings* ("name=value") and wait until it answers."""
        given = [part for each in ("fsync=off", *settings) for part in ("-c", each)]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port), *given]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        with (self._data / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, user=self._user, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        for _ in range(300):
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.conninfo(), connect_timeout=1).close()
                return
            if self._process.poll() is not None:
                break
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        raise RuntimeError((self._data / "log").read_text()[-2_000:])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it and wait: SIGINT ends its clients, SIGQUIT is a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(30)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run *statement* as the superuser and return its rows."""
        with psycopg.connect(self.conninfo(database=database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def make_database(self, name: str, options: str = "", roles: Sequence[str] = ("ann", "bob")) -> str:
        """Make a database with the tables for sessions, and return the address of the first of its *roles*.

        *options* are those of CREATE DATABASE; roles that are missing are made.
        """
        for role in roles:
            if not self.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
                self.execute(f"CREATE ROLE {role} LOGIN")
        self.execute(f"CREATE DATABASE {name} {options}")
        init_tables(self.conninfo(database=name), roles)
        return self.conninfo(roles[0], name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        subprocess.run(command, user=self._user, check=True, capture_output=True, cwd="/", timeout=60)


def user_that_may_run_it() -> str | None:
    """Return another user than root, who may not run a server; None for any other user of the tests."""
    if os.getuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return next(each for each in ("postgres", "nobody") if each in known)
