"""The reducer of a run: a state machine as data, three tables that answer every pair of phase and signal.

A run goes from a prompt to settlement: it calls the model, runs the tools that the answer calls, calls the
model again with their results, and settles when an answer calls none. Each step is a pure function of the
state and one signal; its effects are requests that the host carries out. *waits* queues a prompt, *> phase*
names the next phase, a dot changes nothing.

                   submit        emission   stream_end             tool_settled       compacted   abort
    idle           > invoking    > stream.  fault                  fault              > invoking  .
    invoking       waits         > stream.  > settled/dispatching  fault              > invoking  > faulted
    compacting     waits         > stream.  > settled/dispatching  fault              > invoking  > faulted
    streaming      waits         > stream.  > settled/dispatching  fault              .           > faulted
    dispatching    waits         fault      fault                  > invoking (last)  .           > faulted
    settled        > invoking    .          .                      .                  > invoking  .
    faulted        > invoking    .          .                      .                  > invoking  .

A fault signal faults from everywhere. A run that ends while a prompt waits starts on that prompt at once, so
a host drops the rest of a stream or a round once the run has ended. For example: submit (invoking), a text
emission (streaming), stream end (settled).

Invariants, each tested for every pair: the three tables are disjoint and cover all pairs; no step raises,
awaits, reads a clock or makes an id; a pair in ``IGNORED`` gives the very same state back. A step costs no
more than its signal, however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Never, TypeAlias, cast

from sidecar._internal.values import replace
from sidecar.runtime.cadence import steps
from sidecar.runtime.cadence.steps import StepFn, Transition, fault
from sidecar.runtime.contract import AgentConfig, RunError, RunPhase, RunSnapshot, Signal

Pair: TypeAlias = tuple[RunPhase, str]
"""A phase and the kind of a signal."""

Step: TypeAlias = Callable[[AgentConfig, RunSnapshot, Never], Transition]
"""One row of the table. Its third argument is the signal of the row's kind."""

_AT_REST: Final[tuple[RunPhase, ...]] = ("idle", "settled", "faulted")
_ENDED: Final[tuple[RunPhase, ...]] = ("settled", "faulted")
_BUSY: Final[tuple[RunPhase, ...]] = ("invoking", "compacting", "streaming", "dispatching")
_WAITING: Final[tuple[RunPhase, ...]] = ("invoking", "compacting")


def _rows(step: Step, kind: str, *phases: RunPhase) -> dict[Pair, Step]:
    return {(phase, kind): step for phase in phases}


TRANSITIONS: Final[Mapping[Pair, Step]] = MappingProxyType(
    {
        **_rows(steps.on_submit, "submit", *_AT_REST),
        **_rows(steps.on_submit_while_busy, "submit", *_BUSY),
        **_rows(steps.on_emission, "emission", "idle", *_WAITING, "streaming"),
        **_rows(steps.on_stream_end, "stream_end", *_WAITING, "streaming"),
        **_rows(steps.on_tool_settled, "tool_settled", "idle", *_BUSY),
        **_rows(steps.on_compacted, "compacted", *_AT_REST, *_WAITING),
        **_rows(steps.on_abort, "abort", *_BUSY),
        **_rows(steps.on_fault, "fault", *_AT_REST, *_BUSY),
    }
)
"""The step of each signal in each phase where it changes something."""

FAULTING: Final[Mapping[Pair, str]] = MappingProxyType(
    {
        ("idle", "stream_end"): "a model stream ended before any prompt",
        ("dispatching", "stream_end"): "a model stream ended while tools run",
        ("dispatching", "emission"): "the model sent more while tools run",
    }
)
"""Signals that only a broken host sends: the run faults with ``invalid_state`` and this message."""

IGNORED: Final[frozenset[Pair]] = frozenset(
    {
        ("idle", "abort"),
        ("streaming", "compacted"),
        ("dispatching", "compacted"),
        *((phase, kind) for phase in _ENDED for kind in ("emission", "stream_end", "tool_settled", "abort")),
    }
)
"""Signals that come too late or change nothing: the same state back and no effects."""


def cadence(config: AgentConfig) -> StepFn:
    """Return the step function of a run set up by *config*: pure, total, never mutating.

    >>> from sidecar.llmgateway.contract import TextBlock, UserTurn
    >>> from sidecar.runtime.cadence.steps import initial_snapshot
    >>> from sidecar.runtime.contract import SubmitSignal
    >>> hi = SubmitSignal((UserTurn((TextBlock("hi"),)),))
    >>> transition = cadence(AgentConfig(model="m"))(initial_snapshot(session_id="s", model="m"), hi)
    >>> transition.state.phase, [effect.kind for effect in transition.effects]
    ('invoking', ['invoke_model', 'publish'])
    """

    def step(state: RunSnapshot, signal: Signal) -> Transition:
        pair = (state.phase, signal.kind)
        if pair in IGNORED:
            return Transition(state)
        if pair in FAULTING:
            return fault(config, state, RunError("invalid_state", FAULTING[pair]))
        # The row was found by the signal's kind, so the signal is what the row's step takes.
        return TRANSITIONS[pair](config, state, cast(Never, signal))

    return step


def start_tools(state: RunSnapshot, call_ids: frozenset[str]) -> RunSnapshot:
    """Return *state* with the queued tools of *call_ids* running; *state* itself when none is queued.

    The host calls this when it starts tools; the contract has no signal for it.
    """
    if not any(tool.stage == "queued" and tool.id in call_ids for tool in state.pending):
        return state
    pending = (
        replace(tool, stage="running") if tool.stage == "queued" and tool.id in call_ids else tool
        for tool in state.pending
    )
    return replace(state, pending=tuple(pending))
