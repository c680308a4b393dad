"""What is left of a long session after its first, fifth and fifteenth compaction, kind of fact by kind.

Each round of the session plants a fact of every kind, a rule every fourth time. What the model is sent after
a compaction either says a fact word for word or has lost it. The shares asserted are what each engine keeps
at least of all that was planted so far, in a window of 16,000 tokens, where a session has a hundred rounds
and more by its fifteenth compaction: not all can be kept, and what is not is honest about the engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from histories import committed, entry_of
from model_cards import card
from sidecar._internal.cancel import CancelToken
from sidecar.boot import ENGINES
from sidecar.conductor.engine import (
    CompactionPlan,
    CompactionRequest,
    CompactionResult,
    EngineDeps,
    EngineInput,
    SessionEngine,
)
from sidecar.conductor.window.engines.agentcore import AgentcoreEngine
from sidecar.conductor.window.engines.runtime_memory import RuntimeEngine
from sidecar.conversation import History
from sidecar.llmgateway.contract import TextBlock, ToolCallBlock, ToolResultBlock, ToolTurn, Turn
from sidecar.llmgateway.scripted import Raise, Say, ScriptedModel
from sidecar.runtime.contract import ModelInvoker
from talks import Follower, input_of
from turns import assistant, user

WINDOW = 16_000
AUTO = CompactionRequest(force=False)
MODULES = ("parser", "lexer", "store", "router", "cache", "auth", "queue", "billing", "export", "search")
KINDS = ("rule", "path", "number", "error", "command", "decision")
CARD = card(WINDOW)


def no_model() -> ModelInvoker:
    return ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat")


def one_round(number: int) -> tuple[list[Turn], dict[str, str]]:
    """The turns of one round, and the facts it plants."""
    module = MODULES[number % len(MODULES)]
    facts = {
        "path": f"src/{module}/{module}_{number}.py",
        "number": f"port {7000 + 13 * number}",
        "error": f"ValueError: bad offset {37 * number} in {module}",
        "command": f"python -m {module}.check --seed {11 * number}",
        "decision": f"a ring buffer of {64 + number} slots in {module}",
    }
    if number % 4 == 0:
        facts["rule"] = f"Never rename {module}_{number}_0"
    prompt = f"Look at {facts['path']}, it listens on {facts['number']}. " + (
        f"{facts['rule']}, other teams import it." if "rule" in facts else "Then go on with the next."
    )
    source = "".join(f"def {module}_{number}_{k}(value):\n    return value * {k}\n\n" for k in range(30))
    calls: list[tuple[str, dict[str, Any], str, bool]] = [
        ("read", {"path": facts["path"]}, source, False),
        ("bash", {"command": facts["command"]}, f"Traceback:\n{facts['error']}\n[exit 1]", True),
        ("edit", {"path": facts["path"], "old_text": "value * 1", "new_text": "value + 1"}, "edited", False),
    ]
    turns: list[Turn] = [user(prompt)]
    for index, (name, given, output, is_error) in enumerate(calls):
        call_id = f"c{number}.{index}"
        turns.append(assistant(ToolCallBlock(call_id, name, given)))
        turns.append(ToolTurn((ToolResultBlock(call_id, output, is_error),)))
    answer = f"Done. I decided on {facts['decision']}, because it bounds memory."
    return [*turns, assistant(answer)], facts


@dataclass
class Session:
    """One engine at work as in a session, and what was planted."""

    engine: SessionEngine
    model: ModelInvoker
    history: History = field(default_factory=History)
    planted: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    n_compactions: int = 0

    @property
    def engine_input(self) -> EngineInput:
        return input_of(self.history, CARD, 1_000)

    async def play(self, number: int) -> None:
        turns, facts = one_round(number)
        for kind, fact in facts.items():
            self.planted[kind].append(fact)
        for turn in turns:
            if not isinstance(turn, ToolTurn) and self.engine.gate(self.engine_input, AUTO).over:
                await self.compact()
            self.history = self.history.extended([entry_of(turn)])

    async def compact(self) -> None:
        given, deps = self.engine_input, EngineDeps(self.model, CancelToken(), 10.0)
        plan = self.engine.plan(given, AUTO)
        assert isinstance(plan, CompactionPlan), plan
        done = await self.engine.compact(given, AUTO, plan, deps)
        assert isinstance(done, CompactionResult), done
        self.n_compactions += 1
        self.history = committed(self.history, done)

    def shares(self) -> dict[str, float]:
        """The share of the facts planted so far, by kind, that the next request says word for word."""
        sent = "\n".join(_text(entry.turn) for entry in self.history)
        return {
            kind: sum(fact in sent for fact in facts) / len(facts) for kind, facts in self.planted.items()
        }


def _text(turn: Turn) -> str:
    parts = []
    for block in turn.blocks:
        match block:
            case TextBlock(text=text):
                parts.append(text)
            case ToolCallBlock(input=given):
                parts.append(json.dumps(given))
            case ToolResultBlock(output=output):
                parts.append(str(output))
    return "\n".join(parts)


def share_of(*of_all_kinds: float) -> dict[str, float]:
    """Shares by kind, in the order of KINDS."""
    return dict(zip(KINDS, of_all_kinds, strict=True))


# rule, path, number, error, command, decision. A summary without its chronicle has a size; what is lost for
# good are the oldest facts of each kind.
SURVIVAL: list[Any] = [
    pytest.param(
        AgentcoreEngine,
        no_model,
        {
            1: share_of(1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
            5: share_of(1.0, 1.0, 1.0, 1.0, 0.1, 0.35),
            15: share_of(0.9, 1.0, 0.9, 0.15, 0.1, 0.1),
        },
        id="agentcore without a model",
    ),
    pytest.param(
        RuntimeEngine,
        no_model,
        {
            1: share_of(1.0, 0.5, 0.5, 0.5, 0.5, 0.5),
            5: share_of(1.0, 0.6, 0.6, 0.6, 0.6, 0.6),
            15: share_of(1.0, 0.25, 0.25, 0.25, 0.25, 0.3),
        },
        id="runtime without a model",
    ),
]


FACTS = [
    f"The service number {n} answers at the place {n * 7919}, for the reason {n * 31}." for n in range(120)
]


@pytest.mark.parametrize("name", [name for name, make in ENGINES.items() if make().marks.summaries])
async def test_one_failed_call_loses_nothing_of_the_summary_before(name: str) -> None:
    """A window of 32,000 tokens has room for 120 facts, whether a model writes them down again or not."""
    listed = "\n".join(f"- {fact}" for fact in FACTS)
    model = ScriptedModel(
        [[Say(f"# Objective\nGo on.\n# Status\n{listed}\n# Plan\nnone\n# Carryover\nnone")]],
        when_exhausted="repeat",
    )
    follower, before = Follower(ENGINES[name](), card(32_000), model), list[str]()
    while len(follower.done) < 2:
        follower.say(user("go on"), assistant("The parser and the lexer are read again. " * 60))
        if follower.engine.gate(follower.engine_input, AUTO).over:
            await follower.compact(AUTO)
            sent = "\n".join(map(_text, follower.sent()))
            known = [fact for fact in FACTS if fact in sent]
            if follower.model is not model:
                assert known == before
                break
            # Notes of summarizing are cut at the length that it asks for.
            assert known == FACTS or (name == "summarizing" and known)
            before = known
            follower.model = ScriptedModel([[Raise(RuntimeError("down"))]], when_exhausted="repeat")


@pytest.mark.parametrize(("engine", "model", "least"), SURVIVAL)
async def test_planted_facts_survive(
    engine: type[SessionEngine], model: Callable[[], ModelInvoker], least: Mapping[int, Mapping[str, float]]
) -> None:
    session, number = Session(engine(), model()), 0
    for n_compactions, at_least in least.items():
        while session.n_compactions < n_compactions:
            await session.play(number)
            number += 1
        kept = session.shares()
        lost = {kind: kept[kind] for kind in KINDS if kept[kind] < at_least[kind]}
        assert lost == {}, f"after {n_compactions} compactions and {number} rounds"
