r"""Skills and slash commands: the texts of extensions that reach the model.

Skills are listed in the brief by name and description, and loaded with the tool ``skill``.

The list has a bound in characters. The tool names the rest, so that no number of skills costs more
of each request. The text of a skill comes as the result of a call. From then on the files in its folder
can be read without a question, for it names them; to run one asks as every command does.

A slash command comes from a Markdown file: the file's name, its head, and a prompt with places for arguments.
``$ARGUMENTS`` stands for everything behind the name, ``$1`` to ``$9`` for single words of it, quoted as in a
shell. A text that has ``$5`` and no ``$4`` means five dollars, as ``$1.50`` and ``\$1`` do. Where the text
has no place, arguments follow below it. Nothing in a text runs: it only becomes a prompt.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Final

import msgspec

from sidecar._internal.cancel import CancelToken
from sidecar._internal.errors import InvalidInput
from sidecar.capabilities.contract import ToolContext, ToolReply
from sidecar.capabilities.typed_tool import TypedTool
from sidecar.extensions.contract import Skill
from sidecar.extensions.finding import FILE_LIMIT_BYTES, parse_front_matter
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


_PLACE: Final = re.compile(r"\\?\$(ARGUMENTS\b|[1-9](?![\d]|[.,]\d))")
_TAG: Final = "command"


def fill_in(text: str, arguments: str) -> str:
    """Return the prompt *text* with *arguments* in their places.

    The arguments are put in once: a place among them stays as it is written.

    >>> fill_in("Fix $1 in $2.", "'the bug' a.py")
    'Fix the bug in a.py.'
    >>> fill_in("Review it.", "quickly, $1")
    'Review it.\\n\\nArguments: quickly, $1'
    >>> fill_in("Keep $1 below $5.", "it")
    'Keep it below $5.'
    """
    try:
        words = shlex.split(arguments)
    except ValueError:  # an apostrophe, as in "don't"
        words = arguments.split()
    named = {place[1] for place in _PLACE.finditer(text) if place[0].startswith("$")}
    n_words = next(number for number in count(0) if str(number + 1) not in named)
    places = {"ARGUMENTS", *map(str, range(1, n_words + 1))}
    if arguments and named.isdisjoint(places):
        return f"{text}\n\nArguments: {arguments}"

    def value(place: re.Match[str]) -> str:
        if place[1] not in places or place[0].startswith("\\"):
            return place[0].removeprefix("\\") if place[1] in places else place[0]
        if place[1] == "ARGUMENTS":
            return arguments
        return words[int(place[1]) - 1] if int(place[1]) <= len(words) else ""

    return _PLACE.sub(value, text)


def write_command_prompt(name: str, text: str, arguments: str) -> str:
    """Return the prompt for the model: the typed line, and the text of the command in a tag of its own.

    The text is nothing that the user has typed, so no rule of the user is found in it; a closing tag in it
    would end that and is spelled otherwise.

    >>> print(write_command_prompt("fix", "Fix $1.", "a.py"))
    /fix a.py
    <BLANKLINE>
    <command name="fix">
    Fix a.py.
    </command>
    """
    body = fill_in(text, arguments).replace(f"</{_TAG}", f"<\\/{_TAG}")
    return f"/{name} {arguments}".strip() + f'\n\n<{_TAG} name="{name}">\n{body}\n</{_TAG}>'
