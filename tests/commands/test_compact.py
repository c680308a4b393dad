"""``sidecar compact FILE`` on what people have: stored sessions, and chat messages of providers' APIs."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from daemon_in_memory import client_in_memory
from sidecar.commands.compact import run
from sidecar.llmgateway.contract import TextBlock, Turn, UserTurn
from sidecar.runtime.store import SessionStore
from sidecar_client.sync import SidecarClient
from turns import assistant

pytestmark = pytest.mark.e2e

LONG = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 30
TALK = [{"role": role, "content": f"{at} {LONG}"} for at in range(20) for role in ("user", "assistant")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("HOME", "INDUSAGI_HOME"):
        monkeypatch.setenv(name, str(home))
    return home


def write(folder: Path, value: Any) -> Path:
    file = folder / "talk.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    return file


def options(file: Path, **given: Any) -> Namespace:
    return Namespace(
        **{"file": str(file), "window": None, "engine": None, "model": None, "preview": False} | given
    )


def texts_of(out: str) -> list[str]:
    return [str(block.get("text")) for line in out.splitlines() for block in json.loads(line)["blocks"]]


@pytest.mark.parametrize("engine", ["windowBudget", "agentcore"])
def test_a_file_is_compacted_as_a_session_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    file = write(tmp_path, TALK)
    before = file.read_bytes()
    assert run(options(file, window=32_000, engine=engine)) == 0
    out, err = capsys.readouterr()
    assert "Facts of the folded part: " in err
    assert "whole █" in err
    assert file.read_bytes() == before

    models = {"m": {"scripted": [], "contextWindow": 32_000}}
    with SidecarClient(client_in_memory(tmp_path, options={"models": models})) as client:
        imported = client.session_import(path=str(file), cwd=str(tmp_path), model="m")
        session = client.load_session(str(imported.sid))
        done = session.compact(engine)
        nodes = client.session_read(session.sid).nodes
        assert done.status == "completed"
        assert texts_of(out) == [str(block.get("text")) for node in nodes for block in node.blocks]


def test_a_stored_session_is_compacted_and_left_alone(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns: list[Turn] = []
    for at in range(20):
        turns += [UserTurn((TextBlock(f"go on {at}"),)), assistant(LONG)]
    asyncio.run(SessionStore(tmp_path).journal("talk").record(tuple(turns)))
    file = tmp_path / "talk.jsonl"
    before = file.read_bytes()
    assert run(options(file, window=8_000)) == 0
    out, err = capsys.readouterr()
    assert texts_of(out)[0].startswith("[session digest")
    assert texts_of(out)[-1] == LONG
    assert len(out) < len(before) // 2
    assert "the older part is now a summary" in err
    assert file.read_bytes() == before
    assert not home.exists(), "nothing is left in the user's own state directory"


def test_a_preview_shows_the_plan_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(options(write(tmp_path, TALK), preview=True)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "messages of" in err
    assert "Facts of the folded part: " in err
    assert err.endswith("nothing was written; without --preview the compacted turns go to standard output\n")


def test_nothing_to_do_has_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(options(write(tmp_path, TALK[:2]))) == 3
    assert "nothing done" in capsys.readouterr().err


def test_other_files_are_refused_with_the_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.json"
    file.write_text("hello")
    assert run(options(file)) == 2
    assert "not a conversation" in capsys.readouterr().err
    assert run(options(tmp_path / "gone.json")) == 2
    assert "cannot read" in capsys.readouterr().err
