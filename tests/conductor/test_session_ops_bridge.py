"""Turns to messages and back: every result a message, every digest a summary, nothing lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from histories import entry_of
from sidecar.conductor.session_ops import (
    content_to_blocks,
    extend_transcript,
    messages_to_turns,
    turn_starts,
    turns_to_messages,
)
from sidecar.llmgateway.contract import (
    AssistantTurn,
    Block,
    CommandBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.window_budget import (
    BRANCH_HEADER,
    DIGEST_HEADER,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    Transcript,
    UserMessage,
)
from turns import assistant, user

CALLS = assistant(
    ThinkingBlock("hm", "sig"), ToolCallBlock("1", "read", {"path": "a"}), ToolCallBlock("2", "sql", {})
)
RESULTS = ToolTurn((ToolResultBlock("2", {"rows": [1]}, is_error=True), ToolResultBlock("1", "text")))
RUNTIME_DIGEST = "[condensed earlier context]\ngist"


def test_every_result_is_a_message_of_its_own() -> None:
    """Named after its call, in order; JSON keeps its type, text is text."""
    assert turns_to_messages([user("go"), CALLS, RESULTS]) == (
        UserMessage((TextBlock("go"),), 0),
        AssistantMessage(CALLS.blocks),
        ToolResultMessage("2", "sql", (RESULTS.blocks[0],), is_error=True),
        ToolResultMessage("1", "read", (TextBlock("text"),), is_error=None),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DIGEST_HEADER}\n\n# Plan", CompactionSummaryMessage("# Plan", 0)),
        (f"{DIGEST_HEADER}\n# Plan", CompactionSummaryMessage(f"{DIGEST_HEADER}\n# Plan", 0)),
        (RUNTIME_DIGEST, CompactionSummaryMessage(RUNTIME_DIGEST, 0)),
        (f"{BRANCH_HEADER}\n\ntried", BranchSummaryMessage("tried", "")),
        ("plain", UserMessage((TextBlock("plain"),), 0)),
    ],
    ids=["ours", "ours, other layout", "the runtime's", "branch", "plain"],
)
def test_digest_turns_are_summaries(text: str, message: Message) -> None:
    """And back to the very same turn."""
    assert turns_to_messages([user(text)]) == (message,)
    assert messages_to_turns([message]) == (user(text),)


@pytest.mark.parametrize(
    ("message", "turn"),
    [
        (UserMessage("hi", 3), user("hi")),
        (AssistantMessage((TextBlock("half"),), "boom"), assistant("half", "[error] boom")),
        (BashExecutionMessage("ls", "a.py", 0), user("$ ls\na.py\n[exit 0]")),
        (BashExecutionMessage("sleep", ""), user("$ sleep\n\n[exit n/a]")),
        (CustomMessage("note", "hi"), user("hi")),
        (CompactionSummaryMessage("# Plan", 9), user(f"{DIGEST_HEADER}\n\n# Plan")),
        (BranchSummaryMessage("b", "n1"), user(f"{BRANCH_HEADER}\n\nb")),
        (
            ToolResultMessage("1", "read", (TextBlock("a"), TextBlock("b"))),
            ToolTurn((ToolResultBlock("1", "a\nb", is_error=False),)),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages_that_no_turn_gave(message: Message, turn: Turn) -> None:
    """Each has a turn that says as much."""
    assert messages_to_turns([message]) == (turn,)


def test_results_that_follow_each_other_share_a_turn() -> None:
    """As they do in a conversation."""
    messages = [ToolResultMessage(key, "read", (TextBlock(key),)) for key in "12"]
    assert messages_to_turns([*messages, UserMessage("x"), messages[0]]) == (
        ToolTurn((ToolResultBlock("1", "1", is_error=False), ToolResultBlock("2", "2", is_error=False))),
        user("x"),
        ToolTurn((ToolResultBlock("1", "1", is_error=False),)),
    )


def test_content_to_blocks() -> None:
    """Text is one block; blocks are themselves."""
    assert content_to_blocks("hi") == (TextBlock("hi"),)
    assert content_to_blocks((ImageBlock("image/png", "A"),)) == (ImageBlock("image/png", "A"),)


def test_an_image_goes_with_the_last_result_of_its_turn() -> None:
    """So the results count as results: they pair with their calls, and go stale with their images."""
    image = ImageBlock("image/png", "A")
    results = ToolTurn((ToolResultBlock("1", "one"), ToolResultBlock("2", "two"), image))
    messages = turns_to_messages([CALLS, results])
    _, first, last = messages
    assert isinstance(first, ToolResultMessage)
    assert isinstance(last, ToolResultMessage)
    assert (first.content, last.content) == ((TextBlock("one"),), (TextBlock("two"), image))
    assert messages_to_turns(messages) == (CALLS, results)


texts = st.sampled_from(
    [
        "",
        "hi",
        DIGEST_HEADER,
        f"{DIGEST_HEADER}\n\n",
        f"{DIGEST_HEADER}\n\n{BRANCH_HEADER}",
        f"{BRANCH_HEADER}\n\nx",
        RUNTIME_DIGEST,
    ]
)
outputs: st.SearchStrategy[Any] = st.sampled_from(["", "text", None, 0, False, {"a": [1]}, []])
results = st.builds(ToolResultBlock, st.sampled_from("12"), outputs, st.sampled_from([None, True, False]))
others: st.SearchStrategy[Block] = st.one_of(
    texts.map(TextBlock),
    texts.map(ThinkingBlock),
    st.just(ImageBlock("image/png", "A")),
    st.just(CommandBlock("clear", ("x",))),
    st.just(ToolCallBlock("1", "read", {"path": "a"})),
)
blocks = st.lists(st.one_of(others, results), max_size=3).map(tuple)
turns: st.SearchStrategy[list[Turn]] = st.lists(
    st.one_of(
        texts.map(user),
        blocks.map(UserTurn),
        blocks.map(AssistantTurn),
        st.lists(results, max_size=3).map(lambda found: ToolTurn(tuple(found))),
        blocks.map(ToolTurn),
    ),
    max_size=6,
)


def transcript_of(conversation: Sequence[Turn]) -> Transcript:
    return reduce(extend_transcript, map(entry_of, conversation), Transcript())


@given(turns)
def test_back_without_loss(conversation: list[Turn]) -> None:
    """Whatever the turns hold: adjacent tool turns, empty ones, nested results, every kind of block."""
    assert messages_to_turns(turns_to_messages(conversation)) == tuple(conversation)


@given(turns)
def test_a_conversation_may_come_turn_by_turn(conversation: list[Turn]) -> None:
    """The transcript goes back without loss, and turn positions map to message positions."""
    whole = turns_to_messages(conversation)
    assert messages_to_turns(transcript_of(conversation)) == tuple(conversation)
    starts = turn_starts(conversation)
    assert starts[-1] == len(whole)
    assert starts == tuple(len(turns_to_messages(conversation[:n])) for n in range(len(conversation) + 1))


def test_a_result_is_named_after_a_call_of_an_earlier_turn() -> None:
    assert tuple(transcript_of([CALLS, RESULTS])) == turns_to_messages([CALLS, RESULTS])
