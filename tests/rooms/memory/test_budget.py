"""The thresholds, the cuts and the shortening of the two tiers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from room_events import make_event
from sidecar.rooms import AIImagePart, AIMessage, RoomValueError, TextContent
from sidecar.rooms.events import MediaContent, RichContent
from sidecar.rooms.memory.budget import (
    MemoryLimits,
    MemoryLoad,
    fit_event,
    fit_items,
    fit_message,
    plan_cut,
    recency_cut,
    tail_cut,
    truncate_older,
    truncate_text,
)
from sidecar.rooms.memory.estimate import event_tokens, message_tokens

COSTS = st.lists(st.integers(1, 3000), max_size=40)


@pytest.mark.parametrize(
    ("n_chars", "max_chars", "kept", "n_result"),
    [
        pytest.param(2000, 2000, 2000, 2000, id="what just fits is left alone"),
        pytest.param(2001, 2000, 1964, 2000, id="the result is as long as asked for"),
        pytest.param(500, 10, 0, 35, id="the marker alone where even it is too long"),
    ],
)
def test_a_truncated_text_gives_its_length(n_chars: int, max_chars: int, kept: int, n_result: int) -> None:
    body = "x" * n_chars
    shorter = truncate_text(body, max_chars)
    marker = "" if n_chars == n_result else f"\n[... truncated from {n_chars} chars ...]"
    assert (shorter, len(shorter)) == ("x" * kept + marker, n_result)


@pytest.mark.parametrize(("n_events", "n_truncated"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_only_the_older_half_is_truncated(n_events: int, n_truncated: int) -> None:
    events = [make_event("e", TextContent("x" * 3000)) for _ in range(n_events)]
    lengths = [event_tokens(each) for each in truncate_older(events, 2000)]
    assert lengths == [501] * n_truncated + [751] * (n_events - n_truncated)


def test_only_texts_and_never_the_original() -> None:
    """Other contents are passed on, and what was given is unchanged."""
    rich, text = (
        make_event("e", RichContent("x" * 3000)),
        make_event("e", TextContent("x" * 3000, language="de")),
    )
    result = truncate_older([rich, text, text, text], 2000)
    assert result[0] is rich
    assert result[1].content == TextContent(
        "x" * 1964 + "\n[... truncated from 3000 chars ...]", language="de"
    )
    assert text.content == TextContent("x" * 3000, language="de")


@pytest.mark.parametrize(
    ("costs", "budget", "min_events", "cut"),
    [
        pytest.param([1000] * 20, 7500, 5, 12, id="the overflowing event is kept"),
        pytest.param([1000] * 20, -500, 5, 15, id="a negative budget keeps min_events"),
        pytest.param([1000] * 20, 7500, 15, 5, id="min_events win over the budget"),
        pytest.param([10] * 20, 7500, 5, 0, id="nothing is cut from what fits"),
        pytest.param([], 10, 0, 0, id="no events"),
    ],
)
def test_the_overflowing_event_is_kept(costs: list[int], budget: int, min_events: int, cut: int) -> None:
    assert recency_cut(costs, budget, min_events) == cut


LOADS = {
    "keeps e12 to e19 of twenty": (MemoryLoad(room=10_000, window=[1000] * 20), 12),
    "tier 2 is a strict bound": (MemoryLoad(room=10_000, window=[850] * 10), None),
    "one token more": (MemoryLoad(room=10_000, window=[851] * 10), 1),
    "min_events are left alone where they fit": (MemoryLoad(room=10_000, window=[1900] * 5), None),
    "but not where they do not": (MemoryLoad(room=10_000, window=[2500] * 5), 2),
    "the giant is cut too": (MemoryLoad(room=10_000, window=[1000] * 10 + [6000] + [1000] * 7), 11),
    "the newest always stays": (MemoryLoad(room=1000, window=[1000] * 6), 5),
    "injected messages count": (MemoryLoad(room=10_000, injected=5004, window=[101] * 60), 35),
    "messages alone cannot be summarised away": (MemoryLoad(room=10_000, injected=20_000), None),
    "a single event is never summarised": (MemoryLoad(room=10_000, injected=20_000, window=[5]), None),
    "a cut stands until the window is full": (
        MemoryLoad(room=10_000, summaries=500, window=[1000] * 9, folded=True),
        None,
    ),
    "then many events go at once": (
        MemoryLoad(room=10_000, summaries=500, window=[1000] * 10, folded=True),
        2,
    ),
    "a backlog lifts the whole over": (MemoryLoad(room=10_000, backlog=2000, window=[1000] * 7), 0),
    "a small backlog waits": (MemoryLoad(room=10_000, backlog=900, window=[1000] * 8), None),
    "as long as all would fit": (MemoryLoad(room=10_000, backlog=1400, window=[1000] * 7), None),
}


@pytest.mark.parametrize(("load", "cut"), LOADS.values(), ids=LOADS)
def test_a_summary_is_due_for_the_oldest_events(load: MemoryLoad, cut: int | None) -> None:
    """When a summary is due, and how many of the oldest events it must take in."""
    assert plan_cut(load, MemoryLimits(10_000 if load.room != 1000 else 1000)) == cut


@given(COSTS, st.integers(-100, 20_000))
def test_fitting_cut_keeps_the_longest_tail_that_fits(costs: list[int], budget: int) -> None:
    cut = tail_cut(costs, budget)
    assert 0 <= cut <= max(0, len(costs) - 1)
    assert sum(costs[cut:]) <= budget or cut == max(0, len(costs) - 1)
    assert cut == 0 or sum(costs[cut - 1 :]) > budget


@given(
    st.integers(0, 20_000), st.integers(0, 500), st.integers(0, 5000), COSTS, st.booleans(), st.integers(0, 8)
)
def test_plan_cut_leaves_what_fits(
    room: int, injected: int, backlog: int, window: list[int], folded: bool, min_events: int
) -> None:
    """After the cut all fits, with room for the summary, or one event is left."""
    limits = MemoryLimits(10_000, min_events=min_events)
    load = MemoryLoad(room=room, injected=injected, backlog=backlog, window=window, folded=folded)
    cut = plan_cut(load, limits)
    total = injected + sum(window)
    if cut is None:
        assert total <= room or len(window) <= 1
    else:
        kept = window[cut:]
        assert cut or backlog
        assert injected + sum(kept) + limits.summary_max_tokens <= room or len(kept) <= 1


class Counted(list[int]):
    """Costs that count how often one of them is looked at."""

    n_looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.n_looks += 1
        return super().__getitem__(index)


def test_each_event_is_looked_at_once() -> None:
    recent, fitting = Counted([400] * 20_000), Counted([400] * 20_000)
    assert (recency_cut(recent, 10**9, 5), tail_cut(fitting, 10**9)) == (0, 0)
    assert (recent.n_looks, fitting.n_looks) == (20_000, 20_000)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("max_context_tokens", 0), ("truncate_chars", 0), ("summary_max_tokens", 0), ("min_events", -1)],
)
def test_settings_that_cannot_be_meant(setting: str, value: int) -> None:
    with pytest.raises(RoomValueError, match=f"{setting} is {value}"):
        MemoryLimits(**{"max_context_tokens": 10, setting: value})


@pytest.mark.parametrize(
    ("current", "room"),
    [
        pytest.param(0, 100, id="all"),
        pytest.param(60, 40, id="the current event takes its share"),
        pytest.param(100, 100, id="nothing helps one that alone fills the window"),
    ],
)
def test_the_current_event_takes_its_room(current: int, room: int) -> None:
    assert MemoryLimits(100).room_beside(current) == room


def test_fit_items_shortens_only_the_largest() -> None:
    """Visibly, down to a common size; what cannot be cut is passed on."""
    small, large = AIMessage("user", "s" * 40), AIMessage("user", "m" * 4000)
    image = AIMessage("user", [AIImagePart("https://h/a")])
    text, picture = (
        make_event("e", TextContent("t" * 4000)),
        make_event("e", MediaContent("data:," + "A" * 9000, "image/png")),
    )
    messages, events = fit_items([small, image, large], [text, picture], 1900)
    total = sum(map(message_tokens, messages)) + sum(map(event_tokens, events))
    assert total <= 1900
    assert messages[:2] == [small, image]
    assert str(messages[2].content).endswith("m\n[... truncated from 4000 chars ...]")
    assert isinstance(events[0].content, TextContent)
    assert events[0].content.body.endswith("t\n[... truncated from 4000 chars ...]")
    assert events[1].content == TextContent("[media image/png: data: (9006 characters)]")


def test_fit_items_returns_what_fits_as_it_is() -> None:
    """Nothing is copied without need; and nothing grows by being cut."""
    message, event = AIMessage("user", "hi"), make_event("e", TextContent("ok"))
    assert fit_items([message], [event], 100) == ([message], [event])
    assert fit_items([message], [event], 0) == ([message], [event])


def test_a_message_and_an_event_are_cut_to_a_cap() -> None:
    message, event = AIMessage("user", "x" * 400), make_event("e", TextContent("x" * 400))
    assert message_tokens(fit_message(message, 40)) <= 40
    assert event_tokens(fit_event(event, 40)) <= 40
    assert fit_message(message, 400) is message
    assert fit_event(event, 400) is event
    short = make_event("e", TextContent("x" * 20))
    assert fit_event(short, 1) is short
