"""Servers that are processes, and what is the matter with some of them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from sidecar.capabilities.mcp import StdioServer
from sidecar.capabilities.mcp.process import parse_message
from sidecar.capabilities.mcp.servers import ServerTimeouts

if TYPE_CHECKING:
    from tests.capabilities.conftest import Desk, Life
    from tests.capabilities.mcp.conftest import Rig

pytestmark = [
    pytest.mark.usefixtures("needs_mcp"),
    pytest.mark.processes,
    pytest.mark.skipif(os.name == "nt", reason="POSIX process groups"),
]

TOOLS = 17


async def output(rig: Rig, desk: Desk, tool: str, **arguments: object) -> str:
    return await desk.output(rig.offered[f"mcp__plain__{tool}"], **arguments)


async def failure(rig: Rig, desk: Desk, tool: str) -> str:
    return await desk.failure(rig.offered[f"mcp__plain__{tool}"])


def check_lost(rig: Rig, why: str) -> None:
    assert rig.warnings == [("The tool server 'plain' did not start: it adds no tools", why)]
    assert rig.children == {}


async def test_a_sound_server(rig: Rig, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "ours")
    monkeypatch.setenv("PLAIN", "ours")
    await rig.start(rig.plain(GIVEN_TOKEN="theirs"))
    assert (len(rig.offered), rig.warnings) == (TOOLS, [])
    assert list(rig.children.values()) == ["mcp: plain"]
    assert await output(rig, desk, "echo", text="é\n") == "é\n"
    assert await output(rig, desk, "echo", text="half \ud83d") == "half \ufffd"
    assert await output(rig, desk, "where") == str(rig.folder.resolve())
    assert await output(rig, desk, "count") == "counted"
    assert desk.progress[0] == "1 of 3 part 1\n"
    variables = [
        await output(rig, desk, "variable", text=name) for name in ("PLAIN", "SOME_TOKEN", "GIVEN_TOKEN")
    ]
    assert variables == ["'ours'", "None", "'theirs'"]


async def test_answers_that_are_wrong_or_too_much(rig: Rig, desk: Desk) -> None:
    await rig.start(rig.plain())
    assert await failure(rig, desk, "fail") == "it went wrong"
    assert await failure(rig, desk, "refuse") == "mcp__plain__refuse: not today"
    assert await output(rig, desk, "nonsense") == ""
    for tool in ("deep", "no_answer"):
        refused = f"mcp__plain__{tool}: the server's answer cannot be decoded"
        assert await asyncio.wait_for(failure(rig, desk, tool), 30) == refused
    assert await output(rig, desk, "bad_text") == "lone ? surrogate"
    huge = await output(rig, desk, "huge")
    assert len(huge.encode()) <= desk.max_output_chars + 100
    assert "not shown here" in huge


async def test_calls_run_side_by_side(rig: Rig, desk: Desk) -> None:
    await rig.start(rig.plain())
    texts = [f"text {number}" for number in range(50)]
    assert await asyncio.gather(*(output(rig, desk, "echo", text=text) for text in texts)) == texts


async def test_a_tool_learned_later_is_offered(rig: Rig, desk: Desk) -> None:
    await rig.start(rig.plain())
    await output(rig, desk, "learn")
    await rig.until(lambda: "mcp__plain__learned" in rig.offered)
    assert len(rig.offered) == TOOLS + 1


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("die", "exit code 3: out of luck, token=[secret]"),
        ("flood", "it writes too much to its standard output that is not a message"),
    ],
)
async def test_a_server_that_ends_in_a_call(rig: Rig, desk: Desk, tool: str, why: str) -> None:
    await rig.start(rig.plain())
    assert await failure(rig, desk, tool) == f"mcp__plain__{tool}: {why}"
    await rig.until(lambda: bool(rig.warnings))
    assert rig.warnings == [("The tool server 'plain' has ended", f"{why}; it is started again in 1 s")]
    assert rig.children == {}


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        pytest.param("dead", "exit code 3: out of luck, token=[secret]", id="it ends at once"),
        pytest.param(
            "flooding",
            "it writes too much to its standard output that is not a message",
            id="it writes a log",
        ),
        pytest.param("endless", "it sent a message of more than 16 MiB", id="it never comes to the point"),
        pytest.param("quiet", "it closed its output", id="it closes its output and lives on"),
    ],
)
async def test_a_server_that_cannot_be_used(rig: Rig, behaviour: str, why: str) -> None:
    await rig.start(rig.plain(behaviour))
    check_lost(rig, why)


async def test_the_exit_code_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the end of a server comes long after the end of its output."""
    monkeypatch.setattr("sidecar.capabilities.mcp.process._EXIT_S", 0)
    await rig.start(rig.plain("dead"))
    check_lost(rig, "exit code 3: out of luck, token=[secret]")


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param("mute", id="it never answers"),
        pytest.param("deaf", id="nor does it listen"),
    ],
)
async def test_a_server_that_never_answers_is_given_up(rig: Rig, behaviour: str, life: Life) -> None:
    await rig.start(rig.plain(behaviour), timeouts=ServerTimeouts(connect_s=1, prompt_s=30))
    check_lost(rig, "it did not answer in 1 s")
    await life.ends()


