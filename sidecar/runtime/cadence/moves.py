"""The moves that steps are made of: asking the model, letting a prompt in, settling, faulting.

However a run ends, its history stays one that providers accept: arguments are parsed, every call is answered
once, and a turn that says nothing is gone (failures B-R5, B-R14, B-R21).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from sidecar.llmgateway.contract import Block, StopReason, StreamOptions, ToolResultBlock, ToolTurn, Turn
from sidecar.runtime.cadence.draft import Draft
from sidecar.runtime.cadence.fold import tool_calls_of
from sidecar.runtime.cadence.transcript import Transcript
from sidecar.runtime.cadence.transition import Transition
from sidecar.runtime.contract import (
    AgentConfig,
    Effect,
    FaultedEvent,
    InvokeModelEffect,
    PendingTool,
    PersistEffect,
    PublishEffect,
    RunError,
    RunErrorKind,
    RunSnapshot,
    SettledEvent,
    SnapshotEvent,
    ToolFinishedEvent,
    ToolOutcome,
)

__all__ = ["ask_about", "ask_model", "ask_next", "enter", "fault", "settle"]

_STOP_OF: Final[Mapping[RunErrorKind, StopReason]] = MappingProxyType(
    {"aborted": "aborted", "model_failed": "error"}
)
"""Why the newest model call ended, for the errors that end one."""


def ask_model(config: AgentConfig, state: RunSnapshot) -> Transition:
    """Ask the model about what is there."""
    asked = replace(state, phase="invoking", stop=None, call_usage=None)
    options = StreamOptions(thinking=config.thinking, max_output_tokens=config.max_output_tokens)
    conversation = Transcript.of(asked.messages).outgoing.conversation(config)
    return Transition(asked, (InvokeModelEffect(conversation, options), PublishEffect(SnapshotEvent(asked))))


def ask_about(config: AgentConfig, state: RunSnapshot, history: Sequence[Turn]) -> Transition:
    """Ask the model about *history*, which takes the place of the finished turns; an open one stays."""
    transcript, open_turn = Transcript.of(tuple(history)), Transcript.of(state.messages).open
    if open_turn is not None:
        transcript = transcript.with_open(open_turn)
    return ask_model(config, replace(state, messages=transcript))


def enter(config: AgentConfig, state: RunSnapshot, prompt: Iterable[Turn]) -> Transition:
    """Let *prompt* in, seed the blank answer that its deltas will fill, and ask the model."""
    messages = Transcript.of(state.messages).with_turns(prompt).with_open(Draft())
    return ask_model(config, replace(state, messages=messages, pending=(), error=None))


def ask_next(config: AgentConfig, state: RunSnapshot) -> Transition:
    """Let the oldest queued prompt in, if one waits, and ask the model."""
    if not state.queued:
        return ask_model(config, state)
    return enter(config, replace(state, queued=state.queued[1:]), state.queued[0])


def settle(config: AgentConfig, state: RunSnapshot) -> Transition:
    """End the run well. Calls that are still open were cut off with the reply, and are answered so."""
    transcript = Transcript.of(state.messages)
    says_nothing = isinstance(transcript.open, Draft) and transcript.open.is_blank
    effects: tuple[Effect, ...] = ()
    if not says_nothing:
        note = f"not run: the reply ended early ({state.stop}), so this call may be incomplete"
        transcript, effects = _closed(transcript, state.pending, note)
    done = replace(state, phase="settled", messages=transcript, pending=())
    return _go_on(config, done, (*effects, PersistEffect(done), PublishEffect(SettledEvent(done))))


def fault(config: AgentConfig, state: RunSnapshot, error: RunError) -> Transition:
    """End the run with *error*; calls that are still open are answered so."""
    note = f"no result: the run ended before this call did ({error.kind})"
    messages, effects = _closed(Transcript.of(state.messages), state.pending, note)
    stop = _STOP_OF.get(error.kind, state.stop)
    done = replace(state, phase="faulted", messages=messages, pending=(), error=error, stop=stop)
    return _go_on(config, done, (*effects, PersistEffect(done), PublishEffect(FaultedEvent(error, done))))


def _go_on(config: AgentConfig, done: RunSnapshot, effects: tuple[Effect, ...]) -> Transition:
    """Turn to the next queued prompt, which survives whatever became of the one before (B-R8)."""
    if not done.queued:
        return Transition(done, effects)
    following = ask_next(config, done)
    return Transition(following.state, (*effects, *following.effects))


def _closed(
    transcript: Transcript, pending: tuple[PendingTool, ...], note: str
) -> tuple[Transcript, tuple[Effect, ...]]:
    """Finish the open turn, and answer with *note* each call that has no result."""
    answered: tuple[Block, ...] = ()
    unanswered = [(tool.id, tool.name) for tool in pending if tool.stage != "done"]
    if isinstance(transcript.open, Draft):
        if transcript.open.is_blank:
            return transcript.with_turns(()), ()
        turn = transcript.open.sealed()
        transcript = transcript.with_turns((turn,))
        unanswered = [(call.id, call.name) for call in tool_calls_of(turn)]
    elif transcript.open is not None:
        answered = transcript.open.blocks
    notes = tuple(ToolResultBlock(call_id, note, is_error=True) for call_id, _ in unanswered)
    if answered or notes:
        transcript = transcript.with_turns((ToolTurn((*answered, *notes)),))
    told = (ToolFinishedEvent(each, name, ToolOutcome(each, note, True)) for each, name in unanswered)
    return transcript, tuple(map(PublishEffect, told))
