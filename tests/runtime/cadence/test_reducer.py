"""The state machine of a run: its tables, and the decisions that go beyond them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import get_args

import pytest

from sidecar.llmgateway.contract import (
    AssistantTurn,
    Conversation,
    DoneEmission,
    Emission,
    ErrorEmission,
    GatewayError,
    GatewayErrorKind,
    Reply,
    StopEmission,
    StopReason,
    StreamOptions,
    TextBlock,
    TextEmission,
    ThinkingBlock,
    ThinkingEmission,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    ToolResultBlock,
    ToolTurn,
    Turn,
    Usage,
    UsageEmission,
)
from sidecar.runtime.cadence import (
    FAULTING,
    IGNORED,
    TRANSITIONS,
    Transition,
    cadence,
    initial_snapshot,
    start_tools,
)
from sidecar.runtime.contract import (
    AbortSignalInput,
    AgentConfig,
    CompactedSignal,
    CompactionPolicy,
    EmissionSignal,
    FaultedEvent,
    FaultSignal,
    InvokeModelEffect,
    PendingTool,
    PersistEffect,
    PublishEffect,
    RunError,
    RunErrorKind,
    RunPhase,
    RunSnapshot,
    RunToolEffect,
    SettledEvent,
    Signal,
    SnapshotEvent,
    StreamEndSignal,
    SubmitSignal,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCall,
    ToolFinishedEvent,
    ToolOutcome,
    ToolSettledSignal,
    ToolStartedEvent,
)
from turns import assistant, calls, user

CONFIG = AgentConfig(model="m", max_output_tokens=100, thinking="low", compaction=CompactionPolicy(0.5, 2))
STEP = cadence(CONFIG)
OPTIONS = StreamOptions(thinking="low", max_output_tokens=100)
BLANK = AssistantTurn(())
END = StreamEndSignal()
ABORT = AbortSignalInput()
BOOM = RunError("tool_failed", "boom")


def submit(text: str) -> SubmitSignal:
    return SubmitSignal((user(text),))


def emit(emission: Emission) -> EmissionSignal:
    return EmissionSignal(emission)


def say(delta: str) -> EmissionSignal:
    return emit(TextEmission(delta))


def call(call_id: str, args: str = "", name: str = "ls") -> tuple[Signal, Signal]:
    return emit(ToolCallStartEmission(call_id, name)), emit(ToolCallDeltaEmission(call_id, args))


def result(call_id: str, output: str = "out", *, is_error: bool = False) -> ToolSettledSignal:
    return ToolSettledSignal(call_id, ToolOutcome(call_id, output, is_error))


def answered(*ids: str) -> ToolTurn:
    return ToolTurn(tuple(ToolResultBlock(each, "out", False) for each in ids))


def note(error_kind: str) -> str:
    return f"no result: the run ended before this call did ({error_kind})"


def play(*signals: Signal, state: RunSnapshot | None = None) -> Transition:
    """Feed *signals* from idle, or from *state*; return the last transition."""
    transition = Transition(state or initial_snapshot(session_id="s", model="m"))
    for signal in signals:
        transition = STEP(transition.state, signal)
    return transition


def state(*signals: Signal) -> RunSnapshot:
    return play(*signals).state


HI = user("hi")
PROMPT = submit("hi")
ASKS = "invoke_model snapshot"
FAULTED = "persist faulted"
SETTLED = "persist settled"

TO: dict[RunPhase, Sequence[Signal]] = {
    "idle": (),
    "invoking": (PROMPT,),
    "streaming": (PROMPT, say("He")),
    "dispatching": (PROMPT, *call("a"), *call("b"), END),
    "settled": (PROMPT, say("Hello"), END),
    "faulted": (PROMPT, FaultSignal(BOOM)),
}
"""How to get into each phase that the machine sets."""

ANY: dict[str, Signal] = {
    "submit": submit("more"),
    "emission": say("x"),
    "stream_end": END,
    "tool_settled": result("a"),
    "compacted": CompactedSignal(user("summary"), 0),
    "abort": ABORT,
    "fault": FaultSignal(BOOM),
}
"""One signal of each kind."""


def test_the_tables_answer_every_pair_exactly_once() -> None:
    pairs = {(phase, kind) for phase in get_args(RunPhase) for kind in ANY}
    assert {signal.kind for signal in get_args(Signal)} == set(ANY)
    assert sorted([*TRANSITIONS, *IGNORED, *FAULTING]) == sorted(pairs)


@pytest.mark.parametrize("pair", sorted(IGNORED))
def test_an_ignored_signal_gives_the_same_state_back(pair: tuple[RunPhase, str]) -> None:
    before = state(*TO[pair[0]])
    after = STEP(before, ANY[pair[1]])
    assert after.state is before
    assert after.effects == ()


@pytest.mark.parametrize("pair", sorted(FAULTING))
def test_what_only_a_broken_host_sends_faults(pair: tuple[RunPhase, str]) -> None:
    before = state(*TO[pair[0]])
    error = RunError("invalid_state", FAULTING[pair])
    assert STEP(before, ANY[pair[1]]) == STEP(before, FaultSignal(error))


@pytest.mark.parametrize("phase", sorted(TO))
@pytest.mark.parametrize("kind", sorted(ANY))
def test_a_step_never_raises_and_never_touches_its_input(phase: RunPhase, kind: str) -> None:
    before = state(*TO[phase])
    was = {spec.name: getattr(before, spec.name) for spec in fields(before)}
    messages = tuple(before.messages)
    STEP(before, ANY[kind])
    assert all(getattr(before, name) is old for name, old in was.items())
    assert tuple(before.messages) == messages


def check(signals: Sequence[Signal], *, phase: RunPhase, messages: Sequence[Turn], effects: str) -> None:
    transition = play(*signals)
    assert transition.state.phase == phase
    assert transition.state.messages == tuple(messages)
    assert effects_of(transition) == effects


def effects_of(transition: Transition) -> str:
    """Return the effects by their kind; a publish by the kind of its event."""
    kinds = (e.event.kind if isinstance(e, PublishEffect) else e.kind for e in transition.effects)
    return " ".join(kinds)


STEPS = {
    "submit seeds a blank answer": ([PROMPT], "invoking", [HI, BLANK], ASKS),
    "submit takes any turns": (
        [SubmitSignal((user("a"), assistant("b"), user("c")))],
        "invoking",
        [user("a"), assistant("b"), user("c"), BLANK],
        ASKS,
    ),
    "submit goes on from settled": (
        [*TO["settled"], submit("more")],
        "invoking",
        [HI, assistant("Hello"), user("more"), BLANK],
        ASKS,
    ),
    "submit goes on from faulted": (
        [*TO["faulted"], submit("more")],
        "invoking",
        [HI, user("more"), BLANK],
        ASKS,
    ),
    "text": ([PROMPT, say("He"), say("llo")], "streaming", [HI, assistant("Hello")], "text_delta"),
    "thinking": (
        [PROMPT, emit(ThinkingEmission("hm"))],
        "streaming",
        [HI, AssistantTurn((ThinkingBlock("hm"),))],
        "thinking_delta",
    ),
    "a call starts": (
        [PROMPT, emit(ToolCallStartEmission("a", "ls"))],
        "streaming",
        [HI, AssistantTurn((ToolCallBlock("a", "ls", ""),))],
        "tool_started",
    ),
    "argument text tells nobody": (
        [PROMPT, *call("a", '{"x"')],
        "streaming",
        [HI, AssistantTurn((ToolCallBlock("a", "ls", '{"x"'),))],
        "",
    ),
    "done replaces": (
        [PROMPT, say("x"), emit(DoneEmission(assistant("Hello")))],
        "streaming",
        [HI, assistant("Hello")],
        "",
    ),
    "stop": ([PROMPT, emit(StopEmission("complete"))], "streaming", [HI, BLANK], ""),
    "an error emission faults": (
        [PROMPT, say("x"), emit(ErrorEmission(GatewayError("http", "busy")))],
        "faulted",
        [HI, assistant("x")],
        FAULTED,
    ),
    "settle": ([*TO["streaming"], END], "settled", [HI, assistant("He")], SETTLED),
    "calls are dispatched": (
        TO["dispatching"],
        "dispatching",
        [HI, calls("a", "b")],
        "snapshot run_tool run_tool",
    ),
    "one outcome, another open": (
        [*TO["dispatching"], result("b")],
        "dispatching",
        [HI, calls("a", "b"), answered("b")],
        "tool_finished snapshot",
    ),
    "the last outcome: no blank is seeded": (
        [*TO["dispatching"], result("b"), result("a")],
        "invoking",
        [HI, calls("a", "b"), answered("b", "a")],
        "tool_finished invoke_model snapshot",
    ),
    "an outcome nobody asked for": (
        [*TO["dispatching"], result("nobody")],
        "faulted",
        [HI, calls("a", "b"), ToolTurn(tuple(ToolResultBlock(i, note("invalid_state"), True) for i in "ab"))],
        "tool_finished tool_finished persist faulted",
    ),
    "abort while streaming": ([*TO["streaming"], ABORT], "faulted", [HI, assistant("He")], FAULTED),
    "abort before a word": ([PROMPT, ABORT], "faulted", [HI], FAULTED),
    "a late fault": ([*TO["settled"], FaultSignal(BOOM)], "faulted", [HI, assistant("Hello")], FAULTED),
    "from idle: stream_end": ([END], "faulted", [], FAULTED),
    "from idle: text": ([say("x")], "streaming", [assistant("x")], "text_delta"),
    "from idle: tool_settled": ([result("a")], "faulted", [], FAULTED),
    "from idle: compacted": ([CompactedSignal(user("sum"), 0)], "invoking", [user("sum")], ASKS),
    "from idle: fault": ([FaultSignal(BOOM)], "faulted", [], FAULTED),
    "idle: abort does nothing": ([ABORT], "idle", [], ""),
    "an empty answer": ([PROMPT, END], "settled", [HI, BLANK], SETTLED),
    "an empty stream after a tool round": (
        [PROMPT, *call("a"), END, result("a"), END],
        "faulted",
        [HI, calls("a"), answered("a")],
        FAULTED,
    ),
    "an empty answer after a tool round, given with a stop": (
        [PROMPT, *call("a"), END, result("a"), emit(StopEmission("complete")), END],
        "settled",
        [HI, calls("a"), answered("a"), BLANK],
        SETTLED,
    ),
}


@pytest.mark.parametrize(("signals", "phase", "messages", "effects"), STEPS.values(), ids=STEPS)
def test_transitions(
    signals: Sequence[Signal], phase: RunPhase, messages: Sequence[Turn], effects: str
) -> None:
    check(signals, phase=phase, messages=messages, effects=effects)


def test_events_carry_what_happened() -> None:
    assert play(PROMPT, say("x")).effects == (PublishEffect(TextDeltaEvent("x")),)
    assert play(emit(ThinkingEmission("x"))).effects == (PublishEffect(ThinkingDeltaEvent("x")),)
    assert play(call("a")[0]).effects == (PublishEffect(ToolStartedEvent("a", "ls")),)
    outcome = ToolOutcome("a", "out", False)
    assert play(*TO["dispatching"], result("a")).effects[0] == PublishEffect(
        ToolFinishedEvent("a", "ls", outcome)
    )


def test_the_end_is_published_with_the_last_state_and_no_snapshot_event() -> None:
    settled = play(*TO["settled"])
    assert settled.effects == (PersistEffect(settled.state), PublishEffect(SettledEvent(settled.state)))
    faulted = play(*TO["faulted"])
    assert faulted.effects == (PersistEffect(faulted.state), PublishEffect(FaultedEvent(BOOM, faulted.state)))
    assert faulted.state.error is BOOM


def test_the_model_is_asked_with_the_options_of_the_config() -> None:
    transition = play(PROMPT)
    asked, told = transition.effects
    assert asked == InvokeModelEffect(Conversation((HI,)), OPTIONS)
    assert told == PublishEffect(SnapshotEvent(transition.state))


def test_calls_are_dispatched_in_their_order_with_parsed_arguments() -> None:
    transition = play(PROMPT, *call("a", '{"x": 1}'), *call("b", "", "rm"), END)
    assert transition.effects[1:] == (
        RunToolEffect(ToolCall("a", "ls", {"x": 1})),
        RunToolEffect(ToolCall("b", "rm", {})),
    )


def test_a_pending_tool_is_queued_then_running_then_done() -> None:
    queued = state(*TO["dispatching"])
    assert queued.pending == (PendingTool("a", "ls", "queued"), PendingTool("b", "ls", "queued"))
    running = start_tools(queued, frozenset("a"))
    assert [tool.stage for tool in running.pending] == ["running", "queued"]
    assert start_tools(running, frozenset("a")) is running
    done = STEP(running, result("a")).state
    assert [tool.stage for tool in done.pending] == ["done", "queued"]
    assert start_tools(done, frozenset("a")) is done
    over = STEP(done, result("b")).state
    assert [tool.stage for tool in over.pending] == ["done", "done"]
    assert play(say("x"), END, state=over).state.pending == ()


def test_a_new_prompt_clears_error_pending_and_stop() -> None:
    again = state(*TO["dispatching"], ABORT, submit("more"))
    assert (again.error, again.pending, again.stop, again.call_usage) == (None, (), None, None)


def test_a_result_is_filed_under_the_call_it_answers() -> None:
    wrong = ToolSettledSignal("a", ToolOutcome("other", "out", False))
    transition = play(PROMPT, *call("a"), END, wrong)
    assert transition.state.messages[-1] == answered("a")
    assert transition.effects[0] == PublishEffect(
        ToolFinishedEvent("a", "ls", ToolOutcome("a", "out", False))
    )


def test_a_second_outcome_of_a_call_changes_nothing() -> None:
    once = state(*TO["dispatching"], result("a", "first"))
    assert STEP(once, result("a", "second")) == Transition(once)
    over = state(*TO["dispatching"], result("a"), result("b"))
    assert STEP(over, result("a", "late")).state is over


def test_calls_under_one_id_are_kept_apart() -> None:
    dispatched = play(PROMPT, *call("a"), *call("a"), END)
    assert [effect.call.id for effect in dispatched.effects if isinstance(effect, RunToolEffect)] == [
        "a",
        "a_2",
    ]
    over = play(result("a_2"), result("a"), state=dispatched.state).state
    assert over.messages == (HI, calls("a", "a_2"), answered("a_2", "a"))


USAGE = Usage(8, 5)


USAGES = {
    "a usage emission": ([UsageEmission(USAGE)], USAGE),
    "the same figure twice": ([UsageEmission(USAGE), UsageEmission(USAGE)], USAGE),
    "cumulative figures": ([UsageEmission(Usage(8, 1)), UsageEmission(USAGE)], USAGE),
    "usage and a reply": ([UsageEmission(USAGE), DoneEmission(Reply("m", (), USAGE, "complete"))], USAGE),
    "zeros are no figure": (
        [UsageEmission(USAGE), DoneEmission(Reply("m", (), Usage(0, 0), "complete"))],
        USAGE,
    ),
    "a reply alone": ([DoneEmission(Reply("m", (), USAGE, "complete"))], USAGE),
    "a turn with usage": ([DoneEmission(assistant("x"), USAGE)], USAGE),
    "a turn without usage": ([UsageEmission(USAGE), DoneEmission(assistant("x"))], USAGE),
    "the done emission's own wins": ([DoneEmission(Reply("m", (), Usage(1, 1), "complete"), USAGE)], USAGE),
    "a figure may go down": (
        [UsageEmission(Usage(9, 9, 9, 9)), UsageEmission(Usage(8, 5, 4, None))],
        Usage(8, 5, 4, None),
    ),
}


@pytest.mark.parametrize(("emissions", "total"), USAGES.values(), ids=USAGES)
def test_usage_counts_once_a_call(emissions: Sequence[Emission], total: Usage) -> None:
    once = state(PROMPT, *map(emit, emissions))
    assert (once.usage_total, once.call_usage) == (total, total)
    twice = play(END, submit("more"), *map(emit, emissions), END, state=once).state
    assert twice.usage_total == Usage(
        2 * total.input_tokens,
        2 * total.output_tokens,
        2 * total.cache_read_tokens if total.cache_read_tokens else None,
    )
    assert twice.call_usage == total


STOPS = {
    "nothing said about it": ([], "complete"),
    "complete": ([StopEmission("complete")], "complete"),
    "tool_calls without calls": ([StopEmission("tool_calls")], "complete"),
    "cut at the limit": ([StopEmission("max_output")], "max_output"),
    "refused": ([StopEmission("refusal")], "refusal"),
    "a reply": ([DoneEmission(Reply("m", (TextBlock("x"),), USAGE, "max_output"))], "max_output"),
    "a turn says nothing about it": (
        [StopEmission("max_output"), DoneEmission(assistant("x"))],
        "max_output",
    ),
}


@pytest.mark.parametrize(("emissions", "stop"), STOPS.values(), ids=STOPS)
def test_a_settled_run_shows_why_it_stopped(emissions: Sequence[Emission], stop: StopReason) -> None:
    transition = play(PROMPT, say("x"), *map(emit, emissions), END)
    assert (transition.state.phase, transition.state.stop) == ("settled", stop)
    assert state(PROMPT, say("x")).stop is None


@pytest.mark.parametrize("stop", ["max_output", "refusal"])
def test_calls_of_a_cut_reply_are_answered_and_not_run(stop: StopReason) -> None:
    cut = f"not run: the reply ended early ({stop}), so this call may be incomplete"
    broken = AssistantTurn((ToolCallBlock("a", "ls", {}), ToolCallBlock("b", "ls", {"__unparsed": '{"x'})))
    check(
        [PROMPT, *call("a"), *call("b", '{"x'), emit(StopEmission(stop)), END],
        phase="settled",
        messages=[HI, broken, ToolTurn(tuple(ToolResultBlock(i, cut, True) for i in "ab"))],
        effects="tool_finished tool_finished persist settled",
    )


@pytest.mark.parametrize(("stop", "kind"), [("error", "model_failed"), ("aborted", "aborted")])
def test_a_failed_stop_faults(stop: StopReason, kind: str) -> None:
    faulted = state(PROMPT, *call("a"), emit(StopEmission(stop)), END)
    assert faulted.error is not None
    assert (faulted.phase, faulted.error.kind, faulted.stop) == ("faulted", kind, stop)
    assert faulted.messages[-1] == ToolTurn((ToolResultBlock("a", note(kind), True),))


@pytest.mark.parametrize("kind", get_args(GatewayErrorKind))
def test_an_error_emission_names_its_cause(kind: GatewayErrorKind) -> None:
    cause = GatewayError(kind, "why")
    faulted = state(PROMPT, emit(ErrorEmission(cause)))
    expected: RunErrorKind = "aborted" if kind == "aborted" else "model_failed"
    assert faulted.error == RunError(expected, "why", cause)
    assert faulted.stop == ("aborted" if kind == "aborted" else "error")


ABORTED = {
    "mid-arguments": (
        [*call("a", '{"x')],
        [AssistantTurn((ToolCallBlock("a", "ls", {"__unparsed": '{"x'}),)), ["a"]],
    ),
    "after arguments": (
        [say("I"), *call("a", "{}"), *call("b")],
        [AssistantTurn((TextBlock("I"), *calls("a", "b").blocks)), ["a", "b"]],
    ),
    "before any outcome": ([*call("a"), *call("b"), END], [calls("a", "b"), ["a", "b"]]),
}


@pytest.mark.parametrize(("signals", "tail"), ABORTED.values(), ids=ABORTED)
def test_an_abort_leaves_no_raw_input_and_no_orphan(signals: Sequence[Signal], tail: list[object]) -> None:
    turn, ids = tail
    aborted = play(PROMPT, *signals, ABORT)
    assert isinstance(ids, list)
    notes = ToolTurn(tuple(ToolResultBlock(each, note("aborted"), True) for each in ids))
    assert aborted.state.messages == (HI, turn, notes)
    assert aborted.state.pending == ()
    finished = [
        effect.event.id for effect in _published(aborted) if isinstance(effect.event, ToolFinishedEvent)
    ]
    assert finished == ids


def _published(transition: Transition) -> list[PublishEffect]:
    return [effect for effect in transition.effects if isinstance(effect, PublishEffect)]


def test_an_abort_keeps_the_outcomes_there_are() -> None:
    aborted = state(*TO["dispatching"], result("b"), ABORT)
    notes = ToolTurn((*answered("b").blocks, ToolResultBlock("a", note("aborted"), True)))
    assert aborted.messages == (HI, calls("a", "b"), notes)


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param([PROMPT], id="just submitted"),
        pytest.param([PROMPT, END, submit("more")], id="after an empty answer"),
        pytest.param([PROMPT, ABORT, submit("more")], id="after an abort"),
        pytest.param([PROMPT, END, CompactedSignal(user("sum"), 1)], id="after a compaction"),
    ],
)
def test_a_blank_answer_is_never_sent(signals: Sequence[Signal]) -> None:
    sent = [e.conversation for e in play(*signals).effects if isinstance(e, InvokeModelEffect)]
    assert len(sent) == 1
    assert BLANK not in sent[0].turns


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        pytest.param(1, ["b", "c"], id="the planned cut"),
        pytest.param(3, [], id="everything"),
        pytest.param(0, ["a", "b", "c"], id="nothing"),
        pytest.param(-1, ["a", "b", "c"], id="never counted from the end"),
    ],
)
def test_the_cut_that_was_planned_is_the_cut(cut: int, kept: Sequence[str]) -> None:
    before = state(SubmitSignal(tuple(map(user, "abc"))))
    transition = STEP(before, CompactedSignal(user("sum"), cut))
    assert transition.state.messages == (user("sum"), *map(user, kept), BLANK)
    assert transition.effects == (
        InvokeModelEffect(Conversation((user("sum"), *map(user, kept))), OPTIONS),
        PublishEffect(SnapshotEvent(transition.state)),
    )


def test_a_cut_between_call_and_result_never_reaches_the_provider() -> None:
    before = state(*TO["dispatching"], result("a"), result("b"))
    asked = STEP(before, CompactedSignal(user("sum"), 2)).effects[0]
    assert asked == InvokeModelEffect(Conversation((user("sum"),)), OPTIONS)


class TestSteering:
    """Submits while a run is busy: kept, let in one by one at safe steps, answered in order."""

    def test_a_prompt_waits_while_the_model_speaks(self) -> None:
        transition = play(*TO["streaming"], submit("second"))
        assert transition.state.queued == ((user("second"),),)
        assert transition.state.messages == (HI, assistant("He"))
        assert transition.effects == (PublishEffect(SnapshotEvent(transition.state)),)

    def test_each_question_keeps_its_answer(self) -> None:
        first = play(*TO["streaming"], submit("second"), END)
        assert effects_of(first) == "persist settled invoke_model snapshot"
        settled = _published(first)[0].event
        assert isinstance(settled, SettledEvent)
        assert (settled.snapshot.phase, settled.snapshot.messages) == ("settled", (HI, assistant("He")))
        last = play(say("two"), END, state=first.state).state
        assert last.messages == (HI, assistant("He"), user("second"), assistant("two"))
        assert (last.phase, last.queued) == ("settled", ())

    @pytest.mark.parametrize("phase", ["invoking", "streaming", "dispatching"])
    def test_prompts_are_let_in_one_by_one_in_order(self, phase: RunPhase) -> None:
        waiting = play(*TO[phase], submit("one"), submit("two")).state
        assert waiting.queued == ((user("one"),), (user("two"),))
        moving: Sequence[Signal] = (result("a"), result("b")) if phase == "dispatching" else (END,)
        entered = play(*moving, state=waiting).state
        assert (entered.messages[-2:], entered.queued) == ((user("one"), BLANK), ((user("two"),),))
        assert play(say("1"), END, say("2"), END, state=entered).state.messages[-4:] == (
            user("one"),
            assistant("1"),
            user("two"),
            assistant("2"),
        )

    @pytest.mark.parametrize(
        "ending", [ABORT, FaultSignal(BOOM), emit(ErrorEmission(GatewayError("http", "x")))]
    )
    def test_a_queued_prompt_survives_the_fault_of_the_one_before(self, ending: Signal) -> None:
        transition = play(*TO["streaming"], submit("second"), ending)
        assert effects_of(transition) == "persist faulted invoke_model snapshot"
        assert transition.state.messages == (HI, assistant("He"), user("second"), BLANK)
        assert (transition.state.phase, transition.state.error) == ("invoking", None)

    def test_a_prompt_left_over_goes_before_a_new_one(self) -> None:
        left = replace(state(*TO["settled"]), queued=((user("old"),),))
        before = play(submit("new"), state=left)
        assert before.state.messages[-2:] == (user("old"), BLANK)
        assert before.state.queued == ((user("new"),),)
