"""A folder that someone else replaces by a link."""

from __future__ import annotations

from pathlib import Path


def swap(folder: Path, target: Path) -> None:
    """Put a link to *target* in the place of *folder*."""
    folder.rename(folder.with_name("away"))
    folder.symlink_to(target)
