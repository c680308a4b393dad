"""The texts of the engines: gates, plans, previews and digests of planted conversations, as lines to compare.

Each engine is followed through each conversation as a session would do it, in a small window: at every prompt
its gate is asked, and over the limit it plans, previews and compacts, three times. Lines that stood in the
text before are one line together; of the prompts for the summarising model only the first one is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from model_cards import card
from planted_work import plant_work
from sidecar.boot import ENGINES
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionResult,
    FreshFile,
    PlannedCompaction,
    SummaryFailedError,
)
from sidecar.conversation import Entry, FileRead
from sidecar.llmgateway.contract import Turn, UserTurn
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from talks import AUTO, Follower
from use_of_views import text_of

__all__ = ["TEXTS", "write_texts"]

_N_COMPACTIONS: Final = 3
_LINE_CHARS: Final = 300
_NOTES: Final = "\n".join(
    (
        *("# Objective", "Make the importer quick.", "# Guardrails", "- Never touch generated.py."),
        *("# Status", "The parser is done; src/made/up_9999.py passes.", "# Rationale", "A stack is simple."),
        *("# Plan", "1. Mend the lexer.", "# Carryover", "Port 8431."),
    )
)


def _writing() -> ScriptedModel:
    return ScriptedModel([[Say(_NOTES)]], when_exhausted="repeat")


def _chatting() -> ScriptedModel:
    return ScriptedModel([[Say("The user and the assistant worked on it.")]], when_exhausted="repeat")


def _failing() -> ScriptedModel:
    return ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat")


Talk: TypeAlias = tuple[Callable[[], Iterable[Sequence[Turn]]], int, Callable[[], ScriptedModel]]
"""The rounds of a conversation, the model's window in tokens, and the model that writes summaries."""

TALKS: Final[dict[str, Talk]] = {
    "claude": (lambda: plant_work(1, "claude", 60_000, 25).rounds, 14_000, _writing),
    "codex": (lambda: plant_work(2, "codex", 60_000, 25).rounds, 14_000, _failing),
    "other": (lambda: plant_work(3, "other", 60_000, 25).rounds, 14_000, _chatting),
}

TEXTS: Final = tuple(
    f"engine-{name}-{talk}" for talk in TALKS for name, make in ENGINES.items() if make().compacts
)
"""The names of all records of engines."""


async def _read_files(paths: Sequence[str]) -> dict[str, FreshFile]:
    """Return a short text for each source file; others are gone."""
    found = {}
    for path in paths:
        text = f"# {path}\n" + "".join(f"LINE_{number} = {number}\n" for number in range(1, 9))
        read = FileRead(path=path, uri=path, hash=_hash(text), source="disk")
        is_there = path.endswith((".py", ".ts"))
        found[path] = FreshFile(path, text, read) if is_there else FreshFile(path, problem="notFound")
    return found


async def write_texts(name: str) -> list[str]:
    """Return the lines of the record *name* of ``TEXTS``."""
    _, engine, talk = name.split("-")
    rounds, window, model = TALKS[talk]
    follower = Follower(ENGINES[engine](), card(window), model(), _read_files)
    lines, seen = list[str](), set[str]()
    for number, turns in enumerate(rounds()):
        planned = await follower.make(AUTO)
        if planned.gate.over:
            lines += [f"# before prompt {number}", f"gate: {planned.gate}"]
            lines += _shorten(_describe_plan(planned, is_first=not follower.done), seen)
            try:
                outcome = await follower.compact(AUTO)
            except SummaryFailedError as error:
                return [*lines, f"no summary: {error}"]
            if not isinstance(outcome, CompactionResult):
                return [*lines, f"outcome: {outcome}"]
            lines += (f"would come back: {file}" for file in follower.files)
            lines += _shorten(_describe_result(outcome), seen)
            if len(follower.done) == _N_COMPACTIONS:
                return lines
        follower.say(*turns)
    return lines


def _describe_plan(planned: PlannedCompaction, *, is_first: bool) -> Iterator[str]:
    plan = planned.found
    if not isinstance(plan, CompactionPlan):
        yield f"plan: {plan}"
        return
    for name in (
        *("cut", "pinned", "pre_tokens", "dropped_tokens", "kept_tokens"),
        *("low_tokens", "projected_tokens", "high_tokens", "microcompact"),
    ):
        yield f"plan.{name}: {getattr(plan, name)}"
    first, last = (plan.dropped[0], plan.dropped[-1]) if plan.dropped else (None, None)
    yield f"plan.dropped: {len(plan.dropped)} of {first} to {last}, without {_gaps(plan.dropped)}"
    for turn in plan.kept() if plan.kept is not None else ():
        yield f"plan.kept: {_describe_turn(turn)}"
    prompt = plan.prompt() or ""
    yield f"plan.prompt: {len(prompt)} characters, {_hash(prompt)}"
    for line in prompt.splitlines() if is_first else ():
        yield f"plan.prompt: {line}"


def _gaps(indices: Sequence[int]) -> list[int]:
    return sorted({*range(indices[0], indices[-1])} - {*indices}) if indices else []


def _describe_result(done: CompactionResult) -> Iterator[str]:
    for name in (
        *("cut", "dropped_count", "pre_tokens", "post_tokens", "summary_source", "fallback_reason"),
        *("microcompacted", "restored", "missing", "loss"),
    ):
        yield f"result.{name}: {getattr(done, name)}"
    for name, value in (done.info or {}).items():
        if name != "durationMs":
            yield f"result.info.{name}: {value}"
    yield f"result.summary: {len(done.summary)} characters, {_hash(done.summary)}"
    for entry in done.entries:
        if entry.kind in ("summary", "file"):
            yield from (f"{entry.kind}: {line}" for line in text_of(entry).splitlines())
        else:
            yield f"entry: {_describe_turn(entry.turn)}"


def _describe_turn(turn: Turn) -> str:
    text = text_of(Entry(turn, "user" if isinstance(turn, UserTurn) else "assistant"))
    return f"{turn.role} of {len(text)} characters, {_hash(text)}"


def _shorten(lines: Iterable[str], seen: set[str]) -> Iterator[str]:
    """Yield *lines*; three or more in a row that were all *seen* are one line, and long ones are cut."""
    repeated = list[str]()
    for line in lines:
        if line in seen:
            repeated.append(line)
            continue
        yield from _as_before(repeated)
        repeated.clear()
        seen.add(line)
        yield _cut(line)
    yield from _as_before(repeated)


def _as_before(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) < 3:
        yield from (_cut(line) for line in lines)
    else:
        yield f"{lines[0].partition(':')[0]}: {len(lines)} lines as before, {_hash(''.join(lines))}"


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}... {_hash(line)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
