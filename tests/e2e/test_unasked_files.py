"""Files of a project that the daemon reads unasked: links that lead out, devices, pipes, huge and nested."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sidecar_client import SidecarClient, allow

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes need POSIX"),
]

ANSWERS_WITHIN_S = 10.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
async def client(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SidecarClient]:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path / "home"))
    async with SidecarClient.spawn(cwd=project, permission=allow) as started:
        yield started


async def first_turn(client: SidecarClient, project: Path) -> tuple[str, list[str]]:
    """Open a session, run one turn and return the session's id and the texts of its notices."""
    async with asyncio.timeout(ANSWERS_WITHIN_S):
        session = await client.start_session(project)
        events = [event async for event in session.stream("hello")]
    assert events[-1].kind == "settled"
    return session.sid, [str(event.data["description"]) for event in events if event.kind == "notice"]


def link_outside(path: Path) -> None:
    secret = path.parent.parent / "id_rsa"
    secret.write_text("model = 'secret'  # PRIVATE KEY\n" * 200)
    path.symlink_to(secret)


def link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(300_000_000)


def nested(path: Path) -> None:
    path.write_text("x = " + "[" * 5_000 + "]" * 5_000)


def nested_keys(path: Path) -> None:
    path.write_text(".".join("a" * 20_000) + " = 1")


@pytest.mark.parametrize("make", [link_outside, link_to_zero, pipe, huge])
async def test_a_rule_file_that_is_no_plain_file_of_the_project_is_left_out_with_a_notice(
    client: SidecarClient, project: Path, make: Callable[[Path], None]
) -> None:
    make(project / "AGENTS.md")
    sid, notices = await first_turn(client, project)
    assert [text for text in notices if "AGENTS.md" in text and "is not used" in text], notices
    detail = await client.request("sidecar/context/usage", {"sid": sid, "detail": True})
    assert detail["by"]["system"] < 1_000


@pytest.mark.parametrize("make", [link_outside, link_to_zero, pipe, huge, nested, nested_keys])
async def test_a_settings_file_that_is_no_plain_file_of_the_project_is_left_out_with_a_notice(
    client: SidecarClient, project: Path, make: Callable[[Path], None]
) -> None:
    make(project / ".sidecar.toml")
    _, notices = await first_turn(client, project)
    assert [text for text in notices if ".sidecar.toml is not used" in text], notices
    assert not [text for text in notices if "PRIVATE KEY" in text]
