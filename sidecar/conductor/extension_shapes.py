"""The extensions of a session as clients are shown them. Values only."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sidecar._internal.values import Value

ExtensionOrigin: TypeAlias = Literal["user", "folder", "client"]
"""The author of an extension: the user, the author of the session's folder, or a client that named it."""


class ListedCommand(Value, kw_only=True):
    """A command from a Markdown file; one that is not *trusted* asks before its first use."""

    name: str
    description: str
    hint: str | None
    model: str | None
    uri: str
    source: ExtensionOrigin
    trusted: bool


class ListedSkill(Value, kw_only=True):
    """A skill; *uri* is its ``SKILL.md``."""

    name: str
    description: str
    uri: str
    source: ExtensionOrigin


class ListedHook(Value, kw_only=True):
    """A hook: its event, its command with secrets masked, and the tools that it is about, none for all."""

    event: str
    command: str
    tools: tuple[str, ...]
    source: ExtensionOrigin


class ListedServer(Value, kw_only=True):
    """A tool server: whether it runs now, its number of tools, and why it does not run."""

    name: str
    source: ExtensionOrigin
    state: Literal["starting", "running", "restarting", "failed"]
    tools: int
    problem: str | None = None


class ListedExtensions(Value, kw_only=True):
    """All extensions of a session, and sentences about files that are left out."""

    commands: tuple[ListedCommand, ...]
    skills: tuple[ListedSkill, ...]
    hooks: tuple[ListedHook, ...]
    servers: tuple[ListedServer, ...]
    problems: tuple[str, ...]
