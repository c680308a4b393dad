"""Model factors: how many tokens a provider counts for one of the estimate, learned from the usage of calls.

The estimate of a text is fitted to one tokenizer. That of another model takes more or fewer tokens, by a
factor that hardly changes from call to call. The factor of a model is the median of its newest ratios of
reported to estimated tokens, so that outliers count for nothing, such as a call with an unusually large
image. Calls too small to tell are left out, and ratios that no tokenizer explains. Before the third ratio
the factor is 1. For example, after calls with the ratios 1.2, 1.25, 9.0 and 1.22 it is 1.22.

The ratios are stored in one small file of the state directory, by the names of models; nothing else is in it.
A file that cannot be read, or holds anything else, counts as empty. It is written in a thread, and replaced
as a whole; of two daemons the one that writes last wins. A lost write costs three calls of a model.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any, Final

from sidecar._internal.state_folder import read_state_file, replace_state_file
from sidecar.llmgateway.contract import ModelCard

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
        self._ratios = {} if path is None else read_ratios(path)
        self._stored: dict[str, float] = {}
        self._writing: asyncio.Future[None] | None = None

    def of(self, card: ModelCard | None) -> float:
        """Return the factor of the model of *card*, 1 for an unknown one."""
        ratios = self._ratios.get(_name_of(card), []) if card is not None else []
        return median_low(ratios) if len(ratios) >= MIN_RATIOS else 1.0

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
        self._ratios[name] = [*self._ratios.pop(name, []), ratio][-MAX_RATIOS:]
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

        write = partial(replace_state_file, self._path, json.dumps({"ratios": self._ratios}).encode())
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
