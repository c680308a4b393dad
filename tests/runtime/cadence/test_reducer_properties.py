"""Whatever is fed to the state machine, in whatever order: nothing is lost, and history stays sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise

from hypothesis import given
from hypothesis import strategies as st

from properties import cases
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    Reply,
    StopEmission,
    TextBlock,
    TextEmission,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    ToolTurn,
    Turn,
    Usage,
    UsageEmission,
    UserTurn,
)
from sidecar.runtime.cadence import Transition, cadence, initial_snapshot
from sidecar.runtime.contract import (
    AbortSignalInput,
    AgentConfig,
    CompactedSignal,
    EmissionSignal,
    FaultSignal,
    InvokeModelEffect,
    RunError,
    RunSnapshot,
    Signal,
    StreamEndSignal,
    SubmitSignal,
    ToolOutcome,
    ToolSettledSignal,
)
from sidecar.runtime.wire import is_blank, pair_results

CONFIG = AgentConfig(model="m")
STEP = cadence(CONFIG)
START = initial_snapshot(session_id="s", model="m")

IDS = st.sampled_from(["a", "b", "a_2", ""])
STOPS = st.sampled_from(["complete", "tool_calls", "max_output", "refusal", "aborted", "error"])
BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, st.sampled_from(["", "text"])),
    st.builds(ToolCallBlock, IDS, st.just("ls"), st.sampled_from([{}, "plain"])),
)
REPLIES = st.one_of(
    st.builds(AssistantTurn, st.lists(BLOCKS, max_size=3).map(tuple)),
    st.builds(Reply, st.just("m"), st.lists(BLOCKS, max_size=3).map(tuple), st.just(Usage(3, 2)), STOPS),
)
EMISSIONS: st.SearchStrategy[Emission] = st.one_of(
    st.builds(TextEmission, st.sampled_from(["", "x"])),
    st.builds(ThinkingEmission, st.just("hm")),
    st.builds(ToolCallStartEmission, IDS, st.just("ls")),
    st.builds(ToolCallDeltaEmission, IDS, st.sampled_from(['{"a"', ":1}"])),
    st.builds(UsageEmission, st.builds(Usage, st.integers(0, 9), st.integers(0, 9))),
    st.builds(StopEmission, STOPS),
    st.builds(DoneEmission, REPLIES, st.none()),
    st.just(ErrorEmission(GatewayError("http", "busy"))),
)
PROMPTS: st.SearchStrategy[Signal] = st.just(SubmitSignal(()))
QUIET: st.SearchStrategy[Signal] = st.one_of(
    st.builds(EmissionSignal, EMISSIONS),
    st.just(StreamEndSignal()),
    st.builds(lambda each: ToolSettledSignal(each, ToolOutcome(each, "out", False)), IDS),
)
ROUGH: st.SearchStrategy[Signal] = st.one_of(
    st.just(AbortSignalInput()), st.just(FaultSignal(RunError("tool_failed", "boom")))
)
SIGNALS = st.lists(st.one_of(PROMPTS, QUIET, QUIET, QUIET, ROUGH), max_size=25).map(
    lambda signals: number_prompts(signals)
)
CUTS: st.SearchStrategy[Signal] = st.builds(
    CompactedSignal, st.just(UserTurn((TextBlock("sum"),))), st.integers(-2, 6)
)


def number_prompts(signals: Sequence[Signal]) -> list[Signal]:
    """Give every submit a prompt of its own: p0, p1, ..."""
    numbers = count()
    return [
        SubmitSignal((UserTurn((TextBlock(f"p{next(numbers)}"),)),)) if isinstance(s, SubmitSignal) else s
        for s in signals
    ]


def run(signals: Sequence[Signal], state: RunSnapshot = START) -> list[Transition]:
    transitions = [Transition(state)]
    for signal in signals:
        transitions.append(STEP(transitions[-1].state, signal))
    return transitions


@given(SIGNALS)
def test_whatever_is_fed_nothing_is_lost_and_history_at_rest_is_sound(signals: list[Signal]) -> None:
    transitions = run(signals)
    for signal, (before, after) in zip(signals, pairwise(transitions), strict=True):
        check_step(signal, before, after)
    state = transitions[-1].state
    submitted = [signal.input[0] for signal in signals if isinstance(signal, SubmitSignal)]
    entered = [turn for turn in state.messages if isinstance(turn, UserTurn)]
    assert entered + [turn for waiting in state.queued for turn in waiting] == submitted
    for turn in state.messages:
        assert isinstance(turn, ToolTurn) == any(block.kind == "tool_result" for block in turn.blocks)


def check_step(signal: Signal, before: Transition, after: Transition) -> None:
    state = after.state
    if state.phase in ("settled", "faulted"):
        assert_sound(state.messages)
    assert not state.queued or state.phase not in ("idle", "settled", "faulted"), "no prompt waits at rest"
    asks = any(isinstance(effect, InvokeModelEffect) for effect in after.effects)
    begins_to_wait = state.phase == "invoking" and before.state.phase != "invoking"
    assert begins_to_wait <= asks <= (state.phase == "invoking")
    if state.call_usage is not None:
        assert state.usage_total.input_tokens >= state.call_usage.input_tokens
        assert state.usage_total.output_tokens >= state.call_usage.output_tokens
    is_done = isinstance(signal, EmissionSignal) and isinstance(signal.emission, DoneEmission)
    if not after.effects and state == before.state and not is_done:
        assert state is before.state, "no change is the very same state"


def assert_sound(messages: Sequence[Turn]) -> None:
    segment: list[Turn] = []
    for turn in (*messages, AssistantTurn(())):
        if isinstance(turn, AssistantTurn):
            assert pair_results(segment) == tuple(segment)
            segment = []
        segment.append(turn)
    assert not any(is_blank(turn) for turn in messages[:-1])


@given(st.lists(st.one_of(SIGNALS, CUTS.map(lambda cut: [cut])), max_size=4))
def test_what_is_sent_is_always_sound_also_after_compactions(parts: list[list[Signal]]) -> None:
    signals = number_prompts([signal for part in parts for signal in part])
    for transition in run(signals):
        asked = [effect for effect in transition.effects if isinstance(effect, InvokeModelEffect)]
        assert len(asked) <= 1
        for effect in asked:
            assert_sound(effect.conversation.turns)
            assert not effect.conversation.turns or isinstance(effect.conversation.turns[0], UserTurn)


@given(SIGNALS, st.data())
def test_a_state_is_never_changed_by_what_follows(signals: list[Signal], data: st.DataObject) -> None:
    states = [transition.state for transition in run(signals)]
    frozen = [replace(state, messages=tuple(state.messages)) for state in states]
    branch = data.draw(st.sampled_from(states))
    run(data.draw(SIGNALS), branch)
    assert states == frozen


@cases(50)
@given(SIGNALS)
def test_a_plain_tuple_serves_as_well_at_rest(signals: list[Signal]) -> None:
    plain = state = START
    for signal in signals:
        state = STEP(state, signal).state
        plain = STEP(plain, signal).state
        if plain.phase in ("settled", "faulted"):
            plain = replace(plain, messages=tuple(plain.messages))
        assert plain == state
