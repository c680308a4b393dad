"""A transcript is a sequence of messages that knows its weight and facts."""

from __future__ import annotations

import pytest

from sidecar.window_budget import Message, Transcript, UserMessage


def test_a_transcript_is_a_sequence_of_its_messages() -> None:
    first: list[Message] = [UserMessage("a"), UserMessage("b")]
    one = Transcript.of(first)
    two = one.extend([UserMessage("c")])
    other = one.extend([UserMessage("d")])
    assert (list(one), list(two)) == (first, [*first, UserMessage("c")])
    assert other == (*first, UserMessage("d"))
    assert one == first
    assert one != two
    assert one != "ab"
    assert (two[-1], two[1:], two[::-2]) == (
        UserMessage("c"),
        (UserMessage("b"), UserMessage("c")),
        (two[2], two[0]),
    )
    assert Transcript.of(two) is two
    with pytest.raises(IndexError):
        one[2]
