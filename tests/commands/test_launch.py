"""The start of a daemon: the handshake before it loads, starts without the parser, and its log."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar import cli
from sidecar._internal.errors import SidecarError
from sidecar.boot import build
from sidecar.cli import choose_module, plain_options
from sidecar.commands import serve
from sidecar.commands.arguments import parse
from sidecar.commands.launch import LazyDaemon, agent_info, server_info
from sidecar.conductor.record.log import KEEP_EVENTS
from sidecar.protocol.framing import HeaderDecoder, LineDecoder, frame_with_header, frame_with_newline


@pytest.fixture(autouse=True)
def garbage_is_collected_again() -> Iterator[None]:
    """What loading has put out of the collector's sight is put back once no thread loads."""
    yield
    for thread in threading.enumerate():
        if thread.name == "sidecar-warm-up" and isinstance(thread, threading.Timer):
            thread.cancel()
            thread.join()
    gc.unfreeze()


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["serve", "--stdio"],
        ["serve", "--stdio", "--clientProcessId=123"],
        ["serve", "--clientProcessId=0", "--shared"],
        ["serve", "--shared", "--stdio"],
        ["acp"],
    ],
    ids=" ".join,
)
def test_a_plain_start_has_the_options_of_the_parser(arguments: list[str]) -> None:
    found = plain_options(arguments)
    assert found is not None
    assert vars(found) == vars(parse(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--log", "info"],
        ["serve", "--clientProcessId", "7"],
        ["serve", "--clientProcessId="],
        ["serve", "--clientProcessId=x"],
        ["serve", "--shared", "--daemon"],
        ["serve", "--help"],
        ["acp", "--log", "debug"],
        ["acp", "--stdio"],
        ["sessions"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_anything_else_is_for_the_parser(arguments: list[str]) -> None:
    assert plain_options(arguments) is None


def test_the_handshake_describes_the_loaded_daemon(tmp_path: Path) -> None:
    info = server_info("/s")
    assert info.engines == build(tmp_path).service.hub.engines
    assert (info.event_buffer, info.socket) == (KEEP_EVENTS, "/s")
    assert agent_info("/s").server == info


def test_a_daemon_is_loaded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    lazy = LazyDaemon(list)
    first = lazy.open({})
    assert lazy.open({"lifetime": "client"}) == first
    with pytest.raises(SidecarError, match="lifetime is 'client'"):
        lazy.open({"lifetime": "shared"})


def test_a_daemon_that_cannot_be_loaded_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INDUSAGI_HOME", "~nobody-has-this-name/state")
    lazy = LazyDaemon(list)
    with pytest.raises(SidecarError, match="cannot be loaded: RuntimeError") as raised:
        lazy.open({})
    assert raised.value.kind == "internal"
    monkeypatch.setenv("INDUSAGI_HOME", str(tmp_path))
    lazy.open({})


INITIALIZE = {
    "lsp": {"processId": None, "rootUri": None, "capabilities": {}},
    "acp": {"protocolVersion": 1},
}


@pytest.mark.e2e
@pytest.mark.parametrize("face", ["lsp", "acp"])
def test_a_daemon_that_cannot_be_loaded_answers_every_request_and_ends_in_order(face: str) -> None:
    """The state directory of a user who does not exist cannot be found; the handshake needs none."""
    to_frame = frame_with_header if face == "lsp" else frame_with_newline
    said: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": INITIALIZE[face]},
        {"id": 1, "method": "sidecar/status"},
        {"id": 2, "method": "session/list", "params": {}},
        {"id": 3, "method": "workspace/executeCommand", "params": {"command": "sidecar.sessions"}},
        {"id": 4, "method": "shutdown"},
        {"method": "exit"},
    ]
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "sidecar"],
        input=b"".join(to_frame(msgspec.json.encode({"jsonrpc": "2.0", **message})) for message in said),
        env={**os.environ, "INDUSAGI_HOME": "~nobody-has-this-name/state"},
        capture_output=True,
        timeout=30,
    )
    decoder = HeaderDecoder() if face == "lsp" else LineDecoder()
    decoder.feed(ran.stdout)
    answers = {}
    while isinstance(frame := decoder.next(), bytes):
        answer = msgspec.json.decode(frame)
        answers[answer["id"]] = answer.get("error", {}).get("message", "a result")
    lost = "the daemon cannot be loaded: RuntimeError, see its log"
    if face == "lsp":
        assert answers == {
            0: "a result",
            1: lost,
            2: "there is no method 'session/list'",
            3: lost,
            4: "a result",
        }
    else:
        assert answers == {0: "a result"} | dict.fromkeys((1, 2, 3, 4), lost)
    assert ran.returncode == 0


LOGGING_PROGRAM = """
import logging
from sidecar.commands.launch import log_to_stderr

log_to_stderr("info")
logging.getLogger("sdk").info("GET /v1?api_key=%s", "abcdef0123456789")
logging.getLogger("sdk").debug("not shown")
try:
    raise ValueError("sk-proj-0123456789abcdefghij is wrong")
except ValueError:
    logging.getLogger("tool").exception("it failed")
"""


@pytest.mark.processes
def test_a_log_on_stderr_has_no_secrets() -> None:
    said = subprocess.run(
        [sys.executable, "-c", LOGGING_PROGRAM], capture_output=True, text=True, check=True
    ).stderr
    assert "sdk INFO GET /v1?api_key=[secret]\n" in said
    assert "tool ERROR it failed\n" in said
    assert "ValueError: [secret] is wrong\n" in said
    assert "not shown" not in said
    assert "0123456789" not in said


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["serve"], "serve"),
        (["acp"], "serve"),
        (["serve", "--shared"], "shim"),
        (["serve", "--shared", "--daemon"], "shared"),
        (["sessions"], "sessions"),
    ],
)
def test_each_kind_of_daemon_and_the_shim_have_a_module(arguments: list[str], module: str) -> None:
    assert choose_module(parse(arguments)) == module


def test_a_part_that_cannot_be_loaded_is_named_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by the doctor: no command points at another one that fails alike."""

    def fail(_name: str) -> None:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    monkeypatch.setattr(cli, "import_module", fail)
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().err
    assert "No module named 'rich'" in said
    assert "-m pip install --force-reinstall" in said
    assert "doctor" not in said


def test_a_daemon_with_a_missing_part_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sidecar.boot", None)
    with pytest.raises(SidecarError, match=r"sidecar\.boot") as refused:
        LazyDaemon(list).open({})
    assert "--force-reinstall" in str(refused.value.hint)


async def test_a_daemon_is_loaded_step_by_step_until_its_client_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, loaded = asyncio.get_running_loop(), list[str]()
    speaks, ends = loop.create_future(), loop.create_future()
    monkeypatch.setattr(serve, "import_module", loaded.append)
    await serve.load_until(speaks, ends)
    assert loaded == list(serve._FOR_ALL)

    def load(name: str) -> None:
        loaded.append(name)
        speaks.set_result(b"C")

    loaded.clear()
    monkeypatch.setattr(serve, "import_module", load)
    await serve.load_until(speaks, ends)
    assert loaded == list(serve._FOR_ALL[:1])
    await serve.load_until(speaks, ends)
    assert loaded == list(serve._FOR_ALL[:1])


async def test_a_daemon_that_cannot_be_loaded_ahead_still_waits_for_its_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve, "_FOR_ALL", ("sidecar.no_such_module",))
    await serve.load_until(asyncio.get_running_loop().create_future())
