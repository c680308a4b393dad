"""Broken frames by the thousand, at the real process: it lives, answers each id once, and stays small.

``make fuzz`` throws a hundred thousand at either face, and ``make soak`` a million, of the seeds 1 to 20; the
suite throws a few thousand, the same each time.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fuzz.conftest import Fuzz, Protocol, Target

pytestmark = pytest.mark.e2e

N_FRAMES = int(os.environ.get("FUZZ_FRAMES", "2500"))
FIRST_SEED, _, LAST_SEED = os.environ.get("FUZZ_SEED", "20260820").partition("-")
SEEDS = range(int(FIRST_SEED), int(LAST_SEED or FIRST_SEED) + 1)
"""``FUZZ_SEED`` is one seed, or the first and the last: ``1-20``."""

BATCH = 250
N_WARM_BATCHES = 100_000 // BATCH
MOST_GROWN_BYTES = 8_000_000
"""Growth after the first hundred thousand frames. The files that an editor has opened and the newest part of
the log are kept; frames are not."""

TURN_BYTES = 6_000
"""What each turn of the session holds, of which there are some thousand among a million frames."""


def weigh(target: Target, sid: str) -> int:
    """Return the memory of the daemon without the conversation of the session, in bytes."""
    n_turns = len(target.ask("sidecar/session/tree", {"sid": sid})["nodes"])
    return int(target.status()["rssBytes"]) - n_turns * TURN_BYTES


@pytest.mark.parametrize("face", ["lsp", "acp"])
def test_each_id_is_answered_once_and_memory_stays_flat_for_any_input(
    face: Protocol, fuzz: Fuzz, start: Callable[[Protocol], Target]
) -> None:
    target = start(face)
    sid = target.session()
    expected: Counter[int | str | None] = Counter()
    n_batches = warm = 0
    for seed in SEEDS:
        rng = random.Random(f"{seed} {face}")
        bodies = fuzz.bodies(fuzz.gathered(face, sid), rng, N_FRAMES // len(SEEDS))
        while some := tuple(islice(bodies, BATCH)):
            lines = [body.replace(b"\n", b" ") if face == "acp" else body for body in some]
            expected.update(answer for body in lines for answer in fuzz.answers_to(face, body))
            target.send(b"".join(target.frame(body, rng) for body in lines))
            target.wait_until(lambda: target.answered.total() >= expected.total())
            n_batches += 1
            if n_batches == min(N_FRAMES // BATCH // 2, N_WARM_BATCHES):
                warm = weigh(target, sid)
    assert target.status()["queues"]["in"] == 1
    assert weigh(target, sid) - warm <= MOST_GROWN_BYTES
    assert target.end() == 0
    assert target.answered == expected
    assert (target.defects, target.complaints) == ([], b"")
