"""The message vocabulary, and the modules where its public names live."""

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar import agentcore
from sidecar.agentcore import memory
from sidecar.agentcore.messages import (
    MISSING_RESULT,
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Message,
    ToolCall,
    call_block,
    compaction_convert_to_llm,
    default_convert_to_llm,
    is_unsent,
    is_user_prompt,
    repair_message_sequence,
    text_block,
    text_message,
    tool_message,
)

MIXED = Message(
    "assistant",
    (
        ContentBlock("thinking", thinking="hm, "),
        text_block("a"),
        ContentBlock("thinking", thinking="yes"),
        text_block("b"),
        call_block("1", "read", '{"path":"a"}'),
    ),
)


NAMES = {
    agentcore: """
        Message ContentBlock ToolCall Usage Role StopReason AgentMessage ChatModel
        default_convert_to_llm repair_message_sequence""",
    memory: """
        estimate_tokens estimate_total estimate_context_tokens context_estimate_adapter ContextUsageEstimate
        new_compaction CompactionConfig CompactionInfo CompactionSummary compaction_convert_to_llm""",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_where_the_seed_has_it(module: ModuleType) -> None:
    names = NAMES[module].split()
    assert set(names) <= set(module.__all__)
    assert [name for name in names if not hasattr(module, name)] == []


def test_a_message_lists_its_texts_and_calls() -> None:
    assert isinstance(MIXED, AgentMessage)
    assert (MIXED.text_content(), MIXED.thinking_content()) == ("ab", "hm, yes")
    assert MIXED.tool_calls() == (ToolCall("1", "read", '{"path":"a"}'),)
    assert MIXED.has_tool_calls()
    assert not text_message("user", "x").has_tool_calls()


def test_a_tool_result_carries_its_call_in_the_metadata() -> None:
    result = tool_message("7", "boom", is_error=True, tool_name="bash")
    assert dict(result.metadata) == {"tool_call_id": "7", "is_error": True, "tool_name": "bash"}
    assert (result.tool_call_id, result.is_error) == ("7", True)
    assert text_message("user", "x").tool_call_id is None


def test_a_summary_is_an_agent_message_but_not_a_message() -> None:
    made_at = datetime(2026, 1, 1, tzinfo=UTC)
    summary = CompactionSummary("so far", 100, ("a",), ("b",), made_at)
    assert isinstance(summary, AgentMessage)
    assert not issubclass(CompactionSummary, Message)
    said = (summary.get_role(), summary.get_timestamp(), summary.text_content(), summary.thinking_content())
    assert said == ("user", made_at, "so far", "")
    assert not summary.has_tool_calls()


SENT_TURNS = {
    "a user's message is sent, and is a prompt": (text_message("user", "x"), False, True),
    "a summary is sent, and is no prompt": (CompactionSummary("x"), False, False),
    "a failed answer is not sent": (Message("assistant", stop_reason="error"), True, False),
    "nor an aborted one": (Message("assistant", stop_reason="aborted"), True, False),
    "a cut-off answer is sent": (Message("assistant", stop_reason="length"), False, False),
}


@pytest.mark.parametrize(("message", "unsent", "prompt"), SENT_TURNS.values(), ids=SENT_TURNS)
def test_what_is_sent(message: AgentMessage, unsent: bool, prompt: bool) -> None:
    assert (is_unsent(message), is_user_prompt(message)) == (unsent, prompt)


USER = text_message("user", "go")
FAILED = Message("assistant", (text_block("x"),), stop_reason="error")
ABORTED = Message("assistant", (text_block("x"),), stop_reason="aborted")
CUT_OFF = Message("assistant", (text_block("x"),), stop_reason="length")


def asks(*ids: str) -> Message:
    return Message("assistant", tuple(call_block(call_id, "ls") for call_id in ids))


def missing(call_id: str) -> Message:
    return tool_message(call_id, MISSING_RESULT, is_error=True, tool_name="ls")


def test_default_conversion_keeps_messages_that_were_finished() -> None:
    history: list[AgentMessage] = [USER, FAILED, CompactionSummary("s"), CUT_OFF, ABORTED]
    assert default_convert_to_llm(history) == [USER, CUT_OFF]


def test_a_summary_becomes_a_users_message() -> None:
    made_at = datetime(2026, 1, 1, tzinfo=UTC)
    history: list[AgentMessage] = [CompactionSummary("so far", 7, ("r",), ("m",), made_at), USER, FAILED]
    told = Message(
        "user",
        (text_block("<context-summary>\nso far\n</context-summary>"),),
        metadata={
            "type": "compaction_summary",
            "tokens_before": 7,
            "read_files": ("r",),
            "modified_files": ("m",),
        },
        timestamp=made_at,
    )
    assert compaction_convert_to_llm(history) == [told, USER]


R1, R2, LATE = tool_message("1", "one"), tool_message("2", "two"), tool_message("1", "late")


REPAIRED = {
    "nothing": ([], []),
    "whole pairs stay": ([USER, asks("1"), R1, USER], [USER, asks("1"), R1, USER]),
    "results keep their order": ([asks("1", "2"), R2, R1], [asks("1", "2"), R2, R1]),
    "an unanswered call gets an error": ([asks("1")], [asks("1"), missing("1")]),
    "right behind the assistant": ([asks("1", "2"), R2, USER], [asks("1", "2"), missing("1"), R2, USER]),
    "results without a call are left out": ([R1, USER, R2], [USER]),
    "a second result is left out": ([asks("1"), R1, R1], [asks("1"), R1]),
    "a foreign result in the run is left out": ([asks("1"), R1, R2], [asks("1"), R1]),
    "a late result moves up to its call": ([asks("1"), USER, LATE], [asks("1"), LATE, USER]),
    "late and answered already": ([asks("1"), R1, USER, LATE], [asks("1"), R1, USER]),
    "a late result answers the call in front of it, not a later one of that id": (
        [asks("1"), USER, LATE, asks("1"), USER],
        [asks("1"), LATE, USER, asks("1"), missing("1"), USER],
    ),
    "an id used again is another call": ([asks("1"), R1, asks("1"), LATE], [asks("1"), R1, asks("1"), LATE]),
}


@pytest.mark.parametrize(("messages", "repaired"), REPAIRED.values(), ids=REPAIRED)
def test_every_call_gets_one_result(messages: list[Message], repaired: list[Message]) -> None:
    assert repair_message_sequence(messages) == repaired


SEQUENCES = st.lists(
    st.one_of(
        st.just(USER),
        st.lists(st.sampled_from("1234"), min_size=1, max_size=3, unique=True).map(lambda ids: asks(*ids)),
        st.sampled_from("12345").map(lambda call_id: tool_message(call_id, "done")),
    ),
    max_size=25,
)


@given(SEQUENCES)
def test_a_repaired_sequence_is_whole_and_stays_as_it_is(messages: list[Message]) -> None:
    repaired = repair_message_sequence(messages)
    waiting: list[str] = []
    for message in repaired:
        if message.role == "tool":
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = [call.id for call in message.tool_calls()]
    assert not waiting
    assert [m for m in repaired if m.role != "tool"] == [m for m in messages if m.role != "tool"]
    assert repair_message_sequence(repaired) == repaired
