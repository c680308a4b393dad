"""The public face of the runtime: every name of its seed document, and the examples there as printed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import sidecar.runtime

NAMES = {
    "sidecar.runtime": """
        create_agent Agent AgentDeps AgentEventHandler cadence step Transition StepFn initial_snapshot
        RunSnapshot RunPhase PendingTool AgentConfig CompactionPolicy ToolBox ToolRunner ToolCall ToolOutcome
        RunError RunErrorKind run_error RunEvent ModelInvoker""",
    "sidecar.runtime.contract": """
        Effect InvokeModelEffect RunToolEffect PersistEffect CompactEffect PublishEffect
        Signal SubmitSignal EmissionSignal StreamEndSignal ToolSettledSignal CompactedSignal AbortSignalInput
        FaultSignal SnapshotEvent TextDeltaEvent ThinkingDeltaEvent ToolStartedEvent ToolFinishedEvent
        SettledEvent FaultedEvent SessionNode SessionHead Migrator""",
    "sidecar.runtime.cadence": """
        cadence Transition StepFn initial_snapshot
        fold_blocks fold_turn seal_tool_args tool_calls_of add_usage""",
    "sidecar.runtime.ledger": "RunLedger SnapshotAccumulator",
    "sidecar.runtime.dispatch": "Scheduler create_scheduler DEFAULT_CONCURRENCY",
    "sidecar.runtime.turn": "drive_turn",
    "sidecar.runtime.wire": "build_conversation PROJECTORS",
    "sidecar.runtime.conductor": "Agent AgentDeps AgentEventHandler create_agent",
}


@pytest.mark.parametrize("module", sorted(NAMES))
def test_every_public_name_is_where_the_seed_has_it(module: str) -> None:
    found = importlib.import_module(module)
    names = NAMES[module].split()
    assert [name for name in names if not hasattr(found, name)] == []
    if hasattr(found, "__path__"):  # a package says what it exports
        assert set(names) <= set(found.__all__)
        assert list(found.__all__) == sorted(found.__all__, key=lambda name: (_rank(name), name))


def _rank(name: str) -> int:
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        sidecar.runtime.nothing_like_it  # noqa: B018


BOTH = (
    "from sidecar.runtime import cadence",
    "from sidecar.runtime.cadence import fold_turn",
    "import sidecar.runtime.cadence.run_messages",
    "import sidecar.runtime.conductor",
)


@pytest.mark.processes
@pytest.mark.parametrize("first", BOTH[::2])
def test_cadence_is_the_function_whatever_is_imported_first(first: str) -> None:
    _run("\n".join([first, *BOTH, "assert cadence is sidecar.runtime.step", "assert callable(fold_turn)"]))


@pytest.mark.processes
def test_the_contract_comes_without_an_event_loop() -> None:
    _run("import sys, sidecar.runtime.contract\nassert 'asyncio' not in sys.modules")


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


QUICKSTART = """
import asyncio
from sidecar.runtime import create_agent, AgentConfig, AgentDeps
from sidecar.llmgateway.contract import (
    Conversation, StreamOptions, TextEmission, DoneEmission,
    AssistantTurn, TextBlock, Usage,
)

async def scripted(conversation: Conversation, options: StreamOptions):
    yield TextEmission(delta="Hello, ")
    yield TextEmission(delta="world!")
    reply = AssistantTurn(blocks=(TextBlock(text="Hello, world!"),))
    yield DoneEmission(reply=reply, usage=Usage(input_tokens=10, output_tokens=3))

def invoke(conversation, options):
    return scripted(conversation, options)

async def main() -> None:
    agent = create_agent(
        AgentConfig(model="some-model"),
        AgentDeps(invoke_model=invoke),
    )
    final = await agent.submit("hi")  # string sugar -> a single user text turn
    print(final.phase)                # 'settled'
    print(final.messages[-1])         # the folded AssistantTurn

asyncio.run(main())
"""

PURE = """
from sidecar.runtime import cadence, initial_snapshot, AgentConfig
from sidecar.runtime.contract import SubmitSignal
from sidecar.llmgateway.contract import UserTurn, TextBlock

step = cadence(AgentConfig(model="some-model"))  # also exported as `step`
state = initial_snapshot(session_id="s1", model="some-model")  # phase 'idle'
signal = SubmitSignal(input=(UserTurn(blocks=(TextBlock(text="hi"),)),))
transition = step(state, signal)
print(transition.state.phase)  # 'invoking'
for effect in transition.effects:
    print(type(effect).__name__)  # InvokeModelEffect, PublishEffect
"""

EVENTS = """
import asyncio
from sidecar.runtime import create_agent, AgentConfig
from sidecar.runtime.contract import TextDeltaEvent
from sidecar.runtime.ledger import SnapshotAccumulator

agent = create_agent(AgentConfig(model="mock-1"))

def on_event(event):
    if isinstance(event, TextDeltaEvent):
        print(event.delta, end="")

unsubscribe = agent.subscribe(on_event)
acc = SnapshotAccumulator()
acc_dispose = acc.attach(agent._ledger)  # or feed acc.observe(event) from on_event
asyncio.run(agent.submit("hi"))
latest = acc.get_snapshot()  # most recent RunSnapshot or None
unsubscribe()
acc_dispose()
print()
print(latest.phase, latest is agent.snapshot())
"""

COMPACTION = """
from sidecar.runtime.memory import estimate_context_tokens, should_compact, find_cut_point
from sidecar.runtime.contract import CompactionPolicy
from sidecar.llmgateway.catalog import get_card
from sidecar.llmgateway.contract import UserTurn, TextBlock

messages = (UserTurn(blocks=(TextBlock(text="x" * 4000),)),)
print(estimate_context_tokens(messages))  # ~ len/4 + 4 per turn
card = get_card("mock-1")
if card is not None:
    policy = CompactionPolicy(trigger_ratio=0.8, keep_recent=8)
    print(should_compact(messages, card, policy))
    print(find_cut_point(messages, policy.keep_recent))  # tool-safe boundary index
"""

SESSIONS = """
import asyncio
from sidecar.runtime.store import SessionStore, SessionGraph
from sidecar.llmgateway.contract import UserTurn, TextBlock

async def main() -> None:
    store = SessionStore({root!r})
    graph = SessionGraph("sess-1")
    node = graph.append(UserTurn(blocks=(TextBlock(text="remember this"),)))
    await store.append_node("sess-1", node)
    reloaded = await store.load_session("sess-1")
    leaf = reloaded.leaf
    if leaf is not None:
        print(reloaded.path_to(leaf))  # root->leaf turns
    print(await store.list_sessions())  # ['sess-1']

asyncio.run(main())
"""


EXAMPLES = {
    "quickstart": (QUICKSTART, "settled\nAssistantTurn(blocks=(TextBlock(text='Hello, world!'),))\n"),
    "the machine driven directly": (PURE, "invoking\nInvokeModelEffect\nPublishEffect\n"),
    "events and snapshots": (EVENTS, "Hello from the mock model.\nsettled True\n"),
    "compaction": (COMPACTION, "1004\nFalse\n0\n"),
    "sessions and persistence": (
        SESSIONS,
        "(UserTurn(blocks=(TextBlock(text='remember this'),)),)\n['sess-1']\n",
    ),
}


@pytest.mark.parametrize(("code", "printed"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_seed_run_as_printed(
    code: str, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(code.replace("{root!r}", repr(str(tmp_path / "sessions"))), {})
    assert capsys.readouterr().out == printed
