"""Files of a project that the daemon reads unasked: links that lead out, devices, pipes, huge and nested."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from daemon_in_memory import client_in_memory
from sidecar_client import SidecarClient, allow

pytestmark = [
    pytest.mark.slow,
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
    async with client_in_memory(project, permission=allow) as started:
        yield started


async def first_turn(client: SidecarClient, project: Path) -> tuple[str, list[str]]:
    """Open a session, run one turn and return the session's id and the texts of its notices."""
    async with asyncio.timeout(ANSWERS_WITHIN_S):
        session = await client.start_session(project)
        events = [event async for event in session.stream("hello")]
    assert events[-1].kind == "settled"
    return session.sid, [str(event.data["description"]) for event in events if event.kind == "notice"]


def link_outside(path: Path) -> None:
    secret = next(each for each in path.parents if each.name == "project").parent / "id_rsa"
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


@pytest.mark.parametrize("make", [link_outside, link_to_zero, pipe, huge])
@pytest.mark.parametrize("place", ["AGENTS.md", "sub/CLAUDE.md", "imported.md"])
async def test_no_rule_file_of_a_repository_leads_out_of_it(
    client: SidecarClient, project: Path, make: Callable[[Path], None], place: str
) -> None:
    """Above the session's folder, beside it, and imported."""
    (project / ".git").mkdir()
    (project / "sub").mkdir()
    (project / "sub" / "AGENTS.md").write_text("Keep it short. @../imported.md")
    make(project / place)
    sid, notices = await first_turn(client, project / "sub")
    name = place.removeprefix("sub/")
    assert [text for text in notices if name in text and "is not used" in text], notices
    detail = await client.request("sidecar/context/usage", {"sid": sid, "detail": True})
    assert [each["uri"].rpartition("/")[2] for each in detail["rules"]] == ["AGENTS.md"]


async def test_rule_files_count_once_under_two_names_and_in_any_encoding(
    client: SidecarClient, project: Path
) -> None:
    (project / ".git").mkdir()
    (project / "AGENTS.md").write_bytes("Antworte höflich, in ganzen Sätzen.".encode("latin-1"))
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    (project / "sub").mkdir()
    (project / "sub" / "CLAUDE.md").symlink_to("../AGENTS.md")
    sid, notices = await first_turn(client, project / "sub")
    detail = await client.request("sidecar/context/usage", {"sid": sid, "detail": True})
    assert [(each["scope"], each["sizeBytes"]) for each in detail["rules"]] == [("project", 35)]
    assert not [text for text in notices if "is not used" in text]


@pytest.mark.parametrize("make", [link_outside, link_to_zero, pipe, huge, nested, nested_keys])
async def test_a_settings_file_that_is_no_plain_file_of_the_project_is_left_out_with_a_notice(
    client: SidecarClient, project: Path, make: Callable[[Path], None]
) -> None:
    make(project / ".sidecar.toml")
    _, notices = await first_turn(client, project)
    assert [text for text in notices if ".sidecar.toml is not used" in text], notices
    assert not [text for text in notices if "PRIVATE KEY" in text]
