"""Lists of sessions, read by the index of their order: the cost of a page is that of its lines.

The database selects by the columns that it makes of each ``meta`` record. Upper case differs from that of
Python there, so it compares titles of plain ASCII only, and the other titles are compared here. Where many
lines fall away, the next query asks for more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from sidecar.runtime.contract.listing import ListedSession, SessionQuery
from sidecar.runtime.store.place import Describe, StoredSummary
from sidecar.runtime.store.postgres.connection import PatientConnection
from sidecar.runtime.store.postgres.lease import host_of
from sidecar.runtime.store.postgres.rows import to_text

T = TypeVar("T", bound=ListedSession)

_GROWTH: Final = 4
_FIELDS: Final = """
SELECT id, meta, (extract(epoch FROM modified_at) * 1000)::bigint, n_bytes,
       CASE WHEN leased_until > clock_timestamp() THEN lease_holder ELSE '' END,
       CASE WHEN leased_until > clock_timestamp() THEN (extract(epoch FROM leased_until) * 1000)::bigint END,
       updated_ms
FROM sidecar.sessions
WHERE owner = current_user::text"""
_ALL: Final = f"{_FIELDS} AND n_records > 0 ORDER BY modified_at DESC"
_ORDER: Final = 'ORDER BY updated_ms DESC, id COLLATE "C" DESC'
_PAGE: Final = f"""
{_FIELDS} AND id IN (
  SELECT id FROM sidecar.sessions WHERE owner = current_user::text AND {{0}} {_ORDER} LIMIT %(limit)s::bigint
) {_ORDER}"""
"""A page; which sessions are on it, the index tells alone."""
_AFTER: Final = '(updated_ms, id COLLATE "C") < (%(after_ms)s, %(after_id)s)'
_FOLDER_CHARS: Final = 500
_TITLE: Final = "(folded IS NULL OR position(%({0})s IN folded) > 0)"


def read_summaries(connection: PatientConnection) -> list[StoredSummary]:
    """Return the summaries of all sessions, the newest first, with the holders of their leases."""
    return [summary_of(row) for row in connection.execute(_ALL.encode()).fetchall()]


def read_page(connection: PatientConnection, query: SessionQuery, describe: Describe[T]) -> list[T]:
    """Return the page that *query* asks for, by the lines that *describe* makes of summaries."""
    conditions, values = conditions_of(query)
    limit, after, found = query.limit, query.after, list[T]()
    while True:
        where = " AND ".join(["updated_ms IS NOT NULL", *conditions, *([] if after is None else [_AFTER])])
        values["limit"] = limit
        if after is not None:
            values |= {"after_ms": after[0], "after_id": to_text(after[1])}
        rows = connection.execute(_PAGE.format(where).encode(), values).fetchall()
        lines = map(describe, map(summary_of, rows))
        found += [line for line in lines if line is not None and query.matches(line)]
        if limit is None or len(rows) < limit or query.limit is None or len(found) >= query.limit:
            return found[: query.limit]
        after, limit = (rows[-1][6], rows[-1][0]), limit * _GROWTH


def conditions_of(query: SessionQuery) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions that the database can check, and their values."""
    conditions, values = [], dict[str, Any]()
    if query.cwd is not None:
        # A record with half a character in it is stored in ASCII.
        spellings = {to_text(json.dumps(query.cwd, ensure_ascii=is_ascii)) for is_ascii in (False, True)}
        folders = {f"cwd{at}": each[:_FOLDER_CHARS] for at, each in enumerate(spellings)}
        conditions.append(f"({' OR '.join(f'cwd = %({name})s' for name in folders)})")
        values |= folders
    words = {f"word{at}": to_text(word) for at, word in enumerate(query.words)}
    conditions += map(_TITLE.format, words)
    values |= words
    if not query.archived:
        conditions.append("NOT archived")
    if query.ids is not None:
        conditions.append("id = ANY(%(ids)s)")
        values["ids"] = [*query.ids]
    return conditions, values


def summary_of(row: Sequence[Any]) -> StoredSummary:
    """Return the summary in *row*, as the queries here bring it."""
    session_id, meta, modified_ms, n_bytes, holder, leased_until_ms, _ = row
    found = json.loads(meta) if meta else None
    host, pid = host_of(holder) if holder else (None, None)
    return StoredSummary(session_id, found, modified_ms, n_bytes, host, pid, leased_until_ms)
