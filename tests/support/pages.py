"""The pages that a newcomer reads: the README, the guide with its pages, and how to work on the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE_FILES = tuple(
    ROOT / ".github" / f"{name}.md"
    for name in ("GUIDE", "KEYS", "SETTINGS", "SWITCHING", "TROUBLE", "SEVERAL-MACHINES")
)
FILES = (ROOT / "README.md", *GUIDE_FILES, ROOT / ".github" / "CONTRIBUTING.md")

README, *_PARTS, CONTRIBUTING = (path.read_text(encoding="utf-8") for path in FILES)
GUIDE = "\n".join(_PARTS)
PAGES = f"{README}\n{GUIDE}\n{CONTRIBUTING}"


def headings(text: str) -> set[str]:
    """Return the anchors of the headings of a page, its blocks of code left out."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
