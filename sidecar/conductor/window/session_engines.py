"""The compaction engines of one session: an instance of each, made when it is first used.

The trigger by price: compact once the cache saves more than the compaction costs.

A provider that keeps a cache still charges for each token that it reads there. With *N* tokens in a request
and *S* after a compaction, each later call reads *N - S* tokens less. The compaction itself costs once: the
summarising call reads *N* tokens and writes a summary of *D*, and the first call behind it writes *S* tokens
into the cache instead of reading them there. The prices are *c* for a cached token, *i* for a token that the
summarising call reads, *o* for an output token and *w* for a token that is new to the cache. With *R* calls
to come, a compaction pays from the size *N* on at which

    R * (N - S) * c  =  N * i + D * o + S * (w - c)

The number of calls to come is not known. A conversation is expected to go on for as long as it has gone on
since its last compaction, so *R* is the number of calls since then. For example with c = 0.30, i = 0.30,
o = 15, w = 3.75 dollars for a million tokens, S = 20,000, D = 6,000 and R = 50:

    N = (50 * 20,000 * 0.30 + 6,000 * 15 + 20,000 * 3.45) / (50 * 0.30 - 0.30) = 31,224

Each compaction shortens the conversation in view, so none comes before 36 % of the window are used beside
the system prompt and the tools; and none comes later than the window needs it. Where the prices or the cache
are not known, the window alone decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.contract import Compaction
from sidecar.conductor.deps import SessionDeps
from sidecar.conductor.engine import (
    CompactionRequest,
    EngineInput,
    SessionEngine,
)
from sidecar.conductor.record.session_record import SessionRecord
from sidecar.conductor.window.head import RequestHead
from sidecar.conversation import History, Index
from sidecar.llmgateway.contract import CostSheet, ModelCard
from sidecar.window_budget.prompt import BEHIND_WORDS

_LEAST_SHARE: Final = 0.36
"""The least share of the window beside the overhead at which prices make a compaction due.

Of less than that a digest of the usual size would take more than its share.
"""
_MOST_RATIO: Final = 0.75
"""The share of the window at which a compaction is due without regard to prices."""
_SIZE_AFTER: Final = 0.25
"""The share of the window that a compaction is taken to leave until one has shown its size."""
_SUMMARY_SHARE: Final = 0.05
"""The share of the window that a model is taken to write for a summary of any length."""
_SUMMARY_TOKENS: Final = 2 * BEHIND_WORDS
"""The most tokens that a model is taken to write where it is asked for a number of words."""

_MAX_SIZE: Final = 1e12
_SHARES: Final = ("triggerRatio", "tier1Ratio", "tier2Ratio")
_SIZES: Final = (
    *("keepRecent", "reserveTokens", "maxEvents"),
    *("truncateChars", "summaryMaxTokens", "minEvents"),
)
THRESHOLDS: Final[Mapping[str, float]] = dict.fromkeys(_SHARES, 1.0) | dict.fromkeys(_SIZES, _MAX_SIZE)
"""The largest value of each threshold of the engines, by its name on the wire.

