"""The steps of a run: the effect of each kind of signal; ``reducer`` says in which phase it may come.

Every step takes the agent's configuration, the state of the run and one signal. It returns the very state it
was given when nothing changes; it never awaits and never mutates. Steps are made of four moves: calling the
model, letting a prompt in, settling, faulting.

However a run ends, its history stays one that providers accept: arguments are parsed, every call is answered
once, and a blank turn is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from sidecar._internal.values import Value, replace
from sidecar.llmgateway.contract import (
    Block,
    DoneEmission,
    Emission,
    ErrorEmission,
    ImageBlock,
    Reply,
    StopEmission,
    StopReason,
    StreamOptions,
    TextEmission,
    ThinkingEmission,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    ToolResultBlock,
    ToolTurn,
    Turn,
    Usage,
    UsageEmission,
    WithdrawnEmission,
)
from sidecar.runtime.cadence.run_messages import Draft, RunMessages, swap_usage, tool_calls_of
from sidecar.runtime.contract import (
    AbortSignalInput,
    AgentConfig,
    CompactedSignal,
    Effect,
    EmissionSignal,
    FaultedEvent,
    FaultSignal,
    InvokeModelEffect,
    PendingTool,
    PersistEffect,
    PublishEffect,
    RunError,
    RunErrorKind,
    RunEvent,
    RunSnapshot,
    RunToolEffect,
    SettledEvent,
    Signal,
    SnapshotEvent,
    StreamEndSignal,
    SubmitSignal,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolFinishedEvent,
    ToolOutcome,
    ToolSettledSignal,
    ToolStartedEvent,
)

_CUT_SHORT: Final = frozenset({"max_output", "refusal"})
"""Stops after which calls may be incomplete: they are answered, and not run."""

_STOP_OF: Final[Mapping[RunErrorKind, StopReason]] = MappingProxyType(
    {"aborted": "aborted", "model_failed": "error"}
)
"""Why the newest model call ended, for the errors that end one."""


class Transition(Value):
    """The state after a step, and the effects that it requests, in order."""

    state: RunSnapshot
    effects: tuple[Effect, ...] = ()


StepFn: TypeAlias = Callable[[RunSnapshot, Signal], Transition]
"""One step of a run. Contract: pure; never raises; the same state object back when nothing changes."""


def initial_snapshot(session_id: str, model: str, *, run_id: str | None = None) -> RunSnapshot:
    """Return the state of a run that has not begun.

    Args:
        session_id: the session that it belongs to.
        model: the id of the model.
        run_id: the id of the run, the session's id unless given.

    >>> initial_snapshot(session_id="s1", model="mock-1").phase
    'idle'
    """
    return RunSnapshot(
        run_id=run_id or session_id,
        session_id=session_id,
        phase="idle",
        messages=(),
        pending=(),
        usage_total=Usage(0, 0),
        model=model,
    )


def on_submit(config: AgentConfig, state: RunSnapshot, signal: SubmitSignal) -> Transition:
    """Start with the prompt that has waited longest."""
    return continue_run(config, replace(state, queued=(*state.queued, tuple(signal.input))))


def on_submit_while_busy(config: AgentConfig, state: RunSnapshot, signal: SubmitSignal) -> Transition:
    """Queue the prompt until the next safe step."""
    waiting = replace(state, queued=(*state.queued, tuple(signal.input)))
    return Transition(waiting, (PublishEffect(SnapshotEvent(waiting)),))


def on_emission(config: AgentConfig, state: RunSnapshot, signal: EmissionSignal) -> Transition:
    """Fold one emission into the open answer."""
    match signal.emission:
        case TextEmission(delta=delta) as emission:
            return _fold_emission(state, emission, TextDeltaEvent(delta))
        case ThinkingEmission(delta=delta) as emission:
            return _fold_emission(state, emission, ThinkingDeltaEvent(delta))
        case ToolCallStartEmission(id=call_id, name=name) as emission:
            return _fold_emission(state, emission, ToolStartedEvent(call_id, name))
        case ToolCallDeltaEmission() as emission:
            return _fold_emission(state, emission)
        case UsageEmission(usage=usage):
            return Transition(_set_call_usage(state, usage))
        case StopEmission(stop=stop):
            return Transition(set_stop(state, stop))
        case WithdrawnEmission():
            messages = RunMessages.of(state.messages).with_open(Draft())
            begun = replace(state, phase="invoking", messages=messages, stop=None, call_usage=None)
            return Transition(begun, (PublishEffect(SnapshotEvent(begun)),))
        case DoneEmission() as emission:
            state = _fold_emission(state, emission).state
            reply = emission.reply
            final_usage = emission.usage or (reply.usage if isinstance(reply, Reply) else None)
            if final_usage is not None:
                state = _set_call_usage(state, final_usage)
            return Transition(replace(state, stop=reply.stop) if isinstance(reply, Reply) else state)
        case ErrorEmission(error=error):
            kind: RunErrorKind = "aborted" if error.kind == "aborted" else "model_failed"
            message = str(error) or f"the model failed ({error.kind})"
            return fault(config, state, RunError(kind, message, error))


def _fold_emission(state: RunSnapshot, emission: Emission, event: RunEvent | None = None) -> Transition:
    messages = RunMessages.of(state.messages)
    draft = _draft_of(messages).fold(emission)
    folded = replace(state, phase="streaming", messages=messages.with_open(draft))
    return Transition(folded, () if event is None else (PublishEffect(event),))


def _draft_of(messages: RunMessages) -> Draft:
    return messages.open if isinstance(messages.open, Draft) else Draft()


def _set_call_usage(state: RunSnapshot, usage: Usage) -> RunSnapshot:
    """Return *state* with *usage* as the cost of this call: the last figure wins, and zeros are no figure."""
    figures = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    if usage == state.call_usage or not any(figures):
        return state
    total = swap_usage(state.usage_total, state.call_usage, usage)
    return replace(state, usage_total=total, call_usage=usage)


def set_stop(state: RunSnapshot, stop: StopReason) -> RunSnapshot:
    """Return *state* with the reason why the model stopped, and an answer, which may be empty."""
    messages = RunMessages.of(state.messages)
    if state.stop == stop and state.phase == "streaming" and isinstance(messages.open, Draft):
        return state
    return replace(state, phase="streaming", stop=stop, messages=messages.with_open(_draft_of(messages)))


def on_stream_end(config: AgentConfig, state: RunSnapshot, signal: StreamEndSignal) -> Transition:
    """Run the tools that the answer calls; settle when it calls none, or when it was cut short."""
    messages = RunMessages.of(state.messages)
    if not isinstance(messages.open, Draft):
        return fault(config, state, RunError("invalid_state", "the model's stream ended without an answer"))
    if state.stop == "aborted":
        return fault(config, state, RunError("aborted", "the model's stream was aborted"))
    if state.stop == "error":
        return fault(config, state, RunError("model_failed", "the model stopped with an error"))
    turn = messages.open.seal()
    calls = tool_calls_of(turn)
    if not calls or state.stop in _CUT_SHORT:
        stop = "complete" if state.stop in (None, "tool_calls") else state.stop
        return settle(config, replace(state, stop=stop))
    dispatched = replace(
        state,
        phase="dispatching",
        messages=messages.with_turns((turn,)),
        pending=tuple(PendingTool(call.id, call.name, "queued") for call in calls),
        stop="tool_calls",
    )
    return Transition(dispatched, (PublishEffect(SnapshotEvent(dispatched)), *map(RunToolEffect, calls)))


def on_tool_settled(config: AgentConfig, state: RunSnapshot, signal: ToolSettledSignal) -> Transition:
    """Add one outcome; after the last one call the model. A second outcome of a call changes nothing."""
    tool = next((each for each in state.pending if each.id == signal.id), None)
    if tool is None:
        message = f"the call {signal.id!r} has an outcome, but no such call is pending"
        return fault(config, state, RunError("invalid_state", message))
    if tool.stage == "done":
        return Transition(state)
    outcome = replace(signal.result, id=tool.id)
    result = ToolResultBlock(tool.id, outcome.output, outcome.is_error)
    answered = _add_result(state, tool, result, outcome.images)
    finished = PublishEffect(ToolFinishedEvent(tool.id, tool.name, outcome))
    if any(each.stage != "done" for each in answered.pending):
        return Transition(answered, (finished, PublishEffect(SnapshotEvent(answered))))
    round_over = RunMessages.of(answered.messages)
    following = continue_run(config, replace(answered, messages=round_over.with_turns(round_over[-1:])))
    return Transition(following.state, (finished, *following.effects))


def _add_result(
    state: RunSnapshot, tool: PendingTool, result: ToolResultBlock, images: tuple[ImageBlock, ...]
) -> RunSnapshot:
    """Return *state* with *tool* done and its result in the round's tool turn, images behind all results."""
    messages = RunMessages.of(state.messages)
    earlier = messages.open.blocks if isinstance(messages.open, ToolTurn) else ()
    blocks = tuple(sorted((*earlier, result, *images), key=lambda block: isinstance(block, ImageBlock)))
    pending = (replace(each, stage="done") if each is tool else each for each in state.pending)
    return replace(
        state,
        phase="dispatching",
        messages=messages.with_open(ToolTurn(blocks)),
        pending=tuple(pending),
    )


