"""Three failures in a row stop the attempts, and every fifth occasion tries again."""

from __future__ import annotations

from sidecar._internal.breaker import Breaker


def asked(answers: str) -> str:
    """Return which occasions ask (A) or skip (.), where asking brings f, a failure, or o, an answer."""
    breaker, log = Breaker(), ""
    for answer in answers:
        may = breaker.may_call()
        log += "A" if may else "."
        breaker = breaker.after(called=may, failed=answer == "f")
    return log


def test_three_failures_open_it_and_every_fifth_occasion_asks() -> None:
    assert asked("f" * 18) == "AAA" + "....A" * 3


def test_an_answer_closes_it() -> None:
    assert asked("fff" + "....o" + "oooo") == "AAA" + "....A" + "AAAA"


def test_failures_must_be_in_a_row() -> None:
    assert asked("ffo" * 8) == "A" * 24
