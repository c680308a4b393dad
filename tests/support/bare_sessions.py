"""What a session needs and a test of it does not: no knowledge, no extensions, no settings of compactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from sidecar.extensions.contract import CustomCommand, Extensions
from sidecar.llmgateway.config import CompactionSettings
from sidecar.rooms import KnowledgeSource, RoomEvent
from sidecar.rooms.knowledge.library import KnowledgeLibrary


def compaction_settings(**chosen: Any) -> CompactionSettings:
    """Return settings with the *chosen* ones; the others are off."""
    off = dict.fromkeys(CompactionSettings.__struct_fields__, False)
    return CompactionSettings(**{**off, "due_share": None, **chosen})


async def list_folders(roots: Sequence[Path]) -> str:
    """Return the folders of a session, one a line, as the surroundings of a session."""
    return "\n".join(f"- folder: {root}" for root in roots)


class NoLibrary(KnowledgeLibrary):
    """A library without sources, which keeps nothing."""

    names: tuple[str, ...] = ()

    def __init__(self) -> None:
        """Make a library of nothing."""
        self.in_use: set[Path] = set()

    async def open(
        self,
        sid: str,
        names: Collection[str],
        roots: Sequence[Path],
        *,
        excluded_ids: Callable[[], Collection[str]],
        progress: Callable[[int, int], None],
    ) -> Sequence[KnowledgeSource]:
        """Return nothing."""
        return ()

    async def release(self, sid: str) -> None:
        """Do nothing."""

    def ingest(self, folder: Path, events: Sequence[RoomEvent]) -> None:
        """Do nothing."""

    def forget(self, sid: str) -> None:
        """Do nothing."""


class NoExtensions:
    """Finds nothing."""

    def find(self, roots: Sequence[Path]) -> Extensions:
        """Return none."""
        return Extensions()

    def trust(self, command: CustomCommand) -> None:
        """Do nothing."""
