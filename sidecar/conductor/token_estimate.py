"""The token estimate of the host: how many tokens a text takes, without a tokenizer.

A quarter of the characters is a fair estimate of English prose. One message is 15 % off, though, and
hashes, base64 and most languages take up to three times as many tokens. Prose, code, JSON, logs and each
script need weights of their own. A text is not assigned to one of these classes, as it may hold several.
The estimate is a sum in which the content finds its weights by itself:

    tokens = sum over the bytes of the text's UTF-8 of  BYTE_WEIGHTS[byte]
           + sum over a few patterns of  weight * how often the pattern occurs

Bytes tell letters, digits, punctuation and scripts apart. The patterns correct the sum in two ways. A
tokenizer joins long words, runs of digits, blanks and dashes into one token. It cannot join the letters and
digits that alternate in a hash. Most patterns are counted in the *shape* of the text, in which every small
letter is ``a``, every capital ``A``, every digit ``0``, every other ASCII sign ``p`` and everything else
``x``; the shape of ``Fix v2!`` is ``Aaa a0p``.

The weights are 106 to a token of o200k. They were fitted on half of a corpus of recorded sessions and of
texts in 90 languages, leaning high. An estimate too low is worse than one too high, and the errors of many
words even out as the square root of their number: of ten names, half may be rare ones, of a thousand hardly.
So a text of more than one token is given ``SPREAD`` times that root more, a ninth of 25 tokens and a
hundredth of 4,000. On the other half the mean error of a message of 20 tokens or more is 7.4 %. Of all 8,701
such messages none is more than 20 % too low: names that end in a number, and the signs that a terminal draws
with, were missed by more on both halves and have weights since. All together are 3 % too high.
Two texts joined take a little less than the sum of both. Other tokenizers differ by a factor.

Cost: linear, about 0.2 ms for 10 kB of text; of a text beyond 64 kB, parts that are spread over all of it
are measured.

Model factors say how many tokens a provider counts for one of the estimate, learned from the usage of calls.
The factor of a model hardly changes from call to call. It is the median of its newest ratios of reported to
estimated tokens, so that outliers count for nothing, such as a call with an unusually large image. Calls too
small to tell are left out, and ratios that no tokenizer explains. Before the third ratio the factor is 1. For
example, after calls with the ratios 1.2, 1.25, 9.0 and 1.22 it is 1.22.

The ratios are stored in one small file of the state directory, by the names of models; nothing else is in it.
A file that cannot be read, or holds anything else, counts as empty. It is written in a thread, and replaced
as a whole; of two daemons the one that writes last wins. A lost write costs three calls of a model.
"""

from __future__ import annotations

import asyncio
import json
import logging
from array import array
from collections.abc import Mapping
from functools import partial
from math import sqrt
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final

from sidecar._internal.state_folder import read_state_file, replace_state_file
from sidecar.llmgateway.contract import (
    Block,
    CommandBlock,
    ImageBlock,
    ModelCard,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Turn,
)
from sidecar.text.clip import compact_json, text_or_json

TURN_TOKENS: Final = 4
CALL_TOKENS: Final = 6
IMAGE_TOKENS: Final = 1024
"""The tokens that a turn takes beside its text, a tool call or result beside its own, and an image."""

WHOLE_CHARS: Final = 65_536
N_PARTS: Final = 16
"""A longer text is measured in so many parts, together as long as the longest text that is measured whole."""

# fmt: off
BYTE_WEIGHTS: Final = bytes((
    50, 50, 50, 50, 50, 50, 50, 50, 50, 24, 63, 50, 50, 10, 50, 50,
    50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 90, 50, 50, 50, 50,
    16, 132, 44, 28, 75, 46, 59, 50, 66, 41, 61, 21, 72, 41, 44, 72,
    135, 113, 147, 134, 138, 110, 134, 117, 141, 142, 50, 32, 64, 8, 58, 137,
    144, 49, 10, 7, 0, 0, 50, 53, 0, 34, 11, 41, 22, 41, 23, 28,
    32, 27, 43, 33, 21, 34, 68, 74, 104, 98, 64, 150, 61, 99, 64, 55,
    70, 19, 79, 29, 35, 15, 46, 44, 40, 44, 199, 93, 50, 37, 8, 14,
    19, 238, 30, 19, 30, 23, 65, 56, 78, 64, 195, 36, 76, 26, 148, 50,
    16, 0, 49, 6, 46, 16, 50, 12, 0, 35, 2, 21, 6, 24, 36, 17,
    59, 32, 37, 46, 0, 67, 81, 11, 40, 20, 34, 63, 51, 23, 29, 68,
    48, 0, 48, 6, 2, 45, 0, 12, 44, 53, 43, 52, 26, 36, 12, 42,
    29, 0, 26, 0, 29, 0, 23, 0, 23, 29, 36, 0, 3, 22, 0, 55,
    40, 40, 23, 57, 63, 90, 40, 97, 106, 30, 40, 40, 40, 40, 31, 0,
    8, 28, 36, 155, 32, 16, 2, 4, 0, 12, 5, 88, 40, 40, 40, 40,
    0, 0, 83, 17, 5, 52, 7, 26, 49, 40, 40, 45, 7, 40, 40, 27,
    70, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40, 40,
))
# fmt: on
"""The weight of each byte of UTF-8 in 106ths of a token."""

