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
from sidecar.importing.content import Json, as_mapping
from sidecar.importing.copilot_cli import is_copilot_cli, read_copilot_cli
from sidecar.importing.gemini_cli import is_gemini_cli, read_gemini_cli
from sidecar.importing.opencode import is_opencode, read_opencode
from sidecar.importing.openhands import is_openhands, read_openhands
from sidecar.importing.pi import is_pi, read_pi


class ImportFormat(Value, kw_only=True):
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


def _of_mapping(recognises: Callable[[Mapping[str, Json]], bool]) -> Callable[[Json], bool]:
    return lambda record: recognises(as_mapping(record))


_ALL: Final = (
    ImportFormat(
        name="claude-code",
        agent="Claude Code",
        read=read_claude_code,
        recognises=_of_mapping(is_claude_code),
    ),
    ImportFormat(name="codex", agent="Codex", read=read_codex, recognises=_of_mapping(is_codex)),
    ImportFormat(name="pi", agent="pi", read=read_pi, recognises=_of_mapping(is_pi)),
    ImportFormat(name="opencode", agent="opencode", read=read_opencode, recognises=_of_mapping(is_opencode)),
    ImportFormat(
        name="copilot-cli",
        agent="Copilot CLI",
        read=read_copilot_cli,
        recognises=_of_mapping(is_copilot_cli),
    ),
    ImportFormat(
        name="gemini-cli", agent="Gemini CLI", read=read_gemini_cli, recognises=_of_mapping(is_gemini_cli)
    ),
    ImportFormat(name="cline", agent="Cline", read=read_chat, recognises=_of_mapping(is_cline)),
    ImportFormat(
        name="aider",
        agent="aider",
        read=read_aider,
        recognises=lambda record: isinstance(record, str) and is_aider(record),
        is_text=True,
    ),
    ImportFormat(
        name="openhands", agent="OpenHands", read=read_openhands, recognises=_of_mapping(is_openhands)
    ),
    ImportFormat(name="chat", agent="chat messages", read=read_chat, recognises=is_chat),
)

FORMATS: Final[Mapping[str, ImportFormat]] = MappingProxyType({each.name: each for each in _ALL})
"""Every format by its name; of two that recognise a record the first counts."""


def recognise_format(records: Iterable[Json]) -> ImportFormat | None:
    """Return the format of the first record that has one."""
    return next((each for record in records for each in _ALL if each.recognises(record)), None)
