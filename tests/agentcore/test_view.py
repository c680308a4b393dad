"""Messages are cut to size with a visible marker."""

from __future__ import annotations

import json

import pytest

from sidecar.agentcore.estimate import estimate_tokens
from sidecar.agentcore.messages import (
    AgentMessage,
    CompactionSummary,
    ContentBlock,
    Image,
    Message,
    ToolCall,
    Usage,
    call_block,
    text_block,
    tool_message,
)
from sidecar.agentcore.view import LEFT_OUT_IMAGE, cut_arguments, shrink_message

IMAGE = ContentBlock("image", image=Image("abc"))


LARGE = {
    "a tool result": tool_message("1", "x" * 9000, is_error=True, tool_name="bash"),
    "wide characters": Message("user", (text_block("日本語" * 2000),)),
    "thinking beside a call": Message(
        "assistant", (ContentBlock("thinking", thinking="x" * 9000), call_block("1", "ls"))
    ),
    "images": Message("user", (IMAGE, IMAGE, text_block("look"))),
    "a summary": CompactionSummary("x" * 9000, 5, ("a",)),
    "a call": Message("assistant", (call_block("1", "w", json.dumps({"t": "x\n" * 4000})),)),
    "a call that is no JSON": Message("assistant", (call_block("1", "w", "x" * 9000),)),
    "a call without a long string": Message(
        "assistant", (call_block("1", "w", json.dumps({f"k{i}": i for i in range(900)})),)
    ),
}


@pytest.mark.parametrize("message", LARGE.values(), ids=LARGE)
def test_a_shrunk_message_fits_and_is_marked(message: AgentMessage) -> None:
    shrunk = shrink_message(message, 100)
    assert estimate_tokens(shrunk) <= 110
    assert "left out" in str(shrunk)
    assert shrink_message(message, 10_000) == message


def test_a_shrunk_message_keeps_what_makes_it_a_pair() -> None:
    call = Message(
        "assistant",
        (call_block("1", "w", json.dumps({"path": "a", "text": "x" * 9000})),),
        "toolUse",
        Usage(5),
    )
    shrunk = shrink_message(call, 100)
    assert isinstance(shrunk, Message)
    (cut,) = shrunk.tool_calls()
    arguments = json.loads(cut.args)
    assert (cut.id, cut.name, arguments["path"]) == ("1", "w", "a")
    assert arguments["text"].startswith("xxx")
    assert (shrunk.stop_reason, shrunk.usage) == ("toolUse", Usage(5))
    result = shrink_message(tool_message("1", "x" * 9000), 100)
    assert isinstance(result, Message)
    assert result.tool_call_id == "1"


def test_an_image_becomes_a_note() -> None:
    shrunk = shrink_message(Message("user", (IMAGE, text_block("look"))), 100)
    assert shrunk == Message("user", (text_block(LEFT_OUT_IMAGE), text_block("look")))


@pytest.mark.parametrize("arguments", [json.dumps({"path": "a.py", "text": "x" * 900}), "x" * 900])
def test_cut_arguments_are_a_json_object_within_the_limit(arguments: str) -> None:
    cut = cut_arguments(ToolCall("1", "write", arguments), 120)
    assert (cut.id, cut.name) == ("1", "write")
    assert len(cut.args) <= 120
    assert isinstance(json.loads(cut.args), dict)
