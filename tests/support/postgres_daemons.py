"""Daemons that share one database, each as if it were on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidecar_client import SidecarClient

ANSWERS = [[{"text": f"answer {n}"}] for n in range(9)]


def spawn(
    tmp_path: Path,
    name: str,
    address: str,
    script: Any = ANSWERS,
    permission: Any = None,
    *,
    settings: str = "",
    environment: Mapping[str, str] | None = None,
) -> SidecarClient:
    """Return the client of a daemon with a state directory of its own, as on another machine.

    Args:
        tmp_path: the workspace of the client.
        name: the name of the state directory in it.
        address: the database.
        script: the answers of its model.
        permission: answers its questions.
        settings: more lines of its settings.
        environment: more variables of its environment.
    """
    home = tmp_path / name
    setup: Any = {} if permission is None else {"permission": permission}
    home.mkdir()
    (home / "config.toml").write_text(f'store = "{address}"\n{settings}')
    given = {"INDUSAGI_HOME": str(home), **(environment or {})}
    options = {"models": {"fake-1": {"scripted": script}}}
    return SidecarClient.spawn(cwd=tmp_path, env=given, options=options, **setup)


async def texts(client: SidecarClient, sid: str) -> list[str]:
    """Return the texts of a session, as *client* reads them."""
    page = await client.session_read(sid, view="full")
    return [block["text"] for node in page.nodes for block in node.blocks if "text" in block]
