"""Messages of ``sidecar/extension/*``."""

from __future__ import annotations

from sidecar._internal.values import Value
from sidecar.conductor.contract import ListedCommand, ListedHook, ListedServer, ListedSkill


class ExtensionListResult(Value):
    """The extensions of a session by the user, its folder and its clients, read anew.

    *problems* are sentences about files and settings that are left out, such as the hooks of a folder that is
    not trusted.
    """

    commands: tuple[ListedCommand, ...]
    skills: tuple[ListedSkill, ...]
    hooks: tuple[ListedHook, ...]
    servers: tuple[ListedServer, ...]
    problems: tuple[str, ...]
