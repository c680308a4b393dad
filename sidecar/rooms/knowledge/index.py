"""A ranked full-text index in SQLite: documents in rooms, divided into chunks, ranked by BM25.

The problem: thousands of files and messages must be searched before a prompt is answered, by several
sessions, without blocking the event loop, and any of it may be lost without harm.

- A document has a key that is its own within its room. It is stored as chunks of at most 60 lines in an FTS5
  table with three columns: the text, the words inside its names, the title. Columns weigh 1, 0.5 and 2.
- The row number of a chunk is its document's number followed by 16 bits of its own (document 7 has rows
  458752, 458753, ...), so that ``id >> 16`` finds the document without a join, and the best chunk of each
  document is a GROUP BY.
- A search counts the rows of each word first, ranks by the rarest ones, and scales the ranks to 0 to 1 by the
  best rank that these words could get, so that scores compare between indexes.
- :class:`IndexThread` owns the connection: all work on an index is done by one thread, in the order it was
  requested. An index that is broken or of another version is set aside and begun anew, and its owner is
  notified to fill it again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sidecar._internal.errors import InvalidInput
from sidecar._internal.state_folder import make_private_folder
from sidecar._internal.surrogates import to_storable
from sidecar._internal.values import Value
from sidecar.rooms.knowledge.words import (
    TextChunk,
    choose_ranking_words,
    excerpt,
    normalize_rank,
    query_words,
    split_chunks,
    words_in_names,
)

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x53434B49
VERSION = 1
"""To be raised with every change of the schema, of the chunks or of the words."""

BUSY_TIMEOUT_S = 5.0
EXCERPT_CHARS = 800
# Ranking a row costs a microsecond or two, and a word that is in more rows than this says nothing.
MAX_RANKED_ROWS = 5000
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
  FROM (
    SELECT rowid AS id, rank AS score FROM chunk
    WHERE chunk MATCH ? AND rowid >> 16 NOT IN (SELECT id FROM document WHERE key IN ({excluded}))
    LIMIT ?
  )
  GROUP BY id >> 16
) AS hit JOIN document ON document.id = hit.id >> 16
ORDER BY hit.score, document.created_at_ms DESC, document.id LIMIT ?
"""


T = TypeVar("T")


class StaleIndexError(Exception):
    """The index on disk was made by another version."""


class Document(Value, kw_only=True):
    """A text to be found, under a *key* that is its own within *room*; *title* is searched too."""

    room: str
    key: str
    title: str
    text: str
    created_at_ms: int = 0


class IndexHit(Value, kw_only=True):
    """A document that was found, with its best lines; *score* is 0 to 1."""

    room: str
    key: str
    title: str
    created_at_ms: int
    chunk: TextChunk
    score: float


