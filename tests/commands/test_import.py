"""``sidecar import`` and ``sidecar export``: sessions of other agents in a terminal and in a pipe."""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.commands.terminal import Screen
from sidecar.protocol.messages import ImportableSession, ImportNote, SessionImportReport

command = import_module("sidecar.commands.import")  # its name is a word of the language

DONE = SessionImportReport(
    source="codex",
    title="Parser",
    cwd="/w",
    tokens=1234,
    entries={"user": 2, "assistant": 3, "tool": 3, "summary": 1},
    reads=1,
    compactions=1,
    notes=(ImportNote("danglingCall", 2, "tool calls have no recorded result"),),
)


def test_the_report_says_what_came_and_what_was_left_out() -> None:
    out, notes = io.StringIO(), io.StringIO()
    command.show_import(Screen(out), Screen(notes), "0ed48b6ef87051cd", DONE)
    assert out.getvalue() == "0ed48b6ef87051cd\n"
    assert notes.getvalue().splitlines() == [
        "· 2 prompts, 3 answers, 3 tool results, 1 compactions; 1,234 tokens in view",
        "· 1 file contents are known whole",
        "· 2 danglingCall: tool calls have no recorded result",
        "sidecar chat --resume 0ed48b6e continues it",
    ]


def test_a_pipe_gets_every_member_of_a_session() -> None:
    session = ImportableSession(
        source="pi", id="abc", path="/p.jsonl", cwd="/w", title="Fix", updated_at=0, size_bytes=7
    )
    out = io.StringIO()
    command.show_sessions(Screen(out), (session,))
    assert out.getvalue().split("\t")[1:] == ["/w", "7", "pi", "abc", "Fix", "/p.jsonl\n"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        pytest.param([], 8, id="none"),
        pytest.param(["a" * 32, "b" * 32], 8, id="different"),
        pytest.param(["0199c1c2-1", "0199c1c2-2"], 10, id="of one minute"),
        pytest.param(["aa", "aa"], 8, id="the same"),
    ],
)
def test_ids_are_shown_as_long_as_they_must_be(ids: list[str], expected: int) -> None:
    assert command.count_distinct_chars(ids) == expected


@pytest.mark.e2e
def test_a_file_is_imported_and_exported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    (tmp_path / "talk.json").write_text(json.dumps(talk), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "state"))
    assert main(["import", "talk.json"]) == 0
    out, err = capsys.readouterr()
    assert "1 prompts, 1 answers" in err
    assert main(["export", out.strip(), "--format", "claude-code", "--all"]) == 0
    contents = [json.loads(line)["message"]["content"] for line in capsys.readouterr().out.splitlines()[:2]]
    assert [part["text"] for content in contents for part in content] == ["hi", "ho"]
    assert main(["import", "gone/talk.json"]) == 1
    out, err = capsys.readouterr()
    assert (out, "No such file" in err) == ("", True)
    assert main(["export", "zz"]) == 2
