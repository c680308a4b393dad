"""Material larger than the summariser's window: divided, never cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_cards import card
from sidecar.llmgateway.contract import ErrorEmission, GatewayError
from sidecar.llmgateway.scripted import Say, ScriptedModel
from sidecar.window_budget import Message, SummarizeDeps, UserMessage, flatten_transcript
from sidecar.window_budget.digest import chunk_limits, request_digest_in_chunks, split_into_chunks
from turns import texts

messages = st.lists(st.text(max_size=40).map(UserMessage), max_size=20)


@given(messages, st.integers(1, 200))
def test_chunks_hold_everything_in_order_and_fit(transcript: list[Message], max_bytes: int) -> None:
    """Nothing is lost or doubled, and no chunk is larger than allowed."""
    chunks = ["\n".join(lines) for lines in split_into_chunks(transcript, max_bytes)]
    assert "".join(chunks).replace("\n", "") == flatten_transcript(transcript).replace("\n", "")
    if len(chunks) > 1:
        assert all(len(chunk.encode()) <= max(4, max_bytes) for chunk in chunks)


def test_without_a_card_everything_is_one_chunk() -> None:
    assert chunk_limits(None) == (None, None)
    assert list(split_into_chunks([UserMessage("a"), UserMessage("b")], None)) == [["» you: a", "» you: b"]]


@pytest.mark.parametrize("window", [4000, 8000, 200_000])
def test_a_chunk_and_its_carried_digest_leave_room_for_the_answer(window: int) -> None:
    """Bytes and characters, at 3.6 a token, with the answer's share on top."""
    chunk, carried = chunk_limits(card(window, 1000))
    assert chunk is not None
    assert carried is not None
    assert (chunk + carried) / 3.6 + min(1000, window // 4) < window


async def test_each_chunk_carries_the_digest_of_those_before_it() -> None:
    """The last answer covers all of them; a carried digest is cut to its share."""
    model = ScriptedModel([[Say(f"digest {number} " + "z" * 100)] for number in (1, 2, 3)])
    digest = await request_digest_in_chunks(
        [["a"], ["b"], ["c"]], "first", SummarizeDeps(model), carried_chars=12
    )
    assert digest.text.startswith("digest 3 ")
    prompts = [texts(call.conversation.turns)[0] for call in model.calls]
    carried = [prompt.split("<carried-digest>\n")[1].split("\n</carried-digest>")[0] for prompt in prompts]
    assert carried[0] == "first"
    assert carried[1].startswith("digest 1 zzz\n[... 97 characters cut ...]")
    assert [prompt.split("<scrollback>\n")[1][0] for prompt in prompts] == ["a", "b", "c"]


async def test_a_failed_chunk_fails_the_whole() -> None:
    model = ScriptedModel([[Say("digest 1")], [ErrorEmission(GatewayError("http", "503"))]])
    digest = await request_digest_in_chunks([["a"], ["b"], ["c"]], None, SummarizeDeps(model))
    assert (digest.text, digest.failure, len(model.calls)) == ("", "modelError", 2)
