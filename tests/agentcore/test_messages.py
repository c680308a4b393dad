"""The message vocabulary, and the modules where its public names live."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar import agentcore
from sidecar.agentcore import memory
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Message,
    ToolCall,
    call_block,
    is_unsent,
    is_user_prompt,
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


@pytest.mark.parametrize(
    "name",
    [
        *("Message", "ContentBlock", "ToolCall", "Usage", "Role", "StopReason", "AgentMessage", "ChatModel"),
        *("default_convert_to_llm", "repair_message_sequence"),
    ],
)
def test_the_package_has_its_public_names(name: str) -> None:
    assert name in agentcore.__all__
    assert hasattr(agentcore, name)


@pytest.mark.parametrize(
    "name",
    [
        *("estimate_tokens", "estimate_total", "estimate_context_tokens", "context_estimate_adapter"),
        *(
            "ContextUsageEstimate",
            "new_compaction",
            "CompactionConfig",
            "CompactionInfo",
            "CompactionSummary",
        ),
        "compaction_convert_to_llm",
    ],
)
def test_the_memory_module_has_its_public_names(name: str) -> None:
    assert name in memory.__all__
    assert hasattr(memory, name)


def test_texts_are_joined_without_separator() -> None:
    assert (MIXED.text_content(), MIXED.thinking_content()) == ("ab", "hm, yes")


def test_tool_calls_are_listed_in_order() -> None:
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


def test_a_message_is_an_agent_message() -> None:
    said_at = datetime(2026, 1, 1, tzinfo=UTC)
    message = Message("user", timestamp=said_at)
    assert isinstance(message, AgentMessage)
    assert (message.get_role(), message.get_timestamp()) == ("user", said_at)


@pytest.mark.parametrize(
    ("message", "unsent", "prompt"),
    [
        pytest.param(text_message("user", "x"), False, True, id="a user's message is sent, and is a prompt"),
        pytest.param(CompactionSummary("x"), False, False, id="a summary is sent, and is no prompt"),
        pytest.param(
            Message("assistant", stop_reason="error"), True, False, id="a failed answer is not sent"
        ),
        pytest.param(Message("assistant", stop_reason="aborted"), True, False, id="nor an aborted one"),
        pytest.param(Message("assistant", stop_reason="length"), False, False, id="a cut-off answer is sent"),
    ],
)
def test_what_is_sent(message: AgentMessage, unsent: bool, prompt: bool) -> None:
    assert (is_unsent(message), is_user_prompt(message)) == (unsent, prompt)
