"""The spending of a session in tokens and money, and the budgets, which stop it before one is overdrawn.

Each call of a model goes through :meth:`Spending.meter`, in a turn, for a summary and of a sub-agent. A
sub-agent counts for the sessions above it as well. The rule for a call is

    spent + on the way + the input of this call  <=  budget,   and   spent + on the way  <  budget

for each budget. *Spent* are the reported tokens of finished calls, and their price. *On the way* are the
inputs of the calls under way, for parallel sub-agents call at the same time. The input of a call is known
before it is made: the size of the request, priced by the card of the model. The newest call left a part of it
in the provider's cache, and this part is priced as read from there, as long as caches hold it. The answer is
known only afterwards, so one call may end above a budget by its answer, and no call follows it. For example,
0.41 of 0.50 dollars are spent, and the next request of 40,000 tokens costs 0.12: it is not made.

A model without a price counts tokens alone. A call that broke off before its provider reported anything, and
after its answer had begun, counts as its input; a call that never began costs nothing.

Behind a turn that the budget of a session or a day has ended, waiting prompts would only end unanswered.
They are held in the queue until the same call is allowed: by another budget, or when the next prompt comes.

A prompt begins with its turn, and everything until the next turn counts for it. A day is one of the calendar
of this machine. It has one sum for all sessions, which the place of the sessions keeps. An amount that cannot
be stored there counts here, and is stored with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Final

from sidecar._internal.values import Value, replace
from sidecar.conductor.contract import BudgetState, TokenCounts
from sidecar.conductor.events import BudgetNear, Notice, Payload
from sidecar.conversation import Entry
from sidecar.llmgateway.budget import (
    describe_budgets,
    merge_budgets,
    parse_budgets,
    tokens_of_usage,
    write_number,
)
from sidecar.llmgateway.catalog import OFFLINE_CARD
from sidecar.llmgateway.channel import channel_of
from sidecar.llmgateway.contract import (
    Amount,
    BudgetPeriod,
    Channel,
    CostBudget,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    ModelCard,
    Reply,
    Usage,
    UsageEmission,
    WithdrawnEmission,
    emissions_of,
)
from sidecar.runtime.store import SessionPlace, StoreUnavailable, wall_clock_ms

NEAR_SHARE: Final = 0.8
"""The share of a budget at which clients are notified."""

_CACHE_MS: Final = 300_000
"""How long a provider's cache is taken to hold a request."""

_SUBJECTS: Final[Mapping[BudgetPeriod, str]] = {
    "prompt": "this prompt has used",
    "session": "this session has used",
    "day": "all sessions have used today",
}
_WAYS_ON: Final[Mapping[BudgetPeriod, str]] = {
    "prompt": "the next prompt has a budget of its own, and /budget sets another one",
    "session": "/budget sets another one, for example {}; then ask it to go on",
    "day": "/budget sets another one, for example {}; else it goes on tomorrow",
}


class BudgetReachedError(GatewayError):
    """A call with an input of *cost* was not made, because it would break a budget."""

    def __init__(self, message: str, cost: Amount) -> None:
        super().__init__("unsupported", message, retryable=False)
        self.cost = cost


class HeldCall(Value):
    """A call that is on the way: the price of its input, and the day on which the place counts it, if any."""

    cost: Amount
    day: str | None = None


