"""How far the token estimate is from a tokenizer, on texts of every class of content."""

from __future__ import annotations

import time
from statistics import mean

import pytest

from measured_texts import TEXTS, TOKENS
from sidecar.conductor.token_estimate import WHOLE_CHARS, estimate_text_tokens, estimate_turn_tokens
from sidecar.llmgateway.contract import ImageBlock, ToolCallBlock, ToolResultBlock, ToolTurn, Turn, UserTurn
from turns import assistant, user


def error(name: str) -> float:
    """The error of one text, as a share of its tokens; below 0 for an estimate that is too low."""
    return estimate_text_tokens(TEXTS[name]) / TOKENS[name] - 1


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_is_underestimated_by_a_fifth(name: str) -> None:
    assert -0.2 < error(name) < 0.5


def test_the_mean_error_of_one_text_is_small() -> None:
    """They are short and in 24 languages, of which most are estimated a little too high."""
    assert mean(abs(error(name)) for name in TEXTS) < 0.12


def test_a_mixture_costs_what_its_parts_cost() -> None:
    """A part costs a little more by itself, as its few words may all be rare ones."""
    parts = sum(map(estimate_text_tokens, TEXTS.values()))
    assert 0.92 * parts < estimate_text_tokens("\n".join(TEXTS.values())) <= parts


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The account of marta_kowalski_4471 is closed since 2021.", 19),
        ("          graph = NodeGraph(owner=self.MAIN, base=out_dir, log=log, net=net)", 23),
        ("My user ID is emilia_novak_7316. The reason for cancellation is a change of plans.", 23),
        ("➜  p-x git:(dev) ✗\n➜  p-x git:(dev) ✗ ls\n➜  p-x git:(dev) ✗", 36),
        ("│   ├── gix-pack v0.71.4\n│   │   ├── gix-hash v0.26.2 (*)\n│   └── gix-url v0.36.1 (*)", 49),
        ("Sure, my user ID is jonas_petrov_8130. What do you see there?", 20),
    ],
)
def test_a_short_text_of_rare_names_is_not_underestimated_by_a_fifth(text: str, tokens: int) -> None:
    assert estimate_text_tokens(text) / tokens > 0.8


@pytest.mark.parametrize("name", ["English", "Python", "Chinese", "base64"])
def test_a_text_too_long_to_be_measured_whole_is_measured_in_parts(name: str) -> None:
    n_times = 20 * WHOLE_CHARS // len(TEXTS[name])
    n_whole = WHOLE_CHARS // len(TEXTS[name] + "\n")
    whole = n_times / n_whole * estimate_text_tokens((TEXTS[name] + "\n") * n_whole)
    started = time.process_time()
    assert estimate_text_tokens((TEXTS[name] + "\n") * n_times) == pytest.approx(whole, rel=0.03)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("text", ["\x00", "\ud800", "-" * 5000, "\n" * 5000, "~" * 5000, "\U0010ffff", " "])
def test_any_text_but_none_takes_a_token(text: str) -> None:
    assert estimate_text_tokens("") == 0
    assert 1 <= estimate_text_tokens(text) <= 2 * len(text.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("turn", "tokens"),
    [
        pytest.param(UserTurn(()), 4, id="an empty turn"),
        pytest.param(user(ImageBlock("image/png", "x" * 90_000)), 1028, id="an image, whatever its size"),
        pytest.param(assistant(ToolCallBlock("id", "ls", None)), 11, id="a call without arguments"),
        pytest.param(ToolTurn((ToolResultBlock("id", ""),)), 10, id="a result without output"),
        pytest.param(user("a", "b"), 6, id="two texts"),
    ],
)
def test_a_turn_costs_its_blocks(turn: Turn, tokens: int) -> None:
    assert estimate_turn_tokens(turn) == tokens