The least is 0 for sizes, and more than 0 for shares of the window and for ``maxEvents``.
"""
_ENGINE_OF: Final[Mapping[str, str]] = {"maxEvents": "slidingWindow"} | dict.fromkeys(
    ("tier1Ratio", "tier2Ratio", "truncateChars", "summaryMaxTokens", "minEvents"), "summarizing"
)
"""The engine of each threshold that only one engine has."""


def check_policy(policy: Mapping[str, float], engine: str) -> dict[str, float]:
    """Return *policy*, thresholds of *engine* by their wire names, as a dict.

    Raises InvalidInput for a name that *engine* does not have, and for a number out of range.

    >>> check_policy({"triggerRatio": 0.5}, "windowBudget")
    {'triggerRatio': 0.5}
    """
    for name, value in policy.items():
        most = THRESHOLDS.get(name)
        if most is None:
            raise InvalidInput(
                f"no threshold {name!r} in policy", hint=f"known ones: {', '.join(THRESHOLDS)}"
            )
        if _ENGINE_OF.get(name, engine) != engine:
            hint = f"only the engine {_ENGINE_OF[name]!r} has it"
            raise InvalidInput(f"the engine {engine!r} has no threshold {name!r}", hint=hint)
        is_above_0 = name in (*_SHARES, "maxEvents")
        if not 0 <= value <= most or (is_above_0 and not value):
            hint = f"give a number {'above' if is_above_0 else 'from'} 0 to {most:g}"
            raise InvalidInput(f"policy.{name} is {value}", hint=hint)
    return dict(policy)


def find_paying_size(
    cost: CostSheet, *, after_tokens: int, summary_tokens: int, n_calls: int, is_prefix_cached: bool
) -> float | None:
    """Return the tokens of a request from which on a compaction pays, None where it never does.

    Args:
        cost: the prices of the model.
        after_tokens: the size of a request after a compaction.
        summary_tokens: the tokens that a model writes for the summary.
        n_calls: the calls that are expected to follow, 0 or more.
        is_prefix_cached: whether the summarising call reads the conversation from the cache.

    >>> sheet = CostSheet(3.0, 15.0, 0.30, 3.75)
    >>> ask = {"after_tokens": 20_000, "summary_tokens": 6_000, "is_prefix_cached": True}
    >>> round(find_paying_size(sheet, n_calls=50, **ask))
    31224
    """
    cached = cost.cache_read_per_mtok
    if cached is None or not cached < cost.input_per_mtok:
        return None
    written = cost.input_per_mtok if cost.cache_write_per_mtok is None else cost.cache_write_per_mtok
    saved_per_token = n_calls * cached - (cached if is_prefix_cached else cost.input_per_mtok)
    if saved_per_token <= 0:
        return None
    rewrite = summary_tokens * cost.output_per_mtok + after_tokens * (written - cached)
    return (n_calls * after_tokens * cached + rewrite) / saved_per_token


class PriceTrigger:
    """Makes the trigger of one session's compactions follow the prices of its model.

    *is_prefix_cached* says whether the call that asks for a summary reads the conversation from the
    provider's cache.
    """

    def __init__(self, *, is_prefix_cached: bool) -> None:
        self._is_prefix_cached = is_prefix_cached
        self.n_calls: Index[int] = Index(
            int,
            lambda n, entry, in_view: 0 if entry.kind == "summary" else n + (entry.kind == "assistant"),
        )

    def ratio(
        self,
        history: History,
        compactions: Sequence[Compaction],
        card: ModelCard | None,
        overhead_tokens: int,
    ) -> float | None:
        """Return the share of the window at which a compaction pays, None where the window decides.

        Args:
            history: the conversation.
            compactions: the compactions so far, oldest first.
            card: the model's card, None for an unknown one.
            overhead_tokens: the size of the system prompt and the tools.
        """
        if card is None or card.cost.cache_read_per_mtok is None:
            return None
        window, done = card.context_window, reversed(compactions)
        summary_tokens = int(window * _SUMMARY_SHARE)
        size = find_paying_size(
            card.cost,
            after_tokens=next(
                (each.post_tokens for each in done if each.post_tokens), int(window * _SIZE_AFTER)
            ),
            summary_tokens=min(summary_tokens, _SUMMARY_TOKENS) if self._is_prefix_cached else summary_tokens,
            n_calls=self.n_calls.of(history),
            is_prefix_cached=self._is_prefix_cached,
        )
        if size is None:
            return None
        least = overhead_tokens + _LEAST_SHARE * (window - overhead_tokens)
        ratio = max(size, least) / window
        return ratio if ratio < _MOST_RATIO else None


class SessionEngines:
    """The engines of one session.

    Where the settings ask for it, the compactions that the session makes by itself follow the prices of its
    model.
    """

    def __init__(self, record: SessionRecord, deps: SessionDeps, head: RequestHead) -> None:
        self._factories = deps.engines
        self._record = record
        self._head = head
        settings = deps.compaction
        self._prices = PriceTrigger(is_prefix_cached=settings.same_prefix) if settings.by_price else None
        self._own_policy = {} if settings.due_share is None else {"triggerRatio": settings.due_share}
        if self._prices is not None:
            record.history.follow(self._prices.n_calls)
        record.history.follow(self)
        self._made: dict[str, SessionEngine] = {}
        self._warm = set[str]()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the engines on offer."""
        return tuple(self._factories)

    @property
    def own_name(self) -> str:
        """The name of the session's own engine."""
        return self._record.info.engine

    def get(self, name: str = "") -> SessionEngine:
        """Return the instance of the engine *name*, the session's own for an empty one.

        A compaction that another build stored may name an engine that is not on offer here. Then the
        session's own engine is used.
        """
        name = name or self._record.info.engine
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self.make(name)
        return made

    def make(self, name: str) -> SessionEngine:
        """Return a new instance of the engine *name*, for one use."""
        return self._factories.get(name, self._factories[self.own_name])()

    async def warm_up(self, name: str, given: EngineInput) -> None:
        """Let the engine *name* take in the conversation in a thread, as the session's own one has done."""
        if name != self.own_name and name not in self._warm:
            made = self.make(name)
            await asyncio.to_thread(made.gate, given, CompactionRequest(force=False))
            self._made[name] = made
            self._warm.add(name)

    def prepare(self, history: History) -> None:
        """Let the session's own engine prepare for a move of the conversation."""
        self._warm.clear()
        self.get().prepare_move(history)

    def forget(self) -> None:
        """Let go of the conversation, with every engine that was made for it."""
        self._made.clear()
        self._warm.clear()

    def find_name(self, name: str) -> str:
        """Return *name*, or the session's own for an empty one. Raises InvalidInput for an unknown one."""
        found = name or self.own_name
        if found not in self._factories:
            raise InvalidInput(f"no engine {found!r}", hint=f"known engines: {', '.join(self._factories)}")
        return found

    def resolve(self, request: CompactionRequest) -> CompactionRequest:
        """Return *request* with its engine named, and the session's policy below its own.

        Raises InvalidInput for an unknown engine and a policy outside its range.
        """
        engine = self.find_name(request.engine)
        policy = {**self._policy(), **check_policy(request.policy, engine)}
        return replace(request, engine=engine, policy=policy)

    def automatic(self, engine: str = "") -> CompactionRequest:
        """Return the request of a compaction that the session makes by itself, with its own *engine*."""
        request = CompactionRequest(engine=engine or self.own_name, force=False, policy=self._policy())
        if self._prices is None or "triggerRatio" in request.policy:
            return request
        record, overhead = self._record, self._head.overhead().total
        ratio = self._prices.ratio(record.history.current, record.compactions.all, record.card, overhead)
        if ratio is None:
            return request
        return replace(request, policy={**request.policy, "triggerRatio": ratio}, limit_by="price")

    def describe_limit(self, request: CompactionRequest) -> str | None:
        """Return the reason for the limit of *request*, an automatic one, and the setting that moves it."""
        setting = "compaction.due_share in config.toml"
        if not (self._record.window and self.get(request.engine).compacts):
            return None
        if self._record.info.policy:
            return "the policy of this session puts it there"
        if self._own_policy:
            return f"{setting} puts it there"
        if request.limit_by == "price":
            return f"beyond it, later calls would cost more than the compaction; {setting} moves it"
        return f"the rest is room for the answer and the next results; {setting} moves it"

    def _policy(self) -> Mapping[str, float]:
        """Return the thresholds of the session, above the ones of the user's settings."""
        return {**self._own_policy, **self._record.info.policy}
