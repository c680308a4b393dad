"""Broken frames by the thousand, at the real process: it lives, answers each id once, and stays small.

``make fuzz`` throws a hundred thousand at either face, and ``make soak`` a million, of the seeds 1 to 20; the
suite throws a thousand, the same each time.
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

N_FRAMES = int(os.environ.get("FUZZ_FRAMES", "1000"))
FIRST_SEED, _, LAST_SEED = os.environ.get("FUZZ_SEED", "20260820").partition("-")
SEEDS = range(int(FIRST_SEED), int(LAST_SEED or FIRST_SEED) + 1)
"""``FUZZ_SEED`` is one seed, or the first and the last: ``1-20``."""

BATCH = 250
PART = min(10_000, N_FRAMES // len(SEEDS) // 2)
"""Frames for one session; a new one comes after it, so that no conversation grows with the frames."""

N_WARM_FRAMES = min(N_FRAMES // 2, 100_000)
MOST_GROWN_BYTES = 4_000_000
"""Growth after the first hundred thousand frames. The files that an editor has opened and the newest part of
the log are kept; frames are not. A run of less than a hundred thousand loads modules until its end, and is
not weighed."""


def weigh(target: Target) -> int:
    """Return the memory of the daemon in bytes, once all its sessions are deleted."""
    while sessions := target.ask("sidecar/session/list", {"archived": True})["sessions"]:
        for each in sessions:
            target.ask("sidecar/session/delete", {"sid": each["sid"]})
    return int(target.status()["rssBytes"])


@pytest.mark.parametrize("face", ["lsp", "acp"])
def test_each_id_is_answered_once_and_memory_stays_flat_for_any_input(
    face: Protocol, fuzz: Fuzz, start: Callable[[Protocol], Target]
) -> None:
    target = start(face)
    sid = target.session()
    expected: Counter[int | str | None] = Counter()
    n_sent, weights = 0, list[int]()
    for seed in SEEDS:
        rng = random.Random(f"{seed} {face}")
        for _ in range(N_FRAMES // len(SEEDS) // PART):
            bodies = fuzz.bodies(fuzz.gathered(face, sid), rng, PART)
            while some := tuple(islice(bodies, BATCH)):
                lines = [body.replace(b"\n", b" ") if face == "acp" else body for body in some]
                expected.update(answer for body in lines for answer in fuzz.answers_to(face, body))
                target.send(b"".join(target.frame(body, rng) for body in lines))
                target.wait_until(lambda: target.answered.total() >= expected.total())
            n_sent += PART
            weights += [weigh(target)] if n_sent >= N_WARM_FRAMES else []
            sid = target.another_session()
    assert target.status()["queues"]["in"] == 1
    assert N_FRAMES < 100_000 or weights[-1] - weights[0] <= MOST_GROWN_BYTES, weights
    assert target.end() == 0
    assert target.answered == expected
    assert (target.defects, target.complaints) == ([], b"")
