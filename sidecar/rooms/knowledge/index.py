"""A full-text index in SQLite: documents in rooms, divided into chunks, ranked by BM25.

Blocking, and for one thread: whoever uses it from an event loop does so through
:class:`sidecar.rooms.knowledge.worker.IndexThread`. It holds nothing that cannot be made again, so an index
that is broken or of another version is set aside and begun anew.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from sidecar._internal.errors import InvalidInput
from sidecar.rooms.knowledge.excerpts import Chunk, chunks, excerpt
from sidecar.rooms.knowledge.ranking import comparable, telling_words
from sidecar.rooms.knowledge.words import clean, hidden_words, query_words

__all__ = ["Document", "Hit", "StaleIndex", "TextIndex", "is_broken", "open_index", "set_aside"]

APPLICATION_ID = 0x53434B49
VERSION = 1
"""To be raised with every change of the schema, of the chunks or of the words."""

BUSY_TIMEOUT_S = 5.0
EXCERPT_CHARS = 800
# Ranking a row costs a microsecond or two, and a word that is in more rows than this says nothing.
MAX_RANKED_ROWS = 5000
# A chunk's row number is its document's, followed by the chunk's own 16 bits.
CHUNK_BITS = 16
MAX_CHUNKS = 1 << CHUNK_BITS

SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE document (
  id INTEGER PRIMARY KEY,
  room TEXT NOT NULL,
  key TEXT NOT NULL,
  title TEXT NOT NULL,
  digest BLOB NOT NULL,
  created_at_ms INTEGER NOT NULL,
  UNIQUE (room, key)
);
CREATE INDEX document_key ON document (key);
CREATE VIRTUAL TABLE chunk USING fts5 (
  text, hidden, title, line UNINDEXED, tokenize = 'unicode61'
);
INSERT INTO chunk (chunk, rank) VALUES ('rank', 'bm25(1.0, 0.5, 2.0)');
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
COMMIT;
"""

FIND = """
SELECT hit.id, hit.score, document.room, document.key, document.title, document.created_at_ms
FROM (
  SELECT id, min(score) AS score
  FROM (SELECT rowid AS id, rank AS score FROM chunk WHERE chunk MATCH ? {within} LIMIT ?)
  GROUP BY id >> 16
) AS hit JOIN document ON document.id = hit.id >> 16
ORDER BY hit.score, document.created_at_ms DESC, document.id LIMIT ?
"""


