"""The transcript of a session over its compactions: facts go on, positions map, branches share their part."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from histories import entry_of
from model_cards import card
from sidecar.conductor.bridge import entries_to_messages, has_calls, kept_length, shared_length
from sidecar.conductor.contract import Gate
from sidecar.conductor.engine import CompactionRequest, EngineInput
from sidecar.conductor.window.engines.session_transcript import SessionTranscript
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conversation import Entry, History
from sidecar.llmgateway.contract import ModelCard, ToolCallBlock, ToolResultBlock, ToolTurn, Turn
from sidecar.window_budget import BudgetPolicy, BudgetRequest, Transcript, read_meter
from sidecar.window_budget.facts import FactKind
from turns import assistant, calling, user

PROMPT, CALL = (
    entry_of(user("Never push to main.")),
    entry_of(calling(ToolCallBlock("1", "bash", {"cmd": "ls"}))),
)
RESULT, ANSWER = entry_of(ToolTurn((ToolResultBlock("1", "a.py"),))), entry_of(assistant("Done."))
NEXT = entry_of(user("Now the tests, please."))
STORED = {entry.node_id: entry for entry in (PROMPT, CALL, RESULT, ANSWER, NEXT)}


def again(entry: Entry, turn: Turn) -> Entry:
    """Return *entry* as it is stored on another branch, with *turn*."""
    return Entry(turn, entry.kind, origin=(entry.node_id,), node_id=f"{entry.node_id}b")


def compacted() -> History:
    """Return the path after a compaction: the first three entries gave way to a summary."""
    ids = (PROMPT.node_id, CALL.node_id, RESULT.node_id)
    summary = Entry(user("[any mark]\n\n# Plan"), "summary", origin=ids, node_id="s")
    kept = [
        Entry(each.turn, each.kind, origin=(each.node_id,), node_id=f"{each.node_id}b")
        for each in (ANSWER, NEXT)
    ]
    return History([summary, *kept], STORED | {each.node_id: each for each in (summary, *kept)})


def rules(transcript: object) -> list[str]:
    facts = transcript.facts  # type: ignore[attr-defined]  # any version of the package's own class
    return [each.fact.text for each in facts.rank(FactKind.RULE, len(facts))]


def test_originals_are_the_entries_as_they_were_first_stored() -> None:
    assert tuple(compacted().originals()) == (PROMPT, CALL, RESULT, ANSWER, NEXT)
    assert tuple(History([PROMPT, ANSWER]).originals()) == (PROMPT, ANSWER)


def test_a_summary_whose_entries_are_gone_stays_as_it_is() -> None:
    summary = Entry(user("# Plan"), "summary", origin=("gone",), node_id="s")
    assert tuple(History([summary, NEXT]).originals()) == (summary, NEXT)


def test_facts_that_were_folded_away_stay_known() -> None:
    follower = SessionTranscript({})
    follower.of(History([PROMPT, CALL, RESULT, ANSWER, NEXT]))
    after = follower.of(compacted())
    assert rules(after) == ["Never push to main."]
    assert after.knows_folded
    assert [after.position(index) for index in range(4)] == [3, 3, 4, 5]
    assert [after.index_of(position) for position in range(5)] == [None, None, None, 1, 2]


def test_an_entry_that_was_shortened_keeps_its_facts() -> None:
    follower = SessionTranscript({})
    follower.of(History([PROMPT, ANSWER]))
    shorter = again(PROMPT, user("[cut]"))
    after = follower.of(History([shorter, again(ANSWER, ANSWER.turn)], STORED))
    assert rules(after) == ["Never push to main."]
    assert (len(after), after.position(1), after.index_of(1)) == (2, 1, 1)
    assert "[cut]" in str(after[0])


def test_a_branch_forgets_what_is_not_on_it() -> None:
    follower = SessionTranscript({})
    follower.of(History([ANSWER, PROMPT]))
    assert rules(follower.of(History([ANSWER, NEXT]))) == []


def test_a_call_that_was_open_at_the_fork_finds_its_result() -> None:
    follower = SessionTranscript({})
    follower.of(History([PROMPT, CALL, entry_of(ToolTurn((ToolResultBlock("1", "b.py"),)))]))
    facts = follower.of(History([PROMPT, CALL, RESULT])).facts
    assert [each.fact.text for each in facts.rank(FactKind.COMMAND, 3)] == ["ls"]


def test_paths_are_compared_by_their_turns_and_by_their_first_nodes() -> None:
    assert shared_length([PROMPT, ANSWER], [PROMPT, NEXT]) == 1
    assert kept_length(compacted(), compacted().originals()) == 2
    assert (has_calls(CALL), has_calls(ANSWER)) == (True, False)


def many(n_rounds: int) -> list[Entry]:
    """Return prompts and answers."""
    turns: list[Turn] = [
        turn for n in range(n_rounds) for turn in (user(f"Never use tool {n}."), assistant(f"Done {n}."))
    ]
    return [replace(entry_of(turn), node_id=f"n{at}") for at, turn in enumerate(turns)]


async def test_many_entries_are_weighed_at_once_and_read_while_the_loop_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_read = asyncio.Event()
    read_on = Transcript.read_on

    def reading(self: Transcript, most: int | None = None) -> bool:
        is_left = read_on(self, most)
        if not is_left:
            is_read.set()
        return is_left

    monkeypatch.setattr(Transcript, "read_on", reading)
    follower, entries = SessionTranscript({}), many(100)
    found = follower.of(History(entries))
    assert (len(found), found.n_unread) == (200, 200)
    assert found.meter.total == Transcript.of(list(found)).meter.total
    async with asyncio.timeout(10):
        await is_read.wait()
    assert found.n_unread == 0
    assert rules(found) == rules(SessionTranscript({}).of(History(entries)))


@pytest.mark.parametrize("n_read", [0, 60, 200])
@pytest.mark.parametrize("n_left", [0, 50, 101, 199])
def test_a_path_that_ends_earlier_reads_nothing_twice(n_read: int, n_left: int) -> None:
    follower, entries = SessionTranscript({}), many(100)
    follower.of(History(entries)).read_on(n_read)
    shorter = follower.of(History(entries[:n_left]))
    assert shorter.n_unread >= n_left - n_read
    assert list(shorter) == list(entries_to_messages(entries[:n_left]))
    assert rules(shorter) == rules(SessionTranscript({}).of(History(entries[:n_left])))
    longer = follower.of(History([*entries[:n_left], NEXT]))
    assert rules(longer) == rules(SessionTranscript({}).of(History([*entries[:n_left], NEXT])))
    assert longer.meter.total == Transcript.of(list(longer)).meter.total


@pytest.mark.parametrize("n_read", [0, 3, 120, 201])
def test_what_a_compaction_folded_before_it_was_read_is_read_later(n_read: int) -> None:
    entries = [*many(100), NEXT]
    stored = {entry.node_id: entry for entry in entries}
    summary = Entry(user("# Plan"), "summary", origin=tuple(stored)[:150], node_id="s")
    path = History([summary, *entries[150:]], stored)
    follower = SessionTranscript({})
    follower.of(History(entries)).read_on(n_read)
    after, anew = follower.of(path), SessionTranscript({}).of(path)
    assert after.n_unread == 201 - n_read
    assert rules(after) == rules(anew)
    assert [after.position(at) for at in range(len(after))] == [anew.position(at) for at in range(len(anew))]
    assert rules(follower.of(path.extended([PROMPT])))[0] == "Never push to main."


def test_a_change_of_tools_begins_anew_only_where_one_of_them_was_called() -> None:
    history, transcript = History([PROMPT, CALL, RESULT, ANSWER]), SessionTranscript({})
    before = transcript.of(history)
    kept = transcript.with_tools({}, {"recall"})
    assert kept.history is history
    assert kept.of(history) == before
    assert rules(kept.of(history.extended([NEXT]))) == ["Never push to main."]
    assert len(transcript.with_tools({}, {"bash"}).history) == 0


@pytest.mark.parametrize("policy", [{}, {"triggerRatio": 0.3}, {"reserveTokens": 0}])
@pytest.mark.parametrize("live", [0, 900])
@pytest.mark.parametrize("model", [None, card(1_000), card(5_000)])
def test_the_gate_of_a_session_is_the_reading_of_the_meter(
    model: ModelCard | None, live: int, policy: dict[str, Any]
) -> None:
    engine, history = WindowBudgetEngine(), History([PROMPT, CALL, RESULT, ANSWER])
    given = EngineInput(history=history, card=model, overhead_tokens=400, context_tokens=live)
    gate = engine.gate(given, CompactionRequest(force=False, policy=policy))
    wanted = BudgetPolicy(policy.get("triggerRatio", 0.75), 6_000, policy.get("reserveTokens", 2_048))
    found = read_meter(
        entries_to_messages(history),
        BudgetRequest(card=model, context_tokens=live, overhead_tokens=400, policy=wanted),
    )
    used = found.estimate
    assert gate == Gate(used.context_tokens, int(found.limit or 0), used.context_window, found.is_over)
