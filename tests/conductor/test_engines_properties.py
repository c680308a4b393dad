"""Random conversations through every engine, followed turn by turn as a session would follow them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from histories import committed, entry_of, history_of
from model_cards import card
from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engines.agentcore import AgentcoreEngine
from sidecar.conductor.engines.contract import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    FreshFile,
    SessionEngine,
    StandingSummary,
    SummaryFailedError,
)
from sidecar.conductor.engines.runtime_memory import RuntimeEngine
from sidecar.conductor.engines.sliding_window import SlidingWindowEngine
from sidecar.conductor.engines.summarizing import SummarizingEngine
from sidecar.conductor.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.room import SessionRoom
from sidecar.conversation import History
from sidecar.llmgateway.contract import (
    AssistantTurn,
    ModelCard,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from sidecar.runtime.wire import OPENING, Outgoing

ENGINES = (WindowBudgetEngine, RuntimeEngine, AgentcoreEngine, SummarizingEngine, SlidingWindowEngine)
OVERHEAD = 300
AUTO, FORCED = CompactionRequest(force=False), CompactionRequest(force=True)


@dataclass(frozen=True)
class Talk:
    """Prompts with their rounds of tools, all as sizes in characters; *answers* says when the model fails."""

    exchanges: Sequence[tuple[int, Sequence[Sequence[int]], int]]
    window: int
    answers: Sequence[bool]


SIZES = st.one_of(st.integers(1, 300), st.integers(1, 6000))
TALKS = st.builds(
    Talk,
    exchanges=st.lists(
        st.tuples(SIZES, st.lists(st.lists(SIZES, min_size=1, max_size=3), max_size=4), SIZES), max_size=8
    ),
    window=st.sampled_from([4_000, 12_000, 100_000]),
    answers=st.lists(st.booleans(), max_size=3).map(lambda some: [*some, True]),
)

CARRIED_OVER = Talk(
    [(3820, [[96], [1, 110, 4872], [1, 130], [100, 272, 1842]], 1), (1, [], 1)], 4_000, [False, True]
)
"""A prompt that the first compaction carries over its cut is all that the second one drops."""


def turns_of(talk: Talk) -> list[list[Turn]]:
    """The turns of each exchange; what is said has its number at both ends."""
    exchanges: list[list[Turn]] = []
    for number, (prompt, rounds, answer) in enumerate(talk.exchanges):
        turns: list[Turn] = [UserTurn((TextBlock(marked(f"p{number}", prompt)),))]
        for each, sizes in enumerate(rounds):
            ids = [f"c{number}.{each}.{k}" for k in range(len(sizes))]
            turns.append(AssistantTurn(tuple(ToolCallBlock(i, "read", {"path": f"{i}.py"}) for i in ids)))
            blocks = (ToolResultBlock(i, marked(i, size)) for i, size in zip(ids, sizes, strict=True))
            turns.append(ToolTurn(tuple(blocks)))
        turns.append(AssistantTurn((TextBlock(marked(f"a{number}", answer)),)))
        exchanges.append(turns)
    return exchanges


def marked(name: str, size: int) -> str:
    return f"<{name}>" + "x " * (size // 2) + f"</{name}>"


def prompts_in(turns: Sequence[Turn]) -> set[str]:
    return set(re.findall(r"<(p\d+)>", str(turns)))


async def no_files(paths: Sequence[str]) -> dict[str, FreshFile]:
    return {path: FreshFile(path, problem="notFound") for path in paths}


@dataclass
class Follower:
    """One engine in one session; it does with a compaction what the session does."""

    engine: SessionEngine
    card: ModelCard
    model: ScriptedModel
    history: History = field(default_factory=History)
    standing: StandingSummary | None = None
    done: list[CompactionResult] = field(default_factory=list)

    @property
    def engine_input(self) -> EngineInput:
        return EngineInput(
            history=self.history,
            card=self.card,
            overhead_tokens=OVERHEAD,
            context_tokens=0,
            standing=self.standing,
        )

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self.history.turns)

    def say(self, *turns: Turn) -> None:
        self.history = self.history.extended(map(entry_of, turns))

    async def compact(self, ask: CompactionRequest) -> CompactionResult | NoOp | None:
        plan = self.engine.plan(self.engine_input, ask)
        deps = EngineDeps(self.model, self.card, no_files, CancelToken(), 10.0)
        before = self.sent()
        try:
            outcome = await self.engine.compact(self.engine_input, ask, deps)
        except SummaryFailedError:
            assert self.sent() == before
            return None
        if isinstance(plan, NoOp):
            assert outcome == plan
        if isinstance(outcome, CompactionResult):
            self.check(plan, outcome)
            old = self.turns[: outcome.cut]
            self.take(outcome)
            if (
                isinstance(plan, CompactionPlan)
                and plan.first == outcome.cut
                and not self.engine.commits_view
            ):
                assert prompts_in(old) & (prompts_in(before) - prompts_in(self.sent()))
        return outcome

    def check(self, plan: CompactionPlan | NoOp, outcome: CompactionResult) -> None:
        """Strictly smaller, and cut where it was planned; before that where the model failed half way.

        An engine that shows a view may cut where it did before: then the prompt that it carried over that cut
        is what goes. The window budget may also only shorten what alone is too large, and then cuts nowhere.
        """
        assert outcome.post_tokens < outcome.pre_tokens
        assert isinstance(plan, CompactionPlan)
        assert plan.first <= outcome.cut <= plan.cut
        may_stay = not self.engine.commits_view or self.engine.name == "windowBudget"
        assert plan.first < outcome.cut or may_stay

    def take(self, outcome: CompactionResult) -> None:
        self.done.append(outcome)
        if self.engine.commits_view:
            self.history = committed(self.history, outcome)
        else:
            self.standing = StandingSummary(outcome.cut, outcome.summary, outcome.info or {})

    def sent(self) -> tuple[Turn, ...]:
        shown = self.engine.view(self.engine_input, AUTO).entries
        return Outgoing().extend(entry.turn for entry in shown).turns()


def check_sent(sent: Sequence[Turn], prompt: str) -> None:
    """Calls and results are whole, a user opens, and the newest prompt is there, or its beginning."""
    assert isinstance(sent[0], UserTurn)
    waiting: list[str] = []
    for turn in sent:
        found = [block.call_id for block in turn.blocks if isinstance(block, ToolResultBlock)]
        assert sorted(found) == sorted(waiting)
        waiting = [block.id for block in turn.blocks if isinstance(block, ToolCallBlock)]
    said = [
        b.text for turn in sent if isinstance(turn, UserTurn) for b in turn.blocks if isinstance(b, TextBlock)
    ]
    assert any(prompt[:40] in text for text in said)


async def follow(engine: SessionEngine, talk: Talk) -> Follower:
    """Compact before each prompt and before each model call where the gate says so, as a session does."""
    script: list[list[Any]] = [
        [Say("notes " * 20)] if ok else [Raise(RuntimeError("boom"))] for ok in talk.answers
    ]
    follower = Follower(engine, card(talk.window), ScriptedModel(script, when_exhausted="repeat"))
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


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@settings(max_examples=25)
@given(talk=TALKS)
def test_what_is_sent_is_whole_and_holds_the_newest_prompt(engine: type[SessionEngine], talk: Talk) -> None:
    asyncio.run(follow(engine(), talk))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@settings(max_examples=25)
@given(talk=TALKS)
@example(talk=CARRIED_OVER)
def test_a_compaction_by_hand_keeps_the_promises_too(engine: type[SessionEngine], talk: Talk) -> None:
    async def run() -> None:
        follower = await follow(engine(), talk)
        for _ in range(2):
            await follower.compact(FORCED)
        if follower.turns:
            newest = turns_of(talk)[-1][0].blocks[0]
            assert isinstance(newest, TextBlock)
            check_sent(follower.sent(), newest.text)

    asyncio.run(run())


@pytest.mark.parametrize("engine", [SummarizingEngine, SlidingWindowEngine], ids=lambda engine: engine.name)
@settings(max_examples=25)
@given(talk=TALKS)
def test_a_view_fits_its_window_and_leaves_the_conversation_whole(
    engine: type[SessionEngine], talk: Talk
) -> None:
    async def run() -> None:
        follower = Follower(
            engine(), card(talk.window), ScriptedModel([[Say("notes " * 20)]], when_exhausted="repeat")
        )
        whole: list[Turn] = []
        for turn in (turn for exchange in turns_of(talk) for turn in exchange):
            follower.say(turn)
            whole.append(turn)
            if follower.engine.gate(follower.engine_input, AUTO).over:
                await follower.compact(AUTO)
            room = SessionRoom()
            room.sync(history_of(turn for turn in follower.sent() if turn is not OPENING))
            assert room.before[-1] + OVERHEAD <= talk.window
            assert follower.turns == tuple(whole)

    asyncio.run(run())


@settings(max_examples=25)
@given(talk=TALKS)
def test_what_notes_stand_for_was_shown_to_the_model_whole(talk: Talk) -> None:
    """Whatever was said is in the view, or was shown to a summariser that answered, to its very end."""

    async def run() -> None:
        follower = await follow(SummarizingEngine(), talk)
        for _ in range(1 + len(talk.answers)):
            await follower.compact(FORCED)
        view = follower.engine.view(follower.engine_input, AUTO)
        first = view.first if follower.standing is None else follower.standing.cut
        asked = "".join(str(call.conversation.turns) for call in follower.model.calls)
        hidden = [turn for index, turn in enumerate(follower.turns[:first]) if index not in view.pinned]
        names = re.findall(r"</([pac][\d.]+)>", str(hidden))
        assert [name for name in names if f"</{name}>" not in asked] == []

    asyncio.run(run())


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_engine_that_was_fed_bit_by_bit_judges_like_one_that_sees_all_at_once(
    engine: type[SessionEngine],
) -> None:
    talk = Talk([(200, [[300, 40], [900]], 700)] * 6, 8_000, [True])
    history = History()
    slow = engine()

    def as_input(history: History) -> EngineInput:
        return EngineInput(history=history, card=card(8_000), overhead_tokens=OVERHEAD, context_tokens=0)

    for turn in (turn for exchange in turns_of(talk) for turn in exchange):
        history = history.extended([entry_of(turn)])
        given = as_input(history)
        assert slow.gate(given, AUTO) == engine().gate(given, AUTO)
    given = as_input(history)
    assert slow.plan(given, FORCED) == engine().plan(given, FORCED)
    other = as_input(History(history[:2]))
    assert slow.gate(other, AUTO) == engine().gate(other, AUTO)