UNIT: Final = 106
SPREAD: Final = 0.7
"""The weight of one token, and how many more a text is given for the root of their number."""

_CLASSES: Final = {
    "a": ascii_lowercase.encode(),
    "A": ascii_uppercase.encode(),
    "0": digits.encode(),
    " ": b" \t",
    "\n": b"\r\n",
}
_SHAPES: Final = bytes(
    next(
        (ord(shape) for shape, members in _CLASSES.items() if byte in members),
        ord("p" if byte < 128 else "x"),
    )
    for byte in range(256)
)
_SHAPE_WEIGHTS: Final = (
    (b" p", 43),
    (b"a A", 31),
    (b"aA", 30),
    (b"A0", 96),
    (b"00", -128),
    (b"000", -93),
    (b"aaaa", -56),
    (b"a  ", 171),
    (b"pp", -18),
    (b"AAAA", -63),
    (b"a\n", 68),
    (b"pap", 56),
    (b"ap0", 134),
    (b"0a", 23),
    (b" 0", 72),
    (b"0A", 46),
    (b"App", 112),
    (b"a" * 24, 150),
    (b"\n\n", -92),
)
_TEXT_WEIGHTS: Final = (
    ("─".encode() * 8, -638),
    (b"****", -199),
    (b"----", -120),
    (b"....", -126),
    (b" " * 8, -110),
    (b"ion", -47),
    (b"in", -18),
)
"""Patterns in the shape of a text and in the text itself, with their weights in 106ths of a token."""


def estimate_text_tokens(text: str) -> int:
    """Return about how many tokens *text* takes, 0 for none.

    >>> estimate_text_tokens("Fix the parser, and never touch the tests."), estimate_text_tokens("")
    (10, 0)
    """
    if not text:
        return 0
    measured = text
    if len(text) > WHOLE_CHARS:
        step, size = len(text) // N_PARTS, WHOLE_CHARS // N_PARTS
        measured = "".join(text[part * step : part * step + size] for part in range(N_PARTS))
    data = measured.encode("utf-8", "replace")
    shape = data.translate(_SHAPES)
    weight = sum(data.translate(BYTE_WEIGHTS))
    for pattern, each in _SHAPE_WEIGHTS:
        weight += each * shape.count(pattern)
    for pattern, each in _TEXT_WEIGHTS:
        weight += each * data.count(pattern)
    tokens = max(1.0, weight * len(text) / len(measured) / UNIT)
    return round(tokens + SPREAD * (sqrt(tokens) - 1))


def text_tokens(text: str) -> int:
    """Return the tokens of a message of *text*, 0 for none."""
    return estimate_text_tokens(text) + TURN_TOKENS if text else 0


def estimate_turn_tokens(turn: Turn) -> int:
    """Return about how many tokens a request spends on *turn*.

    >>> from sidecar.llmgateway.contract import UserTurn
    >>> estimate_turn_tokens(UserTurn((TextBlock("Fix the parser."),)))
    9
    """
    return TURN_TOKENS + sum(map(estimate_block_tokens, turn.blocks))


