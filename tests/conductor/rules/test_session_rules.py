"""The rules of a session, as its user and its model meet them, over compactions, undo, fork and load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from long_talks import LONG, emitted, open_session
from sidecar.boot import ENGINES
from sidecar.conductor.contract import RuleStatement
from sidecar.conductor.engine import CompactionRequest
from sidecar.conductor.events import RulesChanged
from sidecar.conductor.hub import ForkOf
from sidecar.conductor.session import Session
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import Conversation, TextBlock
from sidecar.llmgateway.scripted import Say
from turns import user

PROPOSING = """# Objective
parser
# Plan
none
# Carryover
none
<rules>
standing: "{}"
moment: "Wait with the tests."
</rules>"""
SUMMARY = "We worked on the parser; it is done. The tests pass, and nothing is open any more. " * 6
COMPACTING = sorted(ENGINES.keys() - {"none"})


async def say(stage: Any, session: Session, prompt: str) -> str:
    return str((await stage.ask(session, prompt)).text)


async def add_rule(session: Session, text: str) -> None:
    await session.change_rules(lambda rules: rules.add(text))


def sent(conversation: Conversation) -> str:
    """Return everything that a request says."""
    texts = [conversation.system or ""]
    for turn in conversation.turns:
        texts += [block.text for block in turn.blocks if isinstance(block, TextBlock)]
    return "\n".join(texts)


def last_sent(stage: Any) -> str:
    return sent(stage.model.calls[-1].conversation)


def texts(session: Session) -> Sequence[str]:
    return [rule.text for rule in session.window.rules.standing]


def published(session: Session) -> list[list[str]]:
    return [[rule.text for rule in changed.rules] for changed in emitted(session, RulesChanged)]


async def a_stage(make_stage: Any, **options: Any) -> Any:
    return await make_stage([[Say(LONG)]], repeat=True, **options)


async def test_nothing_that_a_prompt_says_is_a_rule_by_itself(make_stage: Any) -> None:
    """A compaction without a model proposes nothing, and the words stand in its chronicle."""
    stage, session = await open_session(make_stage, [[Say(LONG)]], repeat=True, policy={"keepRecent": 600})
    await say(stage, session, "Fix the parser. Never push to main. Don't change anything yet.")
    for prompt in ("one", "two", "three"):
        await say(stage, session, prompt)
    assert (await session.compact(CompactionRequest(force=True)).outcome).summary_source == "localFallback"
    assert session.window.rules.all == ()
    assert published(session) == []
    await say(stage, session, "four")
    assert "Never push to main." in last_sent(stage)


async def a_session_with_proposals(make_stage: Any, *proposals: str) -> tuple[Any, Session]:
    """A model proposes each of *proposals* at a compaction of its own."""
    answers = [step for text in proposals for step in (*[[Say(LONG)]] * 3, [Say(PROPOSING.format(text))])]
    stage = await make_stage([[Say(LONG)], *answers, [Say(LONG)]], repeat=True)
    session = await stage.session(policy={"keepRecent": 600})
    await say(stage, session, "Fix the parser. Never push to main. Wait with the tests. Money is in cents.")
    for number in range(len(proposals)):
        for prompt in ("one", "two", "three"):
            await say(stage, session, f"{prompt} {number}")
        done = await session.compact(CompactionRequest(force=True)).outcome
        assert done.summary_source == "model"
        assert "<rules>" not in (done.summary or "")
    return stage, session


async def test_a_summary_proposes_standing_wishes_with_their_words(make_stage: Any) -> None:
    stage, session = await a_session_with_proposals(make_stage, "never push to main")
    (rule,) = session.window.rules.all
    assert (rule.text, rule.source, rule.proposed) == ("Never push to main.", "summary", True)
    assert rule.node_id == session.record.history.current.originals()[0].node_id
    assert published(session) == [["Never push to main."]]
    listed = await say(stage, session, "/rules")
    assert "Never push to main. (proposed by a summary)" in listed
    assert "/rules keep ID keeps a proposed rule" in listed
    assert await say(stage, session, "/rules keep push") == f"Kept:\n- {rule.id} Never push to main."
    assert "(proposed by a summary, kept)" in await say(stage, session, "/rules")
    assert not session.window.rules.standing[0].proposed
    assert await say(stage, session, "/rules dismiss") == "No rule is proposed."


async def test_a_dismissed_rule_is_not_proposed_again(make_stage: Any) -> None:
    stage, session = await a_session_with_proposals(make_stage, "Never push to main.", "Money is in cents.")
    assert texts(session) == ["Never push to main.", "Money is in cents."]
    assert "Dismissed:" in await say(stage, session, "/rules dismiss push")
    assert texts(session) == ["Money is in cents."]
    first, second = session.window.rules.all
    assert not first.holds
    decided = await session.change_rules(lambda rules: rules.dismiss(None))
    assert [rule.id for rule in decided] == [second.id]
    sid = session.sid
    await stage.hub.close(sid)
    assert texts((await stage.hub.load(sid)).session) == []


async def test_a_model_ends_a_rule_with_the_words_that_took_it_back(make_stage: Any) -> None:
    """It is shown the rules that hold, and an end without such words is none."""
    stage, session = await a_session_with_proposals(make_stage, "Never push to main.")
    (rule,) = session.window.rules.standing
    await say(stage, session, "You may push to main now.")
    await say(stage, session, "go on")
    await session.compact(CompactionRequest(force=True)).outcome
    assert f"- {rule.id}: Never push to main." in last_sent(stage)
    words = [RuleStatement("ended", rule.id, text) for text in ("never said", "you may push to main now")]
    session.window.rules.propose(words, session.record.history.current)
    (ended,) = session.window.rules.all
    assert not ended.holds
    assert ended.revoked_by is not None
    assert ended.revoked_by.text == "You may push to main now."
    assert "taken back by: You may push to main now." in await say(stage, session, "/rules")


async def test_the_commands_set_list_and_take_back_rules(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session()
    assert "There are no rules" in await say(stage, session, "/rules")
    told = await say(stage, session, "/remember answer in Latin")
    (rule,) = session.window.rules.standing
    assert told == f"Remembered: {rule.id} answer in Latin (set by hand)"
    await say(stage, session, "/remember Never push to main.")
    listed = await say(stage, session, "/rules")
    assert [line.partition(" ")[2].partition(" ")[2] for line in listed.splitlines()[1:]] == [
        "answer in Latin (set by hand)",
        "Never push to main. (set by hand)",
    ]
    assert "No rule that holds has the id or the words 'tabs'" in await say(stage, session, "/forget tabs")
    assert "No longer a rule" in await say(stage, session, "/forget push")
    assert "No longer a rule" in await say(stage, session, f"/forget {rule.id}")
    assert texts(session) == []
    assert "taken back by /forget" in await say(stage, session, "/rules")
    assert "The rule is empty" in await say(stage, session, "/remember")


async def test_a_rule_by_hand_reaches_the_model_with_the_next_prompt_and_stays_in_place(
    make_stage: Any,
) -> None:
    """The requests before and after it have the same beginning, so the provider's cache holds."""
    stage = await a_stage(make_stage)
    session = await stage.session()
    await say(stage, session, "one")
    await say(stage, session, "/remember answer in Latin")
    await say(stage, session, "two")
    await say(stage, session, "three")
    first, second, third = (call.conversation for call in stage.model.calls)
    assert "answer in Latin" in sent(second)
    assert (first.system, second.system) == (third.system, third.system)
    assert second.turns[: len(first.turns)] == first.turns
    assert third.turns[: len(second.turns)] == second.turns
    assert "answer in Latin" not in sent(Conversation((*third.turns[-1:],)))
    await say(stage, session, "/forget Latin")
    await say(stage, session, "four")
    fourth = stage.model.calls[-1].conversation
    assert fourth.turns[: len(third.turns)] == third.turns
    assert "no longer hold:\n- answer in Latin" in sent(Conversation((*fourth.turns[-1:],)))


