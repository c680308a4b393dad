"""What each kind of signal does to a run, where it does anything; ``reducer`` says in which phase it may.

A step returns the very state it was given when nothing changes. It never awaits and never mutates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sidecar.llmgateway.contract import (
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    StopReason,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    ToolResultBlock,
    ToolTurn,
    Usage,
    UsageEmission,
)
from sidecar.runtime.cadence.draft import Draft
from sidecar.runtime.cadence.fold import swap_usage, tool_calls_of
from sidecar.runtime.cadence.moves import ask_about, ask_next, fault, settle
from sidecar.runtime.cadence.transcript import Transcript
from sidecar.runtime.cadence.transition import Transition
from sidecar.runtime.contract import (
    AbortSignalInput,
    AgentConfig,
    CompactedSignal,
    EmissionSignal,
    FaultSignal,
    PendingTool,
    PublishEffect,
    RunError,
    RunErrorKind,
    RunEvent,
    RunSnapshot,
    RunToolEffect,
    SnapshotEvent,
    StreamEndSignal,
    SubmitSignal,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolFinishedEvent,
    ToolSettledSignal,
    ToolStartedEvent,
)

__all__ = [
    "on_abort",
    "on_compacted",
    "on_emission",
    "on_fault",
    "on_stream_end",
    "on_submit",
    "on_submit_while_busy",
    "on_tool_settled",
]

_CUT_SHORT: Final = frozenset({"max_output", "refusal"})
"""Stops after which calls may be incomplete: they are answered, and not run (failure B-R21)."""


def on_submit(config: AgentConfig, state: RunSnapshot, signal: SubmitSignal) -> Transition:
    """Begin with the prompt that has waited longest."""
    return ask_next(config, replace(state, queued=(*state.queued, tuple(signal.input))))


def on_submit_while_busy(config: AgentConfig, state: RunSnapshot, signal: SubmitSignal) -> Transition:
    """Keep the prompt until the next safe step (failures B-R7 and B-R8)."""
    waiting = replace(state, queued=(*state.queued, tuple(signal.input)))
    return Transition(waiting, (PublishEffect(SnapshotEvent(waiting)),))


def on_emission(config: AgentConfig, state: RunSnapshot, signal: EmissionSignal) -> Transition:
    """Fold one emission into the open answer."""
    match signal.emission:
        case TextEmission(delta=delta) as emission:
            return _said(state, emission, TextDeltaEvent(delta))
        case ThinkingEmission(delta=delta) as emission:
            return _said(state, emission, ThinkingDeltaEvent(delta))
        case ToolCallStartEmission(id=call_id, name=name) as emission:
            return _said(state, emission, ToolStartedEvent(call_id, name))
        case ToolCallDeltaEmission() as emission:
            return _said(state, emission)
        case UsageEmission(usage=usage):
            return Transition(_counted(state, usage))
        case StopEmission(stop=stop):
            return Transition(_stopped(state, stop))
        case DoneEmission() as emission:
            return _done(state, emission)
        case ErrorEmission(error=error):
            return fault(config, state, _model_error(error))


def _said(state: RunSnapshot, emission: Emission, event: RunEvent | None = None) -> Transition:
    transcript = Transcript.of(state.messages)
    draft = _draft(transcript).folded(emission)
    said = replace(state, phase="streaming", messages=transcript.with_open(draft))
    return Transition(said, () if event is None else (PublishEffect(event),))


def _draft(transcript: Transcript) -> Draft:
    return transcript.open if isinstance(transcript.open, Draft) else Draft()


def _done(state: RunSnapshot, done: DoneEmission) -> Transition:
    reply = done.reply
    state = _said(state, done).state
    usage = done.usage or (reply.usage if isinstance(reply, Reply) else None)
    if usage is not None:
        state = _counted(state, usage)
    if isinstance(reply, Reply):
        state = replace(state, stop=reply.stop)
    return Transition(state)


def _counted(state: RunSnapshot, usage: Usage) -> RunSnapshot:
    """Let *usage* be what this call cost: the last figure wins, and zeros are no figure (failure B-R6)."""
    if usage == state.call_usage or _is_zero(usage):
        return state
    total = swap_usage(state.usage_total, state.call_usage, usage)
    return replace(state, usage_total=total, call_usage=usage)


def _is_zero(usage: Usage) -> bool:
    tiers = (usage.cache_read_tokens, usage.cache_write_tokens)
    return not (usage.input_tokens or usage.output_tokens or any(tiers))


def _stopped(state: RunSnapshot, stop: StopReason) -> RunSnapshot:
    """Note why the model stopped. An answer may be empty, but it was given (R4)."""
    transcript = Transcript.of(state.messages)
    if state.stop == stop and state.phase == "streaming" and isinstance(transcript.open, Draft):
        return state
    return replace(state, phase="streaming", stop=stop, messages=transcript.with_open(_draft(transcript)))


def _model_error(error: GatewayError) -> RunError:
    kind: RunErrorKind = "aborted" if error.kind == "aborted" else "model_failed"
    return RunError(kind, str(error) or f"the model failed ({error.kind})", error)


def on_stream_end(config: AgentConfig, state: RunSnapshot, signal: StreamEndSignal) -> Transition:
    """Run the tools that were asked for; settle when none were, or when the reply was cut short."""
    transcript = Transcript.of(state.messages)
    if not isinstance(transcript.open, Draft):
        return fault(config, state, RunError("invalid_state", "the model's stream ended without an answer"))
    if state.stop == "error" or state.stop == "aborted":
        return fault(config, state, _stop_error(state.stop))
    turn = transcript.open.sealed()
    calls = tool_calls_of(turn)
    if not calls or state.stop in _CUT_SHORT:
        stop = "complete" if state.stop in (None, "tool_calls") else state.stop
        return settle(config, replace(state, stop=stop))
    dispatched = replace(
        state,
        phase="dispatching",
        messages=transcript.with_turns((turn,)),
        pending=tuple(PendingTool(call.id, call.name, "queued") for call in calls),
        stop="tool_calls",
    )
    return Transition(dispatched, (PublishEffect(SnapshotEvent(dispatched)), *map(RunToolEffect, calls)))


def _stop_error(stop: StopReason) -> RunError:
    if stop == "aborted":
        return RunError("aborted", "the model's stream was aborted")
    return RunError("model_failed", "the model stopped with an error")


def on_tool_settled(config: AgentConfig, state: RunSnapshot, signal: ToolSettledSignal) -> Transition:
    """Note one outcome; after the last one ask the model. A second outcome of a call changes nothing."""
    tool = next((each for each in state.pending if each.id == signal.id), None)
    if tool is None:
        message = f"the call {signal.id!r} has an outcome, but nobody asked for it"
        return fault(config, state, RunError("invalid_state", message))
    if tool.stage == "done":
        return Transition(state)
    outcome = replace(signal.result, id=tool.id)
    noted = _noted(state, tool, ToolResultBlock(tool.id, outcome.output, outcome.is_error))
    finished = PublishEffect(ToolFinishedEvent(tool.id, tool.name, outcome))
    if any(each.stage != "done" for each in noted.pending):
        return Transition(noted, (finished, PublishEffect(SnapshotEvent(noted))))
    round_over = Transcript.of(noted.messages)
    following = ask_next(config, replace(noted, messages=round_over.with_turns(round_over[-1:])))
    return Transition(following.state, (finished, *following.effects))


def _noted(state: RunSnapshot, tool: PendingTool, result: ToolResultBlock) -> RunSnapshot:
    """Return *state* with *tool* done and its result in the round's tool turn."""
    transcript = Transcript.of(state.messages)
    earlier = transcript.open.blocks if isinstance(transcript.open, ToolTurn) else ()
    pending = (replace(each, stage="done") if each is tool else each for each in state.pending)
    return replace(
        state,
        phase="dispatching",
        messages=transcript.with_open(ToolTurn((*earlier, result))),
        pending=tuple(pending),
    )


def on_compacted(config: AgentConfig, state: RunSnapshot, signal: CompactedSignal) -> Transition:
    """Put the summary in the place of the turns before the planned cut, and ask the model (B-R2, B-R3)."""
    transcript = Transcript.of(state.messages)
    kept = transcript.finished[max(0, signal.cut) :]
    return ask_about(config, replace(state, error=None), (signal.summary, *kept))


def on_abort(config: AgentConfig, state: RunSnapshot, signal: AbortSignalInput) -> Transition:
    """End the run because the host wants it to end."""
    return fault(config, state, RunError("aborted", "the run was aborted"))


def on_fault(config: AgentConfig, state: RunSnapshot, signal: FaultSignal) -> Transition:
    """End the run with the error that was met outside."""
    return fault(config, state, signal.error)
