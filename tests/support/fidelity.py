"""The fidelity of compactions: how much of a session the model still sees, by use and by planted facts.

As a program (``make fidelity``) it prints, in this order: use, planted facts by kind, wishes and sentences
that only look like them, many compactions in a small window, a session of 750,000 tokens, every engine, the
meter, the cost for a provider's cache, and files that are read again.

Sessions are planted (:mod:`planted_work`). With ``FIDELITY_DATA`` in the environment, a folder of recordings
by agent, use is measured on these: the names of the files divide them into two halves, of which one is for
decisions and the other for reports.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha1
from operator import itemgetter
from pathlib import Path
from statistics import mean

import second_reads
import yardstick
from histories import entry_of
from measured_texts import TEXTS, TOKENS
from model_cards import card
from planted_work import KINDS, MANNERS, Fact, Manner, plant_work, share_kept
from recorded_sessions import WITH_CALLS, Record, read_records, turn_of
from sidecar.capabilities.recall import search_entries
from sidecar.chronicle import Chronicle
from sidecar.conductor.engine import SessionEngine
from sidecar.conductor.token_estimate import estimate_text_tokens
from sidecar.conductor.window.engines.agentcore import AgentcoreEngine
from sidecar.conductor.window.engines.runtime_memory import RuntimeEngine
from sidecar.conductor.window.engines.sliding_window import SlidingWindowEngine
from sidecar.conductor.window.engines.summarizing import SummarizingEngine
from sidecar.conductor.window.engines.window_budget import WindowBudgetEngine
from sidecar.conductor.window.rule_changes import MAX_STATEMENTS, find_words
from sidecar.conversation import Entry, kind_by_role
from sidecar.llmgateway.scripted import Raise, ScriptedModel
from talks import FORCED, Follower
from thinning import thinned_view
from use_of_views import KINDS as USES
from use_of_views import items_used, share_in_view, tail_within, text_of

ENGINES: Sequence[type[SessionEngine]] = (
    *(WindowBudgetEngine, AgentcoreEngine, SummarizingEngine, RuntimeEngine, SlidingWindowEngine),
)
WINDOWS = (60_000, 100_000, 150_000, 225_000)
"""A compaction leaves a view of about a fifth of the window: 12,000, 20,000, 30,000 and 45,000 tokens."""
HORIZONS = (40, 200)
TAIL_SHARE = 4
"""The newest quarter of a view stands as it is, the chronicle before it."""


def count_quarters(text: str) -> int:
    """Return the tokens of *text* as every engine's views are compared: a quarter of its characters."""
    return len(text) // 4


def chronicle_view(entries: Sequence[Entry], n_tokens: int) -> str:
    """Return a view of *n_tokens*: the chronicle, and the newest entries as they are."""
    chronicle = Chronicle()
    for entry in entries:
        chronicle.add(entry)
    return view_of(chronicle, entries, n_tokens)


