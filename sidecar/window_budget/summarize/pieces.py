"""Condensing more than one prompt can hold: piece by piece, each carrying the digest of those before it.

Every prompt fits the summarising model's window. Each piece sees the original bodies; what one piece
condensed reaches the next as its carried digest, so the last answer covers all of them. One failed piece
fails the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidecar.llmgateway.contract import ModelCard
from sidecar.window_budget.budget.estimate import chars_in, tokens_of_chars
from sidecar.window_budget.contract import CondenseScope
from sidecar.window_budget.summarize.condense import ModelDigest, SummarizeDeps, ask_model
from sidecar.window_budget.summarize.ledger import FactLedger
from sidecar.window_budget.summarize.prompt import CONDENSER_BRIEF, SECTION_TEMPLATE, assemble_prompt
from sidecar.window_budget.text import cut_end

__all__ = ["ask_in_pieces", "piece_bytes", "piece_prompt", "split_scrollback"]

WINDOW_SHARE = 0.8
"""How much of the window a prompt takes at most: the estimate is a heuristic."""

OUTPUT_SHARE = 0.25
"""How much of the window is left to the answer at most, whatever the card says its limit is."""

CARRIED_SHARE = 0.25
"""How much of a prompt the carried digest takes at most."""

FRAME_TOKENS = tokens_of_chars(len(CONDENSER_BRIEF) + len(SECTION_TEMPLATE) + 400)
"""Brief, headings, framing line, tags."""

MIN_PIECE_BYTES = 512
LONGEST_CHARACTER = 4
"""In UTF-8 bytes."""


async def ask_in_pieces(
    pieces: Sequence[Sequence[str]],
    prior: str | None,
    deps: SummarizeDeps,
    *,
    carried_chars: int | None = None,
    instructions: str | None = None,
) -> ModelDigest:
    """Return the model's digest of *pieces*, asked one after the other.

    Args:
        pieces: flattened transcript, oldest first, each a list of lines; at least one.
        prior: the digest carried into the first piece.
        deps: the model call; its own ``prior_digest`` is not used here.
        carried_chars: the size a carried digest is cut to, None for any.
        instructions: what the user asked of the digest.
    """
    digest = ModelDigest(prior or "")
    for piece in pieces:
        digest = await ask_model(piece_prompt(piece, digest.text, carried_chars, instructions), deps)
        if digest.failure is not None:
            return digest
    return digest


def piece_prompt(
    piece: Sequence[str], carried: str, carried_chars: int | None = None, instructions: str | None = None
) -> str:
    """Return the prompt that asks for a digest of *piece* on top of *carried*, cut to *carried_chars*."""
    if carried_chars is not None:
        carried = cut_end(carried, carried_chars, "[... {} characters cut ...]")
    return assemble_prompt(piece, CondenseScope.SESSION, carried, instructions)


def piece_bytes(card: ModelCard | None, instructions: str | None = None) -> tuple[int | None, int | None]:
    """Return how many bytes of transcript, and characters of carried digest, one prompt to *card* holds.

    Bytes rather than characters, so that a script of three bytes a character is not counted as Latin prose.
    None, None without a card: nothing is known of the window.
    """
    if card is None:
        return None, None
    output = min(card.max_output_tokens, int(card.context_window * OUTPUT_SHARE))
    frame = FRAME_TOKENS + tokens_of_chars(len(instructions or ""))
    prompt = int((card.context_window - output) * WINDOW_SHARE) - frame
    carried = chars_in(int(prompt * CARRIED_SHARE))
    return max(MIN_PIECE_BYTES, chars_in(prompt) - carried), max(MIN_PIECE_BYTES, carried)


def split_scrollback(
    ledger: FactLedger, spans: Sequence[tuple[int, int]], max_bytes: int | None
) -> Iterator[Sequence[str]]:
    """Yield the messages of *spans* as flattened lines, in pieces of at most *max_bytes* bytes.

    Args:
        ledger: the transcript as the summariser reads it.
        spans: ranges of message positions, ``[start, end)``, in order.
        max_bytes: None for one piece whatever the size. A single message larger than that is itself divided.
    """
    if max_bytes is None or sum(ledger.weight(start, end) for start, end in spans) <= max_bytes:
        yield [line for start, end in spans for line in ledger.scrollback(start, end)]
        return
    for start, end in spans:
        while start < end:
            reach = ledger.reach(start, end, max_bytes)
            if reach > start:
                yield from filter(None, [ledger.scrollback(start, reach)])
            else:
                reach = start + 1
                yield from ([part] for part in _divided("".join(ledger.scrollback(start, reach)), max_bytes))
            start = reach


def _divided(text: str, max_bytes: int) -> Iterator[str]:
    """Yield *text*, which is longer than *max_bytes*, in pieces that end between characters."""
    data = text.encode("utf-8", "replace")
    start, step = 0, max(max_bytes, LONGEST_CHARACTER)
    while start < len(data):
        end = min(start + step, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end].decode()
        start = end
