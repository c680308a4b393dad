"""Random conversations through every engine, followed turn by turn as a session would follow them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from histories import entry_of
from model_cards import card
from properties import cases
from sidecar import boot
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engine import CompactionPlan, FreshFile, FreshFiles, SessionEngine
from sidecar.conversation import FileRead, History
from sidecar.llmgateway.contract import AssistantTurn, TextBlock, ToolTurn, Turn, UserTurn
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from talks import AUTO, FORCED, TALKS, Follower, Talk, input_of, no_files, turns_of
from turns import check_whole, texts

ENGINES = {name: engine for name, engine in boot.ENGINES.items() if name != "none"}

CARRIED_OVER = Talk(
    [(3820, [[96], [1, 110, 4872], [1, 130], [100, 272, 1842]], 1), (1, [], 1)], 4_000, [False, True]
)
"""A prompt that the first compaction carries over its cut is all that the second one drops."""


def check_sent(sent: Sequence[Turn], prompt: str) -> None:
    """Calls and results are whole, a user opens, and the newest prompt is there, or its beginning."""
    assert isinstance(sent[0], UserTurn)
    check_whole(sent)
    assert any(prompt[:40] in text for text in texts(turn for turn in sent if isinstance(turn, UserTurn)))


async def files_of(paths: Sequence[str]) -> dict[str, FreshFile]:
    """Return the files as they are now: each has 20 lines for every character of its name."""
    texts = {path: "".join(f"line {n} of {path}\n" for n in range(20 * len(path))) for path in paths}
    reads = {path: FileRead(path=path, uri=path, hash="h", source="disk") for path in paths}
    return {path: FreshFile(path, text, reads[path]) for path, text in texts.items()}


async def follow(engine: SessionEngine, talk: Talk, fresh: FreshFiles = no_files) -> Follower:
    """Compact before each prompt and before each model call where the gate says so, as a session does."""
    script: list[list[Any]] = [
        [Say("notes " * 20)] if ok else [Raise(RuntimeError("boom"))] for ok in talk.answers
    ]
    follower = Follower(engine, card(talk.window), ScriptedModel(script, when_exhausted="repeat"), fresh)
    for exchange in turns_of(talk):
        prompt = exchange[0].blocks[0]
        assert isinstance(prompt, TextBlock)
        for turn in exchange:
            if not isinstance(turn, ToolTurn) and engine.gate(follower.engine_input, AUTO).over:
                await follower.compact(AUTO)
            follower.say(turn)
            if not isinstance(turn, AssistantTurn):
                check_sent(follower.sent(), prompt.text)
    return follower


@pytest.mark.parametrize("name", ENGINES)
@cases(40)
@given(talk=TALKS, fresh=st.sampled_from([no_files, files_of]))
@example(talk=CARRIED_OVER, fresh=no_files)
def test_what_is_sent_is_whole_and_holds_the_newest_prompt(name: str, talk: Talk, fresh: FreshFiles) -> None:
    """Before and after each compaction at the limit, and after two that are asked for.

    Files come back as planned, inside the limit, and no summary is made of them.
    """

    async def run() -> None:
        follower = await follow(ENGINES[name](), talk, fresh)
        for _ in range(2):
            await follower.compact(FORCED)
        if follower.turns:
            newest = turns_of(talk)[-1][0].blocks[0]
            assert isinstance(newest, TextBlock)
            check_sent(follower.sent(), newest.text)
        limit = follower.engine.gate(follower.engine_input, AUTO).limit
        assert all(done.post_tokens <= limit for done in follower.done if done.restored)
        if name in ("agentcore", "runtime"):
            assert "line 0 of" not in str([call.conversation.turns for call in follower.model.calls])

    asyncio.run(run())


@cases(25)
@given(talk=TALKS)
def test_what_notes_stand_for_was_shown_to_the_model_whole(talk: Talk) -> None:
    """Whatever was said is sent, or was shown to a summariser that answered, to its very end."""

    async def run() -> None:
        follower = await follow(ENGINES["summarizing"](), replace(talk, answers=[True]))
        for _ in range(2):
            await follower.compact(FORCED)
        asked = "".join(str(call.conversation.turns) for call in follower.model.calls)
        sent = str(follower.sent())
        names = re.findall(r"</([pac][\d.]+)>", str(turns_of(talk)))
        names = [name for name in names if f"</{name}>" not in sent]
        assert [name for name in names if f"</{name}>" not in asked] == []

    asyncio.run(run())


def parts_of(plan: CompactionPlan | NoOp) -> tuple[CompactionPlan | NoOp, str | None]:
    """Return the values of a plan, and its prompt."""
    if isinstance(plan, NoOp):
        return plan, None
    return replace(plan, prompt=str, kept=None, details=None), plan.prompt()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_that_was_fed_bit_by_bit_judges_like_one_that_sees_all_at_once(name: str) -> None:
    talk = Talk([(200, [[300, 40], [900]], 700)] * 6, 8_000, [True])
    history = History()
    slow = ENGINES[name]()

    for turn in (turn for exchange in turns_of(talk) for turn in exchange):
        history = history.extended([entry_of(turn)])
        given = input_of(history, card(8_000))
        assert slow.gate(given, AUTO) == ENGINES[name]().gate(given, AUTO)
    given = input_of(history, card(8_000))
    assert parts_of(slow.plan(given, FORCED)) == parts_of(ENGINES[name]().plan(given, FORCED))
    other = input_of(History(history[:2]), card(8_000))
    assert slow.gate(other, AUTO) == ENGINES[name]().gate(other, AUTO)
