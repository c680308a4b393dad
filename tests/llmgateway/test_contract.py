"""Which failures of a model call may succeed when tried again."""

from __future__ import annotations

import pytest

from sidecar.llmgateway.contract import GatewayError, gateway_error


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (gateway_error("rate_limit", "no", status=429), True),
        (gateway_error("transport", "no"), True),
        (gateway_error("http", "no", status=500), True),
        (gateway_error("http", "no", status=529), True),
        (gateway_error("http", "no", status=408), True),
        (gateway_error("http", "no", status=400), False),
        (gateway_error("http", "no"), False),
        (gateway_error("auth", "no", status=401), False),
        (gateway_error("parse", "no"), False),
        (gateway_error("unsupported", "no"), False),
        (gateway_error("aborted", "no"), False),
        pytest.param(GatewayError("http", "no", status=400, retryable=True), True, id="as the service says"),
        pytest.param(GatewayError("rate_limit", "quota", status=429, retryable=False), False, id="a quota"),
        pytest.param(GatewayError("http", "too long", status=500, is_overflow=True), False, id="no room"),
    ],
    ids=lambda value: f"{value.kind} {value.status}" if isinstance(value, GatewayError) else None,
)
def test_whether_it_may_succeed_later_follows_from_kind_and_status(
    error: GatewayError, retryable: bool
) -> None:
    assert error.retryable is retryable
