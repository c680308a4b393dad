"""Recorded sessions of other agents, gone through with every engine as a session would."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from histories import committed, entry_of
from model_cards import card
from recorded_sessions import WITH_CALLS, read_records, recordings, turn_of
from sidecar._internal.cancel import CancelToken
from sidecar.boot import ENGINES
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engine import EngineDeps, PlannedCompaction
from sidecar.conductor.window.compaction.chronicling import Keeping, SessionChronicle
from sidecar.conductor.window.compaction.compacting import KEEPING, fold
from sidecar.conversation import History
from sidecar.llmgateway.contract import AssistantTurn, ToolTurn, Turn
from sidecar.llmgateway.scripted import Say, ScriptedModel
from sidecar.runtime.memory import live_tokens
from sidecar.runtime.store import heal
from sidecar.runtime.wire import Outgoing
from talks import AUTO, input_of, no_files
from turns import check_whole

pytestmark = pytest.mark.slow

MAX_RECORDS = 260


def read_turns(path: Path) -> list[Turn]:
    """The beginning of a recording as a session would load it: the results of one round together, healed."""
    records = read_records(path)[:MAX_RECORDS]
    turns: list[Turn] = []
    for are_results, group in groupby(map(turn_of, records), lambda each: isinstance(each, ToolTurn)):
        found = list(group)
        turns += [ToolTurn(tuple(b for each in found for b in each.blocks))] if are_results else found
    return list(heal(turns))


@pytest.mark.parametrize("path", recordings(WITH_CALLS, each=1))
@pytest.mark.parametrize("engine_name", [name for name in ENGINES if name != "none"])
@pytest.mark.parametrize("window", [8_000, 16_000, 36_000])
@pytest.mark.parametrize("writes", [True, False], ids=["with a model", "without a model"])
async def test_a_recorded_session(path: Path, engine_name: str, window: int, writes: bool) -> None:
    """Each compaction makes the next request smaller, and whatever is sent is whole.

    It takes what its plan said, but for a summary in steps that ended early. Small windows neither starve nor
    thrash: what is sent is inside the limit again after each compaction, unless nothing but the newest prompt
    is left, and in the mean a fifth of the window is said before the next one.
    """
    recorded, model_card = read_turns(path), card(window)
    engine = ENGINES[engine_name]()
    model = ScriptedModel([[Say("what was done so far " * 20)]], when_exhausted="repeat")
    invoke = model if writes else None
    keeping = Keeping(look=no_files, chronicle=SessionChronicle())
    history = History()
    n_compactions = 0
    for each in recorded:
        history = history.extended([entry_of(each)])
        given = input_of(history, model_card)
        gate = engine.gate(given, AUTO)
        if isinstance(each, AssistantTurn) or not gate.over:
            continue
        plan = engine.plan(given, AUTO)
        if isinstance(plan, NoOp):
            continue
        plan = keeping.chronicle.add_to_plan(plan, engine, given, gate.limit)
        planned = PlannedCompaction(engine, AUTO, given, gate, plan)
        done = await fold(planned, EngineDeps(invoke, CancelToken(), 10.0))
        if isinstance(done, NoOp):
            continue
        for step in KEEPING:
            done = await step(planned, done, keeping)
        assert done.post_tokens < done.pre_tokens
        if done.cut == plan.cut:
            assert plan.low_tokens <= done.post_tokens <= plan.high_tokens
        history = committed(history, done)
        after = engine.gate(input_of(history, model_card), AUTO)
        assert after.tokens < gate.tokens
        kinds = [entry.kind for entry in history if entry.kind != "summary"]
        assert not after.over or kinds == ["user"], "a prompt that alone is over the limit stays whole"
        n_compactions += 1
        check_whole(Outgoing().extend(entry.turn for entry in history).turns())
    assert n_compactions <= 1 + live_tokens(recorded) // (window // 5)
