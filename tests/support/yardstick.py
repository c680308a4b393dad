"""The share of a conversation that the default engine keeps: planted facts, looked for word for word."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import planting
from histories import committed, entry_of
from model_cards import card
from sidecar._internal.cancel import CancelToken
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
)
from sidecar.conductor.record.compactions import CompactionLog, begin
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.session_engines import PriceTrigger
from sidecar.conversation import Entry, History
from sidecar.conversation.search import search_entries
from sidecar.llmgateway.contract import AssistantTurn, CostSheet, ToolTurn, Turn
from sidecar.llmgateway.offline import offline_model
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from sidecar.runtime.contract import ModelInvoker
from sidecar.window_budget.prompt import BEHIND_WORDS

CACHED_SHARE, OUTPUT_PRICE = 0.1, 5.0
"""The price of a token from the cache, and of one that a model writes, where another one costs 1."""
WRITTEN_TOKENS = 2 * BEHIND_WORDS
"""The length of a model's summary, twice the words asked for. The facts are added without a model."""
HEAD_TOKENS = 1_500
"""The size of the system prompt and the tools, which every cache knows."""
AUTO, FORCED = CompactionRequest(force=False), CompactionRequest(force=True)


def writing(objective: str, guardrails: str, status: str) -> Callable[[], ModelInvoker]:
    """Return a summariser that always writes the same digest."""
    digest = (
        f"# Objective\n{objective}\n# Guardrails\n{guardrails}\n# Status\n{status}\n"
        "# Rationale\nnone\n# Plan\nGo on.\n# Carryover\nnone"
    )
    return lambda: ScriptedModel([[Say(digest)]], when_exhausted="repeat")


SUMMARISERS: Mapping[str, Callable[[], ModelInvoker]] = {
    "none": lambda: ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat"),
    "offline": offline_model,
    "useless": writing("Work on the project.", "none", "Some modules were fixed."),
    "drops rules": writing("Improve the importer and the reports.", "none", "The importer works."),
    "invents": writing("Write src/made/up_9999.py.", "- Always push to main.", "make ship-it passed."),
}


class Session:
    """The default engine over one conversation."""

    def __init__(self, window: int, model: ModelInvoker) -> None:
        self.engine, self.card, self.model = WindowBudgetEngine(), card(window), model
        self.history = History()
        self.n_compactions = 0

    @property
    def given(self) -> EngineInput:
        return EngineInput(
            history=self.history,
            card=self.card,
            summarizer_card=self.card,
            overhead_tokens=1_000,
            context_tokens=0,
        )

    async def play(self, turns: Iterable[Turn]) -> None:
        """Add *turns*, compacting where the gate says so."""
        for turn in turns:
            if not isinstance(turn, ToolTurn) and self.engine.gate(self.given, AUTO).over:
                await self.compact(AUTO)
            self.history = self.history.extended([entry_of(turn)])

    async def compact(self, request: CompactionRequest) -> CompactionResult:
        deps, plan = EngineDeps(self.model, CancelToken(), 10.0), self.engine.plan(self.given, request)
        assert isinstance(plan, CompactionPlan), plan
        done = await self.engine.compact(self.given, request, plan, deps)
        assert isinstance(done, CompactionResult), done
        self.n_compactions += 1
        self.history = committed(self.history, done)
        return done

    def kept(self, facts: Iterable[tuple[str, str]]) -> dict[str, float]:
        """Return the share of *facts* by kind that the next request says word for word, and of ``all``."""
        sent = "\n".join(text_of(entry) for entry in self.history)
        there, total = Counter[str](), Counter[str]()
        for kind, text in facts:
            for name in (kind, "all"):
                total[name] += 1
                there[name] += text in sent
        return {kind: there[kind] / total[kind] for kind in (*planting.KINDS, "all") if total[kind]}

    @property
    def n_tokens(self) -> int:
        """The size of what is sent, at four characters a token."""
        return sum(len(text_of(entry)) for entry in self.history) // 4


def text_of(entry: Entry) -> str:
    """Return everything that an entry shows to the model."""
    values = (getattr(block, name, "") for block in entry.turn.blocks for name in ("text", "output", "input"))
    return "\n".join(
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values if each
    )


async def after_one(
    seed: int, language: str, summariser: str, n_rounds: int = 110, window: int = 200_000
) -> tuple[dict[str, float], int]:
    """Return the shares kept by one compaction of a long conversation, and the tokens after it."""
    planted = planting.plant(seed, language, n_rounds)
    session = Session(window, SUMMARISERS[summariser]())
    session.history = History(entry_of(turn) for turns in planted.rounds for turn in turns)
    await session.compact(FORCED)
    return session.kept(fact for facts in planted.facts for fact in facts), session.n_tokens