class StaleIndex(Exception):
    """The index on disk was made by another version."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be found, under a *key* that is its own within *room*; *title* is searched too."""

    room: str
    key: str
    title: str
    text: str
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found, with the lines that were meant; *score* is 0 to 1."""

    room: str
    key: str
    title: str
    created_at_ms: int
    chunk: Chunk
    score: float


class TextIndex:
    """The index at *path*, or in memory for None; see :func:`open_index` for one that may be broken.

    Raises:
        StaleIndex: it was made by another version.
        InvalidInput: *path* is a database that belongs to something else.
        sqlite3.Error: the file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._connection = sqlite3.connect(path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None)
        self._n_rows = 0
        self._counted_at = -1
        try:
            self._prepare(path)
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make all changes inside it or, when it is left by an exception, none."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def put(self, document: Document) -> bool:
        """Take in *document* in place of what its key held; return False when that was the same already."""
        title, text = clean(document.title), clean(document.text)
        digest = hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=16).digest()
        known = self._rows(
            "SELECT id, digest FROM document WHERE room = ? AND key = ?", document.room, document.key
        )
        if known and known[0][1] == digest:
            return False
        self._drop(known)
        self._rows(
            "INSERT INTO document (room, key, title, digest, created_at_ms) VALUES (?, ?, ?, ?, ?)",
            *(document.room, document.key, title, digest, document.created_at_ms),
        )
        ((new_id,),) = self._rows("SELECT last_insert_rowid()")
        titles = " ".join((title, *hidden_words(title)))
        self._connection.executemany(
            "INSERT INTO chunk (rowid, text, hidden, title, line) VALUES (?, ?, ?, ?, ?)",
            (
                (
                    (new_id << CHUNK_BITS) + number,
                    chunk.text,
                    " ".join(hidden_words(chunk.text)),
                    titles,
                    chunk.line,
                )
                for number, chunk in enumerate(islice(chunks(text), MAX_CHUNKS))
            ),
        )
        return True

    def drop(self, room: str, key: str) -> None:
        """Forget the document *key* of *room*."""
        self._drop(self._rows("SELECT id FROM document WHERE room = ? AND key = ?", room, key))

    def drop_tree(self, room: str, key: str) -> None:
        """Forget the document *key* of *room*, and those whose keys lie under it as under a folder."""
        self._drop(
            self._rows(
                "SELECT id FROM document WHERE room = ? AND (key = ? OR key > ? AND key < ?)",
                *(room, key, f"{key}/", f"{key}0"),
            )
        )

    def keep_only(self, room: str, keys: Collection[str]) -> None:
        """Forget the documents of *room* that are not among *keys*."""
        kept = {clean(key) for key in keys}
        for key in self.keys(room) - kept:
            self.drop(room, key)

    def drop_keys(self, keys: Collection[str]) -> None:
        """Forget the documents *keys* of all rooms."""
        for key in keys:
            self._drop(self._rows("SELECT id FROM document WHERE key = ?", key))

    def drop_room(self, room: str) -> None:
        """Forget all documents of *room*."""
        self._drop(self._rows("SELECT id FROM document WHERE room = ?", room))

    def keys(self, room: str) -> frozenset[str]:
        """Return the keys of all documents of *room*."""
        return frozenset(key for (key,) in self._rows("SELECT key FROM document WHERE room = ?", room))

    def find(
        self, query: str, *, limit: int, room: str | None = None, exclude: Collection[str] = ()
    ) -> list[Hit]:
        """Return at most *limit* documents that say what *query* asks for, best first, each once.

        Args:
            query: what somebody wrote; its words are looked for, and those that are rare count most.
            limit: how many, 1 or more.
            room: where to look, None for everywhere.
            exclude: keys of documents that are not to be found.
        """
        within, values = _within(room, exclude)
        max_ranked = MAX_RANKED_ROWS if room is None else sys.maxsize
        weights = telling_words(self._counts(query), self._row_count(), max_ranked)
        if not weights:
            return []
        match = " OR ".join(f'"{word}"' for word in weights)
        rows = self._rows(FIND.format(within=within), match, *values, MAX_RANKED_ROWS, limit)
        return [
            Hit(found_in, key, title, created_at_ms, self._excerpt(row, weights), comparable(score, weights))
            for row, score, found_in, key, title, created_at_ms in rows
        ]

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _prepare(self, path: Path | None) -> None:
        ((application_id,),) = self._rows("PRAGMA application_id")
        ((version,),) = self._rows("PRAGMA user_version")
        ((n_tables,),) = self._rows("SELECT count(*) FROM sqlite_master")
        if n_tables and application_id != APPLICATION_ID:
            raise InvalidInput(f"{path} is a database of something else; give the index a path of its own")
        if n_tables and version != VERSION:
            raise StaleIndex(f"version {version} where {VERSION} is wanted")
        self._rows("PRAGMA journal_mode = WAL")
        self._rows("PRAGMA synchronous = NORMAL")
        if not n_tables:
            self._connection.executescript(SCHEMA)

    def _counts(self, query: str) -> dict[str, int]:
        """Return in how many rows each word of *query* occurs."""
        return {
            word: self._rows("SELECT count(*) FROM chunk WHERE chunk MATCH ?", f'"{word}"')[0][0]
            for word in query_words(query)
        }

    def _row_count(self) -> int:
        """Return how many rows there are, counted again only after a change."""
        if self._counted_at != self._connection.total_changes:
            ((self._n_rows,),) = self._rows("SELECT count(*) FROM chunk_docsize")
            self._counted_at = self._connection.total_changes
        return self._n_rows

    def _excerpt(self, row: int, weights: Mapping[str, float]) -> Chunk:
        ((line, text),) = self._rows("SELECT line, text FROM chunk WHERE rowid = ?", row)
        return excerpt(Chunk(line, text), weights, EXCERPT_CHARS)

    def _drop(self, documents: Sequence[tuple[Any, ...]]) -> None:
        for document_id, *_ in documents:
            first = document_id << CHUNK_BITS
            self._rows("DELETE FROM chunk WHERE rowid BETWEEN ? AND ?", first, first + MAX_CHUNKS - 1)
            self._rows("DELETE FROM document WHERE id = ?", document_id)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        storable = tuple(clean(value) if isinstance(value, str) else value for value in values)
        return self._connection.execute(sql, storable).fetchall()


def open_index(path: Path | None) -> tuple[TextIndex, bool]:
    """Open the index at *path*, and say whether an old one had to be set aside for it.

    One of another version is removed. A broken file is kept beside it with the ending ``.broken``, for it may
    not be an index at all.
    """
    if path is None:
        return TextIndex(None), False
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return TextIndex(path), False
    except StaleIndex:
        path.unlink()
    except sqlite3.DatabaseError as error:
        if not is_broken(error):
            raise
        set_aside(path)
    return TextIndex(path), True


def set_aside(path: Path) -> None:
    """Move the database at *path*, which nobody has open, out of the way."""
    path.replace(path.with_name(f"{path.name}.broken"))
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def is_broken(error: sqlite3.DatabaseError) -> bool:
    """Return whether *error* says that the file itself is beyond use, not merely locked or out of reach."""
    # Errors that Python itself raises, about a closed connection for instance, carry no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _within(room: str | None, exclude: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return the condition that keeps a search to *room* and off *exclude*, and its values."""
    conditions = [] if room is None else ["room = ?"]
    if exclude:
        conditions.append(f"key NOT IN ({', '.join('?' * len(exclude))})")
    if not conditions:
        return "", ()
    chosen = f"AND rowid >> 16 IN (SELECT id FROM document WHERE {' AND '.join(conditions)})"
    return chosen, (*(() if room is None else (room,)), *exclude)
