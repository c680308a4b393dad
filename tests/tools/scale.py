"""What many users would need of a database: measured with a few sessions on a real server, then multiplied.

    python tests/tools/scale.py postgresql://ann@127.0.0.1/sidecar --sessions 200

The shape of a session is that of 34 recorded ones of several agents: 5.4 nodes a prompt, 2.0 kB a node, 294
nodes a session. The habits of a user are assumptions, which the options change.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import dataclass

from sidecar.conversation import Entry
from sidecar.llmgateway.contract import TextBlock, UserTurn
from sidecar.runtime.store.postgres.store import PostgresStore

NODES_A_PROMPT = 5.4
BYTES_A_NODE = 2_000
NODES_A_SESSION = 294
_TABLES = ("nodes", "records", "words")
_SIZES = """
SELECT relname, pg_total_relation_size(c.oid), (xpath('/row/n/text()', query_to_xml(
  format('SELECT count(*) AS n FROM sidecar.%%I', relname), false, true, '')))[1]::text::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = 'sidecar' AND relname = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class Habits:
    """What users do: assumptions. *open_share* is the part of them with a session open at the same time."""

    users: int = 100_000
    sessions: int = 20
    prompts_a_day: int = 30
    busy_hours: int = 8
    open_share: float = 0.2


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of what was stored: bytes and rows a node by table, bytes a session, seconds a write."""

    bytes_a_node: dict[str, float]
    rows_a_node: dict[str, float]
    bytes_a_session: float
    seconds_a_node: float


async def measure(address: str, n_sessions: int, n_nodes: int) -> Measured:
    """Store *n_sessions* of *n_nodes* each, one node a write as in a conversation, and return their cost."""
    store = PostgresStore(address)
    before = sizes(store)
    words = "the parser keeps a stack of open brackets and reports the first that is not closed "
    started = time.perf_counter()
    for number in range(n_sessions):
        sid = f"scale-{time.time_ns()}-{number}"
        held = await store.hold(sid)
        journal = store.journal(sid)
        await journal.load()
        for n in range(n_nodes):
            text = (f"{number} {n} {words}" * (BYTES_A_NODE // len(words)))[: BYTES_A_NODE - 250]
            await journal.append([Entry(UserTurn((TextBlock(text),)), "user")])
        await journal.append_records([{"type": "meta", "title": f"session {number}"}])
        store.close(sid)
        held.release()
    taken_s = time.perf_counter() - started
    after = sizes(store)
    await store.aclose()
    total = n_sessions * n_nodes
    return Measured(
        {table: (after[table][0] - before[table][0]) / total for table in _TABLES},
        {table: (after[table][1] - before[table][1]) / total for table in _TABLES},
        (after["sessions"][0] - before["sessions"][0]) / n_sessions,
        taken_s / total,
    )


def sizes(store: PostgresStore) -> dict[str, tuple[int, int]]:
    """Return the bytes and rows of each table."""
    rows = store.database.run(
        lambda each: each.execute(_SIZES.encode(), (["sessions", *_TABLES],)).fetchall()
    )
    return {name: (n_bytes, n_rows) for name, n_bytes, n_rows in rows}


def model(measured: Measured, habits: Habits) -> list[str]:
    """Return the needs of all users, a line each."""
    n_nodes = habits.users * habits.sessions * NODES_A_SESSION
    nodes_a_second = habits.users * habits.prompts_a_day * NODES_A_PROMPT / (habits.busy_hours * 3600)
    n_open = int(habits.users * habits.open_share)
    n_sessions = habits.users * habits.sessions
    sessions_tb = measured.bytes_a_session * n_sessions / 1e12
    busiest = nodes_a_second, 1 / measured.seconds_a_node
    return [
        f"{habits.users:,} users with {habits.sessions} sessions: {n_nodes / 1e6:,.0f} million nodes",
        f"sessions  {n_sessions / 1e6:8,.0f} million rows {sessions_tb:6.2f} TB",
        *(
            f"{table:9} {measured.rows_a_node[table] * n_nodes / 1e6:8,.0f} million rows"
            f" {measured.bytes_a_node[table] * n_nodes / 1e12:6.2f} TB"
            for table in _TABLES
        ),
        "writes: {:,.0f} a second in the busy hours; one writer here makes {:,.0f}".format(*busiest),
        f"heartbeats: {n_open / 10:,.0f} a second, for {n_open:,} open sessions, all on the table sessions",
        f"connections: {n_open:,}, one a daemon at rest",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--sessions", type=int, default=50)
    for name in ("users", "prompts_a_day"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Habits, name, None))
    options = parser.parse_args()
    measured = asyncio.run(measure(options.address, options.sessions, NODES_A_SESSION))
    given = {name: getattr(options, name) for name in ("users", "prompts_a_day") if getattr(options, name)}
    print("\n".join(model(measured, Habits(**given))))


if __name__ == "__main__":
    main()
