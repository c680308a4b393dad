"""Which failures of a model call may succeed when tried again."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import GatewayError, GatewayErrorKind, gateway_error


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("rate_limit", 429, True),
        ("transport", None, True),
        ("http", 500, True),
        ("http", 529, True),
        ("http", 408, True),
        ("http", 400, False),
        ("http", None, False),
        ("auth", 401, False),
        ("parse", None, False),
        ("unsupported", None, False),
        ("aborted", None, False),
    ],
)
def test_whether_it_may_succeed_later_follows_from_kind_and_status(
    kind: GatewayErrorKind, status: int | None, retryable: bool
) -> None:
    assert gateway_error(kind, "no", status=status).retryable is retryable


def test_a_window_in_use_goes_before_the_largest_possible() -> None:
    assert GatewayError("http", "no", status=400, retryable=True).retryable
    assert not GatewayError("rate_limit", "quota used up", status=429, retryable=False).retryable


def test_a_conversation_that_does_not_fit_never_succeeds_as_it_is() -> None:
    error = GatewayError("http", "too long", status=500, is_overflow=True)
    assert (error.is_overflow, error.retryable) == (True, False)
