"""The engines that leave the stored conversation whole: what the model is sent of it, and when."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sidecar.capabilities.read import READ
from sidecar.conductor.contract import Compaction
from sidecar.conductor.events import Notice, Phase, Settled
from sidecar.conductor.session import Session
from sidecar.conductor.window.engines.contract import CompactionRequest
from sidecar.llmgateway.contract import (
    Conversation,
    TextBlock,
    ToolResultBlock,
    Usage,
    UsageEmission,
    UserTurn,
)
from sidecar.llmgateway.scripted import Call, Hang, Raise, Say, ScriptedModel
from sidecar.rooms.memory.summaries import SUMMARY_MARK
from sidecar.window_budget import RESTORED_FILE_PREFIX
from turns import check_sound, text

NO_TRUNCATION = {"reserveTokens": 1_000, "tier1Ratio": 1}
FILE = "value = 1  # a line of a file\n" * 100
LONG = "The parser keeps a stack of open brackets and reports the first that is not closed. " * 40


def texts(sent: Conversation) -> list[str]:
    return [block.text for turn in sent.turns for block in turn.blocks if isinstance(block, TextBlock)]


def last_sent(stage: Any) -> Conversation:
    sent: Conversation = stage.model.calls[-1].conversation
    return sent


def data(session: Session, kind: type) -> list[Any]:
    return [event.data for event in session.log.after(0, limit=10_000) if isinstance(event.data, kind)]


async def talk(stage: Any, engine: str, n_prompts: int, **wanted: Any) -> Session:
    session: Session = await stage.session(engine=engine, **wanted)
    for number in range(n_prompts):
        await stage.ask(session, f"prompt {number}")
    return session


def reads(n_rounds: int) -> list[list[Any]]:
    """Calls that read a file each."""
    return [[Call("read", {"path": f"f{number}.py"})] for number in range(n_rounds)]


def put_files(stage: Any, n_files: int, body: str) -> None:
    for number in range(n_files):
        stage.workspace.put(stage.folder / f"f{number}.py", body)


# slidingWindow


async def test_the_model_is_sent_the_newest_events_and_the_store_keeps_all(make_stage: Any) -> None:
    stage = await make_stage([[Say("answer")]], repeat=True)
    session = await talk(stage, "slidingWindow", 5, policy={"maxEvents": 4})
    assert texts(last_sent(stage)) == [
        "[earlier turns are not shown]",
        "answer",
        "prompt 3",
        "answer",
        "prompt 4",
    ]
    assert len(list(session.history.turns)) == 10
    assert session.compactions.all == ()


async def test_the_window_holds_fifty_events_unless_told_otherwise(make_stage: Any) -> None:
    stage = await make_stage([[Say("answer")]], repeat=True)
    session = await talk(stage, "slidingWindow", 25)
    assert len(last_sent(stage).turns) == 49
    await stage.ask(session, "the 26th")
    assert texts(last_sent(stage))[0] == "prompt 6"
    assert len(last_sent(stage).turns) == 39


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        pytest.param("answer", 32_000, id="by the number of events"),
        pytest.param("an answer of some length " * 30, 8_000, id="by tokens"),
    ],
)
async def test_a_window_slides_in_steps_so_that_the_cache_of_a_prompt_holds(
    make_stage: Any, answer: str, window: int
) -> None:
    """Between two steps each request goes on from the one before."""
    stage = await make_stage([[Say(answer)]], window=window, repeat=True)
    await talk(stage, "slidingWindow", 100)
    requests = [call.conversation.turns for call in stage.model.calls]
    slid = [n for n, (a, b) in enumerate(pairwise(requests)) if b[: len(a)] != a]
    assert 3 < len(slid) <= 100 // 5


async def test_the_newest_prompt_stays_however_long_the_tool_loop(make_stage: Any) -> None:
    stage = await make_stage([*reads(6), [Say("done")]], tools=[READ])
    put_files(stage, 6, "x = 1\n")
    session = await stage.session(engine="slidingWindow", policy={"maxEvents": 3})
    assert (await stage.ask(session, "read them all")).text == "done"
    sent = last_sent(stage)
    check_sound(sent)
    assert [turn.role for turn in sent.turns] == ["user", "assistant", "tool", "assistant", "tool"]
    assert texts(sent) == ["read them all"]
    assert len(list(session.history.turns)) == 14


async def test_what_its_tools_said_last_is_always_shown(make_stage: Any) -> None:
    """A window of nothing would have the model call its tools for ever."""
    stage = await make_stage([*reads(1), [Say("done")]], tools=[READ])
    put_files(stage, 1, "x = 1\n")
    session = await stage.session(engine="slidingWindow", policy={"maxEvents": 0})
    await stage.ask(session, "read it")
    assert [turn.role for turn in last_sent(stage).turns] == ["user", "assistant", "tool"]


async def test_a_window_that_is_too_large_for_the_model_is_cut_visibly(make_stage: Any) -> None:
    stage = await make_stage([*reads(2), [Say("done")]], tools=[READ], window=8_000)
    put_files(stage, 2, "value = 1  # a line of a very long file\n" * 600)
    session = await stage.session(engine="slidingWindow")
    assert (await stage.ask(session, "read them")).text == "done"
    sent = last_sent(stage)
    check_sound(sent)
    outputs = [b.output for turn in sent.turns for b in turn.blocks if isinstance(b, ToolResultBlock)]
    assert all("[... truncated from" in output for output in outputs)
    assert sum(map(len, outputs)) < 4 * 8_000
    stored = [
        b.output for turn in session.history.turns for b in turn.blocks if isinstance(b, ToolResultBlock)
    ]
    assert all("truncated from" not in output for output in stored)
    assert session.gauge.usage().used <= 8_000


async def test_a_prompt_that_is_larger_than_the_window_shows_its_beginning(make_stage: Any) -> None:
    stage = await make_stage([[Say("answer")]], window=4_000)
    session = await stage.session(engine="slidingWindow")
    prompt = "a log line\n" * 4_000
    await stage.ask(session, prompt)
    (shown,) = texts(last_sent(stage))
    assert shown.startswith("a log line\n")
    assert shown.endswith("[... truncated from 44000 chars ...]")
    assert len(shown) < 4 * 4_000
    assert session.history.turns[0] == UserTurn((TextBlock(prompt),))


async def test_a_sliding_window_never_compacts_and_says_why(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]], repeat=True)
    session = await talk(stage, "slidingWindow", 3)
    started = session.compact(CompactionRequest(), await session.judge(CompactionRequest()))
    assert started.disposition == "noop"
    assert started.reason == (
        "a sliding window condenses nothing: the model is sent the newest 50 events, "
        "and the stored conversation stays whole"
    )
    assert (await started.outcome).status == "noop"
    assert (await session.preview(CompactionRequest())).noop is not None
    assert not (await session.preview(CompactionRequest())).gate.over


async def test_the_meter_shows_what_is_sent_and_not_what_is_stored(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]], repeat=True)
    session = await talk(stage, "slidingWindow", 12, policy={"maxEvents": 4})
    usage = session.gauge.usage(detail=True)
    assert usage.used < 3 * 1000 + 500
    assert usage.by is not None
    assert usage.by.assistant < 3 * 1000
    assert usage.engine_view["slidingWindow"].limit == 32_000


async def test_the_meter_of_a_view_rests_on_the_providers_figure(make_stage: Any) -> None:
    """It counted 1000 tokens more than the estimate; so does the next request."""
    stage = await make_stage([[Say("one"), UsageEmission(Usage(1_200, 5))]])
    session = await stage.session(engine="slidingWindow")
    await stage.ask(session, "hi")
    usage = session.gauge.usage()
    assert usage.source == "provider"
    assert 1_200 < usage.used < 1_230
    assert usage.engine_view["slidingWindow"].used > 1_150


# summarizing


async def test_the_first_notes_are_taken_when_tier_two_is_crossed(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]], window=8_000, repeat=True)
    session = await stage.session(engine="summarizing", policy=NO_TRUNCATION)
    gates = []
    while not session.compactions.all:
        gates.append((await session.preview(CompactionRequest(force=False))).gate)
        await stage.ask(session, "another prompt")
    assert [gate.over for gate in gates] == [False] * (len(gates) - 1) + [True]
    assert gates[-2].tokens <= gates[-1].limit < gates[-1].tokens
    made = session.compactions.all[0]
    assert (made.trigger, made.status, made.summary) == ("auto", "completed", LONG.strip())
    assert made.before_head == made.after_head, "the stored conversation stays as it is"
    assert len(list(session.history.turns)) == made.pre_count + 2
    sent = last_sent(stage)
    assert texts(sent)[0] == f"{SUMMARY_MARK}\n{LONG.strip()}"
    assert texts(sent)[-1] == "another prompt"
    check_sound(sent)
    assert made.info is not None
    assert made.info["eventsSummarised"] == made.dropped_count


async def test_notes_stand_until_the_window_is_full_again(make_stage: Any) -> None:
    """One crossing, one call: the place of the cut stands between two summaries."""
    stage = await make_stage([[Say(LONG)]], window=16_000, repeat=True)
    session = await talk(stage, "summarizing", 30, policy=NO_TRUNCATION)
    made = session.compactions.all
    assert 2 <= len(made) <= 8
    assert len(stage.model.calls) == 30 + len(made)
    assert [done.info["isIncremental"] for done in made if done.info] == [False] + [True] * (len(made) - 1)
    assert [done.cut for done in made] == sorted({done.cut for done in made})
    for call in stage.model.calls:
        assert sum(map(len, texts(call.conversation))) < 4 * 16_000


async def test_each_notes_go_on_from_the_notes_before(make_stage: Any) -> None:
    script = [[Say(LONG)]] * 3 + [[Say("first notes")], *[[Say(LONG)]] * 2, [Say("second notes")], [Say("x")]]
    stage = await make_stage(script)
    session = await talk(stage, "summarizing", 3)
    await session.compact(CompactionRequest()).outcome
    for prompt in ("four", "five"):
        await stage.ask(session, prompt)
    plan = await session.preview(CompactionRequest())
    done = await session.compact(CompactionRequest()).outcome
    asked = "\n".join(texts(last_sent(stage)))
    assert "first notes" in asked
    assert "[user]: one" not in asked, "what the notes cover is not shown again"
    assert "[user]: prompt 2" in asked
    assert plan.prompt is not None
    assert plan.prompt.endswith(asked)
    assert plan.dropped is not None
    assert plan.dropped.nodes == tuple(session.history.current.node_ids[4 : done.cut])
    await stage.ask(session, "six")
    sent = texts(last_sent(stage))
    assert sent[0] == f"{SUMMARY_MARK}\nsecond notes"
    assert "first notes" not in "\n".join(sent)


async def test_notes_are_taken_in_the_middle_of_a_long_tool_loop(make_stage: Any) -> None:
    rounds = reads(7)
    script = [*rounds[:6], [Say("the notes")], *rounds[6:], [Say("done")]]
    stage = await make_stage(script, tools=[READ], window=8_000)
    put_files(stage, 7, FILE)
    session = await stage.session(engine="summarizing", policy={"reserveTokens": 1_000, "minEvents": 2})
    outcome = await stage.ask(session, "read them all")
    assert outcome.text == "done"
    (made,) = session.compactions.all
    assert made.status == "completed"
    assert made.info is not None
    assert made.info["pinnedPrompt"] == 0
    kinds = [event.kind for event in session.log.after(0, limit=10_000)]
    assert kinds.index("compaction") < kinds.index("settled")
    phases = [each.phase for each in data(session, Phase)]
    assert phases[phases.index("compacting") + 1] == "invoking"
    sent = last_sent(stage)
    check_sound(sent)
    notes, *files, prompt = texts(sent)[: texts(sent).index("read them all") + 1]
    assert (notes, prompt) == (f"{SUMMARY_MARK}\nthe notes", "read them all")
    assert all(each.startswith(RESTORED_FILE_PREFIX) for each in files)
    assert len(list(session.history.turns)) == 16


async def test_a_prompt_that_the_notes_passed_over_is_in_the_next_ones(make_stage: Any) -> None:
    after = [[Say("notes 1")], [Say(LONG)], [Say(LONG)], [Say("notes 2")], [Say("x")]]
    stage = await make_stage([*reads(4), [Say("done")], *after], tools=[READ])
    put_files(stage, 4, FILE)
    session = await stage.session(engine="summarizing")
    await stage.ask(session, "the question of the loop")
    first = await session.compact(CompactionRequest()).outcome
    assert first.info is not None
    assert first.info["pinnedPrompt"] == 0
    for prompt in ("two", "three"):
        await stage.ask(session, prompt)
        assert "the question of the loop" in "\n".join(texts(last_sent(stage)))
    second = await session.compact(CompactionRequest()).outcome
    assert "[user]: the question of the loop" in "\n".join(texts(last_sent(stage)))
    assert second.info is not None
    assert "pinnedPrompt" not in second.info
    await stage.ask(session, "four")
    assert "the question of the loop" not in "\n".join(texts(last_sent(stage)))


async def test_a_turn_that_is_stopped_while_notes_are_taken_ends_both(make_stage: Any) -> None:
    stage = await make_stage([*reads(6), [Hang()]], tools=[READ], window=8_000)
    put_files(stage, 6, FILE)
    session = await stage.session(engine="summarizing", policy={"reserveTokens": 1_000, "minEvents": 2})
    started = await session.submit(text("read them all"))
    while len(stage.model.calls) < 7:
        await stage.settle()
    assert session.prompts.interrupt(started.turn_id, "keep").accepted
    assert (await started.outcome).stop_reason == "cancelled"
    assert [done.status for done in data(session, Compaction)] == ["in_progress", "cancelled"]
    told = [event for event in session.log.after(0, limit=10_000) if event.kind != "compactionNear"]
    assert told[-1].data == data(session, Settled)[-1]
    assert session.compactions.all == ()


async def test_old_long_texts_are_truncated_in_the_view_alone(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG * 2)]], window=32_000, repeat=True)
    session = await talk(stage, "summarizing", 12)
    assert session.compactions.all == ()
    sent = texts(last_sent(stage))
    assert "[... truncated from" in sent[1]
    assert len(sent[1]) == 2_000
    assert sent[-2] == LONG * 2, "the newer half is as it was"
    stored = {
        block.text for turn in session.history.turns for block in turn.blocks if isinstance(block, TextBlock)
    }
    assert stored == {LONG * 2, *(f"prompt {number}" for number in range(12))}


async def test_while_notes_cannot_be_had_a_placeholder_stands_and_nothing_is_lost(make_stage: Any) -> None:
    """Everything is sent as long as it fits. By hand it is tried again, with all that was left out."""
    stage = await make_stage([[Say(LONG)]], window=8_000, repeat=True)
    broken = ScriptedModel([[Raise(RuntimeError("boom"))]], when_exhausted="repeat")
    notes = ScriptedModel([[Say("at last")]], when_exhausted="repeat")
    stage.models.summarizer = lambda model: (broken, stage.models.card(model))
    session = await talk(stage, "summarizing", 7, policy=NO_TRUNCATION)
    sent = texts(last_sent(stage))
    assert sent[0] == "prompt 0"
    while "summary unavailable]" not in sent[0]:
        assert (await stage.ask(session, "another prompt")).fault is None
        sent = texts(last_sent(stage))
    assert sent[-1] == "another prompt"
    assert sum(map(len, sent)) < 4 * 8_000
    statuses = [done.status for done in data(session, Compaction)]
    assert statuses == ["in_progress", "failed"] * len(broken.calls)
    assert [notice.title for notice in data(session, Notice)] == ["Automatic compaction is paused"]
    stage.models.summarizer = lambda model: (notes, stage.models.card(model))
    done = await session.compact(CompactionRequest()).outcome
    assert (done.status, done.summary) == ("completed", "at last")
    assert "[user]: prompt 0" in "\n".join(text for call in notes.calls for text in texts(call.conversation))


async def test_a_model_that_writes_too_much_costs_one_call_for_many_prompts(make_stage: Any) -> None:
    """Its notes are cut at the length that was asked for, and each compaction makes the request smaller."""
    stage = await make_stage([[Say(LONG)]], window=16_000, repeat=True)
    notes = ScriptedModel([[Say("and then, at great length, " * 2_000)]], when_exhausted="repeat")
    stage.models.summarizer = lambda model: (notes, stage.models.card(model))
    session = await talk(stage, "summarizing", 30, policy={"reserveTokens": 1_000})
    done = [each for each in data(session, Compaction) if each.status != "in_progress"]
    assert {each.status for each in done} == {"completed"}
    assert all(each.post_tokens < each.pre_tokens for each in done if each.post_tokens is not None)
    assert len(notes.calls) <= 6
    assert "characters of these notes left out ...]" in texts(last_sent(stage))[0]


async def test_notes_do_not_outlive_the_turns_they_cover(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]] * 3 + [[Say("the notes")], [Say("new")]])
    session = await talk(stage, "summarizing", 3)
    await session.compact(CompactionRequest()).outcome
    await session.rewind(session.history.current.node_ids[1], expect_head=None)
    await stage.ask(session, "another way")
    assert texts(last_sent(stage)) == ["prompt 0", LONG, "another way"]


async def test_files_come_back_behind_the_notes_in_each_view(make_stage: Any) -> None:
    """The same text in each request, also after loading, and nothing in the stored conversation."""
    script = [*reads(1), [Say(LONG)], [Say(LONG)], [Say("notes")], *[[Say("ok")]] * 3]
    stage = await make_stage(script, tools=[READ])
    put_files(stage, 1, FILE)
    session = await talk(stage, "summarizing", 2)
    n_stored = len(session.history.current)
    plan = await session.preview(CompactionRequest())
    done = await session.compact(CompactionRequest()).outcome
    assert [file.uri for file in plan.rehydrate] == list(done.rehydrated) != []
    assert plan.projected is not None
    assert done.post_tokens is not None
    assert plan.projected.low <= done.post_tokens <= plan.projected.high
    assert len(session.history.current) == n_stored
    shown = []
    for number in range(3):
        if number == 2:
            await stage.hub.close(session.sid)
            session = (await stage.hub.load(session.sid)).session
        put_files(stage, 1, "changed later")
        await stage.ask(session, "go on")
        notes, file, *_ = texts(last_sent(stage))
        assert notes.startswith(SUMMARY_MARK)
        shown.append(file)
    assert shown[0].startswith(f"{RESTORED_FILE_PREFIX} ")
    assert FILE[:60] in shown[0]
    assert set(shown) == {shown[0]}


async def test_another_engine_starts_from_the_whole_conversation(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]] * 3 + [[Say("the notes")], [Say("new")], [Say("newer")]])
    session = await talk(stage, "summarizing", 3)
    await session.compact(CompactionRequest()).outcome
    session.options.choose("engine", "none")
    await stage.ask(session, "four")
    assert len(last_sent(stage).turns) == 7
    session.options.choose("engine", "summarizing")
    await stage.ask(session, "five")
    assert texts(last_sent(stage))[0] == f"{SUMMARY_MARK}\nthe notes"


async def test_notes_are_for_sessions_whose_engine_it_is(make_stage: Any) -> None:
    stage = await make_stage([[Say(LONG)]] * 3)
    session = await talk(stage, "windowBudget", 3)
    request = CompactionRequest(engine="summarizing")
    started = session.compact(request, await session.judge(request))
    assert started.disposition == "noop"
    assert started.reason is not None
    assert "choose it first" in started.reason
    preview = await session.preview(CompactionRequest(engine="summarizing"))
    assert preview.noop is not None, "a preview promises nothing that a compaction refuses"
    assert preview.noop.reason == started.reason


async def test_a_model_that_reasons_is_asked_without_a_temperature(make_stage: Any) -> None:
    from dataclasses import replace

    stage = await make_stage([[Say(LONG)]] * 3 + [[Say("the notes")]])
    session = await talk(stage, "summarizing", 3)
    card = stage.models.card("scripted-1")
    stage.models.catalog = stage.models.catalog.with_cards([replace(card, reasoning=True)])
    await session.compact(CompactionRequest()).outcome
    options = stage.model.calls[-1].options
    assert (options.temperature, options.max_output_tokens) == (None, 1000)


@pytest.mark.parametrize("engine", ["slidingWindow", "summarizing"])
async def test_a_short_conversation_is_sent_as_it_is(make_stage: Any, engine: str) -> None:
    stage = await make_stage([[Say("one")], [Say("two")]])
    session = await talk(stage, engine, 2)
    sent = last_sent(stage).turns
    assert all(a is b for a, b in zip(sent, list(session.history.turns), strict=False))
    assert session.gauge.usage().source == "estimate"
