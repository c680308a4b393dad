"""Recorded sessions of other agents, gone through with every engine as a session would.

The recordings lie beside the checkout and are no part of it; where they are absent, these tests are skipped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sidecar._internal.cancel import CancelToken
from sidecar.conductor.contract import NoOp
from sidecar.conductor.engines.agentcore import AgentcoreEngine
from sidecar.conductor.engines.base import CompactAsk, Frame, FreshFile, Helpers, SessionEngine, Standing
from sidecar.conductor.engines.runtime_memory import RuntimeEngine
from sidecar.conductor.engines.sliding_window import SlidingWindowEngine
from sidecar.conductor.engines.summarizing import SummarizingEngine
from sidecar.conductor.engines.window_budget import WindowBudgetEngine
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CostSheet,
    ModelCard,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.llmgateway.scripted import Say, ScriptedModel
from sidecar.runtime.store import heal
from sidecar.runtime.wire import Outgoing

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
FORMATS = (
    "claude-code",
    "codex",
    "opencode",
    "copilot-cli",
    "gemini-cli",
    "pi",
    "swe-agent",
    "openhands",
    "cline",
)
ENGINES = (WindowBudgetEngine, RuntimeEngine, AgentcoreEngine, SummarizingEngine, SlidingWindowEngine)
MAX_RECORDS = 260
OVERHEAD = 300

Record = dict[str, Any]
Convert = Callable[[str, str], tuple[str, list[Record]]]


def recordings() -> list[Any]:
    """The smallest recording of each format."""
    found = [
        sorted((DATA / "dev" / name).glob("*"), key=lambda path: path.stat().st_size) for name in FORMATS
    ]
    absent = pytest.mark.skip(reason="the recorded transcripts are not beside this checkout")
    named = [pytest.param(paths[0], id=paths[0].parent.name) for paths in found if paths]
    return named or [pytest.param(DATA, id="absent", marks=absent)]


@pytest.fixture(scope="module")
def convert() -> Convert:
    spec = importlib.util.spec_from_file_location("engines_transcript_convert", DATA / "tools" / "convert.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    converted: Convert = module.convert
    return converted


def read_turns(path: Path, convert: Convert) -> list[Turn]:
    """The beginning of a recording as a session would load it: the results of one round together, healed."""
    records = convert(path.read_text("utf-8", "surrogateescape"), str(path))[1][:MAX_RECORDS]
    turns: list[Turn] = []
    for are_results, group in groupby(map(turn, records), lambda each: isinstance(each, ToolTurn)):
        found = list(group)
        turns += [ToolTurn(tuple(b for each in found for b in each.blocks))] if are_results else found
    return list(heal(turns))


def turn(record: Record) -> Turn:
    match record["role"]:
        case "assistant":
            text: tuple[Block, ...] = (TextBlock(record["text"]),) if record["text"] else ()
            calls = (ToolCallBlock(c["id"] or "", c["name"] or "", c["input"]) for c in record["tool_calls"])
            return AssistantTurn((*text, *calls))
        case "tool":
            result = ToolResultBlock(record["tool_call_id"] or "", record["text"], record["is_error"])
            return ToolTurn((result,))
        case _:
            return UserTurn((TextBlock(record["text"]),))


def card(window: int) -> ModelCard:
    return ModelCard(
        "m",
        "mock",
        "mock",
        "M",
        context_window=window,
        max_output_tokens=window // 8,
        modalities=("text",),
        reasoning=False,
        cost=CostSheet(0, 0),
    )


async def no_files(paths: Sequence[str]) -> dict[str, FreshFile]:
    return {path: FreshFile(path, None, None, "disk", "notFound") for path in paths}


def check_sound(sent: Iterable[Turn]) -> None:
    waiting: list[str] = []
    for each in sent:
        found = [block.call_id for block in each.blocks if isinstance(block, ToolResultBlock)]
        assert sorted(found) == sorted(waiting)
        waiting = [block.id for block in each.blocks if isinstance(block, ToolCallBlock)]


@pytest.mark.parametrize("path", recordings())
@pytest.mark.parametrize("engine_type", ENGINES, ids=lambda engine: engine.name)
async def test_a_recorded_session(path: Path, engine_type: type[SessionEngine], convert: Convert) -> None:
    """Each compaction makes the next request smaller, and whatever is sent is whole."""
    recorded = read_turns(path, convert)
    engine, window = engine_type(), 16_000
    model = ScriptedModel([[Say("what was done so far " * 20)]], when_exhausted="repeat")
    turns: list[Turn] = []
    standing: Standing | None = None
    for each in recorded:
        turns.append(each)
        frame = Frame(turns, card(window), OVERHEAD, 0, standing)
        gate = engine.gate(frame, CompactAsk(force=False))
        if isinstance(each, AssistantTurn) or not gate.over:
            continue
        helpers = Helpers(model, frame.card, no_files, CancelToken(), 10.0)
        done = await engine.condense(frame, CompactAsk(force=False), helpers)
        if isinstance(done, NoOp):
            continue
        assert done.post_tokens < done.pre_tokens
        if done.keeps_history:
            standing = Standing(done.cut, done.summary, done.info or {})
        else:
            turns = list(done.turns)
        frame = Frame(turns, card(window), OVERHEAD, 0, standing)
        assert engine.gate(frame, CompactAsk(force=False)).tokens < gate.tokens
        view = engine.view(frame, CompactAsk(force=False))
        check_sound(Outgoing().extended(view.turns).turns())
    if engine.shows_view:
        assert len(turns) == len(recorded)