def on_compacted(config: AgentConfig, state: RunSnapshot, signal: CompactedSignal) -> Transition:
    """Put the summary in the place of the turns before the planned cut, and call the model."""
    messages = RunMessages.of(state.messages)
    kept = messages.finished[max(0, signal.cut) :]
    return replace_history(config, replace(state, error=None), (signal.summary, *kept))


def on_abort(config: AgentConfig, state: RunSnapshot, signal: AbortSignalInput) -> Transition:
    """End the run because the host wants it to end."""
    return fault(config, state, RunError("aborted", "the run was aborted"))


def on_fault(config: AgentConfig, state: RunSnapshot, signal: FaultSignal) -> Transition:
    """End the run with an error from outside the reducer."""
    return fault(config, state, signal.error)


def call_model(config: AgentConfig, state: RunSnapshot) -> Transition:
    """Call the model with the messages as they are."""
    invoking = replace(state, phase="invoking", stop=None, call_usage=None)
    options = StreamOptions(thinking=config.thinking, max_output_tokens=config.max_output_tokens)
    conversation = RunMessages.of(state.messages).outgoing.conversation(config)
    invoke = InvokeModelEffect(conversation, options)
    return Transition(invoking, (invoke, PublishEffect(SnapshotEvent(invoking))))


def replace_history(config: AgentConfig, state: RunSnapshot, history: Sequence[Turn]) -> Transition:
    """Call the model with *history* in the place of the finished turns; an open turn stays."""
    messages, open_turn = RunMessages.of(history), RunMessages.of(state.messages).open
    if open_turn is not None:
        messages = messages.with_open(open_turn)
    return call_model(config, replace(state, messages=messages))


