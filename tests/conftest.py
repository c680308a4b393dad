"""Shared setup of the tests: impossible states raise, hypothesis is deterministic on CI."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ["INDUSAGI_STRICT"] = "1"

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
