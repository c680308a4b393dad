"""Random conversations, and one that follows an engine through them as a session would."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from histories import committed, entry_of
from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import NoOp
from sidecar.conductor.window.compaction.host_restoring import (
    add_files,
    is_done_by_host,
    list_files,
    plan_files,
    without_restored,
)
from sidecar.conductor.window.compaction.planner import weigh_plan, weigh_result
from sidecar.conductor.window.engines.contract import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    FreshFile,
    FreshFiles,
    SessionEngine,
    StandingSummary,
    SummaryFailedError,
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
    standing: StandingSummary | None = None
    done: list[CompactionResult] = field(default_factory=list)
    recall_tokens: int = 0

    @property
    def engine_input(self) -> EngineInput:
        return EngineInput(
            history=self.history,
            card=self.card,
            summarizer_card=self.card,
            overhead_tokens=OVERHEAD,
            context_tokens=0,
            standing=self.standing,
            added_tokens=0 if self.done else self.recall_tokens,
        )

    @property
    def compaction_input(self) -> EngineInput:
        """The conversation as it is compacted: without the files that the host brought back."""
        given = self.engine_input
        is_theirs = is_done_by_host(self.engine)
        return replace(given, history=without_restored(given.history)) if is_theirs else given

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self.history.turns)

    def say(self, *turns: Turn) -> None:
        self.history = self.history.extended(map(entry_of, turns))

    async def plan(self, ask: CompactionRequest) -> CompactionPlan | NoOp:
        """Plan as a preview does: with the files that would come back as they are now."""
        given, by_host = self.compaction_input, is_done_by_host(self.engine)
        gate, plan = self.engine.gate(given, ask), self.engine.plan(given, ask)
        if isinstance(plan, CompactionPlan):
            plan = list_files(given, plan) if by_host else plan
            fresh = await self.fresh([file.uri for file in plan.rehydrate])
            plan = plan_files(given, gate, plan, fresh) if by_host else self.engine.plan(given, ask, fresh)
        return plan if isinstance(plan, NoOp) else weigh_plan(plan, given, gate)

    async def compact(self, ask: CompactionRequest) -> CompactionResult | NoOp | None:
        plan = await self.plan(ask)
        deps = EngineDeps(self.model, self.fresh, CancelToken(), 10.0)
        before, first = self.sent(), self.standing.cut if self.standing is not None else 0
        try:
            outcome = await self.engine.compact(self.compaction_input, ask, deps)
        except SummaryFailedError:
            assert self.sent() == before
            return None
        if isinstance(outcome, CompactionResult):
            outcome = await weigh_result(self.engine, self.compaction_input, outcome)
        if isinstance(outcome, CompactionResult):
            outcome = await add_files(self.engine, self.compaction_input, ask, outcome, self.fresh)
        gate = self.engine.gate(self.compaction_input, ask)
        if isinstance(outcome, NoOp):
            assert outcome == plan or (isinstance(plan, CompactionPlan) and plan.high_tokens >= gate.tokens)
        if isinstance(plan, NoOp):
            assert outcome == plan
        if isinstance(outcome, CompactionResult):
            self.check(plan, outcome)
            old = tuple(self.compaction_input.history.turns[: outcome.cut])
            self.take(outcome)
            if first == outcome.cut and not self.engine.commits_view:
                assert prompts_in(old) - prompts_in(self.sent())
        return outcome

    def check(self, plan: CompactionPlan | NoOp, outcome: CompactionResult) -> None:
        """Strictly smaller, and what was planned, entry by entry and file by file.

        Only an engine that shows a view may stop before the planned cut, where the model failed half way.
        The window budget may also only shorten what alone is too large, and then it drops nothing.
        """
        assert outcome.post_tokens < outcome.pre_tokens
        assert isinstance(plan, CompactionPlan)
        assert plan.pre_tokens == outcome.pre_tokens
        assert plan.pre_tokens == plan.dropped_tokens + plan.kept_tokens + OVERHEAD
        assert plan.low_tokens <= plan.projected_tokens <= plan.high_tokens
        assert plan.low_tokens <= outcome.post_tokens <= plan.high_tokens
        assert outcome.dropped_count > 0 or self.engine.name == "windowBudget"
        assert outcome.microcompacted == plan.microcompact.blanked
        if not self.engine.commits_view and outcome.dropped_count < len(plan.dropped):
            assert outcome.cut <= plan.cut
            return
        restored = [(file.uri, file.tokens) for file in outcome.restored]
        planned = [(file.uri, file.tokens) for file in plan.rehydrate]
        # Beside a long summary the host leaves the files out.
        assert restored == planned or (is_done_by_host(self.engine) and not restored)
        assert (outcome.cut, outcome.dropped_count) == (plan.cut, len(plan.dropped))
        if self.engine.commits_view:
            origin = tuple(self.compaction_input.history[index].node_id for index in plan.dropped)
            assert not origin or outcome.view.entries[0].origin == origin
            assert outcome.view.pinned == plan.pinned

    def take(self, outcome: CompactionResult) -> None:
        self.done.append(outcome)
        if self.engine.commits_view:
            self.history = committed(self.compaction_input.history, outcome)
        else:
            self.standing = StandingSummary(outcome.cut, outcome.summary, outcome.info or {})

    def sent(self) -> tuple[Turn, ...]:
        shown = self.engine.view(self.engine_input, AUTO).entries
        return Outgoing().extend(entry.turn for entry in shown).turns()
