"""The failures of providers as typed errors: pauses, overflow, masked messages, refused reasoning."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import GatewayError
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
    assert is_stale_thinking(GatewayError("http", message, status=status)) is stale


@pytest.mark.parametrize(
    ("status", "code", "advice", "retryable"),
    [
        (400, "", "true", True),
        (503, "", "false", False),
        (429, "insufficient_quota", "false", False),
        (503, "", "perhaps", True),
        (400, "context_length_exceeded", "true", False),
    ],
)
def test_a_server_says_in_a_header_whether_to_try_again(
    status: int, code: str, advice: str, *, retryable: bool
) -> None:
    failure = ProviderFailure("no", status, code=code, headers={"X-Should-Retry": advice})
    assert to_gateway_error(failure, "p").retryable is retryable


def test_a_word_in_the_place_of_a_key_is_not_taken_out_of_messages() -> None:
    error = to_gateway_error(ProviderFailure("ollama has no such model", 404), "ollama", key="ollama")
    assert "ollama has no such model" in error.message
