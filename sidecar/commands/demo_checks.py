"""What a demonstration promises, and whether it was so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sidecar.commands.terminal import Screen

__all__ = ["Checks", "citations", "pairs_are_whole"]

_CITED: Final = re.compile(r"`(?P<path>[^`\n]+):(?P<line>\d+)` (?P<text>[^\n]*)")


@dataclass(slots=True)
class Checks:
    """The promises that were checked, each shown as it was."""

    screen: Screen
    n_kept: int = 0
    broken: list[str] = field(default_factory=list)

    def check(self, promise: str, kept: bool, found: str = "") -> None:
        """Show whether *promise* was *kept*; *found* says what was seen when it was not."""
        if kept:
            self.n_kept += 1
            self.screen.line(f"✓ {promise}", "green")
        else:
            self.broken.append(promise)
            self.screen.line(f"✗ {promise}; found {found or 'otherwise'}", "bold red")

    def close(self, seconds: float) -> int:
        """Show the outcome of all and return the exit code."""
        if self.broken:
            self.screen.line(f"\nNot so: {'; '.join(self.broken)}.", "bold red")
            return 1
        self.screen.line(f"\nAll {self.n_kept} checks held, in {seconds:.1f} s.", "bold green")
        return 0


def citations(answer: str, folder: Path, buffers: Mapping[Path, str]) -> tuple[int, int]:
    """Return how many places *answer* cites, and how many of them do not hold the text it quotes.

    Args:
        answer: what the model said.
        folder: what the cited paths are relative to.
        buffers: files that are open with another text than on disk.
    """
    found = list(_CITED.finditer(answer))
    wrong = [
        match
        for match in found
        if not _holds(_lines(folder / match["path"], buffers), int(match["line"]), match["text"])
    ]
    return len(found), len(wrong)


def _lines(file: Path, buffers: Mapping[Path, str]) -> list[str]:
    if file in buffers:
        return buffers[file].split("\n")
    return file.read_bytes().decode("utf-8", "replace").split("\n") if file.is_file() else []


def _holds(lines: list[str], number: int, quoted: str) -> bool:
    start = " ".join(quoted.rstrip("…. ").split())  # a long line is cut, with dots
    return 0 < number <= len(lines) and start in " ".join(lines[number - 1].split())


def pairs_are_whole(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every tool result in *nodes* stands behind its call."""
    asked: set[str] = set()
    for node in nodes:
        for block in node["blocks"]:
            if block["kind"] == "tool_call":
                asked.add(block["id"])
            elif block["kind"] == "tool_result" and block["callId"] not in asked:
                return False
    return True