class TextIndex:
    """The index at *path*, or in memory for None; see :func:`open_index` for one that may be broken.

    Blocking, and for one thread.

    Raises:
        StaleIndexError: it was made by another version.
        InvalidInput: *path* is a database that belongs to something else.
        sqlite3.Error: the file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        # Imported on first use, here and below: most daemons never search, and some Pythons come without it.
        import sqlite3

        self._connection = sqlite3.connect(path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            ((application_id,),) = self._rows("PRAGMA application_id")
            ((version,),) = self._rows("PRAGMA user_version")
            ((n_tables,),) = self._rows("SELECT count(*) FROM sqlite_master")
            if n_tables and application_id != APPLICATION_ID:
                raise InvalidInput(
                    f"{path} is a database of something else; give the index a path of its own"
                )
            if n_tables and version != VERSION:
                raise StaleIndexError(
                    f"the index has version {version}; this program makes version {VERSION}"
                )
            self._rows("PRAGMA journal_mode = WAL")
            self._rows("PRAGMA synchronous = NORMAL")
            if not n_tables:
                self._connection.executescript(SCHEMA)
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
        """Index *document* in place of the one under its key; return False when that was the same already."""
        title, text = to_storable(document.title), to_storable(document.text)
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
        titles = " ".join((title, *words_in_names(title)))
        chunks = enumerate(islice(split_chunks(text), MAX_CHUNKS), start=new_id << CHUNK_BITS)
        self._connection.executemany(
            "INSERT INTO chunk (rowid, text, hidden, title, line) VALUES (?, ?, ?, ?, ?)",
            (
                (row, chunk.text, " ".join(words_in_names(chunk.text)), titles, chunk.line)
                for row, chunk in chunks
            ),
        )
        return True

    def drop(self, room: str, key: str) -> None:
        """Forget the document *key* of *room*."""
        self._drop(self._rows("SELECT id FROM document WHERE room = ? AND key = ?", room, key))

    def drop_tree(self, room: str, key: str) -> None:
        """Forget the document *key* of *room*, and all documents under it as under a folder."""
        self._drop(
            self._rows(
                "SELECT id FROM document WHERE room = ? AND (key = ? OR key > ? AND key < ?)",
                *(room, key, f"{key}/", f"{key}0"),
            )
        )

    def keep_only(self, room: str, keys: Collection[str]) -> None:
        """Forget the documents of *room* that are not among *keys*, all or none."""
        kept = {to_storable(key) for key in keys}
        with self.batch():
            for key in self.keys(room) - kept:
                self.drop(room, key)

    def drop_room(self, room: str) -> None:
        """Forget all documents of *room*."""
        self._drop(self._rows("SELECT id FROM document WHERE room = ?", room))

    def keys(self, room: str) -> frozenset[str]:
        """Return the keys of all documents of *room*."""
        return frozenset(key for (key,) in self._rows("SELECT key FROM document WHERE room = ?", room))

    def find(self, query: str, *, limit: int, exclude: Collection[str] = ()) -> list[IndexHit]:
        """Return the documents that match *query*, best first, each once.

        Args:
            query: free text; documents with any of its words match, and rare words count most.
            limit: the most documents to return, 1 or more.
            exclude: keys of documents that are not to be found.
        """
        counts = {
            word: self._rows("SELECT count(*) FROM chunk WHERE chunk MATCH ?", f'"{word}"')[0][0]
            for word in query_words(query)
        }
        ((n_rows,),) = self._rows("SELECT count(*) FROM chunk_docsize")
        weights = choose_ranking_words(counts, n_rows, MAX_RANKED_ROWS)
        if not weights:
            return []
        match = " OR ".join(f'"{word}"' for word in weights)
        find = FIND.format(excluded=", ".join("?" * len(exclude)))
        rows = self._rows(find, match, *exclude, MAX_RANKED_ROWS, limit)
        hits: list[IndexHit] = []
        for row, rank, found_in, key, title, created_at_ms in rows:
            ((line, text),) = self._rows("SELECT line, text FROM chunk WHERE rowid = ?", row)
            hits.append(
                IndexHit(
                    room=found_in,
                    key=key,
                    title=title,
                    created_at_ms=created_at_ms,
                    chunk=excerpt(TextChunk(line, text), weights, EXCERPT_CHARS),
                    score=normalize_rank(rank, weights),
                )
            )
        return hits

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _drop(self, documents: Sequence[tuple[Any, ...]]) -> None:
        for document_id, *_ in documents:
            first = document_id << CHUNK_BITS
            self._rows("DELETE FROM chunk WHERE rowid BETWEEN ? AND ?", first, first + MAX_CHUNKS - 1)
            self._rows("DELETE FROM document WHERE id = ?", document_id)

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        storable = tuple(to_storable(value) if isinstance(value, str) else value for value in values)
        return self._connection.execute(sql, storable).fetchall()


def open_index(path: Path | None) -> tuple[TextIndex, bool]:
    """Open the index at *path*, and return whether an old one had to be set aside for it.

    One of another version is removed. A broken file is kept beside it with the ending ``.broken``, for it may
    not be an index at all. Folder and file are readable by their owner alone: they hold private text.
    """
    import sqlite3

    if path is None:
        return TextIndex(None), False
    make_private_folder(path.parent)
    try:
        return _open_private(path), False
    except StaleIndexError:
        path.unlink()
    except sqlite3.DatabaseError as error:
        if not is_broken(error):
            raise
        set_aside(path)
    return _open_private(path), True


def _open_private(path: Path) -> TextIndex:
    # SQLite gives its -wal and -shm files the mode of the database.
    path.touch(mode=0o600)
    path.chmod(0o600)
    return TextIndex(path)


def set_aside(path: Path) -> None:
    """Move the database at *path*, which nobody has open, out of the way."""
    path.replace(path.with_name(f"{path.name}.broken"))
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def is_broken(error: sqlite3.DatabaseError) -> bool:
    """Return whether *error* means that the file itself is beyond use, not merely locked or out of reach."""
    import sqlite3

    # Errors that Python itself raises, about a closed connection for instance, carry no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class IndexThread:
    """The thread of the index at *path* (None: in memory), which is opened when it is first needed.

    SQLite connections belong to the thread that made them, and the event loop must never wait on a disk.

    *on_lost* is called in the event loop when the content is gone and must be indexed again: the file was
    broken or of another version. The work that met it was done on the new, empty index.
    """

    def __init__(self, path: Path | None, on_lost: Callable[[], None]) -> None:
        self._path = path
        self._on_lost = on_lost
        self._index: TextIndex | None = None
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="knowledge-index")

    async def call(self, work: Callable[[TextIndex], T]) -> T:
        """Do *work* in the index's thread; return its result, or raise its exception."""
        import sqlite3

        loop = asyncio.get_running_loop()

        def run() -> T:
            try:
                return work(self._ensure_open(loop))
            except sqlite3.DatabaseError as error:
                if self._path is None or not is_broken(error):
                    raise
                self._close_index()
                set_aside(self._path)
            loop.call_soon_threadsafe(self._on_lost)
            return work(self._ensure_open(loop))

        return await loop.run_in_executor(self._executor, run)

    async def close(self) -> None:
        """Close the index after the work requested so far, and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._close_index)
        self._executor.shutdown()

    def _ensure_open(self, loop: asyncio.AbstractEventLoop) -> TextIndex:
        if self._index is None:
            self._index, lost = open_index(self._path)
            if lost:
                loop.call_soon_threadsafe(self._on_lost)
        return self._index

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
