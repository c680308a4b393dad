"""What is too large to keep is cut, visibly, and only as far as needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import ImageBlock, TextBlock, ToolCallBlock
from sidecar.llmgateway.contract import ToolResultBlock as Result
from sidecar.window_budget import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
    estimate_message_tokens,
    estimate_tokens,
)
from sidecar.window_budget.message import text_of
from sidecar.window_budget.tail import clip_bodies, clip_prompt, fit_tail

READ = AssistantMessage((ToolCallBlock("1", "read", {"path": "src/a.py"}), ToolCallBlock("2", "bash", {})))


def result(call_id: str, name: str, size: int) -> ToolResultMessage:
    return ToolResultMessage(call_id, name, (TextBlock("h" * (size // 2) + "t" * (size - size // 2)),))


def test_a_giant_result_keeps_its_ends_and_says_how_to_read_the_rest() -> None:
    """The marker names the file, the small result beside it stays whole."""
    small = result("2", "bash", 300)
    clipped = clip_bodies([READ, result("1", "read", 90_000), small], 1500)
    giant = clipped[1]
    assert isinstance(giant, ToolResultMessage)
    text = text_of(giant.content)
    assert text.startswith("hhh")
    assert text.endswith("ttt")
    assert "characters cut; read src/a.py with offset/limit for the rest ...]" in text
    assert (clipped[0], clipped[2]) == (READ, small)
    assert 1400 < estimate_tokens(clipped) <= 1500


def test_other_bodies_say_what_to_do_as_well() -> None:
    bodies: list[Message] = [
        BashExecutionMessage("cat log", "x" * 9000, 0),
        CustomMessage("note", "x" * 9000),
        ToolResultMessage("9", "query", (Result("9", {"rows": "x" * 9000}),)),
    ]
    texts = [str(message) for message in clip_bodies(bodies, 1200)]
    assert "call the command again with a narrower request" in texts[0]
    assert "characters cut" in texts[1]
    assert "call query again with a narrower request" in texts[2]


@given(st.lists(st.integers(0, 8000), max_size=12), st.integers(0, 6000))
def test_clipping_fits_or_goes_to_the_shortest(sizes: list[int], max_tokens: int) -> None:
    """Never larger than before, and inside the limit unless every body is at its shortest."""
    messages = [result(str(number), "bash", size) for number, size in enumerate(sizes)]
    clipped = clip_bodies(messages, max_tokens)
    assert estimate_tokens(clipped) <= estimate_tokens(messages)
    if estimate_tokens(clipped) > max_tokens:
        assert all(
            len(text_of(message.content)) <= 600
            for message in clipped
            if isinstance(message, ToolResultMessage)
        )


def test_a_prompt_larger_than_the_window_keeps_its_beginning() -> None:
    prompt = UserMessage((TextBlock("Do this. " * 9000), ImageBlock("image/png", "AA")), 7)
    clipped = clip_prompt(prompt, 500)
    assert isinstance(clipped, UserMessage)
    assert clipped.timestamp == 7
    assert str(clipped.content).startswith("Do this. Do this.")
    assert "the whole prompt is kept in the session's history" in str(clipped.content)
    assert estimate_message_tokens(clipped) <= 500
    assert clip_prompt(prompt, 100_000) is prompt


def test_a_giant_result_is_cut_before_the_prompt_and_the_prompt_only_where_it_must() -> None:
    prompt = UserMessage("Do this. " * 100)
    call = AssistantMessage((ToolCallBlock("1", "read", {"path": "src/a.py"}),))
    messages: list[Message] = [prompt, call, result("1", "read", 90_000)]
    tail = fit_tail(messages, 0, room=1500, reserve=700)
    assert tail.messages[:2] == (prompt, call)
    assert (tail.clipped_count, tail.tokens == estimate_tokens(tail.messages)) == (1, True)
    assert 700 < tail.tokens <= 800
    narrow = fit_tail(messages, 0, room=450, reserve=50)
    assert (narrow.clipped_count, narrow.tokens <= 400) == (2, True)
    assert "Do this. Do this." in str(narrow.messages[0])


def test_blanking_frees_something_or_is_left() -> None:
    group: list[Message] = [AssistantMessage(tuple(ToolCallBlock(str(n), "read", {}) for n in range(9)))]
    group += [result("0", "read", 10), result("1", "read", 900)]
    group += [ToolResultMessage("2", "read", (TextBlock("no such file " * 9),), is_error=True)]
    group += [result(str(number), "read", 900) for number in range(3, 9)]
    tail = fit_tail(group, None, room=None, reserve=0)
    changed = [
        index for index, (was, now) in enumerate(zip(group, tail.messages, strict=True)) if was is not now
    ]
    assert changed == [2]
    assert (tail.blanked_count, tail.blanked_tokens) == (1, estimate_tokens(group) - tail.tokens)


def test_an_image_of_a_stale_result_goes_with_it() -> None:
    image = ImageBlock("image/png", "A" * 4_000)
    calls = [AssistantMessage((ToolCallBlock(str(n), "read", {"path": f"{n}.png"}),)) for n in range(12)]
    shown = [ToolResultMessage(str(n), "read", (TextBlock("an image"), image)) for n in range(12)]
    messages: list[Message] = [each for pair in zip(calls, shown, strict=True) for each in pair]
    tail = fit_tail(messages, None, room=None, reserve=0)
    assert tail.blanked_count > 0
    oldest = tail.messages[1]
    assert isinstance(oldest, ToolResultMessage)
    assert image not in oldest.content
    assert tail.messages[-1] == messages[-1]
