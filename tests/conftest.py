"""Shared setup of the tests: impossible states raise, the user's own files stay out of it.

Properties are tried with the same cases each time; ``--hypothesis-profile=search`` looks for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

os.environ["INDUSAGI_STRICT"] = "1"

settings.register_profile(
    "same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("search", parent=settings.get_profile("same"), derandomize=False)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def state_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let daemons that a test names no state directory for keep theirs among the temporary files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INDUSAGI_HOME", str(tmp_path_factory.mktemp("state")))
        yield
