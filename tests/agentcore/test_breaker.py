"""Failure B-A7: three failures in a row, then only every fifth crossing asks, until the model answers."""

from __future__ import annotations

from sidecar.agentcore.breaker import Breaker


def asked(answers: str) -> str:
    """Return which crossings ask (A) or skip (.), where asking brings f, a failure, or o, an answer."""
    breaker, log = Breaker(), ""
    for answer in answers:
        may = breaker.may_ask()
        log += "A" if may else "."
        breaker = breaker.after(asked=may, failed=answer == "f")
    return log


def test_b_a7_three_failures_open_it_and_every_fifth_crossing_asks() -> None:
    assert asked("f" * 18) == "AAA" + "....A" * 3


def test_b_a7_an_answer_closes_it() -> None:
    assert asked("fff" + "....o" + "oooo") == "AAA" + "....A" + "AAAA"


def test_b_a7_failures_must_be_in_a_row() -> None:
    assert asked("ffo" * 8) == "A" * 24
