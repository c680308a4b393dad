"""Random conversations, and one that follows an engine through them as a session would."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from histories import committed, entry_of
from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    FreshFile,
    FreshFiles,
    PlannedCompaction,
    SessionEngine,
)
from sidecar.conductor.window.compaction.chronicling import Keeping, SessionChronicle, limit_of
from sidecar.conductor.window.compaction.compacting import KEEPING, fold
from sidecar.conductor.window.compaction.planner import narrow_input, weigh_plan
from sidecar.conductor.window.compaction.restoring import (
    find_files,
    project_files,
    rank_kept,
)
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
from sidecar.llmgateway.scripted import ScriptedModel
from sidecar.runtime.wire import Outgoing

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


TINY = st.builds(
    Talk,
    exchanges=st.lists(
        st.tuples(
            st.integers(1, 300),
            st.lists(st.lists(st.integers(1, 600), min_size=1, max_size=2), max_size=2),
            st.integers(1, 300),
        ),
        min_size=1,
        max_size=4,
    ),
    window=st.sampled_from([4_000, 32_000]),
    answers=st.just([True]),
)


def turns_of(talk: Talk) -> list[list[Turn]]:
    """Return the turns of each exchange; each text has its number at both ends."""
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


def input_of(history: History, model: ModelCard, overhead_tokens: int = OVERHEAD, **more: Any) -> EngineInput:
    """Return *history* as an engine is given it, for a *model* that writes its own summaries."""
    return EngineInput(
        history=history,
        card=model,
        summarizer_card=model,
        overhead_tokens=overhead_tokens,
        context_tokens=0,
        **more,
    )


async def no_files(paths: Sequence[str]) -> dict[str, FreshFile]:
    return {path: FreshFile(path, problem="notFound") for path in paths}


@dataclass
class Follower:
    """One engine in one session; it does with a compaction what the session does."""

    engine: SessionEngine
    card: ModelCard
    model: ScriptedModel
    fresh: FreshFiles = no_files
    history: History = field(default_factory=History)
    done: list[CompactionResult] = field(default_factory=list)
    files: tuple[tuple[str, int], ...] = ()
    chronicle: SessionChronicle = field(default_factory=SessionChronicle)

    @property
    def keeping(self) -> Keeping:
        return Keeping(look=self.fresh, chronicle=self.chronicle)

    @property
    def engine_input(self) -> EngineInput:
        return input_of(self.history, self.card)

    @property
    def compaction_input(self) -> EngineInput:
        """The conversation as it is compacted."""
        return narrow_input(self.engine_input, self.engine)

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self.history.turns)

    def say(self, *turns: Turn) -> None:
        self.history = self.history.extended(map(entry_of, turns))

    async def make(self, ask: CompactionRequest) -> PlannedCompaction:
        given = self.compaction_input
        gate, plan = self.engine.gate(given, ask), self.engine.plan(given, ask)
        if isinstance(plan, CompactionPlan):
            plan = weigh_plan(
                self.keeping.chronicle.add_to_plan(plan, self.engine, given, limit_of(gate, ask)), gate
            )
        return PlannedCompaction(self.engine, ask, given, gate, plan)

    async def plan(self, ask: CompactionRequest) -> CompactionPlan | NoOp:
        """Plan as a preview does: with the files that would come back as they are now."""
        planned = await self.make(ask)
        if isinstance(planned.found, NoOp):
            return planned.found
        given = planned.given
        uses = rank_kept(given, planned.plan)
        found, fresh = await find_files(given, planned.gate, planned.plan, uses, self.fresh)
        plan, weights = project_files(planned, found, fresh)
        self.files = tuple((fresh[path].uri, tokens) for path, tokens in weights.items())
        return plan

    async def compact(self, ask: CompactionRequest) -> CompactionResult | NoOp | None:
        plan, planned = await self.plan(ask), await self.make(ask)
        deps = EngineDeps(self.model, CancelToken(), 10.0)
        outcome: CompactionResult | NoOp
        if isinstance(planned.found, NoOp):
            outcome = planned.found
        else:
            outcome = await fold(planned, deps)
            for step in KEEPING if isinstance(outcome, CompactionResult) else ():
                assert isinstance(outcome, CompactionResult)
                outcome = await step(planned, outcome, self.keeping)
        if isinstance(outcome, NoOp):
            may_save_nothing = isinstance(plan, CompactionPlan) and plan.high_tokens >= planned.gate.tokens
            assert outcome == plan or may_save_nothing
        if isinstance(plan, NoOp):
            assert outcome == plan
        if isinstance(outcome, CompactionResult):
            self.check(plan, outcome)
            self.done.append(outcome)
            self.history = committed(self.compaction_input.history, outcome)
        return outcome

    def check(self, plan: CompactionPlan | NoOp, outcome: CompactionResult) -> None:
        """Strictly smaller, and what was planned, entry by entry and file by file.

        Only summarizing may stop before the planned cut, where the model failed half way. The window budget
        may also only shorten what alone is too large, and then it drops nothing.
        """
        assert outcome.post_tokens < outcome.pre_tokens
        assert isinstance(plan, CompactionPlan)
        assert plan.pre_tokens == outcome.pre_tokens
        assert plan.pre_tokens == plan.dropped_tokens + plan.kept_tokens + OVERHEAD
        assert plan.low_tokens <= plan.projected_tokens <= plan.high_tokens
        assert outcome.dropped_count > 0 or self.engine.name == "windowBudget"
        assert outcome.microcompacted == plan.microcompact.blanked
        if self.engine.name == "summarizing" and outcome.dropped_count < len(plan.dropped):
            assert outcome.cut <= plan.cut
            return
        assert plan.low_tokens <= outcome.post_tokens <= plan.high_tokens
        weight = OVERHEAD + self.engine.weigh(outcome.entries)
        assert outcome.post_tokens > weight - 12, "every entry counts, but for rounding"
        restored = tuple((file.uri, file.tokens) for file in outcome.restored)
        # Beside a long summary the host leaves the files out.
        assert restored in ((), self.files)
        assert (outcome.cut, outcome.dropped_count) == (plan.cut, len(plan.dropped))
        origin = tuple(self.compaction_input.history[index].node_id for index in plan.dropped)
        assert not origin or outcome.entries[0].origin == origin

    def sent(self) -> tuple[Turn, ...]:
        return Outgoing().extend(entry.turn for entry in self.history).turns()
