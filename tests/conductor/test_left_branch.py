"""The digest of a branch that a rewind or a fork left: it enters with the next prompt, once."""

from __future__ import annotations

from typing import Any

import pytest

from bare_sessions import compaction_settings
from fake_tools import FakeTool
from long_talks import LONG, sent
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.llmgateway.scripted import Call, Say
from sidecar.window_budget import BRANCH_HEADER


async def a_talk(make_stage: Any, *, is_on: bool = True) -> tuple[Any, Session]:
    """Two prompts; the second one has a file edited, and sets a rule."""
    script = [[Say(LONG)], [Call("write", {"path": "lexer.py"})], [Say("I chose a table.")], [Say("ok")]]
    stage = await make_stage(
        script,
        tools=[FakeTool("write", kind="edit")],
        repeat=True,
        compaction=compaction_settings(branch_digests=is_on),
    )
    session = await stage.session()
    await stage.ask(session, "Fix the parser.")
    await stage.ask(session, "Now rewrite the lexer. Never touch the printer.")
    return stage, session


async def test_a_rewind_tells_the_model_what_it_left(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    node = session.record.history.current.node_ids[1]
    moved = await session.rewind(node, expect_head=None)
    assert moved.head == session.record.history.head == node
    await stage.ask(session, "Try it another way.")
    first, answer, digest, prompt = sent(stage)
    assert (first, answer, prompt) == ("Fix the parser.", LONG, "Try it another way.")
    assert digest.startswith(f"{BRANCH_HEADER}\n\n")
    for known in ("Now rewrite the lexer.", "lexer.py", "do not go on with it"):
        assert known in digest
    assert len(digest) < 2_400
    assert [entry.kind for entry in session.record.history.current[2:4]] == ["branch", "user"]
    await stage.ask(session, "And on.")
    assert "".join(sent(stage)).count(BRANCH_HEADER) == 1


async def test_the_rules_of_a_branch_that_was_left_are_not_the_users(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    await stage.ask(session, "Try it another way.")
    assert session.window.rules.all == ()


async def test_a_rewind_that_is_taken_back_leaves_no_trace(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    head, nodes = session.record.history.head, session.record.history.current.node_ids
    await session.rewind(nodes[1], expect_head=None)
    await session.rewind(head, expect_head=nodes[1])
    await stage.ask(session, "Go on.")
    assert BRANCH_HEADER not in "".join(sent(stage))
    assert session.record.history.current.node_ids[: len(nodes)] == nodes


async def test_of_two_rewinds_in_a_row_everything_left_is_told(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    await session.rewind(None, expect_head=None)
    await stage.ask(session, "Begin anew.")
    digest, prompt = sent(stage)
    assert prompt == "Begin anew."
    assert "Fix the parser." in digest
    assert "Now rewrite the lexer." in digest


async def test_a_digest_waits_for_its_prompt_over_a_restart(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    await stage.hub.close(session.sid)
    session = (await stage.hub.load(session.sid)).session
    await stage.ask(session, "Try it another way.")
    assert "Now rewrite the lexer." in sent(stage)[-2]


async def test_a_prompt_that_is_taken_back_takes_its_digest_with_it(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    node = session.record.history.current.node_ids[1]
    for prompt in ("second way", "third way"):
        await session.rewind(node, expect_head=None)
        await stage.ask(session, prompt)
    await stage.ask(session, "/rewind")
    assert session.record.history.head == node


async def test_a_move_across_a_compaction_leaves_nothing(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    before = session.record.history.head
    assert (await session.compact(CompactionRequest()).outcome).status == "completed"
    await session.rewind(before, expect_head=None)
    await stage.ask(session, "Go on.")
    assert BRANCH_HEADER not in "".join(sent(stage))


async def test_a_compaction_after_a_rewind_still_knows_what_was_folded(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage)
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    for prompt in ("Try a table.", LONG, "And on."):
        await stage.ask(session, prompt)
        await session.compact(CompactionRequest()).outcome
    kinds = [entry.kind for entry in session.record.history.current.originals()]
    assert kinds.count("branch") == 1
    assert "Fix the parser." in str(session.record.history.turns[0])


@pytest.mark.parametrize("at_head", [False, True])
async def test_a_fork_tells_what_the_other_session_did_later(make_stage: Any, at_head: bool) -> None:
    stage, session = await a_talk(make_stage)
    node = session.record.history.current.node_ids[-1 if at_head else 1]
    fork = await stage.hub.fork(ForkOf(session.sid, at_node=node))
    assert fork.record.history.head == node
    await stage.ask(fork, "Try it another way.")
    assert ("Now rewrite the lexer." in sent(stage)[-2]) == (not at_head)


async def test_a_fork_that_goes_further_back_tells_all_that_it_leaves(make_stage: Any) -> None:
    """What the other session did later, and what the fork took over and left."""
    stage, session = await a_talk(make_stage)
    await stage.ask(session, "Then write the manual.")
    fork = await stage.hub.fork(ForkOf(session.sid, at_node=session.record.history.current.node_ids[-3]))
    for node in (fork.record.history.current.node_ids[1], fork.record.history.current.node_ids[0]):
        await fork.rewind(node, expect_head=None)
    await stage.ask(fork, "Try it another way.")
    told = sent(stage)[-2]
    assert told.count("Then write the manual.") == told.count("Now rewrite the lexer.") == 1
    await stage.ask(fork, "Go on.")
    assert sent(stage)[-2:] != [told, "Go on."]


async def test_the_digest_can_be_switched_off(make_stage: Any) -> None:
    stage, session = await a_talk(make_stage, is_on=False)
    await session.rewind(session.record.history.current.node_ids[1], expect_head=None)
    await stage.ask(session, "Try it another way.")
    assert sent(stage) == ["Fix the parser.", LONG, "Try it another way."]
