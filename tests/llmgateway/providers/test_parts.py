"""The pure parts of a call, case by case: errors, patience, the assembly of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sidecar.llmgateway.contract import (
    DoneEmission,
    Emission,
    Reply,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallDeltaEmission,
    ToolCallStartEmission,
    gateway_error,
)
from sidecar.llmgateway.contract.model import GatewayError
from sidecar.llmgateway.providers.assembly import Assembly
from sidecar.llmgateway.providers.calling import RetryPolicy
from sidecar.llmgateway.providers.failures import (
    ProviderFailure,
    is_stale_thinking,
    retry_after_ms,
    to_gateway_error,
)


@pytest.mark.parametrize(
    ("headers", "pause_ms"),
    [
        ({"retry-after-ms": "250"}, 250),
        ({"Retry-After": "2"}, 2_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 10_000),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_what_a_server_asks_for_in_its_headers(headers: dict[str, str], pause_ms: int | None) -> None:
    assert retry_after_ms(headers, now_s=90.0) == pause_ms


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("prompt is too long: 233153 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000", 200_000),
        ("This model's maximum context length is 8192 tokens. You requested 9,000.", 8_192),
        ("Your input exceeds the context window of this model.", None),
        ("the request exceeds the available context size. try increasing the context size", None),
        ("the request (9000 tokens) exceeds the available context size (4096 tokens)", 4_096),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_048_576,
        ),
        ("length of prompt_tokens (163280) must be less than max_seq_len (32768).", 32_768),
        ("Please reduce the length of the messages or completion.", None),
        ("prompt too long; exceeded max context length by 12 tokens", None),
        ("Prompt contains 9000 tokens, too large for model with 8192 maximum context length", 8_192),
        ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 131_072),
        ("request_too_large: Request exceeds the maximum size", None),
    ],
)
def test_every_way_to_say_that_a_conversation_is_too_long(message: str, window: int | None) -> None:
    error = to_gateway_error(ProviderFailure(message, 400), "p")
    assert (error.is_overflow, error.window_tokens) == (True, window)


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Rate limit reached: too many tokens per minute", 429),
        ("Request too large for gpt-4o on tokens per min (TPM)", 429),
        ("max_tokens must be at most 8192", 400),
        ("invalid schema", 400),
        ("overloaded", 529),
    ],
)
def test_throttling_is_not_taken_for_overflow(message: str, status: int) -> None:
    assert not to_gateway_error(ProviderFailure(message, status), "p").is_overflow


def test_a_message_is_one_line_of_bounded_length_without_secrets() -> None:
    said = "x\n\n" + "y" * 2_000 + " sk-0123456789abcdefghij"
    error = to_gateway_error(ProviderFailure(f"key-of-mine {said}", 400), "p", key="key-of-mine")
    assert "\n" not in error.message
    assert len(error.message) < 600
    assert "key-of-mine" not in error.message


@pytest.mark.parametrize(
    ("status", "message", "stale"),
    [
        (400, "Invalid `signature` in `thinking` block", True),
        (400, "`thinking` blocks in the latest assistant message cannot be modified", True),
        (400, "The encrypted content could not be verified", True),
        (400, "Thought signature is not valid", True),
        (400, "thinking.budget_tokens must be at least 1024", False),
        (500, "Invalid `signature` in `thinking` block", False),
    ],
)
def test_which_refusals_are_about_reasoning(status: int, message: str, *, stale: bool) -> None:
    assert is_stale_thinking(gateway_error("http", message, status=status)) is stale


BUSY = gateway_error("http", "busy", status=503)


@pytest.mark.parametrize(
    ("attempt", "error", "chance", "pause_ms"),
    [
        pytest.param(1, BUSY, 1.0, 500, id="the first pause"),
        pytest.param(4, BUSY, 1.0, 4_000, id="each one twice as long"),
        pytest.param(1, BUSY, 0.0, 250, id="spread over half of it"),
        pytest.param(5, BUSY, 1.0, 5_000, id="none longer than the longest"),
        pytest.param(6, BUSY, 1.0, None, id="not for ever"),
        pytest.param(1, gateway_error("auth", "no", status=401), 1.0, None, id="only what may get better"),
        pytest.param(1, GatewayError("rate_limit", "", retry_after_ms=9_000), 1.0, 9_000, id="as asked"),
        pytest.param(1, GatewayError("rate_limit", "", retry_after_ms=10), 1.0, 500, id="never less"),
        pytest.param(1, GatewayError("rate_limit", "", retry_after_ms=99_000), 1.0, None, id="too long"),
    ],
)
def test_patience(attempt: int, error: GatewayError, chance: float, pause_ms: int | None) -> None:
    limits = RetryPolicy(max_attempts=6, first_ms=500, longest_ms=5_000, longest_asked_ms=60_000)
    assert limits.pause_ms(attempt, error, chance) == pause_ms


def assembled(*steps: Sequence[Any]) -> tuple[list[Emission], Reply]:
    assembly = Assembly()
    told: list[Emission] = []
    for name, *arguments in steps:
        told += getattr(assembly, name)(*arguments) or ()
    *_, done = assembly.finish("m")
    assert isinstance(done, DoneEmission)
    assert isinstance(done.reply, Reply)
    return told, done.reply


def test_a_call_is_told_once_it_has_a_name() -> None:
    """Some servers send the name behind the id, and arguments before either."""
    told, reply = assembled(
        ("call", 0, "c1", ""), ("arguments", 0, "{"), ("call", 0, "", "ls"), ("arguments", 0, "}")
    )
    assert told == [
        ToolCallStartEmission("c1", "ls"),
        ToolCallDeltaEmission("c1", "{"),
        ToolCallDeltaEmission("c1", "}"),
    ]
    assert reply.blocks == (ToolCallBlock("c1", "ls", {}),)


def test_calls_without_ids_or_with_the_same_get_ids_of_their_own() -> None:
    _, reply = assembled(
        ("call", 0, "", "a"), ("call", 1, "", "b"), ("call", 2, "x", "c"), ("call", 3, "x", "d")
    )
    ids = [block.id for block in reply.blocks if isinstance(block, ToolCallBlock)]
    assert len(set(ids)) == 4
    assert all(ids)


def test_blocks_keep_the_order_in_which_they_were_made() -> None:
    _, reply = assembled(
        ("thinking", "a"),
        ("sign", "s1"),
        ("text", "b"),
        ("call", 0, "c", "ls"),
        ("thinking", "d"),
        ("text", "e"),
    )
    assert reply.blocks == (
        ThinkingBlock("a", "s1"),
        TextBlock("b"),
        ToolCallBlock("c", "ls", {}),
        ThinkingBlock("d"),
        TextBlock("e"),
    )


def test_reasoning_blocks_are_kept_apart_by_their_signatures() -> None:
    _, reply = assembled(
        ("open_thinking",),
        ("thinking", "a"),
        ("sign", "s1"),
        ("open_thinking",),
        ("sign", "s2"),
        ("open_thinking",),
    )
    assert reply.blocks == (ThinkingBlock("a", "s1"), ThinkingBlock("", "s2"))


def test_argument_text_of_an_unknown_call_is_let_go() -> None:
    assert assembled(("arguments", 9, "{}"))[1].blocks == ()
