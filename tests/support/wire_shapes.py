"""Shapes of the wire in JSON, as a daemon sends them to clients."""

from __future__ import annotations

from typing import Any

USAGE: dict[str, Any] = {
    "used": 1,
    "window": 100,
    "limit": 80,
    "pct": 1.0,
    "source": "estimate",
    "asOfNode": None,
    "engineView": {},
}
SNAPSHOT: dict[str, Any] = {
    "sid": "s",
    "cwd": "/w",
    "roots": [],
    "title": "",
    "model": "m",
    "engine": "windowBudget",
    "phase": "idle",
    "head": None,
    "messages": 0,
    "seq": 2,
    "createdAt": 0,
    "updatedAt": 0,
}
