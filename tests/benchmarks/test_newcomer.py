"""How long the built-in model takes to answer the five questions of a newcomer, about this project.

Each is a whole turn of a real daemon, and is compared with a plain loop that reads all files of the project
once. It reads this whole project; the answers to such questions are tested in a small one.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from measures import tell
from repository import ROOT
from sidecar.capabilities.listing import TreeWalk
from sidecar_client import SidecarClient, allow

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

QUESTIONS = (
    "What is this project?",
    "How do I run the tests?",
    "Where is the retry policy?",
    "Where is the passage of an edit matched?",
    "What uses CancelToken?",
    "What changed lately?",
)
ROUNDS = 5
MOST_SEARCHES = 12
"""A question is answered within so many plain searches."""


def search_plainly() -> float:
    """Return the seconds in which a loop over all files of the project finds a name."""
    wanted = re.compile(rb"RetryPolicy")
    began = time.perf_counter()
    for _, entry in TreeWalk(ROOT, ROOT, lambda: False):
        if entry.is_file(follow_symlinks=False):
            wanted.search(Path(entry.path).read_bytes())
    return time.perf_counter() - began


async def test_the_questions_of_a_newcomer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times_are_judged: bool
) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    plain_s = min(search_plainly() for _ in range(3))
    async with SidecarClient.spawn(cwd=ROOT, permission=allow) as client:
        for question in QUESTIONS:
            times: list[float] = []
            for _ in range(ROUNDS if times_are_judged else 1):
                session = await client.start_session(ROOT, model="offline-1")
                began = time.perf_counter()
                answer = (await session.run(question)).text
                times.append(time.perf_counter() - began)
                assert re.search(r"- `[^`]+:\d+`|- [0-9a-f]{7}", answer), answer
            best = min(times)
            tell(f"{question} {best * 1e3:.0f} ms, {best / plain_s:.2f} of a plain search")
            assert best < MOST_SEARCHES * plain_s or not times_are_judged
