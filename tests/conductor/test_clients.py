"""Clients: who follows a session, and the tool servers that they name for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fake_client import FakeClient
from fake_tools import FakeTool
from long_talks import emitted, open_session
from sidecar.capabilities.mcp import HttpServer, StdioServer
from sidecar.conductor.clients import Audience
from sidecar.conductor.events import Notice, Settled, ToolFinished
from sidecar.conductor.hub import ForkOf
from sidecar.llmgateway.scripted import Call, Say
from turns import text

A = StdioServer("a", "/bin/a", ("--key=s3cret",), (("KEY", "s3cret"),))
B = HttpServer("b", "https://host.org/s3cret", (("Authorization", "s3cret"),))


def shown(stage: Any, index: int) -> list[str]:
    """Return the names of the tools that call *index* of the model was shown."""
    return [tool.name for tool in stage.model.calls[index].conversation.tools or ()]


async def test_a_prompt_waits_for_the_servers_and_has_their_tools(make_stage: Any) -> None:
    stage = await make_stage([[Call("mcp__a__x", {})], [Say("done")]], tools=[FakeTool("own")])
    session = await stage.session(servers=(A,))
    (servers,) = stage.servers
    assert servers.used == [(A,)]
    started = await session.submit(text("hi"))
    await servers.is_waited_for.wait()
    assert (started.user_node_id, stage.model.calls) == (session.record.history.head, [])
    servers.host.offer((FakeTool("mcp__a__x"),))
    servers.may_go_on.set()
    assert (await started.outcome).text == "done"
    assert shown(stage, 0) == ["own", "recall", "task", "ask", "mcp__a__x"]
    assert [(done.name, done.is_error) for done in emitted(session, ToolFinished)] == [("mcp__a__x", False)]


async def test_each_request_shows_and_counts_the_tools_of_that_moment(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")], [Say("two")]])
    (servers,) = stage.servers
    bare = session.window.request.usage().used
    servers.host.offer((FakeTool("mcp__a__x"),))
    assert session.window.request.usage().used > bare
    await stage.ask(session, "1")
    servers.host.offer(())
    await stage.ask(session, "2")
    own = ["recall", "task", "ask"]
    assert [shown(stage, 0), shown(stage, 1)] == [[*own, "mcp__a__x"], own]


async def test_a_turn_that_waits_for_servers_can_be_stopped(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]], servers=(A,))
    (servers,) = stage.servers
    started = await session.submit(text("1"))
    await servers.is_waited_for.wait()
    session.turns.prompts.interrupt(started.turn_id, "keep")
    assert (await started.outcome).stop_reason == "cancelled"
    servers.may_go_on.set()
    assert (await stage.ask(session, "2")).text == "one"
    assert [end.stop_reason for end in emitted(session, Settled)] == ["cancelled", "end_turn"]


async def test_a_message_of_a_server_is_a_notice(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, servers=(A,))
    stage.servers[0].host.warn("The tool server 'a' has ended", "exit code 1")
    assert emitted(session, Notice) == [Notice("warning", "The tool server 'a' has ended", "exit code 1")]


async def test_secrets_are_not_stored_and_a_loaded_session_names_missing_servers(make_stage: Any) -> None:
    stage = await make_stage([[Say("one")], [Say("two")], [Say("three")]])
    session = await stage.session(servers=(A, B))
    stage.servers[0].may_go_on.set()
    await stage.ask(session, "1")
    await stage.hub.close(session.sid)
    assert stage.servers[0].is_closed
    stored = json.dumps(await stage.shelf.records(session.sid))
    assert '"/bin/a"' in stored
    assert "s3cret" not in stored
    loaded = (await stage.hub.load(session.sid)).session
    await stage.ask(loaded, "2")
    await stage.ask(loaded, "3")
    assert [notice.title for notice in emitted(loaded, Notice)] == ["Tool servers are not connected: a, b"]
    assert stage.servers[1].used == []


async def test_a_client_that_loads_a_session_names_its_servers_again(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")], [Say("two")]], servers=(A, B))
    stage.servers[0].may_go_on.set()
    await stage.ask(session, "1")
    await stage.hub.close(session.sid)
    loaded = (await stage.hub.load(session.sid, servers=(A,))).session
    again = (await stage.hub.load(session.sid)).session
    stage.servers[1].may_go_on.set()
    await stage.ask(loaded, "2")
    assert (again, loaded.workbench.servers.named, stage.servers[1].used) == (loaded, (A,), [(A,)])
    assert emitted(loaded, Notice) == []


async def test_loading_a_session_in_memory_adds_servers_and_removes_none(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, servers=(A, B))
    other_a, c = StdioServer("a", "/bin/other"), StdioServer("c", "/bin/c")
    await stage.hub.load(session.sid, servers=())
    await stage.hub.load(session.sid, servers=(other_a, c))
    assert stage.servers[0].used == [(A, B), (A, B), (B, other_a, c)]
    assert session.workbench.servers.named == (B, other_a, c)
    assert [kept["name"] for kept in session.info.mcp_servers] == ["b", "a", "c"]


async def test_a_fork_has_the_servers_of_a_session_in_memory(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, [[Say("one")]], servers=(A,))
    stage.servers[0].may_go_on.set()
    await stage.ask(session, "1")
    fork = await stage.hub.fork(ForkOf(session.sid))
    assert (fork.workbench.servers.named, fork.info.mcp_servers) == (
        session.workbench.servers.named,
        session.info.mcp_servers,
    )
    assert stage.servers[1].used == [(A,)]


async def test_a_session_closes_while_a_prompt_waits_for_servers(make_stage: Any) -> None:
    stage, session = await open_session(make_stage, servers=(A,))
    started = await session.submit(text("1"))
    await stage.servers[0].is_waited_for.wait()
    async with asyncio.timeout(10):
        await stage.hub.close(session.sid)
    assert ((await started.outcome).stop_reason, stage.servers[0].is_closed) == ("cancelled", True)


def test_a_client_follows_a_session_as_listener_or_controller() -> None:
    audience, one, two = Audience(), FakeClient("one"), FakeClient("two")
    for client in (one, two):
        audience.join(client)
    audience.attach(one, "s", controls=True)
    audience.attach(two, "s", controls=False)
    assert (audience.controllers("s"), audience.listeners("s")) == ((one,), (one, two))
    audience.attach(two, "s", controls=True)
    audience.attach(one, "s", controls=False)
    assert (audience.controllers("s"), audience.listeners("s")) == ((two,), (one, two))
    audience.detach(two, "s")
    audience.detach(two, "unknown")
    assert (audience.controllers("s"), audience.listeners("s")) == ((), (one,))
    audience.leave(one)
    assert (audience.clients, audience.listeners("s")) == ((two,), ())
    audience.attach(two, "s", controls=True)
    audience.dismiss("s")
    assert audience.listeners("s") == ()
