"""The scrollback: the text for the summarising model, however it came together."""

from __future__ import annotations

import pytest

from sidecar.window_budget import CompactionSummaryMessage, Message, UserMessage, flatten_transcript
from sidecar.window_budget.message import BRANCH_HEADER
from sidecar.window_budget.scrollback import BLOCK_BYTES, DigestText, Scrollback


@pytest.mark.parametrize("at", [0, 3, 700])
def test_blocks_of_text_change_nothing(at: int) -> None:
    """However much text there is, and wherever it is cut."""
    transcript: list[Message] = [UserMessage(f"{number} {'x' * (number % 900)}") for number in range(700)]
    transcript += [UserMessage("y" * 2 * BLOCK_BYTES), UserMessage("")] * 2
    scrollback = Scrollback().extend(transcript[:at]).extend(transcript[at:])
    for start, end in [(0, len(transcript)), (1, 699), (350, 350), (500, 703), (702, 703)]:
        assert "\n".join(scrollback.text(start, end)) == flatten_transcript(transcript[start:end])
    fork = scrollback.extend([])
    scrollback.extend([UserMessage("later")])
    again = fork.extend([UserMessage("other")])
    assert "\n".join(again.text(0, len(transcript) + 1)) == flatten_transcript(
        [*transcript, UserMessage("other")]
    )


def test_digests_and_branches_are_known_by_their_place() -> None:
    branch = UserMessage(f"{BRANCH_HEADER}\n\ntried a lock")
    scrollback = Scrollback().extend([CompactionSummaryMessage("# Plan", 0), UserMessage("go on"), branch])
    assert scrollback.digests(1) == [DigestText(0, "# Plan")]
    assert (scrollback.branches(2), scrollback.branches(3)) == ([], [DigestText(2, "tried a lock")])
