"""The formats that can be imported: each with its name, its reader, and how its files are recognised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sidecar._internal.values import Value
from sidecar.importing.aider import is_aider, read_aider
from sidecar.importing.builder import ImportBuilder
from sidecar.importing.chat import is_chat, is_cline, read_chat
from sidecar.importing.claude_code import is_claude_code, read_claude_code
from sidecar.importing.codex import is_codex, read_codex
from sidecar.importing.content import Json
from sidecar.importing.copilot_cli import is_copilot_cli, read_copilot_cli
from sidecar.importing.gemini_cli import is_gemini_cli, read_gemini_cli
from sidecar.importing.opencode import is_opencode, read_opencode
from sidecar.importing.openhands import is_openhands, read_openhands
from sidecar.importing.pi import is_pi, read_pi


class ImportFormat(Value):
    """One format.

    Attributes:
        name: its name on the wire and the command line.
        agent: the name of the agent, for people.
        read: reads the records of a file: its JSON values, or its lines of text.
        recognises: whether a record is of this format.
        is_text: whether its files are lines of text.
    """

    name: str
    agent: str
    read: Callable[[Iterable[Json], ImportBuilder], None]
    recognises: Callable[[Json], bool]
    is_text: bool = False


_ALL: Final = (
    ImportFormat("claude-code", "Claude Code", read_claude_code, is_claude_code),
    ImportFormat("codex", "Codex", read_codex, is_codex),
    ImportFormat("pi", "pi", read_pi, is_pi),
    ImportFormat("opencode", "opencode", read_opencode, is_opencode),
    ImportFormat("copilot-cli", "Copilot CLI", read_copilot_cli, is_copilot_cli),
    ImportFormat("gemini-cli", "Gemini CLI", read_gemini_cli, is_gemini_cli),
    ImportFormat("cline", "Cline", read_chat, is_cline),
    ImportFormat("aider", "aider", read_aider, is_aider, is_text=True),
    ImportFormat("openhands", "OpenHands", read_openhands, is_openhands),
    ImportFormat("chat", "chat messages", read_chat, is_chat),
)

FORMATS: Final[Mapping[str, ImportFormat]] = MappingProxyType({each.name: each for each in _ALL})
"""Every format by its name; of two that recognise a record the first counts."""


def recognise_format(records: Iterable[Json]) -> ImportFormat | None:
    """Return the format of the first record that has one."""
    return next((each for record in records for each in _ALL if each.recognises(record)), None)