@pytest.mark.parametrize("engine", COMPACTING)
async def test_every_engine_sends_every_rule_after_any_number_of_compactions(
    make_stage: Any, engine: str
) -> None:
    stage = await make_stage([[Say(SUMMARY)]], repeat=True, window=8_000)
    policy = {"keepRecent": 2 if engine == "runtime" else 600}
    session = await stage.session(
        engine=engine, policy=policy | ({"maxEvents": 4} if engine == "slidingWindow" else {})
    )
    long_rule = f"Never write to {', '.join(f'the {name * 3} bucket' for name in 'abcdefghijklm')}."
    await say(stage, session, "Fix the parser.")
    for rule in ("Fass vendor/ niemals an.", long_rule, "answer in Latin", "Never rename store.py."):
        await add_rule(session, rule)
    for number in range(6):
        await say(stage, session, f"Do step {number}: {LONG}")
        if number == 3:
            await session.change_rules(lambda rules: rules.remove("store.py"))
        await session.compact(CompactionRequest(force=True)).outcome
    await say(stage, session, "go on")
    told = " ".join(last_sent(stage).split())
    for rule in ("Fass vendor/ niemals an.", long_rule, "answer in Latin"):
        assert rule in told
    assert texts(session) == ["Fass vendor/ niemals an.", long_rule, "answer in Latin"]
    assert "- Never rename store.py." not in told.partition("These rules no longer hold:")[0]