class DaySpending:
    """The spending of all sessions of the user today; *place* keeps it, None for this process alone.

    Attributes:
        known: the sum of today as it was last seen, with everything that this process has added since.
        now_ms: returns the time in epoch milliseconds.
    """

    def __init__(
        self, place: SessionPlace | None = None, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self.known = Amount()
        self.now_ms = clock_ms
        self._place = place
        self._day = ""
        self._unstored = Amount()
        self._storing: asyncio.Task[None] | None = None

    def today(self) -> str:
        """Return the date of this machine; with a new one the sum begins at zero."""
        day = datetime.fromtimestamp(self.now_ms() / 1000).strftime("%Y-%m-%d")
        if day != self._day:
            self._day, self.known = day, Amount()
        return day

    async def hold(self, cost: Amount, budget: CostBudget) -> str | None:
        """Add *cost* to the sum where *budget* allows it; return the day, None where it does not."""
        day = self.today()
        await self.flush()
        is_added = budget.allows(self.known, cost)
        if self._place is not None:
            try:
                done = await self._place.spend(day, cost, budget)
                self.known, is_added = done.sum.plus(self._unstored), done.is_added
                return day if is_added else None
            except StoreUnavailable:
                pass  # what was last seen decides
        if not is_added:
            return None
        self._add(cost)
        return day

    def settle(self, held: HeldCall, spent: Amount) -> None:
        """Count a call that is over, in the place of its input."""
        self._add(spent.minus(held.cost) if held.day == self.today() else spent)

    async def refresh(self) -> None:
        """Take over the sum as the place has it."""
        day = self.today()
        await self.flush()
        if self._place is not None:
            try:
                self.known = (await self._place.spend(day, Amount())).sum.plus(self._unstored)
            except StoreUnavailable:
                return

    async def flush(self) -> None:
        """Wait until everything is stored, or the place has failed."""
        if self._storing is not None:
            await asyncio.shield(self._storing)

    def _add(self, amount: Amount) -> None:
        self.today()
        self.known = self.known.plus(amount)
        self._unstored = self._unstored.plus(amount)
        if self._place is not None and (self._storing is None or self._storing.done()):
            self._storing = asyncio.ensure_future(self.store(self._place))

    async def store(self, place: SessionPlace) -> None:
        """Add the amounts that are not stored yet to the sum at *place*; they stay where that fails."""
        while self._unstored != Amount():
            amount, self._unstored = self._unstored, Amount()
            try:
                self.known = (await place.spend(self.today(), amount)).sum.plus(self._unstored)
            except StoreUnavailable:
                self._unstored = self._unstored.plus(amount)
                return  # the next amount takes it along


class Spending:
    """The tokens that a session has used so far, in this process and before, and their price.

    Attributes:
        total: the tokens of all model calls.
        last_turn: the tokens of the newest call, None before the first one of this process.
        cost: the price in US dollars, as far as there was one when they were used; None for no price.
        settings: the budgets of the settings.
        stopped_by: the refusal that has ended the newest prompt, None where it ended otherwise.
    """

    stopped_by: BudgetReachedError | None = None

    def __init__(
        self,
        total: TokenCounts | None = None,
        cost: float | None = None,
        *,
        day: DaySpending | None = None,
        emit: Callable[[Payload], object] = lambda _: None,
        above: Spending | None = None,
    ) -> None:
        """Make the spending of a session; *above* is the session of a sub-agent, None for no sub-agent."""
        self.total = total or TokenCounts(0, 0)
        self.last_turn: TokenCounts | None = None
        self.cost = cost
        self.day = day or DaySpending()
        self._emit = emit
        self._above = above
        self._session = Amount(cost or 0.0, sum(astuple(self.total)))
        self._prompt = Amount()
        self._held = Amount()
        self.settings: Sequence[CostBudget] = ()
        self._chosen: Sequence[CostBudget] | None = None
        self._of_turn: Sequence[CostBudget] = ()
        self._near: set[BudgetPeriod] = set()
        self._unpriced: set[str] = set()
        self._cached: tuple[str, int, int] = ("", 0, 0)  # model, tokens, until when

    # Budgets.

    @property
    def budgets(self) -> Mapping[BudgetPeriod, CostBudget]:
        """The budgets by their periods: of the turn, else of the session, else of the settings."""
        return self._budgets_of(self._of_turn)

    def _budgets_of(self, turn: Sequence[CostBudget]) -> Mapping[BudgetPeriod, CostBudget]:
        if self._chosen is not None and not self._chosen:
            return merge_budgets(turn)
        return merge_budgets(self.settings, self._chosen or (), turn)

    def choose(self, chosen: str, settings: Sequence[CostBudget]) -> None:
        """Take over the budgets of the *settings*, and the *chosen* ones of the session; empty for none.

        Raises ValueError.
        """
        self._chosen = parse_budgets(chosen) if chosen else None
        self.settings = settings
        self._near.clear()

    def begin_prompt(self, budget: CostBudget | None) -> None:
        """Begin to count anew for a prompt, with a *budget* for its turn alone; None for none."""
        self._prompt, self.stopped_by = Amount(), None
        self._of_turn = () if budget is None else (budget,)
        self._near.discard("prompt")

    @property
    def blocks_prompts(self) -> bool:
        """Whether the call that ended the newest prompt would be refused to another prompt, too."""
        if self.stopped_by is None:
            return False
        cost = self.stopped_by.cost
        return not all(
            budget.allows(each.sum_of(per), cost)
            for each in self.chain()
            for per, budget in each._budgets_of(()).items()
            if per != "prompt"
        )

    def states(self) -> tuple[BudgetState, ...]:
        """Return each budget with its spent part."""
        return tuple(self._state(budget) for budget in self.budgets.values())

    def _state(self, budget: CostBudget) -> BudgetState:
        spent = self.sum_of(budget.per)
        return BudgetState(budget.per, budget.usd, budget.tokens, round(spent.usd, 6), spent.tokens)

    def sum_of(self, per: BudgetPeriod) -> Amount:
        """Return the spent amount of the newest prompt, of the session, or of today."""
        if per == "day":
            self.day.today()
            return self.day.known
        return self._prompt if per == "prompt" else self._session

    # Calls.

    def meter(self, call: Callable[[], Channel], card: ModelCard | None, n_tokens: int) -> Channel:
        """Return the channel of *call*, which is made only where no budget is broken, and is counted.

        Args:
            call: makes the call.
            card: the card of its model, None for an unknown one.
            n_tokens: the tokens of its input.
        """

        async def emissions() -> AsyncGenerator[Emission, None]:
            held: HeldCall | None = None
            usage, has_begun = None, False
            try:
                held = await self.hold(self.price_input(card, n_tokens))
                async with emissions_of(call()) as inner:
                    async for emission in inner:
                        usage = figure_in(emission) or usage
                        has_begun |= not isinstance(emission, ErrorEmission)
                        yield emission
                        if isinstance(emission, WithdrawnEmission):  # another call is made in its place
                            over, held = held, None
                            self.settle(over, usage, card, has_begun=has_begun)
                            usage, has_begun = None, False
                            held = await self.hold(self.price_input(card, n_tokens))
            except BudgetReachedError as error:
                yield ErrorEmission(error)
            finally:
                if held is not None:
                    self.settle(held, usage, card, has_begun=has_begun)

        return channel_of(emissions)

    def price_input(self, card: ModelCard | None, n_tokens: int) -> Amount:
        """Return the cost of an input of *n_tokens* for the model of *card*."""
        if card is None:
            return Amount(0.0, n_tokens)
        model, cached, until_ms = self._cached
        read = min(cached, n_tokens) if model == card.id and self.day.now_ms() < until_ms else 0
        rest = n_tokens - read
        usage = Usage(rest, 0, read) if card.cost.cache_write_per_mtok is None else Usage(0, 0, read, rest)
        return Amount(card.cost.price(usage) or 0.0, n_tokens)

    async def hold(self, cost: Amount) -> HeldCall:
        """Hold *cost* for the input of a call, here and above. Raises BudgetReachedError."""
        chain = self.chain()
        for each in chain:
            each.check(cost)
        for each in chain:
            each._held = each._held.plus(cost)
        day, held = None, HeldCall(cost)
        try:
            budget = strictest(each.budgets["day"] for each in chain if "day" in each.budgets)
            if budget is not None:
                day = await self.day.hold(cost, budget)
                if day is None:
                    raise self.make_error(budget, self.day.known, cost)
            held, chain = HeldCall(cost, day), []
            return held
        finally:
            for each in chain:
                each._held = each._held.minus(cost)

    def settle(self, held: HeldCall, usage: Usage | None, card: ModelCard | None, *, has_begun: bool) -> None:
        """Count a call that is over by its *usage*, here and above; without one by its input if it began."""
        price = None if usage is None else usage.cost if card is None else card.cost.price(usage)
        spent = held.cost if has_begun and usage is None else Amount()
        if usage is not None:
            spent = Amount(price or 0.0, tokens_of_usage(usage))
            if card is not None:
                read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
                n_cached = usage.input_tokens + read + written if read or written else 0
                self._cached = (card.id, n_cached, self.day.now_ms() + _CACHE_MS)
        self.day.settle(held, spent)
        for each in self.chain():
            each._held = each._held.minus(held.cost)
            each._prompt, each._session = each._prompt.plus(spent), each._session.plus(spent)
            if usage is not None:
                each.count(usage, price)
                each.note_unpriced(card, price)
            each.note_near()

    def on_moved(self, appended: Sequence[Entry] | None) -> None:
        """Expect nothing in a cache any more where the conversation moved other than by growth."""
        if appended is None:
            self._cached = ("", 0, 0)

    def chain(self) -> list[Spending]:
        """Return this spending and those above it."""
        return [self, *(self._above.chain() if self._above is not None else ())]

    def count(self, usage: Usage, price: float | None) -> None:
        """Add the *usage* of a call to the totals, and its *price*, None for an unknown one."""
        used = counts_of(usage)
        self.total = TokenCounts(*map(sum, zip(astuple(self.total), astuple(used), strict=True)))
        if price is not None:
            self.cost = round((self.cost or 0.0) + price, 6)

    def check(self, cost: Amount) -> None:
        """Raise BudgetReachedError where *cost* breaks a budget of the prompt or of the session."""
        for budget in self.budgets.values():
            spent = self.sum_of(budget.per)
            if budget.per != "day" and not budget.allows(spent.plus(self._held), cost):
                raise self.make_error(budget, spent.plus(self._held), cost)

    def make_error(self, budget: CostBudget, spent: Amount, cost: Amount) -> BudgetReachedError:
        """Return the error for a call with an input of *cost*, with the ways on in its message."""
        usd, n_tokens = budget.usd, budget.tokens
        larger = budget
        while not larger.allows(spent, cost.plus(cost)):
            larger = larger.double()
        if usd is not None and not replace(budget, tokens=None).allows(spent, cost):
            used, of, more = (f"${write_number(round(each, 4))}" for each in (spent.usd, usd, cost.usd))
        else:
            used, of, more = f"{spent.tokens:,}", f"{n_tokens or 0:,} tokens", f"{cost.tokens:,} tokens"
        way_on = _WAYS_ON[budget.per].format(f"/budget {describe_budgets([larger])}")
        text = f"{_SUBJECTS[budget.per]} {used} of {of}, and the next call takes {more} for its input alone"
        return BudgetReachedError(f"{text[0].upper()}{text[1:]}; {way_on}", cost)

    def note_near(self) -> None:
        """Notify the clients once for each period of a budget that is nearly spent."""
        for per, budget in self.budgets.items():
            if per not in self._near and budget.share(self.sum_of(per)) >= NEAR_SHARE:
                self._near.add(per)
                self._emit(BudgetNear(*astuple(self._state(budget))))

    def note_unpriced(self, card: ModelCard | None, price: float | None) -> None:
        """Notify the clients once of a model without a price, where a budget is in dollars."""
        name = card.id if card is not None else "its model"
        is_free = card is not None and card.provider == OFFLINE_CARD.provider
        if price is not None or is_free or name in self._unpriced:
            return
        if any(budget.usd is not None for budget in self.budgets.values()):
            self._unpriced.add(name)
            text = "Its calls count as tokens alone, so a budget in dollars does not stop them; give one in"
            text += " tokens, or write its cost into config.toml."
            self._emit(Notice("warning", f"The price of {name} is not known", text, "priceUnknown"))


def strictest(budgets: Iterable[CostBudget]) -> CostBudget | None:
    """Return the budget of a day with the least amounts of *budgets*, None for no budget."""
    found = list(budgets)
    if not found:
        return None
    usd = min((each.usd for each in found if each.usd is not None), default=None)
    tokens = min((each.tokens for each in found if each.tokens is not None), default=None)
    return CostBudget(usd=usd, tokens=tokens, per="day")


def figure_in(emission: Emission) -> Usage | None:
    """Return the usage that *emission* reports, None for none; zeros are no figure."""
    match emission:
        case UsageEmission(usage=usage):
            found: Usage | None = usage
        case DoneEmission(reply=Reply(usage=usage)):
            found = usage
        case DoneEmission(usage=found):
            pass
        case _:
            return None
    return found if found is not None and tokens_of_usage(found) else None


def counts_of(usage: Usage) -> TokenCounts:
    """Return the tokens of a call by their kind."""
    return TokenCounts(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens or 0,
        usage.cache_write_tokens or 0,
    )
