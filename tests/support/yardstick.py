"""The cost of a session for a provider's cache, with the default engine; that of the raw history is 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import mean

from histories import entry_of
from model_cards import card
from planted_work import plant_work, share_kept
from sidecar.conductor.engine import CompactionRequest, CompactionResult
from sidecar.conductor.record.compactions import CompactionLog, begin
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.session_engines import PriceTrigger
from sidecar.conversation import Entry
from sidecar.llmgateway.contract import AssistantTurn, CostSheet
from sidecar.llmgateway.scripted import Raise, ScriptedModel
from sidecar.window_budget.prompt import BEHIND_WORDS
from talks import AUTO, Follower
from use_of_views import text_of

CACHED_SHARE, OUTPUT_PRICE = 0.1, 5.0
"""The price of a token from the cache, and of one that a model writes, where another one costs 1."""
WRITTEN_TOKENS = 2 * BEHIND_WORDS
"""The length of a model's note, twice the words asked for. The chronicle is added without a model."""
HEAD_TOKENS = 1_500
"""The size of the system prompt and the tools, which every cache knows."""


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
        with_summaries: with the calls for notes, behind the conversation, as well.
        kept: the share of the facts so far that stand in view right behind a compaction, of all compactions.
    """

    requests: float
    with_summaries: float
    kept: float


async def cache_cost(
    seed: int, *, by_price: bool, n_tokens: int = 150_000, window: int = 60_000
) -> CacheMeasure:
    """Play a planted session, and return its cost for the provider's cache.

    Args:
        seed: of the session.
        by_price: whether the prices of the model decide when it is compacted, or the window alone.
        n_tokens: its length.
        window: of the model.
    """
    work = plant_work(seed, "claude", n_tokens)
    model = ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat")
    talk = Follower(WindowBudgetEngine(), card(window), model)
    raw, ours, log, whole = CacheCost(), CacheCost(), CompactionLog("s1"), list[Entry]()
    priced = replace(card(window), cost=CostSheet(3.0, 15.0, 3.0 * CACHED_SHARE))
    prices, summaries, kept = PriceTrigger(is_prefix_cached=True), 0.0, list[float]()
    for at, turns in enumerate(work.rounds):
        for turn in turns:
            if isinstance(turn, AssistantTurn):
                request = AUTO
                beside = talk.engine_input.overhead_tokens
                ratio = prices.ratio(talk.history, log.all, priced, beside) if by_price else None
                if ratio is not None:
                    request = CompactionRequest(force=False, policy={"triggerRatio": ratio}, limit_by="price")
                gate = talk.engine.gate(talk.engine_input, request)
                if gate.over:
                    begun = begin(str(len(whole)), "windowBudget", "auto", history=talk.history, pre_tokens=0)
                    done = await talk.compact(request)
                    assert isinstance(done, CompactionResult), done
                    log.add(replace(begun, post_tokens=done.post_tokens))
                    summaries += CACHED_SHARE * gate.tokens + OUTPUT_PRICE * WRITTEN_TOKENS
                    told = [fact for facts in work.facts[:at] for fact in facts]
                    counts = share_kept(told, "\n".join(map(text_of, talk.history)))
                    kept.append(sum(n for n, _ in counts.values()) / sum(n for _, n in counts.values()))
                raw.send(whole)
                ours.send(tuple(talk.history))
            whole.append(entry_of(turn))
            talk.say(turn)
    requests = ours.total / raw.total
    return CacheMeasure(requests, requests + summaries / raw.total, mean(kept or [0.0]))
