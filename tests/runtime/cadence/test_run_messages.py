"""The messages of a run: a sequence that equals its tuple, with versions that never disturb each other."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.llmgateway.contract import (
    AssistantTurn,
    TextBlock,
    TextEmission,
    ToolCallBlock,
    ToolResultBlock,
    ToolTurn,
    Turn,
    UserTurn,
)
from sidecar.runtime.cadence import Draft, RunMessages
from sidecar.runtime.contract import AgentConfig
from sidecar.runtime.wire import build_conversation

A, B, C = (UserTurn((TextBlock(text),)) for text in "abc")
OPEN = AssistantTurn((TextBlock("Hello"),))
DRAFT = Draft().fold(TextEmission("Hel")).fold(TextEmission("lo"))
RESULTS = ToolTurn((ToolResultBlock("c", "out", False),))

CASES = [
    pytest.param(RunMessages.of(()), (), id="empty"),
    pytest.param(RunMessages.of((A, B)), (A, B), id="finished turns"),
    pytest.param(RunMessages.of((A, B)).with_open(DRAFT), (A, B, OPEN), id="an answer being written"),
    pytest.param(RunMessages.of((A,)).with_open(RESULTS), (A, RESULTS), id="a round of tools"),
    pytest.param(RunMessages.of(()).with_open(Draft()), (AssistantTurn(()),), id="a blank answer alone"),
]


@pytest.mark.parametrize(("transcript", "plain"), CASES)
def test_it_equals_the_tuple_of_the_same_turns(transcript: RunMessages, plain: tuple[Turn, ...]) -> None:
    assert transcript == plain
    assert plain == transcript
    assert transcript == RunMessages.of(plain)
    assert RunMessages.of(transcript) is transcript
    assert hash(transcript) == hash(plain)
    assert transcript != (*plain, C)
    assert transcript != (*plain[:-1], C)
    assert (transcript == list(plain)) is False


@pytest.mark.parametrize(("transcript", "plain"), CASES)
def test_it_reads_like_the_tuple(transcript: RunMessages, plain: tuple[Turn, ...]) -> None:
    assert len(transcript) == len(plain)
    assert bool(transcript) is bool(plain)
    assert list(transcript) == list(plain)
    assert list(reversed(transcript)) == list(reversed(plain))
    assert [transcript[at] for at in range(-len(plain), len(plain))] == [*plain, *plain]
    assert all(turn in transcript for turn in plain)
    assert C not in transcript
    for index in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            transcript[index]
    assert (*transcript, C) == (*plain, C)
    assert repr(transcript) == f"RunMessages({plain!r})"


@pytest.mark.parametrize(("transcript", "plain"), CASES)
def test_concatenation_gives_tuples(transcript: RunMessages, plain: tuple[Turn, ...]) -> None:
    one: tuple[Turn, ...] = (C,)
    assert transcript + one == plain + one
    assert one + transcript == one + plain
    assert transcript + transcript == plain + plain
    assert type(transcript + one) is type(one + transcript) is tuple


@given(st.integers(0, 4), st.booleans(), st.slices(6))
def test_slices_are_those_of_the_tuple(n_turns: int, has_open: bool, part: slice) -> None:
    turns: tuple[Turn, ...] = (A, B, C, A)[:n_turns]
    transcript = RunMessages.of(turns)
    if has_open:
        transcript, turns = transcript.with_open(DRAFT), (*turns, OPEN)
    assert transcript[part] == turns[part]
    assert type(transcript[part]) is tuple


def test_its_outgoing_is_what_build_conversation_gives() -> None:
    call = AssistantTurn((ToolCallBlock("c", "ls", {}),))
    transcript = RunMessages.of((A,)).with_turns((call,)).with_turns((RESULTS, B))
    sent = transcript.with_open(DRAFT).outgoing.turns()
    assert sent == build_conversation((A, call, RESULTS, B), AgentConfig(model="m")).turns


@pytest.mark.parametrize(("transcript", "plain"), CASES)
def test_it_survives_a_copy(transcript: RunMessages, plain: tuple[Turn, ...]) -> None:
    copies: Sequence[object] = [copy.deepcopy(transcript), pickle.loads(pickle.dumps(transcript))]
    assert copies == [plain, plain]
