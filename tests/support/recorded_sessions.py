"""Recorded sessions of other agents, as every engine's tests go through them.

The recordings lie beside the checkout and are no part of it: where they are absent, the tests are skipped and
say so. Their own converter reads them; nothing of it is kept here.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

__all__ = ["AGENTS", "WITH_CALLS", "Record", "read_records", "recorded_files", "recordings"]

_BESIDE: Final = Path(__file__).resolve().parents[2].parent / "shared" / "data"
_DATA: Final = Path(os.environ["FIDELITY_DATA"]).parent if "FIDELITY_DATA" in os.environ else _BESIDE
"""The folder of ``dev``, the recordings by agent, and ``tools``."""

AGENTS: Final = (
    "claude-code",
    "codex",
    "opencode",
    "copilot-cli",
    "gemini-cli",
    "pi",
    "aider",
    "swe-agent",
    "mini-swe-agent",
    "openhands",
    "tau-bench",
    "cline",
)
"""Whose sessions are recorded."""

WITH_CALLS: Final = tuple(name for name in AGENTS if name not in ("aider", "mini-swe-agent", "tau-bench"))
"""Those whose recordings tell calls and results apart."""

Record: TypeAlias = dict[str, Any]
"""A message: role, text, tool_calls, tool_call_id, tool_name, is_error, usage; None for what it has not."""


def recordings(
    agents: Sequence[str] = AGENTS, *, each: int | None = None, max_bytes: int | None = None
) -> list[Any]:
    """Return the paths of recordings as test parameters, the smallest of an agent first.

    Args:
        agents: whose.
        each: how many of each agent, all for None.
        max_bytes: leaves larger ones out.
    """
    found = [path for name in agents for path in recorded_files(name, max_bytes)[:each]]
    absent = pytest.mark.skip(reason="the recorded sessions are not beside this checkout")
    named = [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in found]
    return named or [pytest.param(_DATA, id="absent", marks=absent)]


def read_records(path: Path) -> list[Record]:
    """Return a recording's messages, oldest first."""
    return _converter()(path.read_text("utf-8", "surrogateescape"), str(path))[1]


def recorded_files(agent: str, max_bytes: int | None = None) -> list[Path]:
    """Return the recordings of one agent, the smallest first; none where they are absent."""
    sized = ((path.stat().st_size, path) for path in (_DATA / "dev" / agent).glob("*"))
    return [path for size, path in sorted(sized) if max_bytes is None or size <= max_bytes]


@cache
def _converter() -> Callable[[str, str], tuple[str, list[Record]]]:
    spec = importlib.util.spec_from_file_location("recorded_sessions_convert", _DATA / "tools" / "convert.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    convert: Callable[[str, str], tuple[str, list[Record]]] = module.convert
    return convert
