"""The servers of a session: there when they are, missed when they go, waited for only as long as one can."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fake_tool_servers import FakeLink, FakeSpeaker
from sidecar._internal.cancel import CancelToken
from sidecar._internal.loading import install_command
from sidecar.capabilities.mcp import HttpServer, SessionToolServers, StdioServer
from sidecar.capabilities.mcp.contract import CallResult, ListedTool, OnProgress, ServerFailed
from sidecar.capabilities.mcp.servers import ServerTimeouts, explain_failure
from sidecar.capabilities.mcp.tool import McpTool

if TYPE_CHECKING:
    from tests.capabilities.mcp.conftest import Rig

A, B = StdioServer("a", "run-a"), StdioServer("b", "run-b")
SHORT = ServerTimeouts(connect_s=0.02, prompt_s=0.02, idle_s=0.02, close_s=0.02)


def listed(name: str) -> ListedTool:
    return ListedTool(name, "", "", {"type": "object", "properties": {}})


def start(
    rig: Rig, links: dict[str, FakeLink | Exception], timeouts: ServerTimeouts | None = None
) -> tuple[SessionToolServers, FakeSpeaker]:
    speaker = FakeSpeaker(links)
    return rig.servers(speaker.open, timeouts), speaker


async def started(
    rig: Rig,
    links: dict[str, FakeLink | Exception],
    timeouts: ServerTimeouts | None = None,
    servers: tuple[StdioServer, ...] = (A,),
) -> tuple[SessionToolServers, FakeSpeaker]:
    """Start *servers* and wait until each is ready or has failed."""
    running, speaker = start(rig, links, timeouts)
    running.use(servers)
    await running.ready(CancelToken())
    return running, speaker


def has_offer(rig: Rig, name: str) -> bool:
    return name in rig.offered


async def call(rig: Rig, name: str, cancel: CancelToken | None = None) -> CallResult:
    async def deaf(progress: float, total: float | None, message: str | None) -> None:
        return

    tool = rig.offered[name]
    assert isinstance(tool, McpTool)
    return await tool.call(tool.listed.name, {}, deaf, cancel or CancelToken())


async def test_the_tools_of_all_servers_stand_side_by_side(rig: Rig) -> None:
    await started(
        rig, {"a": FakeLink((listed("x"), listed("y"))), "b": FakeLink((listed("x"),))}, servers=(A, B)
    )
    assert list(rig.offered) == ["mcp__a__x", "mcp__a__y", "mcp__b__x"]
    assert await call(rig, "mcp__b__x") == CallResult("x")
    assert rig.warnings == []


async def test_naming_no_server_costs_nothing(rig: Rig) -> None:
    servers, speaker = start(rig, {})
    await servers.ready(CancelToken())
    servers.use(())
    await servers.ready(CancelToken())
    await servers.aclose()
    assert (speaker.opened, rig.offered) == ([], {})


async def test_who_is_named_again_stays_and_who_is_not_leaves(rig: Rig) -> None:
    servers, speaker = await started(rig, {"a": FakeLink((listed("x"),)), "b": FakeLink((listed("x"),))})
    servers.use((B, A, A))
    await servers.ready(CancelToken())
    assert list(rig.offered) == ["mcp__b__x", "mcp__a__x"]
    servers.use((B,))
    assert list(rig.offered) == ["mcp__b__x"]
    await servers.aclose()
    assert (speaker.opened, sorted(speaker.closed)) == (["a", "b"], ["a", "b"])
    assert rig.warnings == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(ServerFailed("it would not"), "it would not", id="its own words"),
        pytest.param(FileNotFoundError(2, "No such file"), "No such file", id="the system's words"),
        pytest.param(
            ModuleNotFoundError("no", name="mcp"),
            f"the package 'mcp' is not installed; run: {install_command('mcp')}",
            id="the package is missing",
        ),
        pytest.param(
            ExceptionGroup("many", [ExceptionGroup("few", [ValueError("x\ny")])]),
            "ValueError: x y",
            id="a group",
        ),
        pytest.param(
            RuntimeError("api_key=abcdefgh1234"), "RuntimeError: api_key=[secret]", id="a secret is masked"
        ),
    ],
)
async def test_a_server_that_does_not_start_costs_only_its_tools(
    rig: Rig, error: Exception, why: str
) -> None:
    await started(rig, {"a": error, "b": FakeLink((listed("x"),))}, servers=(A, B))
    assert rig.warnings == [("The tool server 'a' did not start: it adds no tools", why)]
    assert list(rig.offered) == ["mcp__b__x"]


async def test_a_server_that_does_not_answer_is_given_up(rig: Rig) -> None:
    _, speaker = await started(rig, {}, ServerTimeouts(connect_s=0.02))
    assert rig.warnings == [
        ("The tool server 'a' did not start: it adds no tools", "it did not answer in 0.02 s")
    ]
    assert speaker.closed == ["a"]


async def test_a_prompt_waits_no_longer_than_is_bearable_and_the_next_one_not_at_all(rig: Rig) -> None:
    servers, _ = await started(rig, {"b": FakeLink()}, ServerTimeouts(prompt_s=0.02), (A, B))
    await servers.ready(CancelToken())
    assert rig.warnings == [("Still starting: 'a'", "The prompt goes on without the tools of these servers.")]


@pytest.mark.parametrize(("restart_s", "again"), [((), "not"), ((30.0,), "being")])
async def test_the_tools_of_a_server_that_ends_stay_declared_until_the_next_prompt(
    rig: Rig, restart_s: tuple[float, ...], again: str
) -> None:
    link = FakeLink((listed("x"),))
    servers, _ = start(
        rig, {"a": link, "b": FakeLink((listed("x"),))}, ServerTimeouts(prompt_s=30, restart_s=restart_s)
    )
    servers.use((A, B))
    await servers.ready(CancelToken())
    link.end("exit code 1")
    await rig.until(lambda: bool(rig.warnings))
    state = "failed" if again == "not" else "restarting"
    assert [each.state for each in servers.states()] == [state, "running"]
    assert list(rig.offered) == ["mcp__a__x", "mcp__b__x"]
    with pytest.raises(ServerFailed, match=f"the server 'a' has ended; it is {again} "):
        await call(rig, "mcp__a__x")
    await servers.ready(CancelToken())
    assert list(rig.offered) == ["mcp__a__x", "mcp__b__x"][again == "not" :]


async def test_a_server_that_ended_is_started_again_by_itself(rig: Rig) -> None:
    """And its tools are declared all the time, the same ones but for those that are new."""
    link = FakeLink((listed("x"),))
    _, speaker = await started(rig, {"a": link}, ServerTimeouts(prompt_s=30, restart_s=(0, 0)))
    n_offers = rig.n_offers
    for new in ("y", "z"):
        link.listing = (listed("x"), listed(new))
        rig.warned.clear()
        link.end("exit code 1")
        await rig.warned.wait()
        link.is_over = False
        await rig.until(partial(has_offer, rig, f"mcp__a__{new}"))
    assert (list(rig.offered), rig.n_offers) == (["mcp__a__x", "mcp__a__z"], n_offers + 2)
    assert await call(rig, "mcp__a__x") == CallResult("x")
    link.end("exit code 1")
    await rig.until(lambda: len(rig.warnings) == 3)
    ended = "The tool server 'a' has ended"
    again = (ended, "exit code 1; it is started again in 0 s")
    assert rig.warnings == [again, again, (ended, "exit code 1; it is not started again")]
    assert speaker.opened == ["a"] * 3


async def test_a_server_that_cannot_be_started_again_is_reported_once(rig: Rig) -> None:
    link = FakeLink((listed("x"),))
    _, speaker = await started(rig, {"a": link}, ServerTimeouts(prompt_s=30, restart_s=(0, 0)))
    speaker.links["a"] = FileNotFoundError(2, "No such file")
    link.end("exit code 1")
    await rig.until(lambda: len(rig.warnings) == 2)
    ended = "The tool server 'a' has ended"
    assert rig.warnings == [
        (ended, "exit code 1; it is started again in 0 s"),
        (ended, "No such file; it is not started again"),
    ]
    assert speaker.opened == ["a"] * 3


async def test_a_server_that_ended_is_started_again_when_it_is_named_again(rig: Rig) -> None:
    link = FakeLink((listed("x"),))
    servers, speaker = await started(rig, {"a": link})
    link.end()
    await rig.until(lambda: bool(rig.warnings))
    link.is_over = False
    servers.use((A,))
    await servers.ready(CancelToken())
    assert list(rig.offered) == ["mcp__a__x"]
    assert speaker.opened == ["a", "a"]


async def test_tools_that_change_are_listed_anew(rig: Rig) -> None:
    link = FakeLink((listed("x"),))
    await started(rig, {"a": link})
    link.learn(listed("y"))
    await rig.until(lambda: "mcp__a__y" in rig.offered)
    assert list(rig.offered) == ["mcp__a__y"]


class Hanging:
    """Answers no call, and does not stop when it is asked to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def act(self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress) -> CallResult:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self.may_end.wait()
        return CallResult("never")


