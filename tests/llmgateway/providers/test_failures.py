"""The failures of providers as typed errors: pauses, overflow, masked messages, refused reasoning."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import gateway_error
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
def test_the_pause_in_the_headers_of_a_server(headers: dict[str, str], pause_ms: int | None) -> None:
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
def test_every_wording_of_a_conversation_that_is_too_long(message: str, window: int | None) -> None:
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
