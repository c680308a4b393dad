"""Extensions as other rooms see them: values and one port. No behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from sidecar._internal.values import Value
from sidecar.capabilities.mcp.contract import McpServer
from sidecar.llmgateway.config import HookEvent

ExtensionSource: TypeAlias = Literal["user", "folder"]
"""The author of an extension: the user, or the author of the session's folder."""


class CustomCommand(Value, kw_only=True):
    """A slash command from a Markdown file.

    Attributes:
        name: its name without the slash.
        hint: its arguments, for people.
        model: the model that answers it, None for the session's own.
        text: the prompt, with places for arguments.
        digest: the hash of its file.
        is_trusted: whether it may be used without a question.
    """

    name: str
    description: str
    hint: str | None
    model: str | None
    text: str
    path: Path
    digest: str
    source: ExtensionSource
    is_trusted: bool


class Skill(Value, kw_only=True):
    """A folder with instructions for one kind of task; *path* is its ``SKILL.md``, links followed."""

    name: str
    description: str
    path: Path
    source: ExtensionSource


class Hook(Value, kw_only=True):
    """A command that runs at an event; *tools* are patterns of the names of tools, empty for all."""

    event: HookEvent
    command: str
    tools: tuple[str, ...] = ()
    timeout_s: float = 30.0
    source: ExtensionSource = "user"


class ConfiguredServer(Value):
    """A tool server of the settings."""

    server: McpServer
    source: ExtensionSource


class Extensions(Value, kw_only=True):
    """The extensions of one session; *problems* are sentences about others that are left out."""

    commands: tuple[CustomCommand, ...] = ()
    skills: tuple[Skill, ...] = ()
    hooks: tuple[Hook, ...] = ()
    servers: tuple[ConfiguredServer, ...] = ()
    problems: tuple[str, ...] = ()


class ExtensionsPort(Protocol):
    """Finds extensions. Works on the disk, so call it in a worker thread."""

    def find(self, roots: Sequence[Path]) -> Extensions:
        """Return the extensions of a session in *roots*. Contract: never raises."""
        ...

    def trust(self, command: CustomCommand) -> None:
        """Remember that the user allowed *command*, until its content changes. Contract: never raises."""
        ...


class WithoutServers(Value):
    """Finds all that *inner* finds but for tool servers, for a session with the servers of another one."""

    inner: ExtensionsPort

    def find(self, roots: Sequence[Path]) -> Extensions:
        """Return the extensions of a session in *roots*."""
        return replace(self.inner.find(roots), servers=())

    def trust(self, command: CustomCommand) -> None:
        """Remember that the user allowed *command*."""
        self.inner.trust(command)
