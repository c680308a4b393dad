"""``sidecar compact FILE`` on what people have: stored sessions, and chat messages of providers' APIs."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.compact import (
    UnreadableConversationError,
    parse_call,
    parse_message,
    read_turns,
    run,
)
from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.store import SessionStore
from turns import assistant

LONG = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 30

OPENAI: list[dict[str, Any]] = [
    {"role": "user", "content": "read a.py"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
    {"role": "assistant", "content": "It sets x."},
]
ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "read a.py"}]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x = 1"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "It sets x."}]},
]
TURNS: tuple[Turn, ...] = (
    UserTurn((TextBlock("read a.py"),)),
    AssistantTurn((ToolCallBlock("c1", "read", {"path": "a.py"}),)),
    ToolTurn((ToolResultBlock("c1", "x = 1"),)),
    AssistantTurn((TextBlock("It sets x."),)),
)


def write(folder: Path, value: Any) -> Path:
    file = folder / "talk.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "messages", [pytest.param(OPENAI, id="openai"), pytest.param(ANTHROPIC, id="anthropic")]
)
def test_chat_messages_of_an_api_are_read(tmp_path: Path, messages: list[Any]) -> None:
    found = read_turns(write(tmp_path, messages))
    assert [turn.role for turn in found] == ["user", "assistant", "tool", "assistant"]
    assert (found[0], found[1], found[3]) == (TURNS[0], TURNS[1], TURNS[3])
    result = found[2].blocks[0]
    assert isinstance(result, ToolResultBlock)
    assert (result.call_id, result.output) == ("c1", "x = 1")


async def store(folder: Path, turns: tuple[Turn, ...]) -> None:
    await SessionStore(folder).journal("talk").record(turns)


async def test_a_stored_session_is_condensed_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = (*TURNS, *[turn for _ in range(4) for turn in (UserTurn((TextBlock("go on"),)), assistant(LONG))])
    await store(tmp_path, turns)
    file = tmp_path / "talk.jsonl"
    before = file.read_bytes()
    code = await asyncio.to_thread(run, Namespace(file=str(file), window=8_000, preview=False))
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert lines[0]["role"] == "user"
    assert "digest" in lines[0]["blocks"][0]["text"]
    assert lines[-1]["blocks"][0]["text"] == LONG
    assert "messages are now a digest" in err
    parts = dict(line.split("\t", 1) for line in err.splitlines() if "\t" in line)
    assert parts["digest"].startswith("0\t"), "there was none before"
    assert parts["answers"] != parts["digest"]
    assert file.read_bytes() == before


def test_nothing_to_do_has_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Namespace(file=str(write(tmp_path, OPENAI)), window=32_000, preview=False)) == 3
    assert "nothing done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[1, 2", "not valid JSON", id="broken"),
        pytest.param("[]", "no chat messages", id="empty"),
        pytest.param("hello", "neither a stored session", id="prose"),
    ],
)
def test_other_files_are_refused_with_the_finding(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "talk.json"
    file.write_text(text)
    with pytest.raises(UnreadableConversationError, match=message):
        read_turns(file)
    assert run(Namespace(file=str(file), window=8_000, preview=False)) == 2
    assert run(Namespace(file=str(tmp_path / "gone.json"), window=8_000, preview=False)) == 2


def test_a_preview_shows_the_same_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = [{"role": role, "content": LONG} for _ in range(4) for role in ("user", "assistant")]
    file = str(write(tmp_path, talk))
    assert run(Namespace(file=file, window=8_000, preview=False)) == 0
    done = capsys.readouterr()
    assert run(Namespace(file=file, window=8_000, preview=True)) == 0
    preview = capsys.readouterr()
    assert preview.out == ""
    assert preview.err == done.err + (
        "nothing was written; without --preview the condensed turns go to standard output\n"
    )


def test_arguments_that_are_not_json_are_kept_as_text() -> None:
    call = parse_call({"id": "c1", "function": {"name": "read", "arguments": "{path"}})
    assert call == ToolCallBlock("c1", "read", {"__unparsed": "{path"})


def test_a_message_with_results_and_a_prompt_is_two_turns() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [1]}
    content = [{"type": "text", "text": "go on"}, result, {"type": "image"}]
    tools, user = parse_message({"role": "user", "content": content})
    assert tools == ToolTurn((ToolResultBlock("c1", "[1]", False),))
    assert user == UserTurn((TextBlock("go on"),))
    assert parse_message({"role": "system", "content": "be brief"}) == []
