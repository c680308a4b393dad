"""The slash commands: which there are, and how a prompt is recognised as one. Pure.

Only a known word makes a command; ``/usr/bin`` and whatever else begins with a slash is a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.conductor.events import CommandInfo

__all__ = ["COMMANDS", "SlashCommand", "parse_command"]

COMMANDS: Final = (
    CommandInfo("compact", "Condense the older part of the conversation", "[engine] [instructions]"),
    CommandInfo("preview", "Say what /compact would do, without doing it", "[engine]"),
    CommandInfo("uncompact", "Take the newest compaction back"),
    CommandInfo("context", "Say how full the window is, and with what"),
    CommandInfo("fork", "Begin a session that goes on from here"),
    CommandInfo("rewind", "Go back to before the last prompt, or the last n", "[n prompts | node]"),
    CommandInfo("model", "Say or choose which model answers", "[name]"),
    CommandInfo("engine", "Say or choose which engine condenses", "[name]"),
    CommandInfo("status", "Say how the session is set up and where it stands"),
    CommandInfo("help", "List these commands"),
)
"""What is on offer, in the order it is shown."""

_NAMES: Final = frozenset(command.name for command in COMMANDS)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command a user gave: its name without the slash, and the *rest* behind it."""

    name: str
    rest: str


def parse_command(content: Sequence[Mapping[str, Any]]) -> SlashCommand | None:
    """Return the command that *content* is, None when it is a prompt.

    A command stands alone in its prompt: one block of text that begins with it.

    >>> parse_command([{"type": "text", "text": "/compact keep the names"}])
    SlashCommand(name='compact', rest='keep the names')
    >>> parse_command([{"type": "text", "text": "/usr/bin is missing"}]) is None
    True
    """
    if len(content) != 1 or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    if not isinstance(text, str) or not text.lstrip().startswith("/"):
        return None
    word, *rest = text.split(maxsplit=1)
    name = word.removeprefix("/")
    return SlashCommand(name, rest[0].strip() if rest else "") if name in _NAMES else None