async def test_a_compaction_alone_changes_the_beginning_of_a_request(make_stage: Any) -> None:
    stage = await make_stage([[Say(SUMMARY)]], repeat=True, window=8_000)
    session = await stage.session(policy={"keepRecent": 600})
    await session.choose("engine", "agentcore")
    await add_rule(session, "Never rename store.py.")
    for number in range(3):
        await say(stage, session, f"Do step {number}: {LONG}")
    await session.compact(CompactionRequest(force=True)).outcome
    await say(stage, session, "five")
    before = stage.model.calls[-1].conversation
    assert "Never rename store.py." in sent(before)
    await session.change_rules(lambda rules: rules.remove("store.py"))
    await say(stage, session, "six")
    after = stage.model.calls[-1].conversation
    assert after.system == before.system
    assert after.turns[: len(before.turns)] == before.turns
    assert texts(session) == []


async def test_proposed_rules_follow_the_path_and_rules_by_hand_do_not(make_stage: Any) -> None:
    stage, session = await a_session_with_proposals(make_stage, "Never push to main.")
    await add_rule(session, "answer in Latin")
    assert texts(session) == ["Never push to main.", "answer in Latin"]
    await session.undo(None, force=False, expect_head=None)
    assert texts(session) == ["Never push to main.", "answer in Latin"]
    await say(stage, session, "hello")
    assert "answer in Latin" in last_sent(stage)
    await session.rewind(None, expect_head=None)
    assert texts(session) == ["answer in Latin"]


