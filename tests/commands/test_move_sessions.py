"""Moving a session between two state directories: whole or not at all, and the older side follows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moved_sessions import Move
from sidecar.cli import main
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import Turn
from sidecar.runtime.store import SessionStore
from sidecar.runtime.store.codec import encode_line
from sidecar.workspace.kept_contents import KeptContents
from turns import assistant, texts, user

CHILD = "c-1"


class Home:
    """A state directory with one session, and a sub-agent of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.contents = KeptContents(folder)

    @property
    def store(self) -> SessionStore:
        return SessionStore(self.path / "sessions")

    def write(self, *turns: Turn, sid: str = "s-1", **meta: Any) -> None:
        """Go on with a session."""
        if sid == CHILD:
            meta |= {"kind": "subagent", "parent": "s-1", "title": "a child"}

        async def append() -> None:
            store = self.store
            journal = store.journal(sid)
            await journal.load()
            await journal.append([Entry(turn, "user") for turn in turns])
            await journal.append_records([{"type": "meta", "title": "a title", "updated_at": 1, **meta}])
            store.close(sid)

        asyncio.run(append())

    def keep(self, raw: bytes) -> str:
        """Keep the content of a file, and name it in the session."""
        name = self.contents.keep("s-1", raw)
        asyncio.run(self.store.write_raw("s-1", encode_line({"type": "checkpoint", "content": name})))
        return name

    @property
    def texts(self) -> list[str]:
        return self.texts_of("s-1")

    def texts_of(self, sid: str) -> list[str]:
        """Return the texts of a session, none where it is not stored."""
        graph = asyncio.run(self.store.open(sid)).graph
        return texts(each.turn for each in graph.entry_path(graph.leaf))

    @property
    def meta(self) -> Any:
        summary = asyncio.run(self.store.summary("s-1"))
        return summary and summary.meta

    @property
    def integrity(self) -> bool:
        return asyncio.run(self.store.open("s-1")).integrity.ok


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Home, Home]:
    """Two machines; the first one has a session with a checkpoint."""
    here, there = Home(tmp_path / "here"), Home(tmp_path / "there")
    here.write(user("one"), assistant("two"))
    here.keep(b"before" * 1_000)
    here.write(user("a task"), assistant("done"), sid=CHILD, updated_at=2)
    return here, there


def move(source: Home, target: Home, **cuts: Any) -> Move:
    return Move(source.path, target.path, **cuts)


MOVED = ("s-1", "a title", "send")
THERE = ("s-1", "a title", "there")


def test_a_session_goes_there_with_its_checkpoints_and_comes_back(homes: tuple[Home, Home]) -> None:
    here, there = homes
    first = move(here, there)
    assert (first.given, first.taken) == (MOVED, MOVED)
    (name,) = [path.name for path in (here.path / "checkpoints/s-1").iterdir()]
    assert (there.texts, there.contents.find("s-1", name)) == (["one", "two"], b"before" * 1_000)
    assert [*(there.path / "incoming").iterdir()] == []
    assert move(here, there).given == THERE
    there.write(user("three"), title="the other title", updated_at=2)
    assert move(there, here).given == ("s-1", "the other title", "send")
    assert (here.texts, here.meta["title"]) == (["one", "two", "three"], "the other title")
    assert here.integrity


def test_a_look_on_either_side_makes_nothing_newer(homes: tuple[Home, Home]) -> None:
    here, there = homes
    move(here, there)
    for home in homes:
        home.write(seq=7, seq_is_last=True)
    assert move(here, there).given == THERE
    here.write(user("three"), seq=5, seq_is_last=False)
    assert move(here, there).given == MOVED
    assert (there.texts[-1], there.meta["seq"]) == ("three", 7)


def test_the_newer_side_stays_and_the_next_step_is_told(homes: tuple[Home, Home]) -> None:
    here, there = homes
    move(here, there)
    there.write(user("three"))
    refused = move(here, there)
    assert refused.given == "the session on box is newer; bring it over with: sidecar sessions pull box s-1"
    assert refused.taken.startswith("here: ") or "is newer" in refused.taken
    here.write(user("another three"))
    assert "has gone on here and on box, and the two are not merged" in move(here, there).given
    assert (here.texts[-1], there.texts[-1]) == ("another three", "three")
    assert move(here, there).taken.startswith("session s-1 has gone on here and on here")