async def test_a_cancel_does_not_wait_for_the_server_to_hear_of_it(rig: Rig) -> None:
    hanging, cancel = Hanging(), CancelToken()
    await started(rig, {"a": FakeLink((listed("x"),), hanging.act)})
    calling = asyncio.ensure_future(call(rig, "mcp__a__x", cancel))
    await hanging.begun.wait()
    cancel.cancel()
    with pytest.raises(ServerFailed, match="cancelled"):
        await calling
    hanging.may_end.set()


async def test_a_call_that_says_nothing_any_more_is_given_up(rig: Rig) -> None:
    async def act(name: str, arguments: Mapping[str, Any], on_progress: OnProgress) -> CallResult:
        for _ in range(3):
            await on_progress(1, None, None)
        await asyncio.Event().wait()
        raise AssertionError

    await started(rig, {"a": FakeLink((listed("x"),), act)}, ServerTimeouts(idle_s=0.02))
    with pytest.raises(ServerFailed, match=r"the server 'a' sent nothing for 0\.02 s"):
        await call(rig, "mcp__a__x")


async def test_closing_is_bounded_and_ends_the_calls(rig: Rig) -> None:
    hanging = Hanging()
    servers, speaker = start(rig, {"a": FakeLink((listed("x"),), hanging.act)}, SHORT)
    servers.use((A,))
    await rig.until(lambda: "mcp__a__x" in rig.offered)
    calling = asyncio.ensure_future(call(rig, "mcp__a__x"))
    await hanging.begun.wait()
    await servers.aclose()
    assert speaker.closed == ["a"]
    hanging.may_end.set()
    with pytest.raises((asyncio.CancelledError, ServerFailed)):
        await calling
    assert rig.warnings == []