def estimate_block_tokens(block: Block) -> int:
    """Return about how many tokens a request spends on *block*."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(text=text):
            return estimate_text_tokens(text)
        case ToolCallBlock(name=name, input=value):
            arguments = "" if value is None else compact_json(value)
            return CALL_TOKENS + estimate_text_tokens(name) + estimate_text_tokens(arguments)
        case ToolResultBlock(output=output):
            return CALL_TOKENS + estimate_text_tokens(text_or_json(output))
        case ImageBlock():
            return IMAGE_TOKENS
        case CommandBlock(command=command, args=args):
            return estimate_text_tokens(" ".join((command, *(args or ()))))


MIN_TOKENS: Final = 1_000
"""Smaller requests are mostly framing, of which each provider has its own."""

LEAST_RATIO: Final = 0.5
MOST_RATIO: Final = 3.0

MIN_RATIOS: Final = 3
MAX_RATIOS: Final = 15
"""How many ratios of a model are needed, and how many of the newest are kept."""

MAX_MODELS: Final = 64
MAX_FILE_BYTES: Final = 65_536
WORTH_WRITING: Final = 0.01
"""The factor is stored again once it moved by so much."""

_log = logging.getLogger(__name__)


class ModelFactors:
    """The factors of all models; *path* is the file that keeps them, None for none.

    >>> from sidecar.llmgateway.contract import CostSheet
    >>> card = ModelCard("m", "mock", "mock", "M", context_window=200_000, max_output_tokens=1,
    ...                  modalities=("text",), reasoning=False, cost=CostSheet(0, 0))
    >>> factors = ModelFactors()
    >>> for reported in (12_000, 12_500, 90_000, 12_200):
    ...     factors.learn(card, estimated=10_000, reported=reported)
    >>> factors.of(card), factors.of(None)
    (1.22, 1.0)
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        # Arrays: a number object of each turn would keep the memory around it from being returned.
        read = {} if path is None else read_ratios(path)
        self._ratios = {name: array("d", ratios) for name, ratios in read.items()}
        self._stored: dict[str, float] = {}
        self._writing: asyncio.Future[None] | None = None

    def of(self, card: ModelCard | None) -> float:
        """Return the factor of the model of *card*, 1 for an unknown one."""
        ratios = self._ratios.get(_name_of(card), ()) if card is not None and self._ratios else ()
        return sorted(ratios)[(len(ratios) - 1) // 2] if len(ratios) >= MIN_RATIOS else 1.0

    def learn(self, card: ModelCard | None, *, estimated: int, reported: int) -> None:
        """Take in one call of the model of *card*.

        Args:
            card: the model; None for an unknown one, of which nothing is kept.
            estimated: the tokens of the request by the estimate alone.
            reported: the tokens of the request by the provider.
        """
        if card is None or min(estimated, reported) < MIN_TOKENS:
            return
        ratio = round(reported / estimated, 3)
        if not LEAST_RATIO <= ratio <= MOST_RATIO:
            return
        name = _name_of(card)
        self._ratios[name] = array("d", [*self._ratios.pop(name, ()), ratio][-MAX_RATIOS:])
        if len(self._ratios) > MAX_MODELS:
            del self._ratios[next(iter(self._ratios))]
        if abs(self.of(card) - self._stored.get(name, 1.0)) >= WORTH_WRITING:
            self._stored[name] = self.of(card)
            self._write()

    def _write(self) -> None:
        """Store the ratios; while a write is under way, once more after it."""
        if self._path is None:
            return
        if self._writing is not None:
            self._writing.add_done_callback(lambda _: self._write())
            return

        def end(written: asyncio.Future[None]) -> None:
            self._writing = None
            if not written.cancelled() and (error := written.exception()) is not None:
                _log.debug("the factors of models cannot be stored: %s", type(error).__name__)

        stored = {"ratios": {name: [*ratios] for name, ratios in self._ratios.items()}}
        write = partial(replace_state_file, self._path, json.dumps(stored).encode())
        self._writing = asyncio.get_running_loop().run_in_executor(None, write)
        self._writing.add_done_callback(end)


def read_ratios(path: Path) -> dict[str, list[float]]:
    """Return the ratios in the file at *path*, as far as they are valid; none for any other file."""
    try:
        found: Any = json.loads(read_state_file(path, MAX_FILE_BYTES))
        stored = found["ratios"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    valid: dict[str, list[float]] = {}
    for name, ratios in stored.items() if isinstance(stored, Mapping) else ():
        known = [each for each in ratios if isinstance(each, int | float)] if isinstance(ratios, list) else []
        valid[name] = [each for each in known if LEAST_RATIO <= each <= MOST_RATIO][-MAX_RATIOS:]
    return dict(list(valid.items())[-MAX_MODELS:])


def _name_of(card: ModelCard) -> str:
    return f"{card.provider}/{card.id}"[:200]