async def test_a_program_that_is_not_there(rig: Rig) -> None:
    await rig.start(StdioServer("plain", "no-such-program"))
    ((_, why),) = rig.warnings
    assert why.startswith("exit code 127: ")
    assert "no-such-program" in why


async def test_a_folder_that_is_not_there(rig: Rig) -> None:
    rig.folder = rig.folder / "gone"
    await rig.start(rig.plain())
    check_lost(rig, "No such file or directory")


async def test_the_heir_of_a_dead_server_ends_with_it(rig: Rig, life: Life) -> None:
    await rig.start(rig.plain("heir"))
    ((_, why),) = rig.warnings
    assert why.startswith("exit code 4: ")
    if sys.platform == "linux":
        await life.ends()
    else:
        os.kill(int(why.split()[-1]), signal.SIGKILL)


@pytest.mark.parametrize(
    ("behaviour", "n_tools"),
    [
        pytest.param("banner", TOOLS, id="a banner before the first message"),
        pytest.param("odd", 4, id="tools that are described badly"),
        pytest.param("toolless", 0, id="no tools at all"),
    ],
)
async def test_what_is_put_up_with(rig: Rig, behaviour: str, n_tools: int) -> None:
    await rig.start(rig.plain(behaviour))
    assert (len(rig.offered), rig.warnings) == (n_tools, [])
    assert all(tool.descriptor.parameters["type"] == "object" for tool in rig.offered.values())


@pytest.mark.parametrize("behaviour", ["sound", "stubborn"])
async def test_the_whole_group_ends_with_the_session(
    rig: Rig, desk: Desk, behaviour: str, life: Life
) -> None:
    servers = await rig.start(rig.plain(behaviour))
    server, child = map(int, (await output(rig, desk, "leave_a_child")).split())
    assert rig.started == [os.getsid(server)]
    assert os.getpgid(child) == server == os.getpgid(server)
    await servers.aclose()
    await life.ends()
    assert rig.warnings == []


async def test_closing_while_a_server_starts_leaves_nothing_behind(rig: Rig, life: Life) -> None:
    servers = rig.servers()
    servers.use((rig.plain("mute"),))
    await rig.until(lambda: bool(rig.started))
    await servers.aclose()
    assert rig.children == {}
    await rig.start(rig.plain())
    await rig.made[-1].aclose()
    await life.ends()


async def test_what_a_server_says_stays_out_of_the_log_above_debug(
    rig: Rig, desk: Desk, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    await rig.start(rig.plain("banner"))
    await failure(rig, desk, "die")
    await rig.until(lambda: bool(rig.warnings))
    assert "plain wrote a line that is not a message: Welcome!" in caplog.messages
    assert {record.levelname for record in caplog.records if record.name != "asyncio"} == {"DEBUG"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("line", "method"),
    [
        pytest.param(b'{"jsonrpc": "2.0", "method": "a"}', "a", id="a message"),
        pytest.param(b'{"jsonrpc": "2.0", "method": "\xff"}', "\ufffd", id="bytes that are not UTF-8"),
        pytest.param(b"starting up", None, id="a log line"),
        pytest.param(b"{", None, id="half an object"),
        pytest.param(b'{"result": {"id": 7}}', None, id="an answer without an id of its own"),
    ],
)
def test_a_line_is_a_message_or_nothing(line: bytes, method: str | None) -> None:
    assert getattr(parse_message(line), "method", None) == method


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"jsonrpc": "2.0", "id": 7, "result": {"id": 8, "x": [', id="cut off"),
        pytest.param(b'{"id":"7","error":3,"jsonrpc":"2.0"}', id="an id as text"),
        pytest.param(b'{"result": [], "jsonrpc": "2.0", "id": 7 }\r', id="the id at the end"),
        pytest.param(b'{"result": [], "id": 7, "jsonrpc": "2.0"}', id="the version at the end"),
    ],
)
def test_an_answer_that_cannot_be_decoded_is_an_error_for_its_call(line: bytes) -> None:
    assert getattr(parse_message(line), "id", None) == 7
