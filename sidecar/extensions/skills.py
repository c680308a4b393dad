"""Skills: listed in the brief by name and description, and loaded with the tool ``skill``.

The list has a bound in characters. The tool names the rest, so that no number of skills costs more
of each request. The text of a skill comes as the result of a call. From then on the files in its folder
can be read without a question, for it names them; to run one asks as every command does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.extensions.contract import Skill
from sidecar.extensions.finding import FILE_LIMIT_BYTES
from sidecar.extensions.front_matter import parse_front_matter
from sidecar.text.calls import NO_EFFECTS
from sidecar.workspace.files import read_text

BRIEF_CHARS: Final = 4_000
"""The characters of the list in the brief, about 1,000 tokens."""

_DESCRIPTION_CHARS: Final = 250
_MOST_FILES: Final = 50
_MOST_FOLDERS: Final = 200
_NOTES_CHARS: Final = 500
_HEADING: Final = (
    "# Skills\n"
    "Instructions for certain tasks. When one fits the task, load it with the skill tool before you begin."
)


def list_skills(skills: Sequence[Skill]) -> str:
    """Return the part of the brief about *skills*, empty for none.

    >>> one = Skill(name="pdf", description="Fill in forms.", path=Path("/s/SKILL.md"), source="user")
    >>> list_skills([one]).splitlines()[-1]
    '- pdf: Fill in forms.'
    """
    if not skills:
        return ""
    lines, n_left = [_HEADING], BRIEF_CHARS
    for number, skill in enumerate(skills):
        line = f"- {skill.name}: {skill.description[:_DESCRIPTION_CHARS]}".removesuffix(": ")
        n_left -= len(line) + 1
        if n_left < 0:
            lines.append(f"- {len(skills) - number} more; the skill tool lists them when it is given no name")
            break
        lines.append(line)
    return "\n".join(lines)


class SkillArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the skill tool."""

    name: Annotated[str, msgspec.Meta(description="The skill; empty to list all of them.")] = ""


def make_skill_tool(skills: Sequence[Skill], on_load: Callable[[Skill], object]) -> TypedTool[SkillArguments]:
    """Return the tool that loads *skills*; *on_load* is called with each one that is loaded."""

    async def load(arguments: SkillArguments, context: ToolContext, cancel: CancelToken) -> ToolReply:
        if not arguments.name.strip():
            return ToolReply("\n".join(f"- {each.name}: {each.description}" for each in skills))
        skill = next((each for each in skills if each.name == arguments.name.strip().lstrip("/")), None)
        if skill is None:
            names = ", ".join(each.name for each in skills)
            raise InvalidInput(f"there is no skill {arguments.name!r:.80}", hint=f"there are: {names:.2000}")
        text = await asyncio.to_thread(show_skill, skill, context.max_output_chars)
        on_load(skill)
        return ToolReply(text, title=f"Skill {skill.name}")

    return TypedTool(
        name="skill",
        description="Load a skill: the instructions for a kind of task, as listed under Skills.",
        kind="read",
        effects=NO_EFFECTS,
        arguments=SkillArguments,
        describe=lambda arguments: f"Skill {arguments.name[:80]}",
        perform=load,
    )


def show_skill(skill: Skill, max_chars: int) -> str:
    """Return the text of *skill* under a line with its folder and files. Raises FileAccessError."""
    # Its path was resolved when it was found: a link by now leads elsewhere.
    read = read_text(skill.path, FILE_LIMIT_BYTES, follow_links=False)
    _, text = parse_front_matter(read.text)
    cap = max_chars - _NOTES_CHARS
    cut = (
        f"\n[cut: {cap} of {len(text)} characters; read {skill.path} for the rest]" if len(text) > cap else ""
    )
    heading = f"[the skill {skill.name}, in {skill.path.parent}{list_files(skill.path.parent)}]"
    return f"{heading}\n\n{text[:cap]}{cut}"


def list_files(folder: Path) -> str:
    """Return the files in *folder* but its ``SKILL.md``, bounded, as the end of a heading."""
    names: list[str] = []
    for parent, folders, files in islice(os.walk(folder), _MOST_FOLDERS):
        folders.sort()
        names += [os.path.relpath(os.path.join(parent, name), folder) for name in sorted(files)]
        if len(names) > _MOST_FILES:
            break
    others = [name for name in names if name != "SKILL.md"][:_MOST_FILES]
    return f"; its files: {', '.join(others)}" if others else ""
