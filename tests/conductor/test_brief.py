"""The system prompt: small, and with the parts that never change first."""

from __future__ import annotations

from pathlib import Path

from sidecar.conductor.window.head import write_brief
from sidecar.window_budget import UserMessage, estimate_message_tokens

GOLDEN = Path(__file__).parent.parent / "golden" / "brief.txt"


def test_the_brief_is_as_approved() -> None:
    brief = write_brief("- folder: /project", "# AGENTS.md\nnever push", "Pinned: the port is 7341")
    assert brief == GOLDEN.read_text("utf-8").rstrip("\n")


def test_the_brief_takes_few_tokens() -> None:
    assert estimate_message_tokens(UserMessage(write_brief("- folder: /project"))) < 2_500


def test_parts_that_change_stand_behind_those_that_do_not() -> None:
    plain, other = write_brief("- folder: /a"), write_brief("- folder: /b", "rules", "pins")
    same = next(at for at, (one, two) in enumerate(zip(plain, other, strict=False)) if one != two)
    assert same > 0.95 * len(plain)
