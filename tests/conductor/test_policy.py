"""Thresholds that clients set: numbers that arithmetic can go by, or a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar._internal.errors import InvalidInput
from sidecar.conductor.session import CompactRequest

BAD = [
    pytest.param({"triggerRatio": -0.5}, id="less than nothing"),
    pytest.param({"triggerRatio": 0.5, "reserveTokens": 1e308}, id="beyond all windows"),
    pytest.param({"keepRecent": float("nan")}, id="no number"),
    pytest.param({"keepRecent": float("inf")}, id="endless"),
]


@pytest.mark.parametrize("policy", BAD)
async def test_a_threshold_that_is_none_is_refused(make_stage: Any, policy: dict[str, float]) -> None:
    """A session that had it could not even say how full its window is."""
    stage = await make_stage()
    with pytest.raises(InvalidInput, match=r"policy\."):
        await stage.session(policy=policy)
    session = await stage.session(policy={"triggerRatio": 0, "keepRecent": 1e12, "ofAnotherEngine": 3})
    for ask in (session.preview, session.compact):
        with pytest.raises(InvalidInput, match=r"policy\."):
            ask(CompactRequest(policy=policy))
    assert session.usage().used > 0
