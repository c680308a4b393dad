"""The index: which documents are found and how they rank, and a broken file is begun anew."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar._internal.errors import InvalidInput
from sidecar.rooms.knowledge.index import VERSION, Document, IndexThread, TextIndex, is_broken, open_index
from sidecar.rooms.knowledge.words import split_chunks, words_in_names


@pytest.fixture
def index() -> Iterator[TextIndex]:
    made = TextIndex(None)
    yield made
    made.close()


def put(index: TextIndex, **texts: str) -> None:
    """Take in texts by their keys, in room r."""
    with index.batch():
        for key, text in texts.items():
            index.put(Document(room="r", key=key, title=key, text=text))


def found(index: TextIndex, query: str, **options: object) -> list[str]:
    return [hit.key for hit in index.find(query, limit=9, **options)]  # type: ignore[arg-type]  # plain options


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        pytest.param("budget", ["one"], id="a word"),
        pytest.param("BUDGET", ["one"], id="in any case"),
        pytest.param("userName", ["camel", "prose", "snake"], id="a name, however it is written"),
        pytest.param("user_name", ["camel", "prose", "snake"], id="the same the other way round"),
        pytest.param("user", ["camel", "prose", "snake"], id="a part of a name"),
        pytest.param("server", ["acronym"], id="a part behind an acronym"),
        pytest.param("cafe", ["accent"], id="without its accents"),
        pytest.param("検索", ["japanese"], id="a part of a run without spaces"),
        pytest.param("acronym", ["acronym"], id="a title"),
        pytest.param("missing", [], id="what nobody said"),
        pytest.param('budget" OR "server', ["acronym", "one"], id="the query language stays closed"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_documents_are_found_by_their_words(index: TextIndex, query: str, keys: list[str]) -> None:
    put(
        index,
        one="the budget of the window",
        camel="userName = 1",
        snake="user_name = 1",
        prose="the user said so",
        acronym="class HTTPServer: pass",
        accent="at the café",
        japanese="この検索機能は",
        other="nothing of it, " * 30,
    )
    assert sorted(found(index, query)) == keys


def test_a_whole_name_beats_its_parts(index: TextIndex) -> None:
    put(index, camel="userName = 1", snake="user_name = 1", prose="the user said his name", other="filler")
    for query in ("userName", "user_name"):
        assert found(index, query)[2] == "prose"


def test_a_hit_says_where(index: TextIndex) -> None:
    text = "\n".join(f"line {number}" for number in range(1, 200)) + "\nthe parser\nends"
    index.put(Document(room="r", key="k", title="src/a.py", text=text, created_at_ms=7))
    index.put(Document(room="r", key="l", title="src/b.py", text="other"))
    (hit,) = index.find("parser", limit=5)
    assert (hit.room, hit.key, hit.title, hit.created_at_ms) == ("r", "k", "src/a.py", 7)
    assert hit.chunk == (198, "line 198\nline 199\nthe parser\nends")
    assert 0 < hit.score < 1


def test_more_of_the_query_scores_higher(index: TextIndex) -> None:
    put(
        index,
        both="parser budget",
        one="parser window",
        none="window window",
        **{f"x{n}": "filler" for n in range(9)},
    )
    scores = {hit.key: hit.score for hit in index.find("parser budget", limit=9)}
    assert list(scores) == ["both", "one"]
    assert 1 > scores["both"] > 2 * scores["one"] > 0


def test_a_document_is_found_once(index: TextIndex) -> None:
    put(
        index, long="\n".join(["parser"] * 59 + ["x"] * 61 + ["parser parser"] + ["x"] * 59), short="a parser"
    )
    assert sorted(found(index, "parser")) == ["long", "short"]
    assert len(index.find("parser", limit=1)) == 1


def test_a_search_finds_the_documents_of_all_rooms_but_excluded_ones(index: TextIndex) -> None:
    index.put(Document(room="a", key="1", title="", text="the parser", created_at_ms=1))
    index.put(Document(room="b", key="2", title="", text="the parser", created_at_ms=2))
    index.put(Document(room="b", key="3", title="", text="the parser", created_at_ms=3))
    assert found(index, "parser") == ["3", "2", "1"]
    assert found(index, "parser", exclude=["3"]) == ["2", "1"]
    assert found(index, "parser", exclude=["1", "2", "3"]) == []
    assert index.keys("b") == {"2", "3"}


def test_put_replaces_and_skips(index: TextIndex) -> None:
    assert index.put(Document(room="r", key="k", title="t", text="parser"))
    assert not index.put(Document(room="r", key="k", title="t", text="parser"))
    assert index.put(Document(room="r", key="k", title="t", text="window"))
    assert (found(index, "parser"), found(index, "window")) == ([], ["k"])


def test_dropped_documents_are_not_found(index: TextIndex) -> None:
    for key in ("src", "src/a", "src/b/c", "src0", "srcs/d"):
        index.put(Document(room="r", key=key, title="", text="parser"))
        index.put(Document(room="q", key=key, title="", text="parser"))
    index.drop_tree("r", "src")
    assert index.keys("r") == {"src0", "srcs/d"}
    index.drop("r", "src0")
    assert index.keys("r") == {"srcs/d"}
    assert index.keys("q") == {"src", "src/a", "src/b/c", "src0", "srcs/d"}
    index.keep_only("q", {"src", "src0", "none"})
    assert index.keys("q") == {"src", "src0"}
    index.drop_room("q")
    assert found(index, "parser") == ["srcs/d"]


def test_names_a_database_cannot_store(index: TextIndex) -> None:
    """Half a surrogate pair in a key costs that character, not the batch."""
    put(index, **{"a\ud800": "parser", "b": "window"})
    assert found(index, "parser \ud800") == ["a?"]
    index.keep_only("r", {"a\ud800"})
    assert index.keys("r") == {"a?"}


def test_the_version_stands_for_the_way_words_are_taken() -> None:
    """When this fails, raise VERSION and note the new sum: indexes on disk no longer fit."""
    sample = "def getUserName(user_id): return HTTPServer.検索機能(user_id)\n" * 100
    taken = repr((words_in_names(sample), [tuple(chunk) for chunk in split_chunks(sample)]))
    assert (VERSION, hashlib.sha256(taken.encode()).hexdigest()[:8]) == (1, "b4f04736")


def test_a_batch_is_all_or_nothing(index: TextIndex) -> None:
    def put_and_fail() -> None:
        with index.batch():
            index.put(Document(room="r", key="k", title="", text="parser"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        put_and_fail()
    assert index.keys("r") == frozenset()


@cases(40)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=40)), max_size=8), st.text(max_size=30))
def test_the_index_is_what_was_put_last(puts: list[tuple[str, str]], query: str) -> None:
    """Any texts and any query: no error, and an index fed in order equals one fed with the outcome."""
    first, second = TextIndex(None), TextIndex(None)
    for key, text in puts:
        first.put(Document(room="r", key=key, title="", text=text))
    for key, text in sorted(dict(puts).items()):
        second.put(Document(room="r", key=key, title="", text=text))
    hits = [
        {(hit.key, hit.chunk, round(hit.score, 9)) for hit in each.find(query, limit=9)}
        for each in (first, second)
    ]
    first.close()
    second.close()
    assert hits[0] == hits[1]


# --- on disk ---------------------------------------------------------------------------------------------


def filled(path: Path) -> None:
    """Make an index of some size at *path*, and close it."""
    index, _ = open_index(path)
    with index.batch():
        for number in range(300):
            index.put(Document(room="r", key=str(number), title="", text=f"parser number{number} " * 40))
    index.close()


def test_an_index_is_kept_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.db"
    filled(path)
    index, lost = open_index(path)
    assert (lost, found(index, "number77")) == (False, ["77"])
    index.close()


def overwrite_header(path: Path) -> None:
    path.write_bytes(b"garbage" * 1000)


def raise_version(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(("harm", "kept"), [(overwrite_header, True), (raise_version, False)])
def test_a_broken_or_outdated_index_is_begun_anew(
    tmp_path: Path, harm: Callable[[Path], None], kept: bool
) -> None:
    path = tmp_path / "index.db"
    filled(path)
    harm(path)
    index, lost = open_index(path)
    assert (lost, index.keys("r")) == (True, frozenset())
    index.close()
    assert path.with_name("index.db.broken").exists() is kept


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """The error says what to do."""
    path = tmp_path / "index.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="give the index a path of its own"):
        open_index(path)
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="folders of a profile are private by inheritance there")
def test_an_index_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """It holds the text of files and of conversations; an older one that others may read is closed."""
    path = tmp_path / "folder" / "index.db"
    for _ in range(2):
        index, _lost = open_index(path)
        with index.batch():
            index.put(Document(room="r", key="k", title="t", text="text"))
        modes = {each.name: each.stat().st_mode & 0o777 for each in (path.parent, *path.parent.iterdir())}
        index.close()
        assert modes.pop("folder") == 0o700
        assert set(modes.values()) == {0o600}
        path.chmod(0o644)


def test_what_cannot_be_opened_is_not_broken(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as error:
        open_index(tmp_path)
    assert not is_broken(error.value)
    assert not is_broken(sqlite3.ProgrammingError("closed"))


def overwrite_pages(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))


@pytest.mark.parametrize("harm", [overwrite_pages, raise_version])
async def test_the_thread_goes_on_with_a_new_index_and_tells_its_owner_to_feed_it(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path, lost = tmp_path / "index.db", asyncio.Event()
    filled(path)
    harm(path)
    thread = IndexThread(path, lost.set)
    assert await thread.call(lambda index: index.find("parser", limit=5)) == []
    await lost.wait()
    await thread.call(lambda index: index.put(Document(room="r", key="k", title="", text="parser")))
    assert await thread.call(lambda index: index.keys("r")) == {"k"}
    await thread.close()


async def test_errors_of_the_work_are_raised() -> None:
    """As they are; and all work is done in one thread that is not the loop's."""
    thread = IndexThread(None, lambda: None)

    def fail(index: TextIndex) -> None:
        raise LookupError(threading.get_ident())

    idents = set()
    for _ in range(3):
        with pytest.raises(LookupError) as error:
            await thread.call(fail)
        idents.add(error.value.args[0])
    assert len(idents - {threading.get_ident()}) == 1
    with pytest.raises(sqlite3.OperationalError):
        await thread.call(lambda index: index._rows("nonsense"))
    await thread.close()
