"""Stores of one database, as several daemons have them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest

from postgres_fixtures import database, server

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

__all__ = ["database", "make_store", "server"]


@pytest.fixture
async def make_store(server: PostgresServer, database: str) -> AsyncIterator[Callable[..., PostgresStore]]:
    """Returns stores of one database, as other daemons would have; each is closed in the end."""
    from sidecar.runtime.store.postgres.store import PostgresStore

    made: list[PostgresStore] = []

    def make(user: str = "ann", lease_s: float = 30.0) -> PostgresStore:
        made.append(PostgresStore(server.conninfo(user, database), lease_s=lease_s))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()
