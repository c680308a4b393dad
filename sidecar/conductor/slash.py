"""The slash commands on offer, and the parser that tells a command from a prompt.

Only a known word is a command: ``/usr/bin`` is a prompt. This module imports no session, so that the queue
can hold a parsed command; ``commands`` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.conductor.events import CommandInfo

COMMANDS: Final = (
    CommandInfo("compact", "Condense the older part of the conversation", "[engine] [instructions]"),
    CommandInfo("preview", "Show what /compact would do, without doing it", "[engine]"),
    CommandInfo("uncompact", "Take the newest compaction back"),
    CommandInfo("context", "Show how full the window is, and with what"),
    CommandInfo("fork", "Start another session with this conversation"),
    CommandInfo("rewind", "Go back to before the last prompt, or the last n prompts", "[n prompts | node]"),
    CommandInfo("model", "Show or choose the model", "[name]"),
    CommandInfo("engine", "Show or choose the compaction engine", "[name]"),
    CommandInfo("permissions", "Show or choose when to ask for permission", "[mode]"),
    CommandInfo("status", "Show the settings and the size of the session"),
    CommandInfo("help", "List these commands"),
)
"""The commands, in the order in which clients show them."""

_NAMES: Final = frozenset(command.name for command in COMMANDS)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command of a user: its name without the slash, and the *rest* of the line."""

    name: str
    rest: str


def parse_command(content: Sequence[Mapping[str, Any]]) -> SlashCommand | None:
    """Return *content* as a command, None when it is a prompt.

    A command is a single block of text that begins with a slash and a known name.

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
