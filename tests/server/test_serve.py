"""One client served to the end, in memory: the service is closed once, in time, and the code is right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fake_editor import FAKE_INFO
from fake_service import FakeService
from fake_workspace import FakeWorkspace
from memory_stream import MemoryClient
from sidecar.server.connection import LspOptions, serve_lsp
from sidecar.transport.lifetime import Lifetime


class SlowService(FakeService):
    """Settles when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_settle = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.has_settled = False

    async def aclose(self) -> None:
        self.n_closed += 1
        self.has_begun.set()
        await self.may_settle.wait()
        self.has_settled = True


class SupervisedConnection:
    """A client, its service, and the serving of both."""

    def __init__(self, service: FakeService, grace_s: float = 20.0) -> None:
        self.client = MemoryClient()
        self.service = service
        self.lifetime = Lifetime(grace_s)
        options = LspOptions(info=FAKE_INFO, open_backend=lambda _options: service.behind(FakeWorkspace()))
        self.code = asyncio.ensure_future(serve_lsp(self.client.stream, options, self.lifetime))

    async def initialize(self, **params: Any) -> None:
        await self.client.request(
            0, "initialize", {"capabilities": {"experimental": {"sidecar": {}}}, **params}
        )
        self.client.notify("initialized", {})


@pytest.mark.parametrize(
    ("last_words", "code"), [(("shutdown", "exit"), 0), (("exit",), 1), (("shutdown",), 0), ((), 1)]
)
async def test_the_exit_code_follows_from_the_last_words(last_words: tuple[str, ...], code: int) -> None:
    served = SupervisedConnection(FakeService())
    await served.initialize()
    for method in last_words:
        if method == "shutdown":
            await served.client.request(1, method)
        else:
            served.client.notify(method)
    if "exit" not in last_words:
        served.client.stream.hang_up()
    assert await served.code == code
    assert (served.service.n_closed, served.client.stream.is_lost) == (1, True)


async def test_exit_on_the_heels_of_shutdown_does_not_end_the_settling() -> None:
    service = SlowService()
    served = SupervisedConnection(service)
    await served.initialize()
    served.client.ask(1, "shutdown")
    served.client.notify("exit")
    await service.has_begun.wait()
    service.may_settle.set()
    assert await served.code == 0
    assert (service.n_closed, service.has_settled) == (1, True)


@pytest.mark.parametrize("ends_by_signal", [True, False], ids=["SIGTERM", "the end of the input"])
async def test_the_end_of_the_process_is_announced_and_open_requests_are_answered(
    *, ends_by_signal: bool
) -> None:
    """The service lets go of its requests when it closes: this one gets its result."""
    served = SupervisedConnection(FakeService())
    await served.initialize()
    served.client.ask(1, "sidecar/fake/wait", "x")
    await served.service.begun.wait()
    if ends_by_signal:
        served.lifetime.stop("SIGTERM", 0)
    else:
        served.client.stream.hang_up()
    assert await served.code == (0 if ends_by_signal else 1)
    closing = [call["params"] for call in served.client.calls("sidecar/closing")]
    assert closing == ([{"reason": "SIGTERM", "inMs": 20_000}] if ends_by_signal else [])
    assert served.client.answers(1)[0]["result"] == "x"


async def test_a_service_that_does_not_settle_is_left() -> None:
    service = SlowService()
    served = SupervisedConnection(service, grace_s=0.05)
    await served.initialize()
    served.client.stream.hang_up()
    assert await served.code == 1
    assert not service.has_settled
    service.may_settle.set()
    await asyncio.sleep(0)


@pytest.mark.processes
async def test_a_client_s_process_that_is_gone_ends_the_serving() -> None:
    served = SupervisedConnection(FakeService())
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await served.initialize(processId=process.pid)
    async with asyncio.timeout(20):
        assert await served.code == 1