async def test_undoing_a_compaction_changes_no_rule(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session()
    await add_rule(session, "Never push to main.")
    for prompt in ("one", "two", "three"):
        await say(stage, session, prompt)
    await say(stage, session, "/remember answer in Latin")
    held = session.window.rules.all
    assert (await session.compact(CompactionRequest(force=True)).outcome).status == "completed"
    assert session.window.rules.all == held
    await session.undo(None, force=False, expect_head=None)
    assert session.window.rules.all == held
    await say(stage, session, "four")
    assert "answer in Latin" in last_sent(stage)


async def test_a_fork_begins_with_the_rules_and_goes_its_own_way(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session()
    await add_rule(session, "Never push to main.")
    await say(stage, session, "/remember answer in Latin")
    await say(stage, session, "hello")
    fork = await stage.hub.fork(ForkOf(session.sid))
    assert fork.window.rules.all == session.window.rules.all
    fork.window.rules.remove("Latin")
    assert texts(session) == ["Never push to main.", "answer in Latin"]
    await say(stage, fork, "hello")
    assert texts(fork) == ["Never push to main."]


async def test_a_fork_after_several_compactions_has_all_rules(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session(policy={"keepRecent": 600})
    await add_rule(session, "Never push to main.")
    for number in range(9):
        await say(stage, session, f"Do step {number}: {LONG}")
        if number % 3 == 2:
            await session.compact(CompactionRequest(force=True)).outcome
    fork = await stage.hub.fork(ForkOf(session.sid))
    assert fork.window.rules.all == session.window.rules.all
    assert len(fork.record.history.current.originals()) == len(session.record.history.current.originals())


async def test_a_loaded_session_has_the_rules_it_had(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session()
    for rule in ("Never push to main.", "Never rename store.py.", "answer in Latin"):
        await add_rule(session, rule)
    await say(stage, session, "/forget push")
    await say(stage, session, "/forget store.py")
    for prompt in ("one", "two", "three"):
        await say(stage, session, prompt)
    await session.compact(CompactionRequest(force=True)).outcome
    held, sid = session.window.rules.all, session.sid
    await stage.hub.close(sid)
    loaded = (await stage.hub.load(sid)).session
    assert loaded.window.rules.all == held
    assert [rule.holds for rule in held] == [False, False, True]
    await say(stage, loaded, "go on")
    assert "answer in Latin" in last_sent(stage)


async def test_usage_has_a_category_for_rules(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session()
    await say(stage, session, "/remember answer in Latin")
    await say(stage, session, "hello")
    usage = session.window.request.usage(detail=True)
    assert usage.by is not None
    assert usage.by.rules > 10
    assert "the user's rules" in await say(stage, session, "/context")


async def test_a_new_follower_is_sent_the_rules(make_stage: Any) -> None:
    stage = await a_stage(make_stage)
    session = await stage.session()
    session.introduce()
    assert published(session) == []
    await add_rule(session, "answer in Latin")
    session.introduce()
    assert published(session) == [["answer in Latin"], ["answer in Latin"]]


async def test_rules_that_an_earlier_version_found_are_marked(make_stage: Any) -> None:
    """They stand in the summary that it wrote."""
    stage = await a_stage(make_stage)
    session = await stage.session()
    await say(stage, session, "Fix the parser. Never push to main.")
    node = session.record.history.current[0].node_id
    count = "1 earlier message condensed without a model."
    digest = f"{count}\n\n## Rules\n- Never push to main.\n## Requests\n- Fix it."
    turn = user(f"[session digest — older turns condensed]\n\n# Carryover\n{digest}")
    rest = session.record.history.current[1:]
    history = session.record.history
    branch = await history.prepare_branch([Entry(turn, "summary", origin=(node,)), *rest])
    async with history.transaction():
        await history.replace(branch)
    sid = session.sid
    await stage.hub.close(sid)
    loaded = (await stage.hub.load(sid)).session
    (rule,) = loaded.window.rules.standing
    assert (rule.text, rule.source, rule.proposed, rule.node_id) == (
        "Never push to main.",
        "found",
        True,
        node,
    )
    assert "found in a prompt by an earlier version" in await say(stage, loaded, "/rules")
    assert "Dismissed:" in await say(stage, loaded, "/rules dismiss")
    assert texts(loaded) == []


def test_the_built_in_model_takes_no_note_about_rules_for_a_question() -> None:
    from sidecar.conductor.window import session_rules
    from sidecar.llmgateway.offline.model import HOST_MARKS

    titles = [session_rules._BLOCK, session_rules._ADDED, session_rules._ENDED]
    assert all(title.startswith(HOST_MARKS) for title in titles)