@pytest.mark.parametrize(
    ("server", "kept"),
    [
        pytest.param(
            StdioServer("a", "/bin/a", ("--key=s3cret",), (("KEY", "s3cret"),)),
            {"name": "a", "type": "stdio", "command": "/bin/a"},
            id="arguments and environment may be secret",
        ),
        pytest.param(
            HttpServer(
                "b", "https://me:s3cret@host.org:8000/s3cret?k=s3cret", (("Authorization", "s3cret"),)
            ),
            {"name": "b", "type": "http", "url": "https://host.org:8000"},
            id="so may headers and all of an address but where it leads",
        ),
        pytest.param(
            HttpServer("c", "http://[::1]/mcp", is_sse=True),
            {"name": "c", "type": "sse", "url": "http://[::1]"},
            id="the older way",
        ),
    ],
)
def test_what_is_stored_and_shown_of_a_server_holds_no_secret(
    server: StdioServer | HttpServer, kept: dict[str, str]
) -> None:
    assert server.without_secrets() == kept
    assert "s3cret" not in repr(server)


def test_a_failure_is_explained_by_its_innermost_cause() -> None:
    assert explain_failure(TimeoutError(), 2.5) == "it did not answer in 2.5 s"
    assert explain_failure(ExceptionGroup("many", [OSError(2, "No such file")]), 1) == "No such file"