def continue_run(config: AgentConfig, state: RunSnapshot) -> Transition:
    """Let the oldest queued prompt in, if one waits, with the blank answer to fill, and call the model."""
    if not state.queued:
        return call_model(config, state)
    messages = RunMessages.of(state.messages).with_turns(state.queued[0]).with_open(Draft())
    entered = replace(state, queued=state.queued[1:], messages=messages, pending=(), error=None)
    return call_model(config, entered)


def settle(config: AgentConfig, state: RunSnapshot) -> Transition:
    """End the run well; a call that is still open was cut off with the reply, and its result says so."""
    messages = RunMessages.of(state.messages)
    is_blank = isinstance(messages.open, Draft) and messages.open.is_blank
    effects: tuple[Effect, ...] = ()
    if not is_blank:
        note = f"not run: the reply ended early ({state.stop}), so this call may be incomplete"
        messages, effects = _close(messages, state.pending, note)
    done = replace(state, phase="settled", messages=messages, pending=())
    return _finish(config, done, (*effects, PersistEffect(done), PublishEffect(SettledEvent(done))))


def fault(config: AgentConfig, state: RunSnapshot, error: RunError) -> Transition:
    """End the run with *error*; the result of a call that is still open says so."""
    note = f"no result: the run ended before this call did ({error.kind})"
    messages, effects = _close(RunMessages.of(state.messages), state.pending, note)
    stop = _STOP_OF.get(error.kind, state.stop)
    done = replace(state, phase="faulted", messages=messages, pending=(), error=error, stop=stop)
    return _finish(config, done, (*effects, PersistEffect(done), PublishEffect(FaultedEvent(error, done))))


def _finish(config: AgentConfig, done: RunSnapshot, effects: tuple[Effect, ...]) -> Transition:
    """Return the end of a run, or the start on the next queued prompt, which survives a fault before it."""
    if not done.queued:
        return Transition(done, effects)
    following = continue_run(config, done)
    return Transition(following.state, (*effects, *following.effects))


def _close(
    messages: RunMessages, pending: tuple[PendingTool, ...], note: str
) -> tuple[RunMessages, tuple[Effect, ...]]:
    """Finish the open turn, and answer with *note* each call that has no result."""
    answered: tuple[Block, ...] = ()
    unanswered = [(tool.id, tool.name) for tool in pending if tool.stage != "done"]
    if isinstance(messages.open, Draft):
        if messages.open.is_blank:
            return messages.with_turns(()), ()
        turn = messages.open.seal()
        messages = messages.with_turns((turn,))
        unanswered = [(call.id, call.name) for call in tool_calls_of(turn)]
    elif messages.open is not None:
        answered = messages.open.blocks
    notes = tuple(ToolResultBlock(call_id, note, is_error=True) for call_id, _ in unanswered)
    if answered or notes:
        messages = messages.with_turns((ToolTurn((*answered, *notes)),))
    finished = (ToolFinishedEvent(each, name, ToolOutcome(each, note, True)) for each, name in unanswered)
    return messages, tuple(map(PublishEffect, finished))