def test_a_title_alone_is_taken_from_where_it_is_newer(homes: tuple[Home, Home]) -> None:
    here, there = homes
    move(here, there)
    there.write(title="renamed", updated_at=2)
    assert "the session on box is newer" in move(here, there).given
    move(there, here)
    assert here.meta["title"] == "renamed"


def test_its_sub_agents_go_along_and_what_has_gone_on_there_stays(homes: tuple[Home, Home]) -> None:
    here, there = homes
    assert move(here, there).given == MOVED
    assert there.texts_of(CHILD) == ["a task", "done"]
    here.write(user("and more"), sid=CHILD)
    assert move(here, there).given == MOVED, "its session was there already"
    assert there.texts_of(CHILD)[-1] == "and more"
    there.write(user("more there"), sid=CHILD)
    here.write(user("three"))
    assert move(here, there).given == MOVED
    assert (there.texts[-1], there.texts_of(CHILD)[-1]) == ("three", "more there")
    here.write(user("more here"), sid=CHILD)
    here.write(user("four"))
    assert f"session {CHILD} has gone on here and on box" in move(here, there).given
    assert there.texts[-1] == "three"


@pytest.mark.parametrize("cut", [*range(0, 9_000, 900), "replies"])
def test_a_connection_that_is_cut_leaves_nothing_half_there(homes: tuple[Home, Home], cut: Any) -> None:
    here, there = homes
    there_before = []
    if cut == "replies":
        n_bytes = move(here, Home(there.path.with_name("probe"))).n_replied
        tries = [move(here, there, replies=at) for at in range(0, n_bytes, 60)]
    else:
        tries = [move(here, there, cut=cut)]
    for tried in tries:
        assert tried.taken != MOVED or there.texts == ["one", "two"]
        assert there.texts == [] or there.texts_of(CHILD) == ["a task", "done"]
        there_before.append(there.texts)
    assert {tuple(each) for each in there_before} <= {(), ("one", "two")}
    last = move(here, there)
    assert last.given in (MOVED, THERE)
    assert (there.texts, there.integrity) == (["one", "two"], True)


def test_a_connection_that_was_cut_goes_on_where_it_ended(homes: tuple[Home, Home]) -> None:
    here, there = homes
    here.write(user("x" * 100_000))
    whole = move(here, Home(there.path.with_name("probe"))).n_bytes
    cut = move(here, there, cut=80_000)
    assert "the same command goes on where it ended" in cut.given
    assert there.texts == []
    again = move(here, there)
    assert (again.given, again.n_bytes < whole - 70_000) == (MOVED, True)


def test_bytes_that_changed_on_the_way_are_not_taken_in(homes: tuple[Home, Home]) -> None:
    here, there = homes
    changed = move(here, there, change=lambda data: data.replace(b'"text":"two"', b'"text":"twx"'))
    assert changed.given == "box: the records are not what was sent; repeat the command"
    assert there.texts == []
    assert move(here, there).given == MOVED
    changed = move(
        here, Home(there.path.with_name("c")), change=lambda data: data.replace(b"before", b"behind")
    )
    assert "a kept content is not what its name says" in changed.given


def test_a_session_that_is_open_there_is_not_written(homes: tuple[Home, Home]) -> None:
    here, there = homes
    with there.store.lock("s-1"):
        assert "is in use by" in (refused := move(here, there).given)
        assert "close it in that program" in refused
    assert there.texts == []
    assert move(here, there).given == MOVED


def test_a_session_that_is_open_here_is_given_unless_a_turn_runs(homes: tuple[Home, Home]) -> None:
    here, there = homes
    with here.store.lock("s-1"):
        assert move(here, there).given == MOVED
        here.write(user("three"))
        assert "a turn runs in it; wait for its end" in move(here, there).given
    assert there.texts == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["push"], 2, "sidecar sessions push HOST [SESSION]", id="no host"),
        pytest.param(["words", "box"], 2, "sidecar sessions push HOST [SESSION]", id="no verb"),
        pytest.param(["pull", "box"], 1, "ssh cannot be started", id="no ssh", marks=pytest.mark.processes),
        pytest.param(["pull", "--", "-oProxyCommand=x"], 1, "is not a host", id="an option of ssh"),
    ],
)
def test_a_command_that_cannot_move_anything_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        found = main(["sessions", *arguments])
    except SystemExit as error:
        found = int(str(error.code))
    assert found == code
    assert said in capsys.readouterr().err.replace("\n", " ")
