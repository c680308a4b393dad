"""Commands that the user runs with ``!``: through the bash tool, and into the conversation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from long_talks import open_session
from sidecar.capabilities.bash import BASH
from sidecar.capabilities.contract import ConfinedCommand
from sidecar.conductor.content import parse_command
from sidecar.conductor.events import Settled, ToolFinished, ToolStarted, UserMessage
from sidecar.conductor.session import Session
from sidecar.conductor.session_ops import entries_to_messages
from sidecar.llmgateway.contract import TextBlock
from sidecar.llmgateway.scripted import Say
from sidecar.llmgateway.user_rules import UserRules
from sidecar.window_budget import BashExecutionMessage
from turns import text

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.name == "nt", reason="the commands of these tests are those of POSIX"),
]


async def in_sandbox(argv: Sequence[str], cwd: Path, roots: Sequence[Path]) -> ConfinedCommand:
    """Stand in for the sandbox, which not every system has."""

    async def take_back() -> tuple[Path, ...]:
        return ()

    return ConfinedCommand([*argv], take_back)


async def a_session(make_stage: Any, *, sandboxed: bool = False, **options: Any) -> tuple[Any, Session]:
    stage = await make_stage(
        [[Say("I see.")]], tools=[BASH], repeat=True, confine=in_sandbox if sandboxed else None, **options
    )
    return stage, await stage.session()


def kinds(session: Session) -> list[str]:
    return [entry.kind for entry in session.record.history.current]


@pytest.mark.parametrize(
    ("written", "command"),
    [
        pytest.param("!git status", "git status", id="a command"),
        pytest.param("! ls -la\n", "ls -la", id="with a blank and a line end"),
        pytest.param("!(cd src && ls)", "(cd src && ls)", id="a subshell"),
        pytest.param("!= is the wrong operator here", None, id="an operator"),
        pytest.param("![diagram](a.png) shows it", None, id="an image"),
        pytest.param("!", None, id="nothing"),
        pytest.param("!ls\nand then tell me more", None, id="several lines"),
        pytest.param("Run !ls", None, id="in the middle"),
    ],
)
def test_a_prompt_of_one_line_that_begins_with_an_exclamation_mark_is_a_command(
    written: str, command: str | None
) -> None:
    found = parse_command(text(written))
    assert (found.rest if found else None) == command


async def test_the_model_sees_a_command_and_its_output_with_the_next_prompt(make_stage: Any) -> None:
    stage, session = await a_session(make_stage)
    done = await stage.ask(session, "!echo one && echo two")
    assert (done.fault, done.text) == (None, "```\none\ntwo\n[exit 0]\n```")
    assert stage.model.calls == []
    assert kinds(session) == ["shell"]
    (message,) = entries_to_messages(session.record.history.current)
    assert message == BashExecutionMessage("echo one && echo two", "one\ntwo", 0)
    await stage.ask(session, "What was that?")
    sent = stage.model.calls[-1].conversation.turns
    shown = "\n".join(b.text for turn in sent for b in turn.blocks if isinstance(b, TextBlock))
    assert "$ echo one && echo two\none\ntwo\n[exit 0]" in shown
    assert "What was that?" in shown


async def test_it_is_stored_and_told_as_a_call_of_the_tool(make_stage: Any) -> None:
    stage, session = await a_session(make_stage)
    await stage.ask(session, "!echo one")
    told = [type(event.data) for event in session.record.log.after(0, limit=1_000)]
    wanted = (UserMessage, ToolStarted, ToolFinished, Settled)
    assert [each for each in told if each in wanted] == [*wanted]
    await stage.hub.close(session.sid)
    session = (await stage.hub.load(session.sid)).session
    assert kinds(session) == ["shell"]


async def test_in_the_sandbox_it_is_not_asked_for(make_stage: Any) -> None:
    """No client could answer here, so that a question would be a refusal."""
    stage, session = await a_session(make_stage, sandboxed=True)
    await stage.ask(session, "!touch made.txt")
    assert (stage.folder / "made.txt").exists()
    assert kinds(session) == ["shell"]


async def test_without_a_sandbox_it_asks_as_the_tool_does(make_stage: Any) -> None:
    stage, session = await a_session(make_stage)
    done = await stage.ask(session, "!touch made.txt")
    assert not (stage.folder / "made.txt").exists()
    assert "not" in done.text
    assert kinds(session) == []
    await session.choose("permissions", "allowAll")
    await stage.ask(session, "!touch made.txt")
    assert (stage.folder / "made.txt").exists()


@pytest.mark.parametrize("how", ["by a rule", "by the mode"])
async def test_a_refusal_holds_in_the_sandbox_too(make_stage: Any, tmp_path: Path, how: str) -> None:
    rules = UserRules(tmp_path)
    if how == "by a rule":
        rules.change("deny", "touch")
    stage, session = await a_session(make_stage, sandboxed=True, permission_rules=rules)
    if how == "by the mode":
        await session.choose("permissions", "plan")
    await stage.ask(session, "!touch made.txt")
    assert not (stage.folder / "made.txt").exists()
    assert kinds(session) == []


async def test_a_failed_command_is_shown_with_its_exit_code(make_stage: Any) -> None:
    stage, session = await a_session(make_stage, sandboxed=True)
    await stage.ask(session, "!echo no >&2; exit 3")
    (message,) = entries_to_messages(session.record.history.current)
    assert message == BashExecutionMessage("echo no >&2; exit 3", "no", 3)


async def test_a_command_that_is_stopped_ends_at_once(make_stage: Any) -> None:
    stage, session = await a_session(make_stage, sandboxed=True)
    started = await session.submit(text("!sleep 60"))
    async with asyncio.timeout(5):
        while not any(
            isinstance(event.data, ToolStarted) for event in session.record.log.after(0, limit=1_000)
        ):
            await stage.settle()
    assert session.turns.prompts.interrupt(started.turn_id, "keep").accepted
    assert (await started.outcome).stop_reason == "cancelled"


async def test_a_session_without_the_tool_says_so(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("I see.")]])
    assert "no tool bash" in (await stage.ask(session, "!ls")).text
