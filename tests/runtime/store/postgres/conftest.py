"""Stores of one database, as several daemons have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from postgres_fixtures import database, make_server, server
from postgres_proxy import PostgresProxy

if TYPE_CHECKING:
    from postgres_server import PostgresServer
    from sidecar.runtime.store.postgres.store import PostgresStore

__all__ = ["beats", "database", "make_server", "make_store", "proxy", "server"]


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[PostgresProxy]:
    """A way to the server that can be made slow, silent or cut."""
    made = PostgresProxy(server.port)
    yield made
    made.close()


@pytest.fixture
async def make_store(server: PostgresServer, database: str) -> AsyncIterator[Callable[..., PostgresStore]]:
    """Returns stores of one database, as other daemons would have; each is closed in the end."""
    from sidecar.runtime.store.postgres.store import PostgresStore

    made: list[PostgresStore] = []

    def make(user: str = "ann", lease_s: float = 30.0, address: str | None = None) -> PostgresStore:
        made.append(PostgresStore(address or server.conninfo(user, database), lease_s=lease_s))
        return made[-1]

    yield make
    for store in made:
        await store.aclose()


@pytest.fixture
async def beats(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[set[str]]:
    """The sessions that each heartbeat of any store has kept."""
    from sidecar.runtime.store.postgres.lease import Lease, Leases

    loop, kept_by_beat, keep = asyncio.get_running_loop(), asyncio.Queue[set[str]](), Leases.keep

    def keep_and_tell(self: Leases, leases: tuple[Lease, ...]) -> dict[str, str]:
        kept = keep(self, leases)
        loop.call_soon_threadsafe(kept_by_beat.put_nowait, {*kept})
        return kept

    monkeypatch.setattr(Leases, "keep", keep_and_tell)
    return kept_by_beat
