"""The scrollback: the text for the summarising model, however it came together."""

from __future__ import annotations

import pytest

from sidecar.window_budget import Message, UserMessage, flatten_transcript
from sidecar.window_budget.scrollback import BLOCK_BYTES, Scrollback


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


def test_texts_beyond_ascii_are_cut_between_their_lines() -> None:
    """Half a character, which is no UTF-8, and an empty line among them."""
    texts = [f"{'é日' * (number % 50)}{chr(0xD800 + number % 9)} {number}" for number in range(3_000)]
    transcript: list[Message] = [
        UserMessage("" if number % 7 == 0 else text) for number, text in enumerate(texts)
    ]
    scrollback = Scrollback().extend(transcript)
    assert scrollback.n_bytes(0, len(transcript)) > 2 * BLOCK_BYTES
    for start, end in [(0, 3_000), (1, 2), (7, 8), (499, 2_777)]:
        shown = flatten_transcript(transcript[start:end])
        assert "\n".join(scrollback.text(start, end)) == shown
        again = scrollback.first(end).extend([UserMessage("other")])
        assert "\n".join(again.text(start, end)) == shown