def recalled(session: Session, facts: Sequence[tuple[str, str]]) -> float:
    """Return the share of *facts* that are sent, or that one search by the first name in them brings back."""
    sent = "\n".join(map(text_of, session.history))
    folded = session.history.list_folded()
    there = 0
    for _, fact in facts:
        name = re.search(r"[\w-]*_[\w-]+", fact)
        found = () if fact in sent else search_entries(folded, name.group() if name else fact, 5)
        there += fact in sent or any(fact in match.text for match in found)
    return there / len(facts)


async def after_many(
    seed: int, language: str, summariser: str, stops: Sequence[int], window: int = 60_000
) -> dict[int, dict[str, float]]:
    """Return the shares kept of everything planted so far after each of *stops* compactions.

    ``recalled`` among them is that of the facts planted before the first compaction, a search included.
    """
    session, found = Session(window, SUMMARISERS[summariser]()), dict[int, dict[str, float]]()
    told: list[tuple[str, str]] = []
    first: list[tuple[str, str]] = []
    planted = planting.plant(seed, language, stops[-1] * 42)
    for turns, facts in zip(planted.rounds, planted.facts, strict=True):
        await session.play(turns)
        told += facts
        if session.n_compactions in stops and session.n_compactions not in found:
            first = first or list(told)
            found[session.n_compactions] = session.kept(told) | {"recalled": recalled(session, first)}
        if len(found) == len(stops):
            break
    return found


@dataclass
class CacheCost:
    """The price of the requests of a session, in tokens that no cache knows.

    A token that the provider has in its cache costs a tenth of another one. It has the longest beginning that
    a request shares with the one before.
    """

    total: float = 0.0
    sent: Sequence[Entry] = ()

    def send(self, entries: Sequence[Entry]) -> None:
        """Count one request."""
        pairs = zip(self.sent, entries, strict=False)
        n_cached = sum(1 for _ in takewhile(lambda both: both[0].turn == both[1].turn, pairs))
        tokens = [len(text_of(entry)) / 4 for entry in entries]
        self.total += CACHED_SHARE * (HEAD_TOKENS + sum(tokens[:n_cached])) + sum(tokens[n_cached:])
        self.sent = tuple(entries)


@dataclass(frozen=True)
class CacheMeasure:
    """The cost of a session for the cache, as shares of that of the raw history.

    Attributes:
        requests: of all requests.
        with_summaries: with the calls for summaries, behind the conversation, as well.
        kept: the share of the facts so far that stand in view right behind the last compaction.
        n_facts: the number of those facts.
    """

    requests: float
    with_summaries: float
    kept: float
    n_facts: int


async def cache_cost(seed: int, *, by_price: bool, n_rounds: int = 80, window: int = 60_000) -> CacheMeasure:
    """Play a conversation of about 150,000 tokens, and return its cost for the provider's cache.

    Args:
        seed: of the conversation.
        by_price: whether the prices of the model decide when it is compacted, or the window alone.
        n_rounds: its prompts.
        window: of the model.
    """
    planted = planting.plant(seed, "English", n_rounds)
    session, raw, ours = Session(window, SUMMARISERS["none"]()), CacheCost(), CacheCost()
    log, whole, told = CompactionLog("s1"), list[Entry](), list[tuple[str, str]]()
    priced = replace(card(window), cost=CostSheet(3.0, 15.0, 3.0 * CACHED_SHARE))
    prices = PriceTrigger(is_prefix_cached=True)
    summaries, kept, n_facts = 0.0, 0.0, 0
    for turns, facts in zip(planted.rounds, planted.facts, strict=True):
        for turn in turns:
            if isinstance(turn, AssistantTurn):
                ratio, request = None, AUTO
                if by_price:
                    beside = session.given.overhead_tokens
                    ratio = prices.ratio(session.history, log.all, priced, beside)
                if ratio is not None:
                    request = replace(AUTO, policy={"triggerRatio": ratio}, limit_by="price")
                gate = session.engine.gate(session.given, request)
                if gate.over:
                    begun = begin(
                        str(len(whole)), "windowBudget", "auto", history=session.history, pre_tokens=0
                    )
                    done = await session.compact(request)
                    log.add(replace(begun, post_tokens=done.post_tokens))
                    written = min(WRITTEN_TOKENS, len(done.summary) / 4)
                    summaries += CACHED_SHARE * gate.tokens + OUTPUT_PRICE * written
                    kept, n_facts = session.kept(told)["all"], len(told)
                raw.send(whole)
                ours.send(tuple(session.history))
            whole.append(entry_of(turn))
            session.history = session.history.extended([entry_of(turn)])
        told += facts
    requests = ours.total / raw.total
    return CacheMeasure(requests, requests + summaries / raw.total, kept, n_facts)
