"""Cancelling, and leaving, while a great deal is going on: open requests are answered, once, and in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.fuzz.conftest import Protocol, Target

pytestmark = pytest.mark.e2e

N_TURNS = 6
N_FLOOD = 150
HANGS = {"m": {"scripted": [[{"text": "x"}, {"hang": True}]] * N_TURNS}}


def begin(target: Target, face: Protocol) -> list[str]:
    """Begin a turn in each of many sessions, none of which ends by itself; return the requests."""
    sids = [target.session(models=HANGS)]
    sids += [target.another_session(model="m") for _ in range(N_TURNS - 1)]
    for sid in sids:
        words = [{"type": "text", "text": "go"}]
        if face == "lsp":
            asked: dict[str, Any] = {"method": "sidecar/turn/run", "params": {"sid": sid, "input": words}}
        else:
            asked = {"method": "session/prompt", "params": {"sessionId": sid, "prompt": words}}
        target.send_messages({"id": f"whole-{sid}", **asked})
    return [f"whole-{sid}" for sid in sids]


def flood(target: Target, face: Protocol, first: int) -> None:
    """Ask a great deal, by numbers from *first* on, without waiting for any of it."""
    method = "sidecar/session/list" if face == "lsp" else "session/list"
    numbers = range(first, first + N_FLOOD)
    target.send_messages(*({"id": n, "method": method, "params": {}} for n in numbers))


def is_cancelled(face: Protocol, answer: Any) -> bool:
    """Whether a request, or a prompt, was answered as cancelled."""
    if face == "lsp":
        return bool(answer.get("error", {}).get("code") == -32800)
    return bool(answer.get("result", {}).get("stopReason") == "cancelled")


@pytest.mark.parametrize("face", ["lsp", "acp"])
def test_cancelling_and_leaving_under_load(face: Protocol, start: Callable[[Protocol], Target]) -> None:
    target = start(face)
    requests = begin(target, face)
    while (counted := target.status())["sessions"]["running"] < N_TURNS:
        assert counted["queues"]["in"] == N_TURNS + 1
    flood(target, face, 0)
    cancelled, left = requests[: N_TURNS // 2], requests[N_TURNS // 2 :]
    for request_id in cancelled:
        cancel = ("$/cancelRequest", "id") if face == "lsp" else ("$/cancel_request", "requestId")
        target.send_messages({"method": cancel[0], "params": {cancel[1]: request_id}})
    assert all(is_cancelled(face, target.answer(request_id)) for request_id in cancelled)
    flood(target, face, N_FLOOD)
    assert target.end() == 0
    ended = {target.answer(request_id)["result"]["stopReason"] for request_id in left}
    assert (ended, len(target.answered), set(target.answered.values())) == ({"cancelled"}, 2 * N_FLOOD, {1})
    assert (target.defects, target.complaints) == ([], b"")