def view_of(chronicle: Chronicle, entries: Sequence[Entry], n_tokens: int) -> str:
    """Return the view of *n_tokens* of the conversation *entries*, of which *chronicle* has the lines."""
    start = tail_within(entries, 4 * n_tokens // TAIL_SHARE)
    tail = "\n".join(map(text_of, entries[start:]))
    room = n_tokens - count_quarters(tail)
    return chronicle.write(room, meter=count_quarters, n_entries=start).text + tail


def tail_view(entries: Sequence[Entry], n_tokens: int) -> str:
    """Return the newest entries that fit in *n_tokens*."""
    return "\n".join(map(text_of, entries[tail_within(entries, 4 * n_tokens) :]))


async def engine_view(engine: type[SessionEngine], entries: Sequence[Entry], window: int) -> str:
    """Return what the model is sent after *engine* compacted *entries* without a model."""
    model = ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat")
    talk = Follower(engine(), card(window), model)
    talk.history = talk.history.extended(entries)
    with suppress(AssertionError):  # an engine that changes nothing without a model is measured as it is
        await talk.compact(FORCED)
    return "\n".join(text_of(entry_of(turn)) for turn in talk.sent())


# Use


@dataclass(frozen=True)
class Point:
    """A place in a session: the entries before it, those after it, and the half that it belongs to."""

    before: Sequence[Entry]
    after: Sequence[Entry]
    half: str


def points_of(
    name: str, entries: Sequence[Entry], least: int = 160_000, window: int = 600_000
) -> Iterator[Point]:
    """Yield places at the half, seven and nine tenths of a session that is long enough, in characters."""
    sizes = [len(text_of(entry)) + 1 for entry in entries]
    total = sum(sizes)
    half = "report" if int(sha1(name.encode(), usedforsecurity=False).hexdigest(), 16) % 2 else "decide"
    if total < 1.3 * least:
        return
    for share in (0.5, 0.7, 0.9):
        at, chars = 0, 0
        while at < len(entries) and chars < max(least, share * total):
            chars += sizes[at]
            at += 1
        start, chars = at, 0
        while start and chars < window:
            start -= 1
            chars += sizes[start]
        if len(entries) - at >= 30:
            yield Point(entries[start:at], entries[at:], half)


def recorded_points(folder: Path) -> Iterator[Point]:
    """Yield the places of all recordings below *folder*."""
    for path in sorted(path for agent in WITH_CALLS for path in (folder / agent).glob("*")):
        records = read_records(path)
        yield from points_of(path.name, [*map(entry_of_record, records)])


def entry_of_record(record: Record) -> Entry:
    """Return a message of a recording as an entry."""
    turn = turn_of(record)
    return Entry(turn, "shell" if record["role"] == "bash" else kind_by_role(turn))


def planted_points() -> Iterator[Point]:
    for manner in MANNERS:
        for seed in range(2):
            work = plant_work(seed, manner, 150_000)
            yield from points_of(
                f"{manner} {seed}", [entry_of(turn) for turns in work.rounds for turn in turns]
            )


async def report_use(points: Sequence[Point]) -> list[str]:
    """Return the table of use: by half, window and view, for two horizons.

    The view is what the model is sent after a compaction by the default engine; beside it stand a plain tail
    and the baseline, each of the same size.
    """
    rows: list[str] = []
    for half in ("decide", "report"):
        own = [point for point in points if point.half == half]
        if not own:
            continue
        used = [[items_used(point.before, point.after, horizon) for horizon in HORIZONS] for point in own]
        rows.append(f"{half}: {len(own)} points")
        for window in WINDOWS:
            texts = [await engine_view(WindowBudgetEngine, point.before, window) for point in own]
            sizes = [*map(count_quarters, texts)]
            views = {
                "tail": [tail_view(point.before, size) for point, size in zip(own, sizes, strict=True)],
                "thinning": [thinned_view(p.before, 4 * size) for p, size in zip(own, sizes, strict=True)],
                "ours": texts,
            }
            rows.append(f"window {window:,}, views of {mean(sizes):,.0f} tokens")
            for name, shown in views.items():
                shares = [
                    [share_in_view(items, text) for items, text in zip(column, shown, strict=True)]
                    for column in zip(*used, strict=True)
                ]
                rows.append(f"  {name:<10}" + "   ".join(map(use_row, shares)))
    return rows


def use_row(shares: Sequence[Mapping[str, float]]) -> str:
    return " ".join(f"{kind[:5]} {mean_of(shares, kind):.2f}" for kind in ("mean", *USES))


def mean_of(rows: Iterable[Mapping[str, float]], kind: str) -> float:
    found = [row[kind] for row in rows if kind in row]
    return mean(found) if found else 0.0


# Planted facts


def facts_row(name: str, kept: Sequence[Mapping[str, tuple[int, int]]], n_tokens: float) -> str:
    """Return a row of the share of facts that are kept, by kind and of all."""
    shares: list[str] = []
    there = total = 0
    for kind in (*KINDS, "stale alone"):
        n_kept = sum(each.get(kind, (0, 0))[0] for each in kept)
        n_all = sum(each.get(kind, (0, 0))[1] for each in kept)
        shares.append(f"{kind} {n_kept / n_all:.2f}" if n_all else f"{kind} -")
        if kind not in ("no rule", "stale alone"):
            there, total = there + n_kept, total + n_all
    return f"{name:<24}{n_tokens:>7.0f}  all {there / max(1, total):.2f} | " + ", ".join(shares)


def flat_facts(rounds: Iterable[Sequence[Fact]]) -> list[Fact]:
    return [fact for facts in rounds for fact in facts]


def planted_entries(
    seed: int, manner: Manner, n_tokens: int, output_lines: int = 70
) -> tuple[list[Entry], list[Fact]]:
    work = plant_work(seed, manner, n_tokens, output_lines)
    return [entry_of(turn) for turns in work.rounds for turn in turns], flat_facts(work.facts)


def report_planted(n_tokens: int, sizes: Sequence[int], lengths: Sequence[int]) -> Iterator[str]:
    """Yield the share of facts that stand in the view of one compaction, beside the baseline's.

    A view can show only so many facts, so sessions with long outputs, of which one in *lengths* is the
    longest in lines, and few facts stand beside sessions with many.
    """
    for output_lines in lengths:
        sessions = [
            planted_entries(seed, manner, n_tokens, output_lines) for manner in MANNERS for seed in (1, 2)
        ]
        yield f"{mean(len(facts) for _, facts in sessions):.0f} facts"
        for size in sizes:
            for name, view_in in (
                ("chronicle", chronicle_view),
                ("thinning", lambda entries, size: thinned_view(entries, 4 * size)),
            ):
                views = [view_in(entries, size) for entries, _ in sessions]
                kept = [share_kept(facts, view) for view, (_, facts) in zip(views, sessions, strict=True)]
                yield facts_row(f"  {name}", kept, mean(map(count_quarters, views)))


def report_large(n_tokens: int, size: int) -> Iterator[str]:
    """Yield the share of facts in a view of *size*, and of every tenth in it or found by one search."""
    entries, facts = planted_entries(3, "other", n_tokens)
    view = chronicle_view(entries, size)
    tenth = [fact for fact in facts if fact.kind != "no rule"][::10]
    found = [fact.text in view or is_recalled(fact, entries) for fact in tenth]
    row = facts_row(f"chronicle of {n_tokens:,}", [share_kept(facts, view)], count_quarters(view))
    yield f"{row}; in view or by one search {mean(found):.2f}"


def rules_listed(view: str) -> str:
    """Return the lists of rules in a view: the sections under a heading for them."""
    return "\n".join(re.findall(r"(?ms)^#+ (?:Guardrails|Rules)\b(.*?)(?=^#|\Z)", view))


async def report_engines(points: Sequence[Point]) -> Iterator[str] | list[str]:
    """Return the rows of every engine: planted facts, sentences listed as rules that are none, and use."""
    rows = []
    for engine in ENGINES:
        kept, listed, used, sizes = [], [], [], []
        for manner in MANNERS:
            entries, facts = planted_entries(1, manner, 150_000)
            view = await engine_view(engine, entries, 200_000)
            kept.append(share_kept(facts, view))
            sizes.append(count_quarters(view))
            rules = rules_listed(view)
            listed += [(fact.kind, fact.text in rules) for fact in facts if fact.kind in ("rule", "no rule")]
        for point in points[:6]:
            view = await engine_view(engine, point.before, 200_000)
            used.append(share_in_view(items_used(point.before, point.after, HORIZONS[0]), view))
        rows.append(facts_row(engine.name, kept, mean(sizes)))
        n_rules, n_others = (
            sum(is_in for kind, is_in in listed if kind == each) for each in ("rule", "no rule")
        )
        rows.append(
            f"{'':<24}listed as rules: {n_rules} rules, {n_others} others; use {mean_of(used, 'mean'):.2f}"
        )
    return rows


def report_rounds(window: int, stops: Sequence[int]) -> Iterator[str]:
    """Yield the share kept after many compactions in a small window, in view or with one search.

    Each begins at three quarters of the window, and leaves a view of a fifth. With a model that quotes each
    wish in the new prompts, as many as one summary may, the list of rules stands in the view as well.
    """
    chronicle, entries, told, first = Chronicle(), list[Entry](), list[Fact](), list[Fact]()
    size, n_compactions, n_told, listed = 0, 0, 0, list[str]()
    work = plant_work(5, "other", stops[-1] * window * 3 // 4)
    for turns, facts in zip(work.rounds, work.facts, strict=True):
        for turn in turns:
            entries.append(entry_of(turn))
            chronicle.add(entries[-1])
            size += count_quarters(text_of(entries[-1]))
        told += facts
        if size < window * 3 // 4:
            continue
        n_compactions += 1
        first = first or list(told)
        typed = [("", text_of(entry)) for entry in entries if entry.kind == "user"]
        quotes = [find_words(fact.text, typed) for fact in told[n_told:] if fact.kind == "rule"]
        listed += [quote[1] for quote in quotes[:MAX_STATEMENTS] if quote is not None]
        n_told = len(told)
        view = view_of(chronicle, entries, window // 5)
        size = count_quarters(view)
        if n_compactions in stops:
            found = [fact.text in view or is_recalled(fact, entries) for fact in first]
            row = facts_row(
                f"after {n_compactions}, of {len(entries):,} entries", [share_kept(told, view)], size
            )
            rules = "\n".join(listed)
            with_model = mean(f.text in view or f.text.strip("| ") in rules for f in told if f.kind == "rule")
            yield (
                f"{row}; first facts in view or by one search {mean(found):.2f};"
                f" rules with a model {with_model:.2f}, in a list of {count_quarters(rules):,} tokens"
            )
        if n_compactions == stops[-1]:
            break


def is_recalled(fact: Fact, entries: Sequence[Entry]) -> bool:
    """Whether one search by the first name of *fact* finds it."""
    name = re.search(r"[\w/]*\w[_./-]\w[\w./-]*|[a-z]+[A-Z]\w+", fact.text)
    return any(
        fact.text in match.text for match in search_entries(entries, name[0] if name else fact.text, 5)
    )


def report_rules() -> Iterator[str]:
    """Yield the share of sentences that a model may propose as rules, by kind, were it to quote all of them.

    Sentences that only look like wishes were typed, so that they are left to the model.
    """
    quoted, taken = Counter[str](), Counter[str]()
    for manner in MANNERS:
        entries, facts = planted_entries(1, manner, 150_000)
        typed = [text_of(entry) for entry in entries if entry.kind == "user"]
        prompts = [(str(number), text) for number, text in enumerate(typed)]
        for fact in facts:
            found = find_words(fact.text, prompts)
            quoted[fact.kind] += 1
            taken[fact.kind] += found is not None and fact.text.strip("| ") in found[1]
    yield ", ".join(f"{kind} {taken[kind] / quoted[kind]:.2f}" for kind in KINDS if quoted[kind])


def report_meter() -> Iterator[str]:
    errors = {name: estimate_text_tokens(text) / TOKENS[name] - 1 for name, text in TEXTS.items()}
    yield f"mean error {mean(map(abs, errors.values())):.1%}: " + ", ".join(
        f"{name} {error:+.0%}" for name, error in sorted(errors.items(), key=itemgetter(1))
    )


async def report_cache() -> list[str]:
    rows = []
    for by_price in (False, True):
        measures = [await yardstick.cache_cost(seed, by_price=by_price) for seed in range(3)]
        requests, kept = mean(each.requests for each in measures), mean(each.kept for each in measures)
        rows.append(
            f"trigger by {'price' if by_price else 'window':<8}{requests:.2f}, facts in view {kept:.2f}"
        )
    return rows


def show(title: str, rows: Iterable[str]) -> None:
    print(f"\n{title}\n", flush=True)
    for row in rows:
        print(row, flush=True)


async def main() -> None:
    """Print all tables."""
    data = os.environ.get("FIDELITY_DATA")
    points = [*(recorded_points(Path(data)) if data else planted_points())]
    source = "recorded" if data else "planted"
    show(
        f"Use of {source} sessions in the next {HORIZONS[0]} and {HORIZONS[1]} entries, by window",
        await report_use(points),
    )
    show(
        "Planted facts in 150,000 tokens that stand in a view",
        report_planted(150_000, (12_000, 20_000, 40_000), (70, 120, 200)),
    )
    show("Many compactions in a window of 32,000", report_rounds(32_000, (1, 5, 15, 50)))
    show("Planted facts in 750,000 tokens", report_large(750_000, 40_000))
    show("Every engine, without a model, window 200,000", await report_engines(points))
    show("Quotes that a model may propose as rules, by kind of sentence", report_rules())
    show("The meter against o200k, of one text each", report_meter())
    show("The cost for a provider's cache, window 60,000; the raw history is 1.00", await report_cache())
    show("Files that agents read again", second_reads.report())


if __name__ == "__main__":
    asyncio.run(main())
