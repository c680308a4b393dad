"""Slash commands: each is a turn with an answer, unseen by the model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from long_talks import DIGEST, a_long_talk, emitted, open_session
from sidecar.conductor.content import COMMANDS, Content, SlashCommand, parse_command
from sidecar.conductor.events import (
    CommandInfo,
    CommandsChanged,
    Message,
    SessionChosen,
    Settled,
    UserMessage,
)
from sidecar.conductor.session import Session
from sidecar.conductor.turns.commands import count_messages
from sidecar.llmgateway.contract import Usage, UsageEmission, join_texts
from sidecar.llmgateway.scripted import Hang, Say, WaitFor
from sidecar.window_budget import DIGEST_HEADER
from turns import text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(text("/help"), SlashCommand("help", ""), id="alone"),
        pytest.param(text("  /rewind  2 \n"), SlashCommand("rewind", "2"), id="with something behind it"),
        pytest.param(
            text("/compact\nkeep names"), SlashCommand("compact", "keep names"), id="over two lines"
        ),
        pytest.param(text("/usr/bin is missing"), None, id="a path is no command"),
        pytest.param(text("/compact/notes.md is empty"), None, id="nor one that begins like a command"),
        pytest.param(text("/unknown x"), SlashCommand("unknown", "x"), id="an unknown word is refused later"),
        pytest.param(text("/new"), SlashCommand("clear", ""), id="a name of another agent"),
        pytest.param(text("/* a comment */"), None, id="another sign"),
        pytest.param(text("see /help"), None, id="a command begins its prompt"),
        pytest.param(text("/"), None, id="a slash"),
        pytest.param((*text("/help"), *text("me")), None, id="a command is one block"),
        pytest.param(({"type": "resource_link", "uri": "/help", "name": "x"},), None, id="a link"),
        pytest.param((), None, id="nothing"),
    ],
)
def test_parse_command(content: Content, expected: SlashCommand | None) -> None:
    assert parse_command(content) == expected


async def say(stage: Any, session: Session, command: str) -> str:
    return str((await stage.ask(session, command)).text)


async def test_a_command_is_a_turn_but_not_part_of_the_conversation(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]])
    started = await session.submit(text("/help"))
    outcome = await started.outcome
    assert (started.disposition, started.user_node_id) == ("started", None)
    assert (outcome.stop_reason, outcome.last.head, outcome.fault) == ("end_turn", None, None)
    events = session.record.log.after(0)
    assert [event.kind for event in events if event.kind != "phase"] == [
        "userMessage",
        "message",
        "infoChanged",
        "usage",
        "settled",
    ]
    assert {event.turn_id for event in events} == {started.turn_id}
    assert [event.data for event in events if isinstance(event.data, UserMessage | Message)] == [
        UserMessage(None, text("/help")),
        Message(f"{started.turn_id}.0", text(outcome.text)),
    ]
    assert (list(session.record.history.turns), session.info.title, stage.model.calls) == ([], "", [])
    await stage.ask(session, "hello")
    assert [join_texts(turn.blocks) for turn in stage.model.calls[0].conversation.turns] == ["hello"]


async def test_help_lists_every_command(make_stage: Any) -> None:
    stage = await make_stage()
    told = await say(stage, await stage.session(), "/help")
    usages = [line.split("`")[1] for line in told.splitlines() if line.startswith("- ")]
    assert usages == [
        "@FILE",
        "!COMMAND",
        *(f"/{command.name} {command.hint or ''}".strip() for command in COMMANDS),
    ]


async def test_an_unknown_slash_word_never_reaches_a_model(make_stage: Any) -> None:
    stage, session = await open_session(make_stage)
    told = await say(stage, session, "/compcat the rest")
    assert told.startswith("There is no command /compcat; the nearest is /compact.")
    assert (stage.model.calls, list(session.record.history.turns)) == ([], [])


async def test_a_path_is_a_prompt(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("I see")], [Say("this too")]])
    assert await say(stage, session, "/usr/bin is missing") == "I see"
    (stage.folder / "notes").touch()
    assert await say(stage, session, "/notes is empty") == "this too"


async def test_commands_that_lead_to_another_session(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]])
    assert await say(stage, session, "/fork") == "There is nothing to fork yet."
    assert await say(stage, session, "/resume") == "There is no other conversation of this folder."
    await stage.ask(session, "the first words")
    await say(stage, session, "/permissions plan")
    told = await say(stage, session, "/clear")
    (chosen,) = [each.sid for each in emitted(session, SessionChosen)]
    fresh = stage.hub.session(chosen)
    assert (len(fresh.record.history.turns), fresh.workbench.policy.mode) == (0, "plan")
    assert f"/resume {session.sid[:8]} goes back" in told
    assert f"{session.sid[:8]}, " in await say(stage, fresh, "/continue")
    await say(stage, fresh, "/resume first words")
    assert [each.data for each in fresh.record.log.after(0)].count(SessionChosen(session.sid)) == 1
    assert "has the id or the title 'last'" in await say(stage, fresh, "/resume last")


async def test_files_and_cost_are_told(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one"), UsageEmission(Usage(1000, 5, 200))]])
    assert await say(stage, session, "/cost") == "No model has answered yet."
    assert await say(stage, session, "/files") == "The model has read no file yet."
    await stage.ask(session, "hello")
    assert "- written: 5 tokens" in await say(stage, session, "/usage")


async def test_init_is_a_prompt_for_a_model_that_can_write(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("written")]])
    assert await say(stage, session, "/init in German") == "written"
    prompt = join_texts(stage.model.calls[0].conversation.turns[-1].blocks)
    assert prompt.startswith("Write AGENTS.md")
    assert prompt.endswith("in German")
    await say(stage, session, "/model offline-1")
    assert "cannot write AGENTS.md" in await say(stage, session, "/init")


async def test_compact_preview_and_undo(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage, [Say(DIGEST)])
    n_calls, turns = len(stage.model.calls), list(session.record.history.turns)
    assert "windowBudget would replace 4 messages" in await say(stage, session, "/preview")
    assert len(stage.model.calls) == n_calls
    told = await say(stage, session, "/compact windowBudget keep the names")
    assert "Compacted 4 messages" in told
    assert "summary by a model" in told
    assert "keep the names" in str(stage.model.calls[-1].conversation.turns)
    assert join_texts(session.record.history.turns[0].blocks).startswith(DIGEST_HEADER)
    assert (await say(stage, session, "/undo")).startswith("The compaction is undone: 6 messages")
    assert list(session.record.history.turns) == turns
    assert await say(stage, session, "/uncompact") == (
        f"Session {session.sid!r} has no compaction to undo; "
        "/rewind takes prompts back, and /checkpoint files."
    )


async def test_a_compaction_without_effect_gives_its_reason(make_stage: Any) -> None:
    stage, session = await open_session(make_stage)
    assert await say(stage, session, "/compact") == "Nothing to do: there is nothing to condense."
    assert await say(stage, session, "/preview none") == (
        "none would do nothing: this session's engine does not compact."
    )


async def test_an_interrupt_stops_a_compaction_by_command(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage, [Hang()])
    turns = list(session.record.history.turns)
    started = await session.submit(text("/compact"))
    while not any(event.kind == "compaction" for event in session.record.log.after(0, limit=1000)):
        await stage.settle()
    assert session.turns.prompts.interrupt(started.turn_id, "keep").accepted
    outcome = await started.outcome
    assert (outcome.stop_reason, outcome.text) == ("cancelled", "Cancelled; the conversation is unchanged.")
    assert list(session.record.history.turns) == turns


async def test_context_names_no_size_for_a_window_that_is_not_known(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]], "1", window=0)
    told = await say(stage, session, "/context")
    assert "tokens of a window whose size is not known" in told
    assert "of 0 tokens" not in told


async def test_context_shows_the_fill_level_of_the_window(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage)
    told = await say(stage, session, "/context")
    usage = session.window.request.usage()
    assert told.startswith(f"{usage.used:,} of 32,000 tokens ({usage.pct:g} %), estimated.")
    assert f"windowBudget compacts at {usage.limit:,} tokens: the rest is room for" in told
    assert "- answers: " in told


async def test_fork_begins_another_session(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage)
    told = await say(stage, session, "/fork")
    (forked,) = [other for other in stage.hub.sessions if other.sid != session.sid]
    assert told.startswith("A copy of this conversation begins")
    assert told.endswith(f", as {forked.sid[:8]}.")
    assert list(forked.record.history.turns) == list(session.record.history.turns)


@pytest.mark.parametrize(
    ("command", "n_left"),
    [
        pytest.param("/rewind", 4, id="the last prompt"),
        pytest.param("/rewind 2", 2, id="the last two"),
        pytest.param("/rewind 3", 0, id="all of them"),
    ],
)
async def test_rewind_removes_prompts(make_stage: Any, command: str, n_left: int) -> None:
    stage, session = await a_long_talk(make_stage)
    turns = list(session.record.history.turns)
    told = await say(stage, session, command)
    assert told.startswith(f"Removed {count_messages(6 - n_left)}; the conversation ")
    assert list(session.record.history.turns) == turns[:n_left]


async def test_rewind_to_a_node(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage)
    node = session.record.history.current.node_ids[1]
    await say(stage, session, f"/rewind {node}")
    assert session.record.history.head == node


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        pytest.param("/rewind 9", "There are 3 prompts in the conversation, and 9", id="too far"),
        pytest.param("/rewind nowhere", "Session 'id1' has no node 'nowhere'; ", id="an unknown node"),
        pytest.param(
            "/model steam",
            "No model 'steam': no provider serves it; known models: scripted-1",
            id="an unknown model",
        ),
        pytest.param("/engine steam", "No engine 'steam'; known engines:", id="an unknown engine"),
        pytest.param(
            "/help me", "/help takes no arguments", id="something behind a command that takes nothing"
        ),
    ],
)
async def test_a_refusal_is_the_answer_of_a_command(make_stage: Any, command: str, answer: str) -> None:
    stage, session = await a_long_talk(make_stage)
    outcome = await stage.ask(session, command)
    assert outcome.fault is None
    assert outcome.text.startswith(answer)
    assert len(list(session.record.history.turns)) == 6


async def test_model_and_engine_are_shown_and_chosen(make_stage: Any) -> None:
    stage, session = await open_session(make_stage)
    assert (await say(stage, session, "/engine")).startswith("Compaction engine: windowBudget. Other choices")
    assert (await say(stage, session, "/engine none")).startswith("Compaction engine: none.")
    assert session.info.engine == "none"
    assert (await say(stage, session, "/model offline-1")).startswith("Model: offline-1.")
    assert session.info.model == "offline-1"


async def test_status_shows_the_settings(make_stage: Any) -> None:
    stage, session = await a_long_talk(make_stage)
    assert (await say(stage, session, "/status")).splitlines() == [
        f"Session {session.sid} in {stage.folder}: the conversation has 6 messages.",
        "- model: scripted-1",
        "- compaction engine: windowBudget",
        "- thinking: default",
        "- permissions: ask",
        "- budget: default",
        "- compactions: 0",
    ]


async def test_a_command_waits_for_its_turn_and_never_steers(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[WaitFor("go"), Say("one")]])
    first = await session.submit(text("1"))
    second = await session.submit(text("/help"), when_busy="steer")
    assert (second.disposition, second.position) == ("queued", 1)
    stage.model.gate("go").set()
    await asyncio.gather(first.outcome, second.outcome)
    ends = [each.turn_id for each in emitted(session, Settled)]
    assert ends == [first.turn_id, second.turn_id]


async def test_a_new_follower_receives_the_commands_and_the_usage(make_stage: Any) -> None:
    _, session = await open_session(make_stage)
    session.introduce()
    first, second = session.record.log.after(0)
    assert first.data == CommandsChanged(COMMANDS)
    assert second.data == session.window.request.usage()
    assert CommandInfo("fork", "Go on with a copy of this conversation") in COMMANDS
